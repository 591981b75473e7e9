"""Submissions of all kinds, the same in every run, each with a text of its own."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from grader.exercise.catalog import Kata, katas
from grader.exercise.key_tables import KataKind
from grader.exercise.mutants import wrong_version
from tests.support import hostile, hostile_launches, hostile_machine
from tests.support.hostile import LAUNCH, ZEROS, Hostile, fails_to
from tests.support.repositories import ROOT
from tools.benchmarks.mutants import chosen

#: Of a hundred submissions. A hang takes its 30 seconds.
SHARES = {
    "solution": 20,
    "mistake": 30,
    "mutant": 36,
    "hostile": 8,
    "crash": 4,
    "hang": 2,
}
CRASHES = (
    "import os; os.abort()",
    "import os; os._exit(3)",
    "import ctypes; ctypes.string_at(0)",
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "raise SystemExit",
    "hoard = [0]\nwhile True: hoard = hoard + hoard",
)
HANGS = ("while True: pass", "import time; time.sleep(600)")


Text = tuple[str, str, str]  # a kata's id, a whole file, and what its finding has to hold


@dataclass(frozen=True, slots=True)
class Made:
    """One line of the samples. `kata grade` leaves `kind` and `says` alone, and gives them back.

    `says` is what the finding of a hostile file has to hold.
    """

    id: int
    kind: str
    task_id: str
    completion: str
    says: str = ""

    def row(self) -> dict[str, Any]:
        return asdict(self)


def mixture(count: int, words: Sequence[str], folder: Path) -> list[Made]:
    """`count` submissions for the katas whose names hold a word, or for all of them.

    Hostile ones are for constant_add; `folder` is where the store is that some want to read.
    """
    every = [
        kata
        for kata in katas(ROOT, "solutions")
        if kata.key.kind is not KataKind.TEST
        and (not words or any(word in kata.name for word in words))
    ]
    texts = {
        "solution": _endless(every, _solutions),
        "mistake": _endless(every, _mistakes),
        "mutant": _endless(every, _mutants(count, words)),
        "hostile": _hostile(folder),
        "crash": _endless(every, lambda kata: _begun(kata, CRASHES)),
        "hang": _endless(every, lambda kata: _begun(kata, HANGS)),
    }
    kinds = itertools.islice(itertools.cycle(_spread()), count)
    made = []
    for number, kind in enumerate(kinds):
        kata, text, says = next(texts[kind])
        made.append(Made(number, kind, kata, f"{text.rstrip()}\n# submission {number}\n", says))
    return made


def _spread() -> list[str]:
    """A hundred kinds in their shares, evenly mixed."""
    places = [((at + 0.5) / share, kind) for kind, share in SHARES.items() for at in range(share)]
    return [kind for _, kind in sorted(places)]


def _endless(every: Sequence[Kata], texts: Any) -> Iterator[Text]:
    """One text of each kata, then the next of each, and from the beginning."""
    rows = ([(kata.id, text, "") for text in texts(kata)] for kata in every)
    columns = itertools.zip_longest(*rows)
    return itertools.cycle([item for column in columns for item in column if item])


def _solutions(kata: Kata) -> Iterator[str]:
    yield kata.solution.read_text(encoding="utf-8")


def _mistakes(kata: Kata) -> Iterator[str]:
    solution = kata.solution.read_text(encoding="utf-8")
    yield from (wrong_version(solution, mistake) for mistake in kata.key.mistakes)


def _mutants(count: int, words: Sequence[str]) -> Any:
    by_kata: dict[str, list[str]] = {}
    for mutant in chosen(count, words):
        by_kata.setdefault(mutant.kata.id, []).append(mutant.text)
    return lambda kata: by_kata.get(kata.id, [])


def _begun(kata: Kata, statements: Sequence[str]) -> Iterator[str]:
    """The solution, with a statement first in the function that launches."""
    text = kata.solution.read_text(encoding="utf-8")
    for statement in statements:
        yield f"{text}\n\n_launch = {kata.name}\ndef {kata.name}(*args, **kwargs):\n" + (
            "".join(f"    {line}\n" for line in statement.splitlines())
            + "    return _launch(*args, **kwargs)\n"
        )


def _hostile(folder: Path) -> Iterator[Text]:
    target = next(kata for kata in katas(ROOT, "solutions") if kata.name == "constant_add")
    source = target.solution.read_text(encoding="utf-8")
    own = re.search(r"def constant_add_kernel[\s\S]*?(?=\n\n\ndef test_)", source)
    assert own
    every: list[Hostile] = [
        *hostile_machine.REACHES,
        *_reaches_of_a_node(folder),
        *hostile.FORGED_TRACES,
        *hostile.ANSWERS,
        *hostile.PATCHES,
        *hostile_launches.LAUNCHES,
    ]
    return itertools.cycle(
        [
            (target.id, source.replace(own[0], one.source), one.says if one.check else "")
            for one in every
        ]
    )


def _reaches_of_a_node(folder: Path) -> Iterator[Hostile]:
    denied = hostile_machine.DENIED
    ours = repr(str(ROOT))  # with --local
    root = f"next((folder for folder in sys.path if 'working_dir_files' in folder), {ours})"
    sent = f"Path({root}, 'solutions/1_basics/kata_01_constant_add.py')"
    yield fails_to(
        "reads the solution that was sent to the node",
        f"import sys\nfrom pathlib import Path\nprint({sent}.read_text())\n",
        denied,
    )
    yield Hostile(
        "has the password of the cluster",
        "import os\nassert not [name for name in os.environ if name.startswith('RAY_')]\n"
        + ZEROS
        + LAUNCH,
        hostile.PATCHED_METHOD.check,
        hostile.STORED_ZEROS,
    )
    for name in ("store.sqlite", "samples.jsonl"):
        yield fails_to(f"reads {name}", f"open({str(folder / name)!r}, 'rb').read(1)\n", denied)
    yield fails_to("writes to /tmp", "open('/tmp/been_here', 'w').write('x')\n", denied)
