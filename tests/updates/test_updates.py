"""`kata update` between two real repositories: upstream's, and the clone of someone who learns."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.cli import main
from grader.exercise.catalog import Kata
from grader.record.ledger import LEDGER
from grader.tools.git import Git
from grader.updates import repository_merge
from pallascope.tools.regions import fill_regions, region_lines
from tests.support.repositories import Repository

MINE = ("    # mine, √2  ", "", "    value = x_ref[...]", "    o_ref[...] = value + value", "")
OTHER = ("    o_ref[...] = 2 * x_ref[...]",)
TWO_REGIONS = """

def NAME_second(o_ref):
    # BEGIN SOLUTION
    o_ref[...] = 0
    # END SOLUTION
"""


class Pair:
    """An upstream repository of three exercises, and a clone of it in the current folder."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        up, self.root = folder / "up", folder / "mine"
        up.mkdir()
        self.upstream = Repository(up)
        (up / ".gitignore").write_text(".kata/\n*.ignored\n")
        (up / "README.md").write_text("one\ntwo\nthree\n")
        self.up, self.mine = Git(up), Git(self.root)
        self.double = self.add("double", number=1)
        self.row_sum = self.add("row_sum", number=2)
        self.row_max = self.add("row_max", "2_second", 1)
        self.up("init", "-q", "-b", "main")
        self.publish()
        Git(folder)("clone", "-q", str(up), str(self.root))
        self.capture = capture

    def add(self, name: str, track: str = "1_first", number: int = 1, regions: int = 1) -> Kata:
        """Upstream adds an exercise. Returns it as it will be in the clone."""
        kata = self.upstream.add(name, track, number)
        if regions == 2:
            self.second_region(kata)
        return self.here(kata)

    def second_region(self, kata: Kata) -> None:
        """Upstream gives one of its exercises a second region, at the end."""
        text = kata.solution.read_text() + TWO_REGIONS.replace("NAME", kata.name)
        kata.solution.write_text(text)
        todo = '["double it", "the second"]'
        kata.key_path.write_text(kata.key_path.read_text().replace('["double it"]', todo))
        there = self.there(kata)
        there.path.write_text(there.stub_text())

    def here(self, kata: Kata) -> Kata:
        return Kata(self.root, kata.track, kata.stem)

    def there(self, kata: Kata) -> Kata:
        return Kata(self.upstream.root, kata.track, kata.stem)

    def publish(self, git: Git | None = None) -> None:
        """Commit everything, upstream unless told otherwise."""
        git = git or self.up
        git("add", "--all")
        git("commit", "-qm", "a change")

    def edit(self, kata: Kata, old: str, new: str) -> None:
        """Upstream changes solution, or key, and stub of an exercise, and publishes that."""
        there = self.there(kata)
        for file in (there.solution, there.key_path):
            file.write_text(file.read_text().replace(old, new))
        shipped = self.there(kata).stub_text()
        assert shipped != there.path.read_text()
        there.path.write_text(shipped)
        self.publish()

    def solve(self, kata: Kata, *bodies: tuple[str, ...], commit: bool = True) -> None:
        """Write the regions of the clone's file; where fewer are given, the first ones."""
        text = kata.path.read_text()
        kata.path.write_text(fill_regions(text, [*bodies, *region_lines(text)[len(bodies) :]]))
        if commit:
            self.publish(self.mine)

    def run(self, *arguments: str, code: int = 0) -> str:
        """What a command that exits with `code` says, to stderr if misused."""
        assert main(arguments) == code, self.capture.readouterr()
        captured = self.capture.readouterr()
        return captured.err if code == 2 else captured.out

    def update(self, code: int = 0) -> str:
        return self.run("update", code=code)

    def state(self) -> tuple[str, str, dict[str, bytes]]:
        """Everything that an update could change: HEAD, git's status, and the files."""
        files = {
            file.relative_to(self.root).as_posix(): file.read_bytes()
            for file in self.root.rglob("*")
            if file.is_file() and ".git" not in file.relative_to(self.root).parts
        }
        status = self.mine("status", "--porcelain", "--untracked-files=all")
        return self.mine("rev-parse", "HEAD"), status, files

    def refused(self, *arguments: str) -> str:
        """What is said by an update that changes nothing."""
        before = self.state()
        said = self.run("update", *arguments, code=2)
        assert self.state() == before
        assert not self.mine.run("rev-parse", "--verify", "-q", "MERGE_HEAD").stdout
        assert len(self.mine("worktree", "list").splitlines()) == 1
        return said

    def parents(self) -> int:
        return len(self.mine("log", "-1", "--format=%P").split())

    def is_up_to_date(self) -> bool:
        theirs = self.up("rev-parse", "HEAD").strip()
        return not self.mine.run("merge-base", "--is-ancestor", theirs, "HEAD").returncode

    def follows(self, kata: Kata, *bodies: tuple[str, ...]) -> bool:
        """Whether the clone's file is upstream's present one with these bodies."""
        there = self.there(kata)
        solution_follows = self.here(kata).solution.read_text() == there.solution.read_text()
        return solution_follows and kata.path.read_text() == fill_regions(
            there.path.read_text(), bodies
        )


