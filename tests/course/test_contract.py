"""What the repository promises of its exercises' files; each of them is held to it."""

from __future__ import annotations

import ast
import keyword
import re
import tomllib
from pathlib import Path

import pytest

from grader.exercise.catalog import Kata, katas
from grader.exercise.key_reader import load
from grader.exercise.readmes import (
    NOTHING,
    labelled_text,
    prerequisites,
    prerequisites_line,
)
from grader.exercise.repository import SyncOutcome, sync_kata
from pallascope.tools.regions import Region, regions
from pallascope.tools.text import did_you_mean
from tests.support.contract import demand
from tests.support.repositories import ROOT

EVERY = katas(ROOT, "solutions")
SECTIONS = ("Goal", "Concept", "Shapes", "Try")
LINES = range(20, 61)
WIDTH = 100
CONCEPT = 60
MISTAKES = 3
#: The beginning of a sentence after "your kernel".
GOES_ON = re.compile(r"((never|also|only) )?([a-z]+s|doesn't)\b")
#: Words that fit nearly any wrong kernel: as `says` they would test nothing.
SAID_OF_MANY = {
    *("expected", "wrong", "values", "nan", "NaN", "zero", "inf", "overflow", "padding", "block"),
    *("shape", "dtype", "index", "argument", "error", "return", "traced", "bool", "boolean"),
    *("never written", "the result", "o_ref", "x_ref", "acc_ref", "only the"),
}
#: A name, and where it is.
READ_ON = re.compile(r"\S.* https://\S+[^\s.,;]")
IMPORTED = {"jax", "jaxtyping", "beartype", "functools", "typing"}

each = pytest.mark.parametrize("exercise", EVERY, ids=lambda kata: kata.name)


@each
def test_file_equals_its_blanked_solution(exercise: Kata) -> None:
    """The generated stub, or in a learner's clone an attempt."""
    demand(
        sync_kata(exercise, check=True) in (SyncOutcome.SAME, SyncOutcome.HELD),
        exercise.path,
        "differs from its solution with blanked regions",
        "Change the solution, not this file, and run `kata sync`",
    )


@each
def test_key_holds_hints_and_mistakes(exercise: Kata) -> None:
    key, file = exercise.key, exercise.key_path
    demand(
        len(set(key.hints)) == len(key.hints),
        file,
        "two hints are the same",
        "Have each hint give away more than the one before",
    )
    demand(
        len(key.mistakes) >= MISTAKES,
        file,
        f"it knows {len(key.mistakes)} [[mistakes]]",
        f"Add some: at least {MISTAKES}, of those that learners make",
    )
    titles = [mistake.title for mistake in key.mistakes]
    twice = sorted({title for title in titles if titles.count(title) > 1})
    demand(not twice, file, f"two mistakes are called {twice}", "Give each a title of its own")
    demand(
        len(key.concept) <= CONCEPT,
        file,
        f"`concept` has {len(key.concept)} characters",
        f"Say it in {CONCEPT}, for it to fit into the table of katas",
    )


@each
def test_mistakes_are_told_apart(exercise: Kata) -> None:
    """A title follows "your kernel" in a message, as a sentence about the kernel."""
    file = exercise.key_path
    for mistake in exercise.key.mistakes:
        demand(
            GOES_ON.match(mistake.title) and not mistake.title.endswith("."),
            file,
            f"the title {mistake.title!r} does not follow `your kernel` as a sentence",
            "Begin with a verb, as in: adds the wrong constant",
        )
        demand(
            mistake.says not in SAID_OF_MANY,
            file,
            f"the words {mistake.says!r} of the mistake {mistake.title!r} are said of many others",
            "Pin words that this one deserves: its Ref, its reason, or `your kernel` and its title",
        )


