"""Draw the solutions' launches for the site: `kata view` of all katas for TPUs, without code.

    python docs/site/views.py               all katas, into docs/site/extra/views
    python docs/site/views.py NAME …        these

It needs libtpu for the timelines, and a few minutes. A kata that can't be drawn is named, and the
command then exits with 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/site/extra/views"
sys.path.insert(0, str(ROOT))

from grader.exercise.catalog import KATAS, SOLUTIONS, Kata, katas  # noqa: E402
from grader.grading import cost_studies  # noqa: E402
from grader.sandbox.client import WorkerClient  # noqa: E402
from grader.view.document import Document, VerdictView  # noqa: E402
from grader.view.launch_view import (  # noqa: E402
    case_of_many_steps,
    gather_without_launch,
    page,
    par_document,
)

SOLUTION = VerdictView("unasked", "the solution", "Its code is not shown.")


@contextmanager
def stubs() -> Iterator[Path]:
    """A course in which every kata is still to do, whatever this one's files are."""
    with tempfile.TemporaryDirectory() as scratch:
        course = Path(scratch)
        for file in ROOT.iterdir():
            if file.name not in (KATAS, ".kata", ".git"):
                (course / file.name).symlink_to(file)
        for kata in katas(ROOT, SOLUTIONS):
            file = course / f"{KATAS}/{kata.id}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(kata.stub_text(), encoding="utf-8")
        yield course


def drawn(client: WorkerClient, kata: Kata) -> Document:
    """What `kata view` draws of a kata that is still to do."""
    if kata.key.kind in cost_studies.NO_LAUNCH:
        case = cost_studies.any_case_of(kata, 0, 0, {})
        return gather_without_launch(client, kata, case)
    document = par_document(client, kata, case_of_many_steps(client, kata, 0))
    return replace(document, verdict=SOLUTION)


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw the solutions' launches for the site.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these katas")
    names = parser.parse_args().names
    FOLDER.mkdir(parents=True, exist_ok=True)
    failed = 0
    with stubs() as course, cost_studies.study_client(None) as client:
        chosen = [kata for kata in katas(course, SOLUTIONS) if kata.key.target.uses_libtpu]
        for kata in chosen:
            if names and kata.name not in names:
                continue
            began = time.perf_counter()
            try:
                text = page(drawn(client, kata))
            except ValueError as error:
                failed += 1
                print(f"{kata.name}: not drawn: {error}", file=sys.stderr, flush=True)
                continue
            (FOLDER / f"{kata.name}.html").write_text(text, encoding="utf-8")
            seconds = time.perf_counter() - began
            print(f"{kata.name}: {len(text) >> 10} KiB in {seconds:.1f} s", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
