"""A class: the clones of its students, its roster, their standings, and their files as samples.

Only the katas and the ledger of a clone are read, as bytes, from its work tree or from a commit.
None of its code is imported or run, and git isn't run in it, because a clone's settings may name
programs: git runs in an empty repository that borrows the clone's objects.
"""

from __future__ import annotations

import collections
import csv
import dataclasses
import datetime
import io
import os
import re
import shutil
import stat
import subprocess
import tempfile
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from grader.batch.samples import TASK, Sample
from grader.exercise.catalog import KATAS, TRACK, Kata
from grader.exercise.repository import is_stub
from grader.record.ledger import LEDGER, Ledger, parse_ledger
from grader.record.status import FileState
from grader.tools.git import GitError, NoGit, blob_id
from pallascope.tools.text import printable

#: A clone may be this many levels below the class's folder: FOLDER/assignment/student.
MAX_DEPTH = 3
#: Larger files are not read. A submission may have 1 MiB.
MAX_BYTES = 8 << 20


class NoClass(ValueError):
    """A folder contains no clones. The text says why."""


class Unreadable(ValueError):
    """A clone's file exists, but isn't read. The text says why."""


@dataclass(frozen=True, slots=True)
class Clone:
    """One student's clone, with its work tree.

    Without a roster, the student's name is the folder's path below the class's, printable.
    `problems` are those of finding it.
    """

    student: str
    root: Path
    problems: tuple[str, ...] = ()

    def read(self, path: str) -> bytes | None:
        """The content of a file, by its path within the clone; None if it doesn't exist.

        Raises Unreadable for links (they may lead to another student's work), for anything but
        regular files, and for large files.
        """
        try:
            self._require_no_links(path)
            file = os.open(self.root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            # The part of the path that can't be read: one message for all files below a folder.
            at = os.path.relpath(error.filename or self.root / path, self.root)
            place = "the folder" if at in (".", KATAS) else at
            raise Unreadable(f"{place} can't be read: {error.strerror}") from None
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise Unreadable(f"{path} isn't a regular file")
            if status.st_size > MAX_BYTES:
                raise Unreadable(f"{path} has {status.st_size:,} bytes: too many to read")
            with open(file, "rb", closefd=False) as opened:
                return opened.read(MAX_BYTES)
        finally:
            os.close(file)

    def _require_no_links(self, path: str) -> None:
        file = self.root
        for part in Path(path).parts:
            file = file / part
            if stat.S_ISLNK(os.lstat(file).st_mode):
                raise Unreadable(f"{file.relative_to(self.root)} is a symbolic link, not read")


@dataclass(frozen=True, slots=True)
class Classroom:
    """The clones in a folder, sorted by student, and the names of its other folders."""

    clones: tuple[Clone, ...]
    others: tuple[str, ...]


def find_clones(folder: Path) -> Classroom:
    """All clones below a folder. A folder that can't be read counts as a clone.

    Raises NoClass if there is none, or the folder is a clone. Raises OSError if the folder itself
    can't be read.
    """
    if not folder.is_dir():
        problem = "isn't a folder" if folder.exists() else "doesn't exist"
        raise NoClass(f"{folder} {problem}")
    if _is_clone(folder):
        raise NoClass(
            f"{folder} is a clone of the course: give the folder that has a clone for each student"
        )
    clones: list[Clone] = []
    others: list[str] = []
    for child in _folders(folder):
        roots = list(_clones_in(child, MAX_DEPTH - 1))
        names = [printable(root.relative_to(folder).as_posix()) for root in roots]
        clones += map(Clone, names, roots)
        others += [] if roots else [printable(child.name)]
    if not clones:
        raise NoClass(f"no folder in {folder} is a clone of the course: none has {KATAS}/")
    return Classroom(tuple(clones), tuple(others))


def _clones_in(folder: Path, depth: int) -> Iterator[Path]:
    try:
        is_clone, children = _is_clone(folder), _folders(folder)
    except OSError:  # its standing says that it can't be read
        yield folder
        return
    if is_clone:
        yield folder
    elif depth:
        for child in children:
            yield from _clones_in(child, depth - 1)


def _folders(folder: Path) -> list[Path]:
    """The subfolders, sorted by name, without hidden folders and links. Raises OSError."""
    return [
        path
        for path in sorted(folder.iterdir(), key=lambda path: path.name)
        if path.is_dir() and not path.is_symlink() and not path.name.startswith(".")
    ]


def _is_clone(folder: Path) -> bool:
    katas = folder / KATAS
    return katas.is_dir() and any(TRACK.fullmatch(inside.name) for inside in _folders(katas))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A student's files at one commit; none for a student without a clone or such a commit.

    `files` has each file's content by its path, or the reason why it isn't read.
    """

    student: str
    files: Mapping[str, bytes | Unreadable]
    problems: tuple[str, ...] = ()

    def read(self, path: str) -> bytes | None:
        """The content of a file; None if it doesn't exist. Raises Unreadable."""
        content = self.files.get(path)
        if isinstance(content, Unreadable):
            raise content
        return content


# ---- the roster ----


class MalformedRoster(ValueError):
    """A roster can't be read. The text has its file, the line and the reason."""


@dataclass(frozen=True, slots=True)
class RosterRow:
    """A student on a roster, in `line` of the file. Empty cells are ""."""

    line: int
    name: str
    email: str = ""
    login: str = ""
    repository: str = ""

    def keys(self) -> dict[str, str]:
        """The login, e-mail and repository ("owner/name") as compared, by the column's name."""
        repository = re.split("[/:]", self.repository.rstrip("/").removesuffix(".git"))[-2:]
        texts = {"login": self.login, "e-mail": self.email, "repository": "/".join(repository)}
        return {column: _folded(text) for column, text in texts.items() if text}

    def folder_names(self) -> set[str]:
        """The names that the folder of this student's clone may have, as compared."""
        keys = self.keys()
        repository = keys.get("repository", "").rpartition("/")[2]
        return {*keys.values(), _folded(self.name), repository} - {""}


@dataclass(frozen=True, slots=True)
class Roster:
    """The students of a roster in the file's order, each once, and its problems as messages."""

    rows: tuple[RosterRow, ...]
    problems: tuple[str, ...] = ()

    def labels(self) -> tuple[str, ...]:
        """The students' names; of several with the same name, with the login or line."""
        count = collections.Counter(row.name for row in self.rows)
        return tuple(
            f"{row.name} ({row.login or f'line {row.line}'})" if count[row.name] > 1 else row.name
            for row in self.rows
        )


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


def read_roster(file: Path) -> Roster:
    """The roster in a CSV file whose first line has the columns' names.

    The columns are name, email or e-mail, login, and repository, in any order and case, separated
    by commas or semicolons. Raises MalformedRoster or OSError.
    """
    content = file.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise MalformedRoster(f"{file}:{line}: not UTF-8: save the roster as CSV UTF-8") from None
    lines = _csv_lines(file, text)
    place, headings = next(lines, (1, []))
    columns = [_folded(heading).replace("e-mail", "email") for heading in headings]
    if "name" not in columns or not {"login", "repository"} & set(columns):
        found = ", ".join(headings) or "nothing"
        raise MalformedRoster(
            f"{file}:{place}: the first line must name the columns: name, and login or "
            f"repository, and perhaps email; found {found}"
        )
    known = [field.name for field in dataclasses.fields(RosterRow)[1:]]
    if twice := [name for name in known if columns.count(name) > 1]:
        raise MalformedRoster(f"{file}:{place}: two columns have the name {twice[0]}")
    rows = [_roster_row(file, line, columns, cells) for line, cells in lines]
    if not rows:
        raise MalformedRoster(f"{file}:{place + 1}: there are no students below the columns' names")
    return _without_repeated(rows)


def _csv_lines(file: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """The lines that aren't empty, with their numbers."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = ";" if first.count(";") > first.count(",") else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        for cells in reader:
            stripped = [printable(" ".join(cell.split())) for cell in cells]
            if any(stripped):
                yield line, stripped
            line = reader.line_num + 1
    except csv.Error as error:
        raise MalformedRoster(f"{file}:{line}: malformed CSV: {error}") from None


def _roster_row(file: Path, line: int, columns: list[str], cells: list[str]) -> RosterRow:
    if any(cells[len(columns) :]):
        raise MalformedRoster(
            f"{file}:{line}: {len(cells)} cells below {len(columns)} columns: "
            "put a cell that contains a separator into double quotes"
        )
    found = dict(zip(columns, cells, strict=False))
    if not found["name"]:
        raise MalformedRoster(f"{file}:{line}: the name is empty")
    fields = [found.get(name, "") for name in ("name", "email", "login", "repository")]
    return RosterRow(line, *fields)


def _without_repeated(rows: Iterable[RosterRow]) -> Roster:
    """Without rows that repeat an earlier row's name and login, e-mail or repository."""
    seen: dict[tuple[str, str], RosterRow] = {}
    kept, problems = [], []
    for row in rows:
        shared: dict[RosterRow, list[str]] = {}
        for key in row.keys().items():
            if (earlier := seen.setdefault(key, row)) is not row:
                shared.setdefault(earlier, []).append(key[0])
        same = [earlier for earlier in shared if _folded(earlier.name) == _folded(row.name)]
        for earlier, names in shared.items():
            rest = f"; line {row.line} is left out" if same else ""
            columns = " and ".join(names)
            problems.append(f"lines {earlier.line} and {row.line} have the same {columns}{rest}")
        if not same:
            kept.append(row)
    return Roster(tuple(kept), tuple(problems))


def match_roster(
    roster: Roster, clones: Iterable[Clone]
) -> tuple[tuple[Clone | Snapshot, ...], tuple[str, ...]]:
    """For each row of a roster its clone, under the row's name, and the clones that are on no row.

    A row without a clone has an empty Snapshot. So have rows that claim the same clone.
    """
    names, logins = _index(roster)
    problems: dict[RosterRow, list[str]] = {row: [] for row in roster.rows}
    own: dict[RosterRow, list[Clone]] = {row: [] for row in roster.rows}
    strangers = []
    for clone in clones:
        claimants = _claimants(names, logins, _folded(clone.student))
        if len(claimants) == 1:
            own[claimants[0]].append(clone)
        for row in claimants[1:] and claimants:
            lines = " and ".join(str(claimant.line) for claimant in claimants)
            reason = f"lines {lines} of the roster claim the clone {clone.student}"
            problems[row].append(f"{reason}: it counts for none of them")
        if not claimants:
            strangers.append(clone.student)
    matched: list[Clone | Snapshot] = []
    for row, label in zip(roster.rows, roster.labels(), strict=True):
        found, reasons = own[row], problems[row]
        if not found:
            reasons = reasons or [f"no repository (line {row.line} of the roster)"]
            matched.append(Snapshot(label, {}, tuple(reasons)))
            continue
        if len(found) > 1:
            several = ", ".join(clone.student for clone in found)
            reasons.append(f"{len(found)} clones: {several}; only the first counts")
        matched.append(dataclasses.replace(found[0], student=label, problems=tuple(reasons)))
    return tuple(matched), tuple(strangers)


_RowsByName = dict[str, list[RosterRow]]


def _index(roster: Roster) -> tuple[_RowsByName, _RowsByName]:
    """The rows by the names that a clone's folder may have, and by login."""
    names: _RowsByName = {}
    logins: _RowsByName = {}
    for row in roster.rows:
        for name in row.folder_names():
            names.setdefault(name, []).append(row)
        if row.login:
            logins.setdefault(_folded(row.login), []).append(row)
    return names, logins


def _claimants(names: _RowsByName, logins: _RowsByName, path: str) -> list[RosterRow]:
    """The rows that a clone belongs to: by its path, else its folder, else -LOGIN at the end.

    With a login a-b, the folder x-a-b belongs to a-b, not to b.
    """
    folder = path.rpartition("/")[2]
    ends = (folder[at + 1 :] for at, sign in enumerate(folder) if sign == "-")
    by_login = next((logins[end] for end in ends if end in logins), [])
    return names.get(path) or names.get(folder) or by_login


# ---- the files of a commit ----

_GIT_SECONDS = 60
_MAX_REFS = 5  # symbolic refs between HEAD and a commit
_OBJECT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REF = re.compile(r"ref:\s*(?P<name>refs/(?!.*\.\.)[^\s\\:]+)")


class NoCommit(ValueError):
    """A clone has no commit that counts. The text says why."""


def parse_deadline(text: str) -> datetime.datetime:
    """The moment of an ISO date or date-time, in local time unless it has an offset.

    A date means the end of that day. Raises ValueError.
    """
    try:
        try:
            day = datetime.date.fromisoformat(text)
            moment = datetime.datetime.combine(day, datetime.time.max)
        except ValueError:
            moment = datetime.datetime.fromisoformat(text)
        return moment.astimezone()
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f"{text!r} is not an ISO date or date-time, such as 2026-11-20 or 2026-11-20T18:00"
        ) from None


def require_git() -> None:
    """Raise NoGit if git isn't installed."""
    if shutil.which("git") is None:
        raise NoGit("git is not installed, and --until needs it")


def _files_until(
    clone: Clone, until: datetime.datetime, paths: Iterable[str]
) -> dict[str, bytes | Unreadable]:
    """The files at the newest commit of HEAD's branch that isn't later, by committer date.

    Raises NoCommit, Unreadable, GitError or OSError.
    """
    head = _head_commit(clone)
    with tempfile.TemporaryDirectory(prefix="kata-class-") as scratch:
        repository = Path(scratch)
        _borrow_objects(clone, repository, sha256=len(head) == 64)
        return _files_of(repository, _newest_commit(repository, head, until), paths)


def _head_commit(clone: Clone) -> str:
    """The id of HEAD's commit, from the clone's files."""
    if (clone.root / ".git").is_file():
        raise NoCommit(".git is a file, as in a worktree or a submodule: clone the repository")
    name = "HEAD"
    for _ in range(_MAX_REFS):
        content = clone.read(f".git/{name}")
        if content is None and name == "HEAD":
            raise NoCommit("not a git repository")
        text = _packed_ref(clone, name) if content is None else content.decode("utf-8", "replace")
        if _OBJECT.fullmatch(text.strip()):
            return text.strip()
        ref = _REF.fullmatch(text.strip())
        if ref is None:
            raise NoCommit(f"the git ref {name} is broken, or has no commit")
        name = ref["name"]
    raise NoCommit(f"the git ref {name} doesn't lead to a commit")


def _packed_ref(clone: Clone, name: str) -> str:
    packed = clone.read(".git/packed-refs") or b""
    lines = (line.split() for line in packed.decode("utf-8", "replace").splitlines())
    return next((line[0] for line in lines if line[1:] == [name]), "")


def _borrow_objects(clone: Clone, repository: Path, sha256: bool) -> None:
    """Make a bare repository without settings and refs that reads the clone's objects."""
    if clone.read(".git/objects/info/alternates") is not None:
        raise NoCommit("its objects are in another repository: clone without --shared, --reference")
    objects = os.fsencode((clone.root / ".git" / "objects").resolve())
    if b"\n" in objects:
        raise NoCommit("the folder's name has a line end")
    (repository / "objects" / "info").mkdir(parents=True)
    (repository / "objects" / "info" / "alternates").write_bytes(objects + b"\n")
    (repository / "refs").mkdir()
    (repository / "HEAD").write_text("ref: refs/heads/none\n", encoding="ascii")
    extension = "[core]\nrepositoryformatversion = 1\n[extensions]\nobjectformat = sha256\n"
    (repository / "config").write_text(extension if sha256 else "", encoding="ascii")
    shallow = (clone.read(".git/shallow") or b"").decode("ascii", "replace").split()
    if ends := [commit for commit in shallow if _OBJECT.fullmatch(commit)]:
        (repository / "shallow").write_text("".join(f"{end}\n" for end in ends), encoding="ascii")


def _git(repository: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """The output of git in a repository of our own, without anybody's settings."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    environment |= {
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    command = ["git", f"--git-dir={repository}", *arguments]
    try:
        result = subprocess.run(
            command,
            cwd=repository,
            env=environment,
            input=stdin,
            capture_output=True,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise GitError(f"git {arguments[0]} takes more than {_GIT_SECONDS} s") from None
    if result.returncode:
        reason = result.stderr.decode("utf-8", "replace").strip() or "failed"
        raise GitError(f"git {arguments[0]}: {printable(reason.splitlines()[-1])}")
    return result.stdout


def _newest_commit(repository: Path, head: str, until: datetime.datetime) -> str:
    """The first commit from HEAD along first parents that isn't later.

    Of a merge, other parents are upstream's commits, which may be earlier than the student's.
    """
    listed = _git(repository, "rev-list", "--first-parent", "--timestamp", head).decode("ascii")
    commits = [line.split() for line in listed.splitlines()]
    for seconds, commit in commits:
        if int(seconds) <= until.timestamp():
            return commit
    reason = f"no commit until {until:%Y-%m-%d %H:%M}"
    if (repository / "shallow").exists():
        raise NoCommit(f"{reason} in this shallow clone: clone without --depth")
    oldest = datetime.datetime.fromtimestamp(int(commits[-1][0])).astimezone()
    raise NoCommit(f"{reason}: the oldest is of {oldest:%Y-%m-%d %H:%M}")


def _files_of(repository: Path, commit: str, paths: Iterable[str]) -> dict[str, bytes | Unreadable]:
    """Those of the files that the commit has, with the limits of Clone.read."""
    listed = _git(repository, "ls-tree", "-r", "-z", "--full-tree", commit, "--", KATAS)
    entries: dict[str, tuple[str, str]] = {}  # mode and id
    for entry in listed.decode("utf-8", "replace").split("\0")[:-1]:
        about, _, path = entry.partition("\t")
        mode, _, blob = about.split()
        entries[path] = mode, blob
    files: dict[str, bytes | Unreadable] = {}
    blobs: dict[str, str] = {}
    for path in paths:
        parents = map(str, reversed(PurePosixPath(path).parents))
        at = next((part for part in (*parents, path) if part in entries), None)
        if at is None:
            continue
        mode, blob = entries[at]
        if at == path and mode.startswith("100"):
            blobs[path] = blob
        else:
            kind = "is a symbolic link, not read" if mode == "120000" else "isn't a regular file"
            files[path] = Unreadable(f"{at} {kind}")
    contents = _blobs(repository, set(blobs.values()))
    for path, blob in blobs.items():
        found = contents[blob]
        files[path] = found if isinstance(found, bytes) else Unreadable(f"{path} {found}")
    return files


def _blobs(repository: Path, ids: Iterable[str]) -> dict[str, bytes | str]:
    """The content of each blob, or the reason why it isn't read."""

    def asked(names: Iterable[str]) -> bytes:
        return "".join(f"{name}\n" for name in names).encode("ascii")

    found: dict[str, bytes | str] = {}
    small = []
    for line in (
        _git(repository, "cat-file", "--batch-check", stdin=asked(ids)).decode().split("\n")
    ):
        match line.split():
            case [blob, "blob", size] if int(size) <= MAX_BYTES:
                small.append(blob)
            case [blob, "blob", size]:
                found[blob] = f"has {int(size):,} bytes: too many to read"
            case [blob, *_]:
                found[blob] = "is not among the clone's objects"
    output = _git(repository, "cat-file", "--batch", stdin=asked(small))
    for blob in small:  # "ID blob SIZE", the content, and a line end
        heading, _, rest = output.partition(b"\n")
        size = int(heading.split()[2])
        found[blob], output = rest[:size], rest[size + 1 :]
    return found


# ---- standings ----


@dataclass(frozen=True, slots=True)
class StudentKata:
    """One kata of one student. `stars` are those of this content in the ledger, else 0."""

    kata: str
    state: FileState
    stars: int = 0


@dataclass(frozen=True, slots=True)
class StudentStanding:
    """The standing of one student at each kata of the course, in the course's order.

    `latest` is the date of the latest pass in the ledger. `problems` lists unreadable files.
    """

    clone: Clone | Snapshot
    katas: tuple[StudentKata, ...]
    latest: datetime.date | None = None
    problems: tuple[str, ...] = ()

    @property
    def student(self) -> str:
        return self.clone.student

    @property
    def solved(self) -> int:
        """The number of katas whose content has a pass in the ledger."""
        return sum(place.state is FileState.SOLVED for place in self.katas)

    @property
    def stars(self) -> int:
        """The sum of the stars of all katas."""
        return sum(place.stars for place in self.katas)


class Course:
    """The katas of a class report, from the teacher's clone."""

    def __init__(self, katas: Iterable[Kata]) -> None:
        self.katas: Sequence[Kata] = tuple(katas)
        self._stubs = {kata.id: blob_id(kata.stub_text().encode()) for kata in self.katas}

    def snapshot(self, clone: Clone | Snapshot, until: datetime.datetime) -> Snapshot:
        """The files of the newest commit of the clone's HEAD branch that isn't later than `until`.

        Nothing of a clone but its objects and refs is used. If there is no such commit, or it
        can't be read, the snapshot is empty and has the reason as a problem.
        """
        if isinstance(clone, Snapshot):
            return clone
        try:
            paths = [LEDGER, *map(file_of, self.katas)]
            return Snapshot(clone.student, _files_until(clone, until, paths), clone.problems)
        except (OSError, ValueError) as error:
            return Snapshot(clone.student, {}, (*clone.problems, printable(str(error))))

    def standing(self, clone: Clone | Snapshot) -> StudentStanding:
        """The standing of a student. Problems, such as unreadable files, are listed."""
        problems = list(clone.problems)
        try:
            ledger = _ledger(clone, problems)
            entries = [self._student_kata(clone, kata, ledger, problems) for kata in self.katas]
            latest = max((recorded.date for recorded in ledger.passes), default=None)
        except (OSError, ValueError) as error:
            problems.append(printable(str(error)))
            entries, latest = [StudentKata(kata.id, FileState.GONE) for kata in self.katas], None
        return StudentStanding(clone, tuple(entries), latest, tuple(dict.fromkeys(problems)))

    def _student_kata(
        self, clone: Clone | Snapshot, kata: Kata, ledger: Ledger, problems: list[str]
    ) -> StudentKata:
        content = _read(clone, file_of(kata), problems)
        if content is None:
            return StudentKata(kata.id, FileState.GONE)
        blob = blob_id(content)
        if best := ledger.best(kata.id, blob):
            return StudentKata(kata.id, FileState.SOLVED, best.stars)
        if blob == self._stubs[kata.id] or is_stub(content, kata):
            return StudentKata(kata.id, FileState.TODO)
        known = ledger.last(kata.id)
        return StudentKata(kata.id, FileState.CHANGED if known else FileState.EDITED)


def file_of(kata: Kata) -> str:
    """The path of a kata's file within any clone."""
    return f"{KATAS}/{kata.id}.py"


def _ledger(clone: Clone | Snapshot, problems: list[str]) -> Ledger:
    content = _read(clone, LEDGER, problems)
    ledger = parse_ledger((content or b"").decode("utf-8", "replace"))
    problems += ledger.warnings
    return ledger


def _read(clone: Clone | Snapshot, path: str, problems: list[str]) -> bytes | None:
    try:
        return clone.read(path)
    except Unreadable as error:
        problems.append(str(error))
        return None


STUDENT, CLAIMED = "student", "claimed"
_GRADED_STATES = (FileState.SOLVED, FileState.CHANGED, FileState.EDITED)


def samples(standings: Iterable[StudentStanding], katas: Mapping[str, Kata]) -> Iterator[Sample]:
    """A sample for each file that isn't a stub, numbered from 1."""
    number = 0
    for standing in standings:
        for entry in standing.katas:
            if entry.state not in _GRADED_STATES:
                continue
            number += 1
            row = {STUDENT: standing.student, TASK: entry.kata, CLAIMED: entry.stars}
            yield _sample(number, row, standing, katas[entry.kata])


def _sample(number: int, row: dict[str, Any], standing: StudentStanding, kata: Kata) -> Sample:
    try:
        content = standing.clone.read(file_of(kata))
        if content is None:
            return Sample(number, row, kata.id, None, "the file is gone")
        return Sample(number, row, kata.id, content.decode("utf-8"))
    except Unreadable as error:
        return Sample(number, row, kata.id, None, str(error))
    except UnicodeDecodeError as error:
        return Sample(number, row, kata.id, None, f"the file isn't UTF-8: {error.reason}")
