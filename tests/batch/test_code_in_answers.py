"""Code in a model's answer."""

from __future__ import annotations

import contextlib

import pytest

from grader.batch.samples import (
    NoSample,
    blocks,
    completion_in,
    is_code,
    source_in,
)
from grader.exercise.catalog import katas
from pallascope.tools.regions import regions
from tests.support.repositories import ROOT

EVERY = katas(ROOT, "solutions")
ONE = next(kata for kata in EVERY if kata.name == "constant_add")
SEVERAL = next(kata for kata in EVERY if len(kata.key.fillings) == 2)
BODY = "o_ref[...] = x_ref[...] + 10\n"
WHOLE = ONE.solution.read_text(encoding="utf-8")
PARTS = [region.body for region in regions(SEVERAL.solution.read_text(encoding="utf-8"))]


def fenced(code: str, language: str = "python", fence: str = "```") -> str:
    return f"{fence}{language}\n{code}{'' if code.endswith(chr(10)) else chr(10)}{fence}\n"


ANSWERS = {
    "a-file": WHOLE,
    "a-body": BODY,
    "a-fenced-file": fenced(WHOLE),
    "a-fenced-body": fenced(BODY),
    "prose-around": f"The body is simple.\n\n{fenced(BODY)}\nIt adds `10` to each element.",
    "no-language": fenced(BODY, ""),
    "capital-letters": fenced(BODY, "Python"),
    "a-title-behind-the-language": fenced(BODY, 'python title="kata.py"'),
    "a-space-before-the-language": fenced(BODY, " python"),
    "tildes": fenced(BODY, "python", "~~~"),
    "four-backticks": fenced(BODY, "python", "````"),
    "tildes-around-backticks": fenced(f"'''\n```\n'''\n{BODY}", fence="~~~~"),
    "a-longer-closing-fence": f"```python\n{BODY}`````\n",
    "cut-off": f"Here:\n```python\n{BODY}",
    "no-line-end": f"```python\n{BODY}```",
    "carriage-returns": f"Here:\n{fenced(BODY)}".replace("\n", "\r\n"),
    "in-a-list": "1. so:\n\n" + "".join(f"   {line}\n" for line in fenced(BODY).splitlines()),
    "in-a-quote": "".join(f"> {line}\n" for line in fenced(BODY).splitlines()),
    "markers": fenced(f"    # BEGIN SOLUTION\n    {BODY}    # END SOLUTION"),
    "a-draft-first": f"{fenced('o_ref[...] = 0')}No, that forgets x.\n{fenced(BODY)}",
    "a-call-afterwards": f"{fenced(WHOLE)}Use it as\n{fenced('constant_add(jnp.ones(1024))')}",
    "a-shell-afterwards": f"{fenced(BODY)}Try\n{fenced('pytest -k constant_add', 'sh')}",
    "an-empty-block-afterwards": f"{fenced(BODY)}\n```python\n```\n",
    "markers-before-a-call": (
        f"{fenced(f'# BEGIN SOLUTION{chr(10)}{BODY}# END SOLUTION')}{fenced('print(1)')}"
    ),
    "thoughts": f"<think>Perhaps\n{fenced('o_ref[...] = 0')}</think>\n{fenced(BODY)}",
    "thoughts-whose-beginning-is-cut": f"{fenced(WHOLE[:300])}</thinking>{fenced(BODY)}",
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_the_file_in_an_answer(answer: str) -> None:
    found = source_in(ONE, answer)
    if "'''" in answer:
        assert f"    '''\n    ```\n    '''\n    {BODY}" in found
    else:
        assert found == WHOLE


def test_a_quotes_empty_lines_stay() -> None:
    assert [block.code for block in blocks("> ```\n>\n> a\n>  b\n> ```")] == ["\na\n b\n"]


def test_fences_in_a_files_docstring_are_text() -> None:
    file = WHOLE.replace('"""', f'"""\n{fenced("x")}\n', 1)
    assert completion_in(ONE, f"\n{file}") == f"\n{file}"


def test_what_is_no_fence() -> None:
    assert not list(blocks("x = 'a ``` b'\n``` no ` fence ``` here\n``"))
    assert [block.code for block in blocks("~~~\n```\n~~~")] == ["```\n"]


def test_a_form_feed_ends_no_line() -> None:
    assert [block.code for block in blocks("```\na\fb\n```")] == ["a\fb\n"]


def test_as_many_blocks_as_regions_fill_them() -> None:
    answer = "".join(f"Region {n}:\n{fenced(part)}" for n, part in enumerate(PARTS))
    filled = regions(source_in(SEVERAL, answer))
    assert [region.body for region in filled] == PARTS


def test_one_block_for_several_regions_is_told() -> None:
    with pytest.raises(NoSample, match="fills 1 solution regions"):
        source_in(SEVERAL, fenced(PARTS[0]))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("", "the completion is empty"),
        ("<think>no idea</think>\n", "the completion is empty"),
        (fenced("echo", "sh"), "none of them is Python"),
        ("```python\n```", "none of them is Python"),
    ],
    ids=("empty", "thoughts-alone", "a-shell", "an-empty-block"),
)
def test_an_answer_without_code_is_told(answer: str, says: str) -> None:
    with pytest.raises(NoSample, match=says):
        source_in(ONE, answer)


def test_prose_alone_is_taken_for_code() -> None:
    """It is graded, and fails as Python that can't be read."""
    assert completion_in(ONE, "I can't do that.") == "I can't do that."


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_what_has_code_is_told_from_what_has_none(answer: str) -> None:
    assert is_code(answer)


@pytest.mark.parametrize(
    "answer", ["", " I can't do that.", "No idea", "# none", "a" + ".a" * 400_000]
)
def test_what_has_no_code(answer: str) -> None:
    assert not is_code(answer)


def test_a_long_answer_takes_no_longer_for_its_size() -> None:
    """Patterns that try again and again would take hours."""
    for piece in ("```", "` ", "</think", ">", " \t", "~~~\n"):
        with contextlib.suppress(NoSample):
            completion_in(ONE, piece * 200_000 + "x")
        is_code(piece * 200_000 + "x")


def test_an_answer_that_nobody_could_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grader.batch.samples.MOST_ANSWER", len(WHOLE))
    assert source_in(ONE, WHOLE) == WHOLE
    with pytest.raises(NoSample, match="the answer has more than"):
        source_in(ONE, f"{WHOLE}#")
