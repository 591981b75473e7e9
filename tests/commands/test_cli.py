"""The `kata` command, in-process: what it prints, what it leaves on disk, its exit codes."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from grader.cli import main
from grader.exercise.answer_key import HINTS
from grader.exercise.cases import draw
from grader.exercise.catalog import Kata
from grader.grading.grader import Grader
from grader.verdict import MAX_STARS, State
from tests.support.repositories import ROOT, Clone, Repository, Shop, with_text


class Terminal(io.StringIO):
    """A terminal's input."""

    def isatty(self) -> bool:
        return True


# ---- anywhere ----


def test_it_works_from_below_the_root(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop.double.path.parent)
    assert "double" in shop.run("list")


def test_outside_a_repository_it_says_so(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    for words in (["list"], []):
        assert main(words) == 2
        said = capsys.readouterr().err
        beginning = f"kata: there are no katas in {elsewhere}: "
        assert said == f"{beginning}cd {ROOT}, or kata init my-katas writes them\n"
    # Installed from a wheel, there is no clone to name.
    monkeypatch.setattr("grader.exercise.repository.COURSE", elsewhere / "grader" / "course")
    assert main([]) == 2
    said = capsys.readouterr().err
    assert (
        said
        == f"{beginning}cd into the folder that holds katas/, or kata init my-katas writes them\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [["solve"], ["hint"], ["hint", "double", "4"], ["list", "--everything"], ["--open"]],
    ids=" ".join,
)
def test_misuse_is_told_with_the_usage(arguments: list[str], shop: Shop) -> None:
    with pytest.raises(SystemExit) as raised:
        shop.run(*arguments)
    assert raised.value.code == 2


@pytest.mark.parametrize("command", ["hint", "show", "after", "restore"])
def test_one_exercise_has_to_be_meant(shop: Shop, command: str) -> None:
    assert "'row' matches 2 katas: row_sum, row_max" in shop.run(command, "row", code=2)
    assert "no kata matches 'softmax'; kata list shows" in shop.run(command, "softmax", code=2)
    assert "'a and' is not an expression" in shop.run(command, "a and", code=2)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("hnit", "no command 'hnit'; did you mean init or hint?"),
        ("Watch", "no command 'Watch'; did you mean watch?"),
        ("xyzzy", "no command 'xyzzy'; kata --help lists them all"),
    ],
)
def test_a_mistyped_command_is_told_what_it_may_have_meant(
    shop: Shop, command: str, told: str
) -> None:
    with pytest.raises(SystemExit) as raised:
        main([command, "double"])
    assert raised.value.code == 2
    assert told in shop.capture.readouterr().err


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("duoble", "no kata matches 'duoble'; did you mean double?"),
        ("row_som", "no kata matches 'row_som'; did you mean row_sum or row_max?"),
        ("secnod", "did you mean second?"),
        ("row and secnod", "did you mean second?"),
        ("row and first and 99", "no kata matches 'row and first and 99'; kata list shows them"),
    ],
)
def test_a_mistyped_exercise_is_told_what_it_may_have_meant(
    shop: Shop, name: str, told: str
) -> None:
    for command in ("hint", "list", "reset", "commit"):
        assert told in shop.run(command, name, code=2)


@pytest.mark.parametrize("somewhere", [True, False])
def test_the_versions_of_what_judges(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, somewhere: bool
) -> None:
    """Also outside of a repository; a package that is not there is told as such."""
    if somewhere:
        monkeypatch.chdir(tmp_path.parent)
    monkeypatch.setattr("pallascope.tools.versions._installed_version", {"jax": "1.2.3"}.get)
    said = shop.run("--version")
    assert said.startswith("pallas-katas not installed, jax 1.2.3, jaxlib not installed, libtpu")


# ---- alone ----


def test_alone_it_shows_where_one_stands_and_what_to_do(clone: Clone) -> None:
    shop = clone.shop
    clone.passed(shop.double, stars=2)
    said = shop.run()
    assert said.startswith("1 of 3 solved, 2 todo   2 of 9 stars\nnot committed  double   kata com")
    assert re.search(r"^next  katas/1_first/kata_02_row_sum.py:14$", said, re.MULTILINE)
    assert "pytest -k row_sum\n" in said
    assert "kata --help" in said
    shop.run("commit")
    assert "not committed" not in shop.run()


