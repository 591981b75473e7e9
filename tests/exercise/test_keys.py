"""Answer keys: what they become, and what is said of one that can't be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.exercise.answer_key import DEFAULT_CASES, HINTS, LAYOUT, Key, Sizes
from grader.exercise.cases import draw
from grader.exercise.key_reader import load
from grader.exercise.key_tables import KeyProblem
from pallascope.model import Check, Roundings

KEY = """title = "Double"
concept = "doubling"
write = "kernel"
todo = ["double it"]
hints = ["a", "b", "c"]

[cases]
bm = [8, 16]
M = ["2*bm", "3*bm"]
N = 128

[[mistakes]]
title = "triples"
old = "2"
new = "3"
caught = "values"
says = "factor"
"""


def read(tmp_path: Path, text: str) -> Key:
    file = tmp_path / "double.toml"
    file.write_text(text, encoding="utf-8")
    return load(file)


def edited(old: str, new: str) -> str:
    assert KEY.count(old) == 1, old
    return KEY.replace(old, new)


# ---- what a good key becomes ----


def test_a_short_key_has_defaults(tmp_path: Path) -> None:
    key = read(tmp_path, KEY)
    assert (key.title, key.concept, key.write) == ("Double", "doubling", "kernel")
    assert key.hints == ("a", "b", "c")
    assert key.fillings == ('raise NotImplementedError("double it")',)
    assert not key.debugging
    assert key.choices == {"bm": (8, 16), "M": ("2*bm", "3*bm"), "N": (128,)}
    assert key.dtypes == ("float32",)
    assert key.count == DEFAULT_CASES
    assert key.outside == LAYOUT
    assert key.roundings == Roundings(results=2, operands=0)
    assert key.kernel
    assert key.timeout is None
    (mistake,) = key.mistakes
    assert (mistake.title, mistake.old, mistake.new) == ("triples", "2", "3")
    assert (mistake.caught, mistake.says) == (Check.VALUES, "factor")


def test_a_long_key_says_it_all(tmp_path: Path) -> None:
    more = 'count = 5\noutside = ["mul"]\nroundings = 64\noperand_roundings = 3\ntimeout = 2.5\n'
    cases = '\n[cases]\ndtype = ["bfloat16", "bool"]\n'
    key = read(tmp_path, edited("[cases]\n", more + cases))
    assert (key.count, key.outside, key.timeout) == (5, ("mul",), 2.5)
    assert key.roundings == Roundings(64, 3)
    assert key.dtypes == ("bfloat16", "bool")
    assert "dtype" not in key.choices


def test_what_production_does_not_name_is_as_in_the_cases(tmp_path: Path) -> None:
    assert read(tmp_path, KEY).production is None
    assert read(tmp_path, KEY).total == DEFAULT_CASES
    text = edited("[[mistakes]]", '[production]\nbm = 256\nM = ["9*bm"]\n\n[[mistakes]]')
    key = read(tmp_path, text)
    assert key.production
    assert key.production.choices == {"bm": (256,), "M": ("9*bm",), "N": (128,)}
    assert key.production.dtypes == ("float32",)
    assert key.total == DEFAULT_CASES + 1
    rows = text.replace("bm = 256\nM", '"bm, N" = [[64, 256], [32, 512]]\nM')
    assert read(tmp_path, rows).production == Sizes(
        {"bm": (64, 32), "M": ("9*bm",), "N": (256, 512)}, (("bm", "N"),), ("float32",)
    )
    apart = rows.replace("bm = [8, 16]", '"bm, K" = [[8, 1], [16, 2]]')
    assert read(tmp_path, apart).together == (("bm", "K"),)
    kept = text.replace("bm = [8, 16]\n", '"bm, K, G" = [[8, 1, 3], [16, 2, 4]]\n')
    production = read(tmp_path, kept).production
    assert production
    assert production.together == (("K", "G"),)
    one = read(tmp_path, text.replace("bm = 256", 'dtype = ["bfloat16"]'))
    assert one.production
    assert one.production.dtypes == ("bfloat16",)
    assert one.dtypes == ("float32",)


def test_values_may_be_those_of_smaller_sizes(tmp_path: Path) -> None:
    text = edited("[[mistakes]]", "[production]\nN = 4096\n\n[values]\nN = 512\n\n[[mistakes]]")
    key = read(tmp_path, text)
    assert key.production
    assert key.values
    assert key.values.choices == {**key.production.choices, "N": (512,)}


def test_a_range_has_both_its_ends(tmp_path: Path) -> None:
    key = read(tmp_path, edited("N = 128", "N = {min = 0, max = 6, step = 3}\nK = {min=2, max=4}"))
    assert key.choices["N"] == (0, 3, 6)
    assert key.choices["K"] == (2, 3, 4)


def test_a_dtype_may_be_dealt_with_sizes(tmp_path: Path) -> None:
    rows = '"N, dtype" = [[128, "float32"], [256, "bfloat16"], [384, "bfloat16"]]\n'
    text = KEY.replace("N = 128\n", rows)
    text = "\n".join(line for line in text.splitlines() if not line.startswith("dtype"))
    text = text.replace("[[mistakes]]", "[production]\nN = 4096\n\n[[mistakes]]", 1)
    key = read(tmp_path, text)
    assert key.together == (("N", "dtype"),)
    assert "dtype" not in key.choices
    for seed in range(20):
        cases = draw("rows", key, seed)
        assert all((c.dtype == "float32") == (c.sizes["N"] == 128) for c in cases[:-1])
        assert {c.sizes["N"] for c in cases[:-1]} == {128, 256, 384}
    assert key.production
    assert not key.production.together


def test_names_in_rows_are_told_with_their_columns(tmp_path: Path) -> None:
    key = read(tmp_path, edited("N = 128", '"N, K" = [[128, "2*bm"], [256, "bm"], [384, 8]]'))
    assert key.together == (("N", "K"),)
    assert (key.choices["N"], key.choices["K"]) == ((128, 256, 384), ("2*bm", "bm", 8))
    assert list(key.choices) == ["bm", "M", "N", "K"]


def test_only_rows_that_are_dealt_have_to_be_sizes(tmp_path: Path) -> None:
    """384 - N is no size for the first row's N and the last row's K, which never meet."""
    rows = '"N, K" = [[512, 8], [128, "384 - N"]]'
    assert read(tmp_path, edited("N = 128", rows)).choices["K"] == (8, "384 - N")


def test_a_side_that_is_not_reached_has_a_reason(tmp_path: Path) -> None:
    assert read(tmp_path, KEY).edges == {}
    table = '[edges]\n"a: b < c: equal" = "one"\n"pl.when(x): branch 0" = "two"\n\n[[mistakes]]'
    found = read(tmp_path, edited("[[mistakes]]", table)).edges
    assert found == {"a: b < c: equal": "one", "pl.when(x): branch 0": "two"}


def test_what_may_be_alike_has_a_reason(tmp_path: Path) -> None:
    assert read(tmp_path, KEY).alike == {}
    text = edited("[[mistakes]]", '[alike]\nN = "one"\n"bm, M//bm" = "two"\n\n[[mistakes]]')
    assert read(tmp_path, text).alike == {"N": "one", "bm, M//bm": "two"}


def test_a_mistake_may_delete_but_not_find_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, edited('new = "3"', 'new = ""')).mistakes[0].new == ""


MESSAGES = {
    "quotes": 'say "what" here',
    "backslash": r"the \n of C:\new",
    "long": "load the block from x_ref, multiply each of its rows, store the result in o_ref",
    "braces": "{x} %s [...]",
}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES.keys())
def test_a_todo_message_is_what_the_stub_raises(tmp_path: Path, message: str) -> None:
    key = read(tmp_path, edited('todo = ["double it"]', f"todo = ['{message}']"))
    (filling,) = key.fillings
    with pytest.raises(NotImplementedError) as raised:
        exec(filling)
    assert raised.value.args == (message,)
    # A formatter would leave the stub as it is, also four columns further in.
    assert max(map(len, filling.splitlines())) <= 96


def test_a_debugging_key_holds_code_as_it_is(tmp_path: Path) -> None:
    stub = 'stub = ["""\nk_axis = 1\nif M:\n    k_axis = 2\n""", "return 3"]'
    key = read(tmp_path, edited('todo = ["double it"]', stub))
    assert key.debugging
    assert key.fillings == ("k_axis = 1\nif M:\n    k_axis = 2", "return 3")


# ---- what is said of a bad one ----

OF_PRODUCTION = ("production.N", "arithmetic, not 8.5")
#: By what is wrong: old text, new text, the key that is named, words of the reason.
BAD = {
    "unknown": ("[cases]", "hintz = 3\n[cases]", "hintz", "unknown key; did you mean hints?"),
    "unlike": ("[cases]", "zz = 3\n[cases]", "zz", "unknown key; known: title, concept"),
    "title-missing": ('title = "Double"', "", "title", "text that is not empty"),
    "title-number": ('title = "Double"', "title = 3", "title", "text that is not empty"),
    "title-blank": ('title = "Double"', 'title = "  "', "title", "text that is not empty"),
    "write-missing": ('write = "kernel"', "", "write", "text that is not empty"),
    "concept-missing": ('concept = "doubling"', "", "concept", "text that is not empty"),
    "hints-missing": ('hints = ["a", "b", "c"]', "", "hints", f"{len(HINTS)} texts"),
    "hints-two": (', "c"]', "]", "hints", f"{len(HINTS)} texts"),
    "hints-four": (', "c"]', ', "c", "d"]', "hints", f"{len(HINTS)} texts"),
    "hints-blank": (', "c"]', ', " "]', "hints", f"{len(HINTS)} texts"),
    "hints-text": ('hints = ["a", "b", "c"]', 'hints = "abc"', "hints", "list of texts"),
    "hints-number": (', "c"]', ", 3]", "hints", "list of texts"),
    "todo-missing": ('todo = ["double it"]', "", "todo", "either todo"),
    "todo-and-stub": ("todo =", 'stub = ["pass"]\ntodo =', "todo", "not both"),
    "todo-empty": ('todo = ["double it"]', "todo = []", "todo", "each solution region"),
    "todo-text": ('todo = ["double it"]', 'todo = "double"', "todo", "list of texts"),
    "stub-text": ('todo = ["double it"]', 'stub = "pass"', "stub", "list of texts"),
    "stub-no-python": ('todo = ["double it"]', 'stub = ["x ="]', "stub", "isn't valid Python"),
    "stub-blank": ('todo = ["double it"]', 'stub = [""]', "stub", "isn't valid Python"),
    "count-two": ("[cases]", "count = 2\n[cases]", "count", "whole number from 3 to 5, not 2"),
    "count-six": ("[cases]", "count = 6\n[cases]", "count", "whole number from 3 to 5, not 6"),
    "three-cores": ("[cases]", "cores = 3\n[cases]", "cores", "whole number from 1 to 2, not 3"),
    "cores-of-none": ("[cases]", "kernel = false\ncores = 2\n[cases]", "cores", "without a kernel"),
    "count-half": ("[cases]", "count = 3.5\n[cases]", "count", "not 3.5"),
    "outside-text": ("[cases]", 'outside = "mul"\n[cases]', "outside", "list of texts"),
    "roundings-none": ("[cases]", "roundings = 0\n[cases]", "roundings", "from 1 to 64, not 0"),
    "roundings-many": ("[cases]", "roundings = 65\n[cases]", "roundings", "from 1 to 64, not 65"),
    "operands-none": ("[cases]", "operand_roundings = -1\n[cases]", "operand_roundings", "not -1"),
    "floats-text": ("[cases]", "outside_floats = 1\n[cases]", "outside_floats", "true or false"),
    "floats-plain": (
        "[cases]",
        "kernel = false\noutside_floats = true\n[cases]",
        "outside_floats",
        "has no meaning without a kernel",
    ),
    "results-text": ("[cases]", 'results = "dx"\n[cases]', "results", "a list of texts"),
    "precision-text": ("[cases]", "full_precision = 1\n[cases]", "full_precision", "true or false"),
    "precision-plain": (
        "[cases]",
        "kernel = false\nfull_precision = true\n[cases]",
        "full_precision",
        "has no meaning without a kernel",
    ),
    "operations-none": ("[cases]", "operations = 0\n[cases]", "operations", "from 1 to 10000"),
    "operations-plain": (
        "[cases]",
        "kernel = false\noperations = 9\n[cases]",
        "operations",
        "has no meaning without a kernel",
    ),
    "blocks-text": ("[cases]", "block_by_block = 1\n[cases]", "block_by_block", "true or false"),
    "blocks-of-kernel": (
        "[cases]",
        "block_by_block = true\n[cases]",
        "block_by_block",
        "has no meaning with a kernel",
    ),
    "kernel-text": ("[cases]", 'kernel = "no"\n[cases]', "kernel", "true or false, not 'no'"),
    "no-kernel-outside": (
        "[cases]",
        'kernel = false\noutside = ["mul"]\n[cases]',
        "outside",
        "without a kernel",
    ),
    "no-kernel-par": (
        "[cases]",
        'kernel = false\npar = "required"\n[cases]',
        "par",
        "without a kernel",
    ),
    "roundings-true": ("[cases]", "roundings = true\n[cases]", "roundings", "not True"),
    "timeout-zero": ("[cases]", "timeout = 0\n[cases]", "timeout", "seconds above 0, not 0"),
    "timeout-past": ("[cases]", "timeout = -1.5\n[cases]", "timeout", "above 0, not -1.5"),
    "timeout-text": ("[cases]", 'timeout = "5"\n[cases]', "timeout", "above 0, not '5'"),
    "timeout-true": ("[cases]", "timeout = true\n[cases]", "timeout", "above 0, not True"),
    "dtype-text": ("N = 128", 'dtype = "float32"', "cases.dtype", "needs a list from float32,"),
    "dtype-none": ("N = 128", "dtype = []", "cases.dtype", "needs a list from"),
    "dtype-unknown": ("N = 128", 'dtype = ["float33"]', "cases.dtype", "needs a list from"),
    "choice-none": ("N = 128", "N = []", "cases.N", "at least one value"),
    "choice-negative": ("N = 128", "N = [8, -8]", "cases.N", "arithmetic, not -8"),
    "choice-half": ("N = 128", "N = 8.5", "cases.N", "arithmetic, not 8.5"),
    "choice-true": ("N = 128", "N = [true]", "cases.N", "arithmetic, not True"),
    "choice-list": ("N = 128", "N = [[8]]", "cases.N", "arithmetic, not [8]"),
    "no-arithmetic": ("N = 128", 'N = "2*"', "cases.N", "'2*' isn't arithmetic"),
    "operator": ("N = 128", 'N = "bm % 3"', "cases.N", "'bm % 3': only names, whole numbers"),
    "division": ("N = 128", 'N = "bm / 2"', "cases.N", "only names, whole numbers, + - * //"),
    "call": ("N = 128", 'N = "max(bm, 3)"', "cases.N", "only names, whole numbers"),
    "attribute": ("N = 128", 'N = "bm.real"', "cases.N", "only names, whole numbers"),
    "fraction": ("N = 128", 'N = "bm * 1.5"', "cases.N", "1.5 isn't a whole number"),
    "stranger": (
        "N = 128",
        'N = "2*bk"',
        "cases.N",
        "uses 'bk', which isn't another name in [cases]",
    ),
    "itself": ("N = 128", 'N = "2*N"', "cases.N", "uses 'N', which isn't another name in [cases]"),
    "of-dtype": ("N = 128", 'dtype = ["int8"]\nN = "dtype"', "cases.N", "uses 'dtype'"),
    "range-unknown": ("N = 128", "N = {min=1, max=2, stop=3}", "cases.N.stop", "mean step?"),
    "range-short": ("N = 128", "N = {min = 1}", "cases.N", "a range is {min"),
    "range-backward": ("N = 128", "N = {min = 3, max = 2}", "cases.N", "0 <= min <= max"),
    "range-negative": ("N = 128", "N = {min = -1, max = 2}", "cases.N", "0 <= min <= max"),
    "range-standing": ("N = 128", "N = {min=1, max=2, step=0}", "cases.N", "a range is {min"),
    "range-text": ("N = 128", 'N = {min="1", max=2}', "cases.N", "a range is {min"),
    "cycle": ("N = 128", 'N = "K"\nK = ["8", "N"]', "cases", "depend on each other: N, K"),
    "production-number": ("[[mistakes]]", "[production]\nN = 8.5\n[[mistakes]]", *OF_PRODUCTION),
    "production-empty": ("[[mistakes]]", "[production]\n[[mistakes]]", "production", "a table of"),
    "production-stranger": (
        "[[mistakes]]",
        "[production]\nbk = 8\n[[mistakes]]",
        "production.bk",
        "unknown key",
    ),
    "production-dtype": (
        "[[mistakes]]",
        '[production]\ndtype = "int8"\n[[mistakes]]',
        "production.dtype",
        "needs a list from",
    ),
    "production-cycle": (
        "[[mistakes]]",
        '[production]\nbm = "M"\n[[mistakes]]',
        "production",
        "depend on each other",
    ),
    "production-plain": (
        "[cases]",
        "kernel = false\n[production]\nN = 256\n[cases]",
        "production",
        "has no meaning without a kernel",
    ),
    "values-alone": (
        "[[mistakes]]",
        "[values]\nN = 8\n[[mistakes]]",
        "values",
        "no meaning without",
    ),
    "values-stranger": (
        "[[mistakes]]",
        "[production]\nN = 8\n[values]\nbk = 8\n[[mistakes]]",
        "values.bk",
        "unknown key",
    ),
    "rows-number": ("N = 128", '"N, K" = 3', "cases.N, K", "a list of rows, each with 2 values"),
    "rows-none": ("N = 128", '"N, K" = []', "cases.N, K", "a list of rows"),
    "rows-short": ("N = 128", '"N, K" = [[1, 2], [3]]', "cases.N, K", "each with 2 values"),
    "rows-twice": ("N = 128", '"N, bm" = [[1, 2]]', "cases.N, bm", "'bm' isn't a name, or occurs"),
    "rows-dtype": ("N = 128", '"N, dtype" = [[1, 2]]', "cases.dtype", "needs a list from"),
    "rows-nameless": ("N = 128", '"N," = [[1, 2]]', "cases.N,", "'' isn't a name"),
    "rows-negative": ("N = 128", '"N, K" = [[9, 1], [8, "N - 9"]]', "cases", "'N - 9' is -1"),
    "alike-list": ("[cases]", 'alike = ["N"]\n[cases]', "alike", "needs a table"),
    "edges-list": ("[cases]", 'edges = ["a < b: equal"]\n[cases]', "edges", "needs a table"),
    "edges-unreasoned": (
        "[[mistakes]]",
        '[edges]\n"a < b: equal" = ""\n[[mistakes]]',
        "edges.a < b: equal",
        "the reason",
    ),
    "edges-sideless": (
        "[[mistakes]]",
        '[edges]\n"a < b" = "x"\n[[mistakes]]',
        "edges.a < b",
        "below, equal, above",
    ),
    "alike-unreasoned": ("[[mistakes]]", '[alike]\nN = ""\n[[mistakes]]', "alike.N", "the reason"),
    "alike-stranger": (
        "[[mistakes]]",
        '[alike]\n"N, K" = "x"\n[[mistakes]]',
        "alike.N, K",
        "uses 'K', which isn't another",
    ),
    "alike-three": (
        "[[mistakes]]",
        '[alike]\n"N, M, bm" = "x"\n[[mistakes]]',
        "alike.N, M, bm",
        "or two that may be equal",
    ),
    "mistake-number": ('title = "triples"', "title = 3", "mistakes[0].title", "needs a text"),
    "mistake-finds-nothing": ('old = "2"', 'old = ""', "mistakes[0].old", "needs a text"),
    "mistake-no-new": ('new = "3"', "", "mistakes[0].new", "needs a text"),
    "mistake-says-nothing": ('says = "factor"', 'says = ""', "mistakes[0].says", "needs a text"),
    "mistake-typo": ("says =", 'saying = "x"\nsays =', "mistakes[0].saying", "mean says?"),
    "mistake-check": ('caught = "values"', 'caught = "value"', "mistakes[0].caught", "one of runs"),
}


@pytest.mark.parametrize(("old", "new", "name", "words"), BAD.values(), ids=BAD.keys())
def test_a_bad_key_is_told_with_file_key_and_reason(
    tmp_path: Path, old: str, new: str, name: str, words: str
) -> None:
    with pytest.raises(KeyProblem) as raised:
        read(tmp_path, edited(old, new))
    assert str(raised.value).startswith(f"{tmp_path / 'double.toml'}: {name}: ")
    assert words in str(raised.value)


@pytest.mark.parametrize("cases", ["", "cases = 3\n"], ids=["missing", "number"])
def test_cases_must_be_a_table(tmp_path: Path, cases: str) -> None:
    head, _, _ = KEY.partition("[cases]")
    with pytest.raises(KeyProblem, match=r"double\.toml: cases: needs a table"):
        read(tmp_path, head + cases)


@pytest.mark.parametrize(
    "mistakes", ["mistakes = 3\n", 'mistakes = ["a"]\n'], ids=["number", "text"]
)
def test_mistakes_must_be_tables(tmp_path: Path, mistakes: str) -> None:
    head, _, _ = KEY.partition("[[mistakes]]")
    with pytest.raises(KeyProblem, match=r"double\.toml: mistakes: needs \[\[mistakes\]\] tables"):
        read(tmp_path, mistakes + head)


def test_the_second_mistake_is_named_by_its_number(tmp_path: Path) -> None:
    with pytest.raises(KeyProblem, match=r"mistakes\[1\]\.title: needs a text"):
        read(tmp_path, KEY + "[[mistakes]]\n")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyProblem) as raised:
        load(tmp_path / "none.toml")
    assert f"{tmp_path / 'none.toml'}: (file): this file doesn't exist" in str(raised.value)


@pytest.mark.parametrize("data", [b"title = ", b'title = "\xff"'], ids=["no-toml", "no-utf8"])
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "double.toml"
    file.write_bytes(data)
    with pytest.raises(KeyProblem) as raised:
        load(file)
    assert f"{file}: (file): not valid TOML: " in str(raised.value)


#: By what is wrong: old text, new text, the key that should be named.
ACCEPTED = {
    "todo-of-two-lines": ('todo = ["double it"]', r'todo = ["double\nit"]', "todo"),
    "no-stubs": ('todo = ["double it"]', "stub = []", "stub"),
    "division-by-zero": ("N = 128", 'N = "bm // 0"', "cases: N"),
    "less-than-nothing": ("N = 128", 'N = "bm - 1000"', "cases: N"),
    "timeout-never": ("[cases]", "timeout = nan\n[cases]", "timeout"),
    "range-of-truths": ("N = 128", "N = {min = true, max = 3}", "cases.N"),
}


@pytest.mark.parametrize(("old", "new", "name"), ACCEPTED.values(), ids=ACCEPTED.keys())
def test_more_that_can_not_be_used(tmp_path: Path, old: str, new: str, name: str) -> None:
    with pytest.raises(KeyProblem, match=rf"double\.toml: {name}: "):
        read(tmp_path, edited(old, new))


# ---- after ----


def after(text: str) -> str:
    return edited("[cases]\n", f'after = """\n{text}\n"""\n\n[cases]\n')


def test_what_is_said_after_is_kept_line_by_line(tmp_path: Path) -> None:
    text = "word\n" * 40 + "\n    kata cost double"
    assert read(tmp_path, after(text)).after == text
    assert read(tmp_path, KEY).after == ""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("too short", "after: has 2 words; needs 40 to 160"),
        ("word\n" * 161, "after: has 161 words"),
        ("word\n" * 40 + "x" * 101, "after: a line is longer than 100 columns: 'xxx"),
        (" ", "after: needs a text that is not empty"),
    ],
    ids=["short", "long", "wide", "empty"],
)
def test_what_is_said_after_has_limits(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(KeyProblem) as raised:
        read(tmp_path, after(text))
    assert told in str(raised.value)
