"""What is said of solved katas: its commands can be typed, its sizes fit."""

from __future__ import annotations

import inspect
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest

from grader.cli import parser_for
from grader.exercise.catalog import Kata, katas
from grader.exercise.key_reader import AFTER_WORDS
from grader.exercise.repository import single_kata
from grader.grading import cost_studies
from grader.grading.cost_studies import no_multiple
from pallascope.gpu.gpus import CHIPS
from pallascope.tools.files import load_module
from pallascope.tpu.call_arguments import (
    assignments,
    call_of,
    choices,
    combinations,
)
from tests.support.contract import demand
from tests.support.repositories import ROOT
from tests.support.targets import GPU_COMMAND, target_of

COMMAND = re.compile(r"^ +(kata .*)$", re.MULTILINE)
MENTIONED = re.compile(r"\bkata (?:cost|view|trace) ")
FILE_OF_JAX = re.compile(r"(?<![\w/.])jax/[\w/]+\.py\b")
EVERY = katas(ROOT, "solutions")

each = pytest.mark.parametrize(
    "exercise", [one for one in EVERY if one.key.after], ids=lambda kata: kata.name
)


@each
def test_its_commands_can_be_typed(exercise: Kata) -> None:
    """Each names a kata and sizes that its key has, on a chip that there is."""
    file, text = exercise.key_path, exercise.key.after
    commands = COMMAND.findall(text)
    demand(
        len(commands) == len(MENTIONED.findall(text)),
        file,
        "`after` has a command within a paragraph",
        "Give each command a line of its own, indented, so that it can be copied",
    )
    elsewhere = target_of(exercise) == "gpu" and GPU_COMMAND in text
    demand(
        commands or elsewhere or not exercise.key.kernel,
        file,
        "`after` has no command to vary something with",
        "Add a line such as `    kata cost NAME K=8192`",
    )
    for command in commands:
        words = shlex.split(command)[1:]
        options = parser_for(words).parse_args(words)
        kata = single_kata(ROOT, options.name)
        swept = choices(options.sweep) if getattr(options, "sweep", []) else {}
        given = assignments(options.sizes)
        for tried in combinations(swept) if swept else [{}]:
            sizes = {**given, **{name: str(size) for name, size in tried.items()}}
            find = cost_studies.any_case_of if kata.key.predictions else cost_studies.case_of
            case = find(kata, options.case, options.seed, sizes)
            demand(
                not (wrong := no_multiple(kata.key, case.sizes)),
                file,
                f"`{command}` has sizes that do not fit: {wrong}",
                "Choose multiples of the blocks",
            )


@each
def test_its_gpu_commands_can_be_typed(exercise: Kata) -> None:
    """Each names the kata's launch, with arrays and keywords that it takes."""
    text = exercise.key.after.replace("\\\n", " ")
    for line in (line.strip() for line in text.splitlines() if GPU_COMMAND in line):
        function, *words = shlex.split(line)[3:]
        case = words[words.index("--case") + 1]
        for chip in (words[words.index(word) + 1] for word in words if word == "--chip"):
            assert chip in CHIPS
        file, _, name = function.partition(":")
        demand(
            ROOT / file == exercise.path and name == exercise.name,
            exercise.key_path,
            f"`{line}` is not about this kata's launch",
            "Name its file in katas/, a colon, and the launch",
        )
        called = call_of(case)
        launch = getattr(load_module(exercise.solution), name)
        inspect.signature(launch).bind(*called.arrays(), **called.keywords)


def test_every_word_counts() -> None:
    """The limits that the docs give are those of the reader."""
    assert (AFTER_WORDS[0], AFTER_WORDS[-1]) == (40, 160)
    assert "40 to 160 words" in (ROOT / "docs/authoring.md").read_text(encoding="utf-8")


@each
def test_the_files_of_jax_that_it_names_are_there(exercise: Kata) -> None:
    """In the jax that is installed; other packages are looked up by whoever writes the text."""
    package = find_spec("jax")
    assert package
    assert package.origin
    installed = Path(package.origin).parent.parent
    for name in FILE_OF_JAX.findall(exercise.key.after.replace("\n", " ")):
        demand(
            (installed / name).exists(),
            exercise.key_path,
            f"`after` names {name}, which is not in this jax",
            "Look up where it is now",
        )