@each
def test_docstring_teaches(exercise: Kata) -> None:
    file = exercise.solution
    docstring = ast.get_docstring(ast.parse(file.read_text()), clean=False)
    demand(docstring, file, "it has no docstring", f"Begin it with one: {', '.join(SECTIONS)}")
    assert docstring
    lines = docstring.splitlines()
    demand(
        len(lines) in LINES,
        file,
        f"its docstring has {len(lines)} lines",
        f"Say it in {LINES[0]} to {LINES[-1]}",
    )
    sections = [line for line in lines if line in SECTIONS]
    demand(
        sections == list(SECTIONS),
        file,
        f"its docstring has the sections {', '.join(sections) or 'none'}",
        f"Write these, in this order, each alone on its line: {', '.join(SECTIONS)}",
    )
    for command in (f"pytest -k {exercise.name}", f"kata hint {exercise.name}"):
        demand(
            command in docstring,
            file,
            f"its docstring does not say `{command}`",
            "Name the command under Try",
        )
    wide = [number for number, line in enumerate(lines, start=1) if len(line) > WIDTH]
    demand(
        not wide,
        file,
        f"lines {wide} of its docstring are longer than {WIDTH} characters",
        "Wrap them",
    )


@each
def test_key_has_words_for_afterwards(exercise: Kata) -> None:
    demand(
        exercise.key.after,
        exercise.key_path,
        "it has no `after`",
        "Say what was found, where production code does the same, what to vary, where to read on",
    )


@each
def test_docstring_names_what_it_needs(exercise: Kata) -> None:
    """Katas that come before it: then there are no circles either."""
    file, names = exercise.solution, prerequisites(exercise)
    said = prerequisites_line(exercise)
    demand(
        said,
        file,
        "its docstring has no line `Needs     …`",
        "End it with the katas that it builds on, or `Needs     nothing`",
    )
    demand(
        names or said == NOTHING,
        file,
        f"`Needs     {said}` names no kata",
        f"Name those that it builds on, or say `{NOTHING}`",
    )
    before = [kata.name for kata in EVERY[: EVERY.index(exercise)]]
    for name in names:
        demand(
            name in before,
            file,
            f"it needs {name!r}, which is no kata that comes before it",
            did_you_mean(name, before) or "Name katas that come earlier on the map",
        )
    demand(len(set(names)) == len(names), file, f"it needs {names}", "Name each once")


@each
def test_docstring_says_where_to_read_on(exercise: Kata) -> None:
    file = exercise.solution
    docstring = ast.get_docstring(ast.parse(file.read_text())) or ""
    lines = labelled_text(docstring, "Read on").splitlines()
    demand(
        len(lines) in (1, 2) and READ_ON.fullmatch(" ".join(lines)),
        file,
        f"`Read on` says {lines}",
        "Give one page or paper by its name and https:// address, in one line or two",
    )


@each
def test_results_that_no_kernel_stores_have_names(exercise: Kata) -> None:
    """Those of a gradient, and of what has no kernel."""
    types = _types_of_results(exercise)
    behind = exercise.key.kernel and "jax.vjp(" not in exercise.solution.read_text("utf-8")
    wanted = 0 if behind else len(types)
    demand(
        len(exercise.key.results) == wanted or not types,
        exercise.key_path,
        f"names {len(exercise.key.results)} results of {len(types)}",
        'Give all of them names: results = ["dx", "dw"]',
    )


def _types_of_results(exercise: Kata) -> list[ast.expr]:
    """The types in the annotation of a spec that returns several arrays."""
    for function in ast.parse(exercise.solution.read_bytes()).body:
        if isinstance(function, ast.FunctionDef) and function.name == f"{exercise.name}_spec":
            match function.returns:
                case ast.Subscript(ast.Name("tuple"), ast.Tuple(types)):
                    return types
    return []


@each
def test_docstring_and_hints_do_not_spoil(exercise: Kata) -> None:
    """No line of the solution stands in the docstring."""
    text = exercise.solution.read_text()
    docstring = ast.get_docstring(ast.parse(text)) or ""
    code = [line.strip() for region in regions(text) for line in region.body.splitlines()]
    spoiled = [line for line in code if len(line) > 40 and line in docstring]
    demand(
        not spoiled,
        exercise.solution,
        f"its docstring holds a line of the solution: {spoiled}",
        "Say in words what the line does",
    )