def test_alone_it_says_what_is_wrong_with_the_ledger(clone: Clone) -> None:
    (clone.root / "katas" / "ledger.txt").write_text("no pass\n")
    assert "katas/ledger.txt:1: 2 of the 4 fields" in clone.shop.run()


def test_at_the_end_there_are_stars_left_and_then_nothing(clone: Clone) -> None:
    shop = clone.shop
    for kata, stars in ((shop.double, 3), (shop.row_sum, 2), (shop.row_max, 3)):
        clone.passed(kata, stars=stars)
    for command in ((), ("next",)):
        assert "Every kata is solved. For the third star: kata cost row_sum" in shop.run(*command)
    clone.passed(shop.row_sum, stars=3)
    for command in ((), ("next",)):
        assert "Every kata is solved, with every star." in shop.run(*command)
    shop.double.path.unlink()
    for command in ((), ("next",)):
        assert "double is gone: kata reset double" in shop.run(*command)


def test_a_broken_key_is_named(shop: Shop) -> None:
    shop.edit_key(shop.row_sum, 'concept = "doubling"', "")
    for command in (["list"], ["hint", "row_sum"], ["reset", "row_sum"], ["sync"]):
        said = shop.run(*command, code=2)
        assert said.startswith(f"kata: {shop.row_sum.key_path}: concept: needs a text")


# ---- list, next ----


def test_list_shows_tracks_states_and_concepts(shop: Shop) -> None:
    shop.repository.solve(shop.row_sum)
    lines = shop.run("list").splitlines()
    assert lines[:5] == [
        "1_first",
        "  01  double   todo    doubling",
        "  02  row_sum  edited  doubling",
        "2_second",
        "  01  row_max  todo    doubling",
    ]


def test_list_takes_a_name_like_pytest(shop: Shop) -> None:
    said = shop.run("list", "row and not second")
    assert "row_sum" in said
    assert "row_max" not in said
    assert "double " not in said
    assert "2_second" not in said
    assert "no kata matches 'softmax'" in shop.run("list", "softmax", code=2)