@pytest.fixture
def pair(
    settled_git: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Pair:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    found = Pair(tmp_path, capsys)
    monkeypatch.chdir(found.root)
    return found


# ---- what upstream changes around, and in, what is solved ----

EDITS = {
    "docstring": ('"""Double every element."""', '"""Double every element.\n\nAnd why.\n"""'),
    "spec": ("return x * 2", "return x + x"),
    "launch": ("# END SOLUTION\n\n\ndef double(", "# END SOLUTION\n\n\n# Rows.\ndef double("),
    "signature": ("double_kernel(x_ref, o_ref):\n", "double_kernel(x_ref, o_ref, *_):\n"),
    "message": ('"double it"', '"double each element"'),
}


@pytest.mark.parametrize(("old", "new"), EDITS.values(), ids=EDITS.keys())
def test_a_solved_one_keeps_its_region_and_takes_the_rest(pair: Pair, old: str, new: str) -> None:
    pair.solve(pair.double, MINE)
    pair.edit(pair.double, old, new)
    said = pair.update()
    assert pair.follows(pair.double, MINE)
    assert pair.parents() == 2
    assert pair.is_up_to_date()
    assert "changed      double\n" in said
    assert "Grade it again: pytest -k double\n" in said
    assert not pair.mine("status", "--porcelain")


def test_a_half_solved_one_keeps_the_half(pair: Pair) -> None:
    both = pair.add("both", number=3, regions=2)
    pair.publish()
    pair.update()
    pair.solve(both, MINE)
    pair.edit(both, "return x * 2", "return x + x")
    pair.edit(both, '"the second"', '"the second one"')
    pair.update()
    second = ('    raise NotImplementedError("the second one")',)
    assert pair.follows(both, MINE, second)


def test_an_untouched_one_takes_the_new_stub(pair: Pair) -> None:
    pair.solve(pair.row_sum, MINE)
    pair.edit(pair.double, '"double it"', '"double each element"')
    said = pair.update()
    assert pair.double.untouched()
    assert "double each element" in pair.double.path.read_text()
    assert "Grade it again" not in said
    assert region_lines(pair.row_sum.path.read_text()) == (MINE,)


def test_new_exercises_and_tracks_arrive_and_are_named(pair: Pair) -> None:
    pair.solve(pair.double, MINE)
    here = [pair.add("softmax", "3_third", 1), pair.add("row_min", "2_second", 2)]
    pair.publish()
    said = pair.update()
    assert all(kata.untouched() for kata in here)
    assert "new tracks   3_third (1 kata)\n" in said
    assert "new katas    2_second/kata_02_row_min\n" in said
    assert "changed" not in said
    assert region_lines(pair.double.path.read_text()) == (MINE,)


def test_a_second_region_comes_as_a_stub(pair: Pair) -> None:
    pair.solve(pair.double, MINE)
    pair.second_region(pair.there(pair.double))
    pair.publish()
    pair.update()
    assert pair.follows(pair.double, MINE, ('    raise NotImplementedError("the second")',))


def test_lines_that_git_would_mix_stay_together(pair: Pair) -> None:
    """Upstream and the learner change different lines of one region: no conflict to git."""
    given = 'stub = ["""a = 1\nb = 2\nc = 3\nd = 4"""]'
    pair.edit(pair.double, 'todo = ["double it"]', given)
    pair.update()
    ours = ("    a = 10", "    b = 2", "    c = 3", "    d = 4")
    pair.solve(pair.double, ours)
    pair.edit(pair.double, "d = 4", "d = 40")
    pair.update()
    assert pair.follows(pair.double, ours)


def test_without_commits_of_ones_own_nothing_is_merged(pair: Pair) -> None:
    pair.edit(pair.double, *EDITS["spec"])
    said = pair.update()
    assert pair.state()[0] == pair.up("rev-parse", "HEAD")
    assert said.startswith("updated from origin/main: 1 commit\n")


def test_where_nothing_is_new_it_says_so_and_how_to_name_upstream(pair: Pair) -> None:
    pair.solve(pair.double, MINE)
    before = pair.state()
    said = pair.update()
    assert "nothing new in origin/main\n" in said
    assert "git remote add upstream URL" in said
    pair.mine("remote", "add", "upstream", str(pair.upstream.root))
    assert pair.update() == "nothing new in upstream/main\n"
    assert pair.state() == before


def test_upstream_goes_before_origin_and_a_name_before_both(pair: Pair, tmp_path: Path) -> None:
    fork = tmp_path / "fork"
    Git(tmp_path)("clone", "-q", "--bare", str(pair.root), str(fork))
    pair.mine("remote", "rename", "origin", "upstream")
    pair.mine("remote", "add", "origin", str(fork))
    pair.up("switch", "-qc", "next")
    pair.edit(pair.double, *EDITS["spec"])
    pair.up("switch", "-q", "main")
    pair.edit(pair.double, *EDITS["docstring"])
    assert "nothing new in origin/main" in pair.run("update", "--from", "origin")
    assert "upstream/main: 1 commit" in pair.run("update")
    url = pair.upstream.root.as_uri().replace("//", "//me:secret@localhost")
    pair.run("update", "--from", url, "--branch", "next")
    assert "return x + x" in pair.double.path.read_text()
    assert "And why." in pair.double.path.read_text()
    assert "secret" not in pair.mine("log", "--format=%B")


def test_a_solution_that_the_learner_edited_is_merged_too(pair: Pair) -> None:
    pair.solve(pair.double, MINE, commit=False)
    pair.double.solution.write_text(pair.double.solution.read_text() + "# a note of mine\n")
    pair.publish(pair.mine)
    pair.edit(pair.double, *EDITS["spec"])
    pair.update()
    assert "return x + x" in (text := pair.double.solution.read_text())
    assert text.endswith("# a note of mine\n")
    assert region_lines(pair.double.path.read_text()) == (MINE,)


def test_a_broken_marker_leaves_it_to_git(pair: Pair) -> None:
    text = fill_regions(pair.double.path.read_text(), [MINE]).replace("    # BEGIN SOLUTION\n", "")
    pair.double.path.write_text(text)
    pair.publish(pair.mine)
    pair.edit(pair.double, *EDITS["docstring"])
    pair.update()
    assert pair.double.path.read_text() == text.replace(*EDITS["docstring"])
    pair.edit(pair.double, *EDITS["message"])
    assert "kata_01_double.py:" in pair.update(code=1)


def test_a_copy_that_upstream_now_brings_stays_the_learners(pair: Pair) -> None:
    """Someone has taken an exercise, and solved it, before it was published."""
    kata = pair.add("row_min", "2_second", 2)
    for old, new in (
        (pair.there(kata).path, kata.path),
        (pair.there(kata).solution, kata.solution),
    ):
        shutil.copy(old, new)
    shutil.copy(pair.there(kata).key_path, kata.key_path)
    pair.solve(kata, MINE)
    pair.publish()
    pair.update()
    assert pair.follows(kata, MINE)


def test_two_that_are_not_the_same_are_a_conflict(pair: Pair) -> None:
    """Both sides have added an exercise of one name; upstream's text is not given up silently."""
    kata = pair.add("row_min", "2_second", 2)
    there = pair.there(kata).path
    kata.path.write_text(there.read_text().replace("Double every", "Take the minimum of every"))
    pair.solve(kata, MINE)
    pair.publish()
    assert "kata_02_row_min.py:1: both sides added it\n" in pair.update(code=1)


# ---- what upstream, or the learner, removes ----


def test_a_solved_one_that_upstream_removes_is_kept_and_can_be_graded(pair: Pair) -> None:
    pair.solve(pair.double, MINE)
    for kata in (pair.double, pair.row_sum):
        there = pair.there(kata)
        for file in (there.path, there.solution, there.key_path):
            file.unlink()
    pair.publish()
    before = pair.double.path.read_bytes()
    said = pair.update()
    assert pair.double.path.read_bytes() == before
    assert pair.here(pair.double).stub_text()
    assert "1_first/kata_01_double: upstream removed it; yours is kept" in said
    assert "removed      row_sum\n" in said
    assert not pair.row_sum.path.exists()
    assert not pair.mine("status", "--porcelain")


def test_a_solved_one_that_upstream_moves_is_moved(pair: Pair) -> None:
    pair.solve(pair.double, MINE)
    moved = Kata(pair.upstream.root, "1_first", "kata_05_double")
    there = pair.there(pair.double)
    for old, new in (
        (there.path, moved.path),
        (there.solution, moved.solution),
        (there.key_path, moved.key_path),
    ):
        old.rename(new)
    pair.edit(moved, '"double it"', '"double each"')
    pair.update()
    assert pair.follows(pair.here(moved), MINE)
    assert not pair.double.path.exists()


def test_one_that_the_learner_deleted_stays_away(pair: Pair) -> None:
    pair.double.path.unlink()
    pair.publish(pair.mine)
    pair.edit(pair.double, *EDITS["spec"])
    said = pair.update()
    assert not pair.double.path.exists()
    assert "1_first/kata_01_double: upstream changed it; you deleted it" in said
    pair.run("reset", "double")
    assert pair.here(pair.double).untouched()


def test_one_that_both_have_moved_is_for_the_learner_to_place(pair: Pair) -> None:
    for git, name in ((pair.up, "theirs"), (pair.mine, "mine")):
        git("mv", "README.md", f"{name}.md")
        pair.publish(git)
    said = pair.update(code=1)
    assert "theirs.md" in said
    assert "mine.md" in said
    pair.mine("add", "mine.md", "theirs.md")
    pair.mine("commit", "--no-edit")
    assert pair.is_up_to_date()


# ---- what is not committed ----


def test_files_that_upstream_leaves_alone_stay_as_they_are(pair: Pair) -> None:
    pair.solve(pair.row_sum, MINE)
    pair.solve(pair.double, OTHER, commit=False)
    pair.row_max.path.unlink()
    (pair.root / "notes.txt").write_text("untracked")
    (pair.root / "README.md").write_text("staged\n")
    pair.mine("add", "README.md")
    pair.edit(pair.row_sum, "return x * 2", "return x + x")
    before = pair.state()
    pair.update()
    assert pair.follows(pair.row_sum, MINE)
    after = pair.state()
    assert after[1] == before[1]
    changed = {path for path, data in after[2].items() if before[2].get(path) != data}
    assert changed == {f"{room}/1_first/kata_02_row_sum.py" for room in ("katas", "solutions")}


@pytest.mark.parametrize("how", ["in-the-file", "staged"])
@pytest.mark.parametrize("merged", [False, True], ids=["forward", "merge"])
def test_uncommitted_work_in_what_changes_is_merged_and_saved(
    pair: Pair, how: str, merged: bool
) -> None:
    if merged:
        pair.solve(pair.row_sum, MINE)
    pair.solve(pair.double, MINE, commit=False)
    attempt = pair.double.path.read_bytes()
    if how == "staged":
        pair.mine("add", "--all")
    status = pair.mine("status", "--porcelain")
    pair.edit(pair.double, *EDITS["signature"])
    pair.edit(pair.double, *EDITS["message"])
    said = pair.update()
    assert pair.follows(pair.double, MINE)
    assert pair.mine("status", "--porcelain") == status
    assert "Grade it again: pytest -k double" in said
    (saved,) = (pair.root / ".kata/attempts/1_first/kata_01_double").iterdir()
    assert saved.read_bytes() == attempt


SETTINGS = {
    "core.autocrlf": "true",
    "core.safecrlf": "true",
    "merge.autoStash": "true",
    "merge.ff": "only",
    "merge.conflictStyle": "diff3",
    "diff.renames": "copies",
    "core.quotePath": "true",
}


def test_it_works_with_other_settings_of_gits(pair: Pair) -> None:
    pair.solve(pair.row_sum, MINE)
    for name, value in SETTINGS.items():
        pair.mine("config", name, value)
    pair.mine("rm", "-qr", ".")
    pair.mine("reset", "-q", "--hard")  # all files anew, with the line ends of Windows
    pair.solve(pair.double, MINE, commit=False)
    windows = pair.double.path.read_bytes().replace(b"\n", b"\r\n")
    pair.double.path.write_bytes(windows)
    for kata in (pair.double, pair.row_sum):
        pair.edit(kata, "return x * 2", "return x + x")
    pair.update()
    assert pair.double.path.read_bytes() == windows.replace(b"x * 2\r", b"x + x\r")
    assert region_lines(pair.row_sum.path.read_text()) == (MINE,)
    assert "return x + x" in pair.row_sum.path.read_text()
    assert pair.mine("status", "--porcelain") == " M katas/1_first/kata_01_double.py\n"
    assert not pair.mine("stash", "list")


def test_an_uncommitted_deletion_stays_one(pair: Pair) -> None:
    pair.double.path.unlink()
    pair.edit(pair.double, *EDITS["spec"])
    pair.update()
    assert not pair.double.path.exists()
    assert pair.is_up_to_date()


def test_an_uncommitted_ledger_keeps_the_lines_of_both(pair: Pair) -> None:
    for git, lines in ((pair.up, "a\n"), (pair.up, "a\nfrom another machine\n")):
        (pair.upstream.root / LEDGER).write_text(lines)
        pair.publish(git)
        if lines == "a\n":
            pair.update()
            (pair.root / LEDGER).write_text("a\nmine\n")
    pair.update()
    assert sorted((pair.root / LEDGER).read_text().splitlines()) == [
        *("a", "from another machine", "mine")
    ]


def test_a_ledger_that_both_have_begun_keeps_the_lines_of_both(pair: Pair) -> None:
    (pair.root / LEDGER).write_text("mine\n")
    pair.publish(pair.mine)
    (pair.upstream.root / LEDGER).write_text("theirs\n")
    pair.publish()
    pair.update()
    assert sorted((pair.root / LEDGER).read_text().split()) == ["mine", "theirs"]


def test_another_file_in_the_way_is_named_and_nothing_changes(pair: Pair) -> None:
    pair.solve(pair.double, MINE, commit=False)
    (pair.root / "README.md").write_text("one, for me\ntwo\nthree\n")
    (pair.upstream.root / "README.md").write_text("one\ntwo\nthree and more\n")
    pair.edit(pair.double, *EDITS["spec"])
    said = pair.refused()
    assert "not committed" in said
    assert "\n  README.md\n" in said
    assert "git stash" in said
    assert "double" not in said


def test_work_that_cannot_be_merged_is_to_be_committed_first(pair: Pair) -> None:
    pair.solve(pair.double, MINE, commit=False)
    text = pair.double.path.read_text().replace("return x * 2", "return 2 * x")
    pair.double.path.write_text(text)
    pair.edit(pair.double, *EDITS["spec"])
    assert "\n  katas/1_first/kata_01_double.py\n" in pair.refused()


def test_a_stage_that_differs_from_its_file_is_not_guessed_at(pair: Pair) -> None:
    pair.solve(pair.double, OTHER, commit=False)
    pair.mine("add", "--all")
    pair.solve(pair.double, MINE, commit=False)
    pair.edit(pair.double, *EDITS["spec"])
    assert "\n  katas/1_first/kata_01_double.py\n" in pair.refused()


@pytest.mark.parametrize(
    "name", ["katas/3_third/kata_01_softmax.py", "own.ignored"], ids=["untracked", "ignored"]
)
@pytest.mark.parametrize("merged", [False, True], ids=["forward", "merge"])
def test_untracked_files_are_not_written_over(pair: Pair, name: str, merged: bool) -> None:
    if merged:
        pair.solve(pair.double, MINE)
    pair.add("softmax", "3_third", 1)
    (pair.upstream.root / "own.ignored").write_text("theirs")
    pair.up("add", "--force", "own.ignored")
    pair.publish()
    (pair.root / name).parent.mkdir(exist_ok=True)
    (pair.root / name).write_text("mine")
    said = pair.refused()
    assert f"\n  {name}\n" in said
    assert f"mv {name} {name}.mine" in said


# ---- conflicts ----


@pytest.fixture
def torn(pair: Pair) -> Pair:
    """Both sides have changed the same line outside of a solved region; more came along."""
    pair.solve(pair.double, MINE, commit=False)
    text = pair.double.path.read_text().replace("return x * 2", "return 2 * x")
    pair.double.path.write_text(text)
    pair.publish(pair.mine)
    pair.edit(pair.double, *EDITS["spec"])
    pair.edit(pair.row_sum, "return x * 2", "return x + x")
    return pair


def test_a_conflict_is_shown_with_its_lines_and_the_way_out(torn: Pair) -> None:
    said = torn.update(code=1)
    lines = torn.double.path.read_text().split("\n")
    number = lines.index("<<<<<<< yours") + 1
    assert f"katas/1_first/kata_01_double.py:{number}: both sides changed these lines\n" in said
    shown = ("<<<<<<< yours", "    return 2 * x", "=======", "    return x + x")
    assert "".join(f"  {line}\n" for line in (*shown, ">>>>>>> upstream")) in said
    assert "git add katas/1_first/kata_01_double.py && git commit --no-edit" in said
    assert "kata update --abort" in said
    assert region_lines(torn.double.path.read_text()) == (MINE,)
    assert "solutions/" not in said


def test_abort_brings_everything_back(torn: Pair) -> None:
    torn.solve(torn.row_max, OTHER, commit=False)
    (torn.root / "notes.txt").write_text("untracked")
    before = torn.state()
    torn.mine("config", "merge.autoStash", "true")
    torn.update(code=1)
    assert torn.state()[2] != before[2]
    assert region_lines(torn.row_max.path.read_text()) == (OTHER,)
    assert torn.run("update", "--abort").startswith("back at ")
    assert torn.state() == before
    assert "no update is under way" in torn.refused("--abort")


def test_a_conflict_that_is_resolved_by_hand_is_an_update(torn: Pair) -> None:
    torn.update(code=1)
    torn.double.path.write_text(
        torn.double.path.read_text().replace(
            "<<<<<<< yours\n    return 2 * x\n=======\n    return x + x\n>>>>>>> upstream\n",
            "    return x + x\n",
        )
    )
    torn.mine("add", "katas/1_first/kata_01_double.py")
    torn.mine("commit", "--no-edit")
    assert torn.follows(torn.double, MINE)
    assert torn.parents() == 2
    assert "kata update: main of origin" in torn.mine("log", "-1", "--format=%s")
    assert "nothing new" in torn.update()


def test_a_conflict_is_not_begun_over_uncommitted_work(torn: Pair) -> None:
    torn.solve(torn.row_sum, OTHER, commit=False)
    assert "\n  katas/1_first/kata_02_row_sum.py\n" in torn.refused()
    torn.mine("stash")
    (torn.root / "README.md").write_text("staged\n")
    torn.mine("add", "README.md")
    said = torn.refused()
    assert "not committed" in said
    assert "\n  README.md\n" in said


def test_files_that_are_no_text_are_a_conflict_without_lines(pair: Pair) -> None:
    for git, data in ((pair.up, b"\0up"), (pair.mine, b"\0mine")):
        (git.folder / "picture.png").write_bytes(data)
        (git.folder / "README.md").unlink()
        if git is pair.mine:
            (git.folder / "README.md").write_text("mine\n")
        pair.publish(git)
    said = pair.update(code=1)
    assert "picture.png: both sides added it\n" in said
    assert "README.md: upstream removed it, you changed it: git add README.md, or git rm" in said


# ---- where it cannot be done ----


def test_without_git_it_says_what_to_do(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    (pair.root / ".git").rename(pair.root.parent / "put-away")
    said = pair.run("update", code=2)
    assert "not a git repository" in said
    assert "git clone" in said
    monkeypatch.setenv("PATH", str(pair.root))
    assert pair.run("update", code=2) == "kata: git is not installed\n"


def test_a_remote_is_needed_and_has_to_answer(pair: Pair) -> None:
    assert "cannot fetch from nowhere: git " in pair.refused("--from", "nowhere")
    assert "cannot fetch from origin: git fetch: " in pair.refused("--branch", "nope")
    assert "cannot fetch from --all: " in pair.refused("--from=--all")
    pair.mine("remote", "remove", "origin")
    assert "no remote to update from: git remote add upstream" in pair.refused()


def test_what_is_under_way_is_to_be_finished_first(torn: Pair) -> None:
    torn.mine("fetch", "-q")
    torn.mine.run("merge", "origin/main")
    for arguments, words in (
        ((), "a merge is not finished"),
        (("--abort",), "not started by kata update"),
    ):
        before = torn.state()
        said = torn.run("update", *arguments, code=2)
        assert words in said
        assert "git merge --abort" in said
        assert torn.state() == before
    torn.mine("merge", "--abort")
    torn.mine.run("rebase", "origin/main")
    assert "git rebase --abort" in torn.run("update", code=2)


def test_a_commit_has_to_belong_to_a_branch(pair: Pair) -> None:
    pair.edit(pair.double, *EDITS["spec"])
    pair.mine("switch", "-q", "--detach")
    assert "git switch" in pair.refused()
    pair.mine("switch", "-q", "--orphan", "empty")
    for room in ("katas", "solutions"):
        (pair.root / room).mkdir()
    assert "no commit yet" in pair.run("update", code=2)


def test_an_author_is_needed_for_a_merge(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.solve(pair.double, MINE)
    pair.edit(pair.double, *EDITS["spec"])
    for who in ("AUTHOR", "COMMITTER"):
        for what in ("NAME", "EMAIL"):
            monkeypatch.delenv(f"GIT_{who}_{what}")
    pair.mine("config", "user.useConfigOnly", "true")
    assert "git config --global user.name" in pair.refused()


def test_another_history_cannot_be_merged(pair: Pair, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git = Git(other)
    git("init", "-q", "-b", "main")
    (other / "README.md").write_text("else\n")
    pair.publish(git)
    assert "shares no history" in pair.refused("--from", str(other))


def test_a_shallow_clone_fetches_what_it_lacks(pair: Pair, tmp_path: Path) -> None:
    pair.edit(pair.double, *EDITS["docstring"])
    pair.solve(pair.row_sum, MINE)
    pair.mine("remote", "add", "upstream", str(pair.upstream.root))
    bare, shallow = tmp_path / "fork", tmp_path / "shallow"
    Git(tmp_path)("clone", "-q", "--bare", str(pair.root), str(bare))
    Git(tmp_path)("clone", "-q", "--depth", "1", bare.as_uri(), str(shallow))
    pair.root, pair.mine = shallow, Git(shallow)
    pair.mine("remote", "add", "upstream", pair.upstream.root.as_uri())
    os.chdir(shallow)
    pair.update()
    assert "And why." in pair.here(pair.double).path.read_text()
    assert region_lines(pair.here(pair.row_sum).path.read_text()) == (MINE,)


def test_a_folder_of_another_repository_is_left_to_that(pair: Pair) -> None:
    shutil.rmtree(pair.root / ".git")
    Git(pair.root.parent)("init", "-q")
    assert "inside of another git repository" in pair.run("update", code=2)


def test_a_new_dependency_is_to_be_installed(pair: Pair) -> None:
    file = pair.upstream.root / "pyproject.toml"
    for text, told in (
        ('[project]\nversion = "1"\n', False),
        ('[project]\nversion = "2"\n', False),
        ('[project]\nversion = "2"\ndependencies = ["x"]\n', True),
    ):
        file.write_text(text)
        pair.publish()
        assert ("pip install -e '.[tpu]'" in pair.update()) == told


# ---- a failure midway ----


@pytest.mark.parametrize("where", ["aside", "commit", "merge"])
def test_a_failure_midway_leaves_all_as_it_was(
    torn: Pair, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Aside, and in the learner's own work tree, where the conflict is to be shown."""
    calls = 2 if where == "merge" else 1
    resolved = repository_merge._resolve_all

    def fail(*arguments: object) -> object:
        nonlocal calls
        calls -= 1
        if not calls:
            raise KeyboardInterrupt
        return resolved(*arguments)  # type: ignore[arg-type]

    if where == "commit":
        torn.mine("reset", "-q", "--hard", "HEAD~1")
        torn.solve(torn.double, MINE)
        monkeypatch.setattr(repository_merge, "commit_merge", fail)
    else:
        monkeypatch.setattr(repository_merge, "_resolve_all", fail)
    torn.solve(torn.row_max, OTHER, commit=False)
    before = torn.state()
    assert main(["update"]) == 130
    assert torn.state() == before
    assert len(torn.mine("worktree", "list").splitlines()) == 1
    monkeypatch.undo()


def test_where_git_refuses_at_last_uncommitted_work_is_back(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.solve(pair.double, MINE, commit=False)
    pair.edit(pair.double, *EDITS["spec"])
    before = pair.state()
    write = Path.write_bytes

    def locked(file: Path, data: bytes) -> int:
        """The index is locked from the moment on that the attempt is saved."""
        if ".kata" in file.parts:
            write(pair.root / ".git/index.lock", b"")
        return write(file, data)

    monkeypatch.setattr(Path, "write_bytes", locked)
    assert "index.lock" in pair.run("update", code=2)
    head, status, files = pair.state()
    assert (head, status) == before[:2]
    assert {path: data for path, data in files.items() if ".kata" not in path} == before[2]


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Heard also where a shell has started these tests in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_waits_for_the_files(pair: Pair) -> None:
    with repository_merge.signals_ignored():
        os.kill(os.getpid(), signal.SIGINT)
        code = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
        assert subprocess.run([sys.executable, "-S", "-c", code], check=False).returncode == 0
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
