"""`kata init`: a folder with the katas of the installed package, and its updates."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from grader.api import Examiner
from grader.cli import main
from grader.exercise import repository as files
from grader.exercise import templates
from grader.exercise.catalog import COURSE, CourseSettings, Kata, katas, settings
from grader.sandbox.fork_server import SECRET
from grader.tools.git import Git
from grader.updates import upstream
from tests.support.repositories import ROOT, Repository

ANSWERS = ("solutions", "tests/variants")
KNOWN_BY = ("grader.exercise.catalog", "grader.exercise.repository", "grader.commands.kata_files")


class Course:
    """A package with three katas, and a folder in which `kata` runs."""

    def __init__(
        self, repository: Repository, folder: Path, monkeypatch: pytest.MonkeyPatch, capture
    ) -> None:
        self.package, self.folder, self.monkeypatch = repository, folder, monkeypatch
        self.capture = capture
        self.double = self.add("double", number=1)
        self.row_sum = self.add("row_sum", number=2)
        self.row_max = self.add("row_max", "2_second", 1)
        readme = "# A track\n\n[docs](../../docs/a.md#part) [first](kata_01_double.py)\n"
        (repository.root / "katas/1_first/README.md").write_text(readme)
        (repository.root / ".gitignore").write_text(".kata/\n")
        for module in KNOWN_BY:
            monkeypatch.setattr(f"{module}.COURSE", repository.root)
        self.release("0.2.0")

    def add(self, name: str, track: str = "1_first", number: int = 1) -> Kata:
        """A new kata of the package. Returns it as it will be in the folder."""
        self.package.add(name, track, number)
        return Kata(self.folder, track, f"kata_{number:02}_{name}")

    def release(self, version: str) -> None:
        self.monkeypatch.setattr(upstream, "_installed_version", lambda: version)

    def reword(self, kata: Kata, old: str, new: str) -> None:
        """The package changes the text of a kata outside of its region."""
        file = self.package.root / "solutions" / f"{kata.id}.py"
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))

    def remove(self, kata: Kata) -> None:
        for suffix in ("py", "toml"):
            (self.package.root / "solutions" / f"{kata.id}.{suffix}").unlink()

    def init(self, *arguments: str) -> str:
        """What `kata init` says; then the current folder is the course."""
        said = self.run("init", str(self.folder), *arguments)
        self.monkeypatch.chdir(self.folder)
        return said

    def run(self, *arguments: str, code: int = 0) -> str:
        assert main(arguments) == code, self.capture.readouterr()
        captured = self.capture.readouterr()
        return captured.err if code == 2 else captured.out

    @property
    def git(self) -> Git:
        return Git(self.folder)

    def files(self) -> list[str]:
        return sorted(self.git("ls-files").split())

    def commit(self, message: str = "mine") -> None:
        self.git("add", "--all")
        self.git("commit", "-qm", message)

    def write(self, kata: Kata, body: str = Repository.BODY) -> None:
        """Fill the region of a kata in the folder."""
        stub = kata.path.read_text()
        line = next(line for line in stub.splitlines() if "raise NotImplementedError" in line)
        kata.path.write_text(stub.replace(line, f"    {body}"))


@pytest.fixture
def course(
    repository: Repository,
    tmp_path_factory: pytest.TempPathFactory,
    settled_git: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Course:
    place = tmp_path_factory.mktemp("place")
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(place.parent))
    return Course(repository, place / "mine", monkeypatch, capsys)


# ---- init ----


def test_a_course_has_stubs_and_no_solutions(course: Course) -> None:
    said = course.init()
    assert "3 katas in" in said
    assert "write the missing code of katas/1_first/kata_01_double.py" in said
    assert "pytest -k double" in said
    assert course.files() == [
        *(
            ".gitignore",
            "README.md",
            "conftest.py",
            "katas/1_first/README.md",
            "katas/1_first/kata_01_double.py",
        ),
        *("katas/1_first/kata_02_row_sum.py", "katas/2_second/kata_01_row_max.py"),
        "pyproject.toml",
    ]
    assert course.git("status", "--porcelain") == ""
    assert course.double.path.read_text() == course.double.stub_text()
    assert "katas/1_first/kata_01_double.py" in (course.folder / "README.md").read_text()


def test_commands_work_in_a_course(course: Course) -> None:
    course.init()
    assert "double" in course.run("list")
    assert "kata_01_double.py" in course.run("next")
    assert "solutions/1_first/kata_01_double.py:" in course.run("show", "double", "--yes")
    course.monkeypatch.chdir(course.folder / "katas")
    assert "hint 1" in course.run("hint", "double")


def test_pytest_grades_a_course(course: Course) -> None:
    course.init()
    mine = Repository.__new__(Repository)
    mine.root, mine._opened = course.folder, course.package._opened
    mine.grades = course.folder / "grades.json"
    course.write(course.double)
    course.write(course.row_sum, "o_ref[...] = x_ref[...] * 3")
    ran = mine.pytest("-p", "no:cacheprovider", "katas")
    found = {name: ran.state(name) for name in ran.grades}
    assert found == {"double": "passed", "row_sum": "failed", "row_max": "todo"}


def test_links_out_of_the_course_lead_to_the_repository(course: Course) -> None:
    course.init()
    text = (course.folder / "katas/1_first/README.md").read_text()
    address = "https://github.com/pallas-katas/pallas-katas/blob/HEAD"
    assert f"[docs]({address}/docs/a.md#part) [first](kata_01_double.py)" in text


@pytest.mark.parametrize(
    ("words", "only", "names"),
    [
        (("--only", "second,row_sum"), ("row_sum", "2_second"), ["row_sum", "row_max"]),
        (("--only", "first"), ("1_first",), ["double", "row_sum"]),
        (("--path", "row_sum"), ("row_sum",), ["row_sum"]),
    ],
    ids=" ".join,
)
def test_a_part_of_the_course(
    course: Course, words: tuple[str, ...], only: tuple[str, ...], names: list[str]
) -> None:
    course.init(*words)
    assert settings(course.folder) == CourseSettings(only)
    assert [kata.name for kata in katas(course.folder)] == names
    assert [kata.name for kata in katas(course.folder, "solutions")] == names


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--only", "nonsense"), "no kata matches 'nonsense'"),
        (("--only", " , "), "--only needs the names of tracks or katas"),
        (("--path", "row"), "'row' matches 2 katas: row_sum, row_max"),
        (("--only", "first", "--path", "double"), "not allowed with"),
    ],
    ids=lambda value: "" if isinstance(value, str) else " ".join(value),
)
def test_a_wrong_choice_writes_nothing(course: Course, words: tuple[str, ...], said: str) -> None:
    try:
        assert said in course.run("init", str(course.folder), *words, code=2)
    except SystemExit:  # argparse's own
        assert said in course.capture.readouterr().err
    assert not course.folder.exists()


def test_a_class_without_solutions(course: Course) -> None:
    course.init("--without-solutions")
    for words in (("show", "double"), ("after", "double", "--others")):
        said = course.run(*words, "--yes", code=2)
        assert said == "kata: this course shows no solutions: ask your teacher for double's\n"


def test_a_folder_with_a_course_is_left_alone(course: Course) -> None:
    course.init()
    course.write(course.double)
    before = course.double.path.read_bytes()
    said = course.run("init", ".", code=2)
    assert f"nothing was written: {course.folder} has a folder katas already" in said
    assert course.double.path.read_bytes() == before


def test_files_that_exist_are_kept(course: Course) -> None:
    course.folder.mkdir()
    for name in ("README.md", ".gitignore"):
        (course.folder / name).write_text("mine\n")
    (course.folder / "pyproject.toml").write_text("[project]\n")
    said = course.init()
    assert "kept as they were: .gitignore, README.md, pyproject.toml" in said
    assert "add a line .kata/ to .gitignore" in said
    assert (course.folder / "README.md").read_text() == "mine\n"
    assert "README.md" not in course.files()
    course.commit()
    course.release("0.3.0")
    course.reword(course.double, "Double", "Multiply")
    course.run("update")
    assert (course.folder / "README.md").read_text() == "mine\n"


def test_a_choice_is_not_lost_where_settings_exist(course: Course) -> None:
    course.folder.mkdir()
    (course.folder / "pyproject.toml").write_text("[project]\n")
    said = course.run("init", str(course.folder), "--only", "first", code=2)
    assert 'Add it:\n[tool.pallas-katas]\nonly = ["1_first"]' in said
    assert os.listdir(course.folder) == ["pyproject.toml"]
    (course.folder / "pyproject.toml").write_text('[tool.pallas-katas]\nonly = ["1_first"]\n')
    assert "2 katas in" in course.init("--only", "first")


def test_a_repository_keeps_its_history(course: Course) -> None:
    course.folder.mkdir()
    course.git("init", "-q")
    (course.folder / "notes.txt").write_text("mine\n")
    course.commit("my notes")
    (course.folder / "untracked.txt").touch()
    course.init()
    subjects = course.git("log", "--format=%s").splitlines()
    assert sorted(subjects) == [
        "Add the katas of pallas-katas 0.2.0",
        "The katas of pallas-katas 0.2.0",
        "my notes",
    ]
    assert course.git("status", "--porcelain") == "?? untracked.txt\n"
    assert "notes.txt" in course.files()


def test_staged_changes_are_not_committed_unasked(course: Course) -> None:
    course.folder.mkdir()
    course.git("init", "-q")
    (course.folder / "notes.txt").write_text("mine\n")
    course.git("add", "notes.txt")
    (course.folder / "notes.txt").write_text("more\n")
    course.commit("my notes")
    (course.folder / "notes.txt").write_text("staged\n")
    course.git("add", "notes.txt")
    said = course.run("init", str(course.folder), code=2)
    assert "nothing was written: commit your staged changes" in said
    assert not (course.folder / "katas").exists()


def test_without_git_the_files_are_written(course: Course) -> None:
    course.monkeypatch.setattr("grader.tools.git.shutil.which", lambda name: None)
    said = course.init()
    assert "not committed, so kata commit and kata update won't work: git is not installed" in said
    assert course.double.path.exists()
    assert not (course.folder / ".git").exists()


def test_inside_of_another_repository_nothing_is_committed(course: Course) -> None:
    outer = Git(course.folder.parent)
    outer("init", "-q")
    assert "inside of another git repository" in course.init()
    assert not (course.folder / ".git").exists()
    assert outer.run("rev-parse", "--verify", "HEAD").returncode


def test_a_package_without_a_course_says_so(course: Course, tmp_path: Path) -> None:
    for module in KNOWN_BY:
        course.monkeypatch.setattr(f"{module}.COURSE", tmp_path / "nothing")
    said = course.run("init", str(course.folder), code=2)
    assert "no katas came with this package: pip install pallas-katas" in said


# ---- update ----


def test_an_update_brings_the_new_version_around_what_was_written(course: Course) -> None:
    course.init()
    course.write(course.double)
    course.commit("double")
    course.write(course.row_sum, "half = 1")
    course.release("0.3.0")
    row_min = course.add("row_min", number=3)
    course.reword(course.double, "Double", "Multiply by two")
    course.reword(course.row_sum, "Double", "Multiply by two")
    said = course.run("update")
    assert "updated from pallas-katas 0.3.0: 1 commit" in said
    assert "new katas    1_first/kata_03_row_min" in said
    assert 'Grade it again: pytest -k "double or row_sum"' in said
    assert "pip install" not in said
    assert row_min.path.read_text() == row_min.stub_text()
    for kata, body in ((course.double, Repository.BODY), (course.row_sum, "half = 1")):
        text = kata.path.read_text()
        assert "Multiply by two" in text
        assert body in text
    assert course.git("status", "--porcelain") == " M katas/1_first/kata_02_row_sum.py\n"
    assert course.git("log", "-1", "--format=%s") == "kata update: 0.3.0 of pallas-katas\n"
    again = course.run("update")
    assert again.startswith("nothing new in pallas-katas 0.3.0\n")
    assert "pip install -U pallas-katas; then kata update" in again


def test_two_updates_follow_each_other(course: Course) -> None:
    course.init()
    for version in ("0.3.0", "0.4.0"):
        course.release(version)
        course.reword(course.double, "every", "each and every")
        course.run("update")
    assert "each and each and every" in course.double.path.read_text()
    tips = course.git("log", "--format=%s", "--grep=^Kata-Course").splitlines()
    assert tips == [
        f"The katas of pallas-katas {version}" for version in ("0.4.0", "0.3.0", "0.2.0")
    ]


def test_a_solved_one_that_is_gone_is_kept(course: Course) -> None:
    course.init()
    course.write(course.double)
    course.commit()
    course.release("0.3.0")
    course.remove(course.double)
    course.remove(course.row_max)
    said = course.run("update")
    assert (
        "1_first/kata_01_double: upstream removed it; yours is kept. Its solution is gone" in said
    )
    assert "removed      row_max" in said
    assert course.double.path.exists()
    assert not course.row_max.path.exists()


def test_a_fresh_clone_of_the_course_is_updated(course: Course) -> None:
    course.init()
    course.write(course.double)
    course.commit()
    clone = course.folder.parent / "clone"
    Git(course.folder.parent)("clone", "-q", str(course.folder), str(clone))
    course.monkeypatch.chdir(clone)
    course.release("0.3.0")
    course.reword(course.double, "Double", "Multiply")
    assert "changed      double" in course.run("update")


def test_a_larger_choice_brings_more(course: Course) -> None:
    course.init("--only", "first")
    file = course.folder / "pyproject.toml"
    file.write_text(file.read_text().replace('"1_first"', '"1_first", "2_second"'))
    course.commit()
    assert "2_second (1 kata)" in course.run("update")
    assert course.row_max.path.exists()


@pytest.mark.parametrize(
    ("only", "said"),
    [
        ('["1_frist"]', "pyproject.toml: no track or kata '1_frist'; did you mean 1_first?"),
        ('["1_first", "gone_with_020"]', "no track or kata 'gone_with_020'; remove it"),
        ("[]", "only selects no kata"),
    ],
)
def test_a_choice_of_unknown_names_is_told(course: Course, only: str, said: str) -> None:
    course.init("--only", "first")
    file = course.folder / "pyproject.toml"
    file.write_text(file.read_text().replace('["1_first"]', only))
    course.commit()
    assert said in course.run("update", code=2)


def test_a_rewritten_history_is_not_taken_for_the_course(course: Course) -> None:
    course.init()
    course.write(course.double)
    course.git("add", "--all")
    course.git("commit", "-q", "--amend", "--no-edit")
    said = course.run("update", code=2)
    assert "no commit of this repository has the katas as they were installed" in said


def test_a_source_makes_no_sense_in_a_course(course: Course) -> None:
    course.init()
    said = course.run("update", "--from", "origin", code=2)
    assert "these katas come from the installed package: pip install -U pallas-katas" in said


@pytest.mark.parametrize("words", [("sync",), ("sync", "--check"), ("new", "1_first/other")])
def test_authors_work_in_a_clone(course: Course, words: tuple[str, ...]) -> None:
    course.init()
    assert "this command is for authors of katas, who work in a clone" in course.run(*words, code=2)


# ---- settings ----


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.pallas-katas]\nonly = 'x'", "only needs a list such as"),
        ("[tool.pallas-katas]\nonly = [1]", "only needs a list such as"),
        ("[tool.pallas-katas]\nsolutions = 0", "solutions needs true or false"),
        ("[tool.pallas-katas]\nonyl = []", "has no setting 'onyl'"),
        ("[tool]\npallas-katas = 1", "needs to be a table"),
        ("tool = 1", "needs to be a table"),
        ("[tool", "pyproject.toml: "),
    ],
)
def test_malformed_settings_are_told(course: Course, text: str, said: str) -> None:
    course.init()
    (course.folder / "pyproject.toml").write_text(text)
    assert said in course.run("list", code=2)


def test_the_workers_that_import_a_file_cannot_read_answers_of_the_package() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    places = wheel["build"]["targets"]["wheel"]["force-include"]
    answers = {places[name].removeprefix("grader/course/") for name in places if name in ANSWERS}
    assert answers == {folder.name for folder in SECRET}


def test_settings_of_a_course_are_those_of_the_clone() -> None:
    """pytest's, and the extras that the README's command needs."""
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    written = tomllib.loads(templates.course_settings(CourseSettings()))
    assert written["tool"]["pytest"] == ours["tool"]["pytest"]
    assert set(written["project"]["optional-dependencies"]) == {"tpu", "gpu"}
    assert written["project"]["requires-python"] == ours["project"]["requires-python"]


def test_a_python_without_the_package_is_told(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(templates.COURSE_CONFTEST)
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'grader' else find(name, *a)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 4
    assert f"the Python of this pytest, {sys.executable}, has no pallas-katas" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_the_course_of_this_clone_is_whole(tmp_path: Path) -> None:
    """All katas with their pictures, and every link of a README leads somewhere."""
    files.write_course(tmp_path, CourseSettings(), "https://example.org")
    every = katas(COURSE, "solutions")
    assert [kata.id for kata in katas(tmp_path)] == [kata.id for kata in every]
    for picture in (ROOT / "katas").glob("*/pictures/*"):
        assert (tmp_path / picture.relative_to(ROOT)).exists()
    for name in (
        ".gitignore",
        ".gitattributes",
        ".vscode/tasks.json",
        ".github/workflows/katas.yml",
    ):
        assert (tmp_path / name).read_bytes() == (ROOT / name).read_bytes()


def test_models_are_graded_in_any_folder(course: Course) -> None:
    """Where there are no katas, those of the package are tasks, and are graded."""
    empty = course.folder.parent / "empty"
    empty.mkdir()
    course.monkeypatch.chdir(empty)
    course.run("tasks", "--out", "tasks.jsonl")
    tasks = [json.loads(line) for line in (empty / "tasks.jsonl").read_text().splitlines()]
    assert [task["entry_point"] for task in tasks] == ["double", "row_sum", "row_max"]
    solution = course.package.root / "solutions" / f"{course.double.id}.py"
    with Examiner(isolation="auto") as examiner:
        assert examiner.root == course.package.root
        assert examiner.grade(course.double.id, solution.read_text(), seed=1).stars == 3
    assert "there are no katas in" in course.run("list", code=2)
