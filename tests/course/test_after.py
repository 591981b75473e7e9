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


#: Names of programs, models and hardware, which look like names in code.
PLAIN = {"vLLM", "MaxText", "DeepSeek", "MegaBlocks", "FlashAttention", "SparseCore", "NaNs"}
NAME = re.compile(r"(?<![\w/.-])[A-Za-z_]\w*(?:\.\w+)*\b(?![/-])")
PATH = re.compile(r"[\w.-]*(?:/[\w.-]+)+|\b\w+\.py\b")


def code_names(text: str) -> set[str]:
    """The words that can only be names in code: with an underscore, a dot or inner capitals."""
    names = NAME.findall(PATH.sub(" ", text))
    inner = re.compile(r"_|[a-z0-9]\.[A-Za-z]|[a-z][A-Z]|[A-Z]{2,}_")
    of_arrays = re.compile(r"[a-z]\.")  # x.reshape
    return {name for name in names if inner.search(name) and not of_arrays.match(name)} - PLAIN


@each
def test_the_names_that_it_mentions_are_there(exercise: Kata) -> None:
    """In jax or its named file, in the texts of the course, or in a repository with its path."""
    text = COMMAND.sub("", re.sub(r"https?://\S+", "", exercise.key.after))
    ours = {kata.name for kata in EVERY} | set(NAME.findall(exercise.solution.read_text()))
    key = exercise.key_path.read_text().replace(exercise.key.after, "")
    unknown = code_names(text) - ours - set(NAME.findall(key))
    paths = [path.rstrip(".") for path in PATH.findall(text)]
    files = [path for path in paths if path.endswith(".py") and not path.startswith("katas/")]
    sources = "".join(source for file in files for source in sources_in_jax(file))
    elsewhere = any("/" in path and not path.startswith(("jax/", "katas/")) for path in paths)
    missing = {
        name
        for name in unknown
        if not (is_of_jax(name) or re.search(rf"\b{re.escape(name.split('.')[-1])}\b", sources))
    }
    demand(
        not missing or elsewhere,
        exercise.key_path,
        f"`after` mentions {sorted(missing)}, and neither jax nor a file that it names has them",
        "Correct the name, or give the repository's path in which it is",
    )


def sources_in_jax(file: str) -> list[str]:
    """The texts of jax's files that a path, or a name alone, stands for."""
    spec = find_spec("jax")
    assert spec
    folder = Path(spec.origin or "").parent
    if file.startswith("jax/"):
        return [(folder.parent / file).read_text(encoding="utf-8")]
    return [
        path.read_text(encoding="utf-8") for path in folder.glob(f"experimental/pallas/**/{file}")
    ]


def is_of_jax(name: str) -> bool:
    """Whether it is an attribute of jax, by its full name or the usual one."""
    import jax.ad_checkpoint
    from jax.experimental import pallas as pl
    from jax.experimental import roofline  # noqa: F401 - jax.experimental.roofline
    from jax.experimental.pallas import mosaic_gpu as plgpu
    from jax.experimental.pallas import tpu as pltpu

    usual = {"jnp": jax.numpy, "lax": jax.lax, "pl": pl, "pltpu": pltpu, "plgpu": plgpu}
    first, *rest = name.split(".")
    found: object = usual.get(first, jax if first == "jax" else None)
    for part in rest:
        found = getattr(found, part, None)
    return bool(rest) and found is not None