def test_list_keeps_a_line_a_line(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    shop.edit_key(shop.double, 'concept = "doubling"', 'concept = "doubling [i] and more of it"')
    (line,) = (line for line in shop.run("list").splitlines() if "double" in line)
    assert line == "  01  double   todo    doubling [i] and…"


def test_next_is_the_first_that_nobody_touched(shop: Shop) -> None:
    said = shop.run("next")
    line = next(i for i, x in enumerate(shop.double.path.read_text().splitlines(), 1) if "rai" in x)
    assert said.splitlines()[0] == f"katas/1_first/kata_01_double.py:{line}"
    assert "doubling" in said
    assert "pytest -k double" in said
    assert "kata hint double" in said
    for kata in (shop.double, shop.row_sum):
        shop.repository.solve(kata)
    assert "katas/2_second/kata_01_row_max.py:" in shop.run("next")
    shop.repository.solve(shop.row_max)
    assert "Every kata has been edited" in shop.run("next")


@pytest.mark.parametrize("concept", ["index x_ref[i] by hand", "a block [bm, bn]", "[/i] closes"])
def test_next_shows_brackets_as_they_are(shop: Shop, concept: str) -> None:
    shop.edit_key(shop.double, "doubling", concept)
    assert concept in shop.run("next")


# ---- hint ----


@pytest.fixture
def hints(shop: Shop) -> Path:
    """The file of hints given; the first exercise's hints are "one[i]", "two[/]" and "three"."""
    shop.edit_key(shop.double, '["a", "b", "c"]', '["one[i]", "two[/]", "three"]')
    return shop.root / ".kata" / "hints.json"


def levels(said: str) -> str:
    (found,) = re.findall(r"hint (\d) of 3", said)
    return found


def test_each_hint_says_more_until_the_last(shop: Shop, hints: Path) -> None:
    said = [shop.run("hint", "double") for _ in range(4)]
    assert "".join(map(levels, said)) == "1233"
    assert len(HINTS) == 3
    for text, words in zip(said, ("one[i]", "two[/]", "three", "three"), strict=True):
        assert f"  {words}\n" in text
        assert ("more: kata hint double" in text) == (words != "three")
        assert ("the solution: kata show double" in text) == (words == "three")
    assert "nudge" in said[0]
    assert "nearly all" in said[2]


def test_a_level_may_be_asked_for(shop: Shop, hints: Path) -> None:
    assert "two[/]" in shop.run("hint", "double", "2")
    assert levels(shop.run("hint", "double")) == "3"
    assert "one[i]" in shop.run("hint", "double", "1")
    # Looking back takes nothing back.
    assert levels(shop.run("hint", "double")) == "3"


def test_each_exercise_counts_its_own_hints(shop: Shop, hints: Path) -> None:
    assert [levels(shop.run("hint", name)) for name in ("double", "row_sum", "double")] == [
        *("1", "1", "2")
    ]
    assert json.loads(hints.read_text()) == {shop.double.id: 2, shop.row_sum.id: 1}


def test_where_the_level_cannot_be_saved_there_is_a_hint_all_the_same(
    shop: Shop, hints: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a checkout that is read-only; root may write there, so writing itself is refused."""

    def refused(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    with monkeypatch.context() as patched:
        for method in ("mkdir", "write_text"):
            patched.setattr(Path, method, refused)
            said = shop.run("hint", "double")
            assert "  one[i]\n" in said
            assert "more: kata hint double 2 (the level can't be saved: Read-only file" in said
        assert "two[/]" in shop.run("hint", "double", "2")
        assert "saved" not in shop.run("hint", "double", "3")
    assert not hints.exists()


# ---- a reader that goes ----


@pytest.mark.parametrize(
    "words", [["list"], ["--help"], ["hint", "double"], ["show", "double", "-y"], ["nothing"], []]
)
def test_a_reader_that_has_gone_is_no_error(shop: Shop, words: list[str]) -> None:
    """As after `| head -1`: nothing is printed about it, by the command or by the interpreter."""
    for module in ("grader.cli", "pallascope.tpu", "pallascope.gpu")[
        : 3 if words == ["--help"] else 1
    ]:
        reader, writer = os.pipe()
        os.close(reader)
        ran = subprocess.run(
            [sys.executable, "-m", module, *words],
            cwd=shop.root,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
        )
        os.close(writer)
        assert ("Broken" in ran.stderr, "Exception" in ran.stderr) == (False, False)
        assert ran.returncode in {"nothing": (2,), "--help": (0, 1)}.get(" ".join(words), (1,))
        assert bool(ran.stderr) == (words == ["nothing"])


@pytest.mark.parametrize("words", ["list", "hint double", "--help", "nothing", ""])
def test_output_that_nobody_wants_is_no_error(shop: Shop, words: str) -> None:
    """As after `>&-`: there is no standard output."""
    command = f'"$0" -m grader.cli {words} >&-'
    ran = subprocess.run(["sh", "-c", command, sys.executable], cwd=shop.root, capture_output=True)
    assert b"Traceback" not in ran.stderr
    assert ran.returncode == (2 if words == "nothing" else 0)


DAMAGED = {
    "no-json": b"{",
    "no-utf8": b"\xff",
    "empty": b"",
    "list": b"[1, 2]",
    "number": b"2",
    "text": b'{"1_first/kata_01_double": "2"}',
    "too-many": b'{"1_first/kata_01_double": 4}',
    "none": b'{"1_first/kata_01_double": null}',
    "nested": b'{"1_first/kata_01_double": [2]}',
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_file_counts_as_no_hints(shop: Shop, hints: Path, data: bytes) -> None:
    hints.parent.mkdir()
    hints.write_bytes(data)
    assert levels(shop.run("hint", "double")) == "1"
    assert levels(shop.run("hint", "double")) == "2"


def test_half_damaged_levels_count_as_none(shop: Shop, hints: Path) -> None:
    hints.parent.mkdir()
    hints.write_bytes(b'{"1_first/kata_01_double": 1.0}')
    shop.run("hint", "double")


# ---- show ----


def test_show_does_not_spoil_without_being_told_to(shop: Shop) -> None:
    assert main(["show", "double"]) == 2
    out, err = shop.capture.readouterr()
    assert "--yes" in err
    assert "o_ref" not in out + err


@pytest.mark.parametrize("answer", ["\n", "n\n", "no\n", "yeah but no\n"], ids=range(4))
def test_show_takes_anything_but_yes_for_no(
    shop: Shop, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    said = shop.run("show", "double", code=1)
    assert "Show the solution of double? [y/N]" in said
    assert "o_ref" not in said


@pytest.mark.parametrize("answer", ["y\n", "Yes \n"], ids=["y", "yes"])
def test_show_shows_after_a_yes(shop: Shop, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    assert Repository.BODY in shop.run("show", "double")


@pytest.mark.parametrize("flag", ["-y", "--yes"])
def test_show_shows_the_regions_and_nothing_else(shop: Shop, flag: str) -> None:
    lines = [line.rstrip() for line in shop.run("show", "double", flag).splitlines()]
    solution = shop.double.solution.read_text().splitlines()
    line = solution.index(f"    {Repository.BODY}") + 1
    assert lines == [f"solutions/1_first/kata_01_double.py:{line}", Repository.BODY]


def test_the_end_of_input_is_no_yes(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(""))
    assert main(["show", "double"]) == 1


# ---- sync ----


def test_sync_of_what_is_in_step_says_so(shop: Shop) -> None:
    for command in (["sync"], ["sync", "--check"]):
        said = shop.run(*command)
        assert said == "3 katas, 0 not in step with their solutions\n"


def test_sync_check_only_tells(shop: Shop) -> None:
    shop.double.path.unlink()
    said = shop.run("sync", "--check", code=1)
    assert "katas/1_first/kata_01_double.py: differs" in said
    assert "3 katas, 1 not in step" in said
    assert not shop.double.path.exists()
    assert "kata_01_double.py: written" in shop.run("sync")
    assert shop.double.untouched()
    shop.run("sync", "--check")


def test_sync_tells_of_an_attempt_that_it_leaves_alone(shop: Shop) -> None:
    """A learner's clone is in step, however much is solved in it."""
    shop.repository.solve(shop.row_max, "mine = 1")
    for command in (["sync"], ["sync", "--check"]):
        said = shop.run(*command)
        assert "katas/2_second/kata_01_row_max.py: contains an attempt: left unchanged" in said
        assert "3 katas, 0 not in step with their solutions; 1 not compared: an attempt" in said
    assert "mine = 1" in shop.row_max.path.read_text()
    shop.double.path.unlink()
    assert "1 not in step" in shop.run("sync", "--check", code=1)


# ---- new ----


def test_a_new_exercise_can_be_graded_as_it_is(shop: Shop, grader: Grader, tmp_path: Path) -> None:
    said = shop.run("new", "2_second/softmax")
    kata = Kata(shop.root, "2_second", "kata_02_softmax")
    files = [kata.solution, kata.key_path, kata.path]
    assert said.splitlines()[:3] == [file.relative_to(shop.root).as_posix() for file in files]
    assert all(file.exists() for file in files)
    shop.run("sync", "--check")
    assert "  02  softmax  todo" in shop.run("list", "softmax")

    case, *others = draw(kata.id, kata.key, 1)
    assert grader.grade(kata, case, 60).state is State.TODO
    (mistake,) = kata.key.mistakes
    solution = kata.solution.read_text()
    (tmp_path / "wrong").mkdir()
    wrong = with_text(kata, tmp_path / "wrong", solution.replace(mistake.old, mistake.new))
    finding = grader.grade(wrong, case, 60).finding
    assert finding
    assert finding.check is mistake.caught
    assert mistake.says in f"{finding.phrase} {finding.message}"
    kata.path.write_text(solution)
    for each in (case, *others):
        grade = grader.grade(kata, each, 60)
        assert (grade.finding, grade.stars) == (None, MAX_STARS)


def test_new_does_not_write_over_anything(shop: Shop) -> None:
    before = sorted(shop.root.rglob("*"))
    assert "double is taken" in shop.run("new", "2_second/double", code=2)
    assert "needs TRACK/NAME" in shop.run("new", "softmax", code=2)
    assert sorted(shop.root.rglob("*")) == before


def test_any_kernel_is_checked_in_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`kata check` needs no clone; it is `python -m pallascope.testing`, which has more tests."""
    monkeypatch.chdir(tmp_path)
    kernels = ROOT / "integrations" / "pytest" / "example" / "kernels.py"
    case = "bf16[128,256] bf16[256,128] bk=100"
    assert main(["check", f"{kernels}:matmul", "--case", case]) == 1
    assert "a TPU refuses block (128, 100)" in capsys.readouterr().out
