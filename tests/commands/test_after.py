"""`kata after`, and when a session says it by itself."""

from __future__ import annotations

import pytest

from grader.cli import main
from tests.support.repositories import Clone, Repository, Shop

TEXT = "\n" + ("word " * 19 + "word\n") * 2 + "last\n"
UNSOLVED = "double isn't solved yet, and this text explains its solution"


@pytest.fixture
def told(shop: Shop) -> Shop:
    """The shop, with words for after its first exercise."""
    shop.edit_key(shop.double, "count = 3", f'count = 3\nafter = """{TEXT}"""')
    return shop


def test_it_is_for_those_who_have_solved_it(
    told: Shop, clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pallascope.tpu.libtpu.unavailable_reason", lambda: "not here")
    assert UNSOLVED in told.run("after", "double", code=2)
    assert "--yes" in told.run("after", "double", code=2)
    assert "word last" in told.run("after", "double", "--yes")
    clone.passed(told.double)
    assert told.run("after", "double").startswith("solved    double  doubling\n  word word")
    told.double.path.write_text(told.double.path.read_text() + "\n")
    assert "word last" in told.run("after", "double"), "it was solved once"


def test_a_learner_may_ask_for_it_before(told: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for answer, code in (("n", 1), ("y", 0)):
        monkeypatch.setattr("builtins.input", lambda *_, answer=answer: answer)
        assert main(["after", "double"]) == code
        said = told.capture.readouterr().out
        assert UNSOLVED in said
        assert ("word last" in said) == (code == 0)


def test_where_there_is_no_text_it_says_so(shop: Shop) -> None:
    assert "has no text" in shop.run("after", "double", "--yes", code=1)


def test_it_compares_the_cost(told: Shop, shared: Shop, clone: Clone) -> None:
    pytest.importorskip("libtpu")
    clone.passed(told.double)
    said = told.run("after", "double")
    assert "Yours moves the same bytes as the reference solution, in the same" in said


def test_a_session_says_it_once(told: Shop) -> None:
    repository = told.repository
    repository.solve(told.double)
    ran = repository.pytest("-k", "double", CI="", BUILD_NUMBER="")
    at = ran.out.index("solved    double  doubling")
    assert ran.out.index("recorded  double") < at
    assert "word last" in " ".join(ran.out[at:].split())
    repository.solve(told.double, f"{Repository.BODY}  # again")
    assert "solved    double" not in repository.pytest("-k", "double", CI="").out


@pytest.mark.parametrize(("options", "ci"), [(["-q"], ""), ([], "true")], ids=["q", "ci"])
def test_where_nobody_reads_it_a_session_is_quiet(told: Shop, options: list[str], ci: str) -> None:
    told.repository.solve(told.double)
    ran = told.repository.pytest("-k", "double", *options, CI=ci, BUILD_NUMBER="")
    assert "recorded  double" in ran.out
    assert "solved    double" not in ran.out


# ---- --others ----

OTHERS = '''"""Right kernels of double."""

# ---- added ----

"""Adds x to itself.

Stars: 3
"""


def double_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] + x_ref[...]


# ---- by_strips ----

"""Doubles strips of the block.

Stars: 2 or 3
"""


def double_kernel(x_ref, o_ref):
    for start in range(0, x_ref.shape[0], 8):
        o_ref[start : start + 8] = x_ref[start : start + 8] * 2


# ---- twice ----

"""Multiplies twice.

Stars: 3
"""


def double_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 4 * 0.5
'''


@pytest.fixture
def with_others(shared: Shop, clone: Clone, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The shop, with variants of its first exercise, which is solved."""
    monkeypatch.setattr("grader.exercise.variants.FOLDER", shared.root / "variants")
    file = shared.root / "variants" / shared.double.track / "double.py"
    file.parent.mkdir(parents=True)
    file.write_text(OTHERS)
    clone.passed(shared.double)
    return shared


def test_others_are_shown_with_their_cost(with_others: Shop) -> None:
    pytest.importorskip("libtpu")
    said = with_others.run("after", "double", "--others")
    assert "added: Adds x to itself.\n" in said
    assert "o_ref[...] = x_ref[...] + x_ref[...]" in said
    assert "by_strips: Doubles strips of the block.\n" in said
    assert said.count("This one moves the same bytes as the reference solution") == 2
    assert "others: twice, in " in said
    assert "Stars" not in said


def test_others_without_a_compiler_have_no_cost(
    with_others: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pallascope.tpu.libtpu.unavailable_reason", lambda: "not here")
    said = with_others.run("after", "double", "--others")
    assert "This one" not in said
    assert "added: " in said


def test_others_are_for_those_who_have_solved_it(with_others: Shop) -> None:
    assert "row_sum isn't solved yet" in with_others.run("after", "row_sum", "--others", code=2)
    said = with_others.run("after", "row_sum", "--others", "--yes", code=1)
    assert said == "the course has no other kernels for row_sum\n"
