"""The CPU time of a submission, and the share of each question that only some checks need.

    python tools/benchmarks/question_shares.py [--seed 1] [NAME …]

Grades the solutions of some katas as submissions (all questions), then again without each question:
the second run with other contents of unwritten memory, and values at production size. The same with
the first known mistake of each kata whose values are wrong, without the spec's and the kernel's
changes that explain them. Each number is the CPU time of all processes of one grading session,
start included; sessions alternate, so that a machine whose speed drifts drifts for all.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from grader.api import Examiner  # noqa: E402
from grader.exercise.catalog import Kata, katas  # noqa: E402
from grader.exercise.mutants import wrong_version  # noqa: E402
from grader.sandbox.launch_client import LaunchClient, TpuLaunchClient  # noqa: E402
from pallascope.model import BlockSample, Check, Repaired  # noqa: E402

NAMES = (
    *("row_sum", "tiled_matmul", "row_softmax", "causal_conv1d", "flash_attention", "causal_flash"),
    *("masked_store", "double_buffer", "emit_pipeline", "decode_attention", "int8_matmul"),
)
RUN_QUESTION = LaunchClient.__dict__["_run_question"]


def runs_once(client: TpuLaunchClient, traced: Any) -> Any:
    """The question of a run, without the second run."""
    question = RUN_QUESTION(client, traced)
    return dataclasses.replace(question, again=False) if hasattr(question, "again") else question


#: By question: the methods of the client that ask it, and answers in their place.
RIGHT: dict[str, dict[str, Callable[..., Any]]] = {
    "other unwritten memory": {"_run_question": runs_once},
    "values at production size": {
        "block_sample": lambda *_, **__: BlockSample(),
        "places": lambda _: None,
    },
}
WRONG: dict[str, dict[str, Callable[..., Any]]] = {
    "changes of the spec": {"hypotheses": lambda *_: ()},
    "changes of the kernel": {"repaired": lambda _: Repaired()},
}


def texts(chosen: list[Kata], wrong: bool) -> Iterator[tuple[str, str]]:
    """Ids of katas and submissions: the solutions, or each kata's first mistake of values."""
    for kata in chosen:
        text = kata.solution.read_text(encoding="utf-8")
        if not wrong:
            yield kata.id, text
        elif mistakes := [m for m in kata.key.mistakes if m.caught is Check.VALUES]:
            yield kata.id, wrong_version(text, mistakes[0])


def session(without: dict[str, Callable[..., Any]], work: list[tuple[str, str]], seed: int) -> None:
    """Grade all of them, and exit: then the CPU time of all processes is known."""
    for name, answer in without.items():
        setattr(TpuLaunchClient, name, answer)
    with Examiner(isolation="auto") as examiner:
        for id, text in work:
            examiner.grade(id, text, seed=seed)


def cpu_seconds(*arguments: Any) -> float:
    def used() -> float:
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        return spent.ru_utime + spent.ru_stime

    before = used()
    process = multiprocessing.get_context("spawn").Process(target=session, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit("a session failed")
    return used() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    named = [kata for kata in katas(ROOT, "solutions") if kata.name in options.names]
    for kind, questions in (("right", RIGHT), ("wrong", WRONG)):
        work = list(texts(named, kind == "wrong"))
        whole = cpu_seconds({}, work, options.seed)
        print(f"{kind}: {len(work)} submissions, {whole:.1f} CPU s", flush=True)
        for question, without in questions.items():
            less = cpu_seconds(without, work, options.seed)
            print(f"  {question:28} {1 - less / whole:6.1%}", flush=True)


if __name__ == "__main__":
    main()