@each
def test_file_names_what_it_should(exercise: Kata) -> None:
    """The parts that the grader and the reader expect, and few imports."""
    file = exercise.solution
    tree = ast.parse(exercise.stub_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    expected = {exercise.name, exercise.test, *_named(exercise)}
    missing = expected - functions
    demand(not missing, file, f"it defines no {', '.join(sorted(missing))}", "Define each")
    more = _imported(tree) - IMPORTED
    demand(
        not more,
        file,
        f"it imports {', '.join(sorted(more))}",
        f"Import {', '.join(sorted(IMPORTED))} only: a kata needs nothing else",
    )
    demand(
        "interpret" not in {n.arg for n in ast.walk(tree) if isinstance(n, ast.keyword)},
        file,
        "it passes `interpret=`",
        "Leave it out: how a kernel is run is for the grader to say",
    )


def _named(exercise: Kata) -> set[str]:
    """The functions that the grader looks for in a file of this kind, apart from the launch."""
    if asked := exercise.key.predictions:
        return set(asked.programs)
    return {exercise.key.tested.launch} if exercise.key.tested else {f"{exercise.name}_spec"}


def _imported(tree: ast.Module) -> set[str]:
    """The packages that a file imports."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("track", sorted({kata.track for kata in EVERY}))
def test_numbers_have_no_gaps(track: str) -> None:
    """Numbers may be kept for katas that are to come; the track's README names these then."""
    numbers = [int(kata.number) for kata in EVERY if kata.track == track]
    demand(
        numbers == sorted(set(numbers)),
        ROOT / "solutions" / track,
        f"its katas have the numbers {numbers}",
        "Number them one by one, each once",
    )
    said = (ROOT / "katas" / track / "README.md").read_text(encoding="utf-8")
    kept = [f"{number:02}" for number in range(1, numbers[-1]) if number not in numbers]
    demand(
        not kept or ("to come" in said and all(number in said for number in kept)),
        ROOT / "katas" / track / "README.md",
        f"the track has no katas with the numbers {', '.join(kept)}",
        "Say that they are to come, each by its number",
    )


@pytest.mark.parametrize(
    "file", sorted((ROOT / "solutions").glob("*/*.toml")), ids=lambda file: file.parent.name
)
def test_every_key_names_a_solution(file: Path) -> None:
    load(file)
    demand(
        file.with_suffix(".py").exists(),
        file,
        f"there is no {file.stem}.py beside it",
        "Name both after the kata",
    )


@each
def test_each_todo_names_something_of_its_own_region(exercise: Kata) -> None:
    """So that no two messages of a kata are exchanged: a name that no other region holds."""
    text = exercise.solution.read_text(encoding="utf-8")
    held = [names_in(text, region) for region in regions(text)]
    key = tomllib.loads(exercise.key_path.read_text(encoding="utf-8"))
    for number, message in enumerate(key.get("todo", ())):
        function, names = held[number]
        others = set[str]().union(*(names for _, names in held[:number] + held[number + 1 :]))
        said = set(re.findall(r"\w+", message))
        of_function = {word for word in said if "_" in word and word in function}
        demand(
            bool(of_function | said & (names - others)),
            exercise.key_path,
            f"`todo` {number + 1} names nothing that only its region holds: {message!r}",
            f"Name one of {sorted(names - others) or [function]}, or put the messages in order",
        )


def names_in(text: str, region: Region) -> tuple[str, set[str]]:
    """The function around a region; its parameters, and the names in the region."""
    code = "\n".join(line.partition("#")[0] for line in region.body.splitlines())
    names = set(re.findall(r"[A-Za-z_]\w*", code)) - set(keyword.kwlist)
    functions = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.FunctionDef)]
    around = [one for one in functions if one.lineno < region.begin <= (one.end_lineno or 0)]
    if not around:
        return "", names
    innermost = max(around, key=lambda one: one.lineno)
    arguments = (*innermost.args.args, *innermost.args.kwonlyargs)
    return innermost.name, names | {argument.arg for argument in arguments}
