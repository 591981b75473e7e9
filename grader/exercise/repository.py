"""Finds one kata by name, and writes its files: stubs, resets, saved attempts, new katas, courses.

Before a learner's file is overwritten, it is saved as an attempt in
.kata/attempts/TRACK/KATA/TIME_STUB.py.
"""

from __future__ import annotations

import ast
import datetime
import enum
import keyword
import os
import re
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from grader.exercise import readmes, templates
from grader.exercise.catalog import (
    COURSE,
    FILE,
    IN_CLONE,
    KATAS,
    MAX_ADDED,
    SETTINGS,
    SOLUTIONS,
    TABLE,
    TRACK,
    CourseSettings,
    Kata,
    has_solutions,
    is_chosen,
    is_course,
    kata_at,
    katas,
    matching_katas,
    no_match_message,
)
from grader.exercise.key_tables import KataKind
from grader.tools.git import blob_id
from pallascope.tools.regions import RegionError, fill_regions, region_lines, regions
from pallascope.tools.text import did_you_mean

STATE = ".kata"  # a folder of this clone that git ignores
ATTEMPTS = "attempts"
#: An attempt's file name has the time, and the first digits of the stub's id at that time.
TIME_FORMAT = "%Y-%m-%d_%H-%M-%S_%f"
STUB_DIGITS = 10


class RepositoryError(ValueError):
    """A command can't be carried out on these files. The text says why."""


def find_root(start: Path) -> Path:
    """The nearest folder from `start` upwards that holds katas.

    That is a clone, or a folder that `kata init` has written. Raises RepositoryError.
    """
    for folder in (start, *start.parents):
        if _is_root(folder):
            return folder
    place = COURSE if IN_CLONE and has_solutions(COURSE) else f"into the folder that holds {KATAS}/"
    raise RepositoryError(
        f"there are no katas in {start}: cd {place}, or kata init my-katas writes them"
    )


def root_or_course(start: Path) -> Path:
    """`find_root`; outside of any repository, the katas that came with this package.

    Raises RepositoryError if none came with it.
    """
    try:
        return find_root(start)
    except RepositoryError:
        if not _is_root(COURSE):
            raise
        return COURSE


def _is_root(folder: Path) -> bool:
    if not (folder / KATAS).is_dir():
        return False
    return has_solutions(folder) or (
        has_solutions(COURSE) and any((folder / KATAS).glob("*/kata_*.py"))
    )


def require_own_solutions(root: Path) -> None:
    """Raises RepositoryError where the solutions are those of an installed package."""
    if is_course(root):
        raise RepositoryError(
            f"{root} has no {SOLUTIONS}/: this command is for authors of katas, who work in a clone"
        )


def matching(root: Path, name: str) -> tuple[Kata, ...]:
    """The katas that match `name`; all katas for "". Raises RepositoryError if none matches."""
    all_katas = katas(root, SOLUTIONS)
    matches = matching_katas(all_katas, name) if name else all_katas
    if not matches:
        raise RepositoryError(no_match_message(all_katas, name))
    return matches


def single_kata(root: Path, name: str) -> Kata:
    """The only kata that matches `name`. Raises RepositoryError if none or several match."""
    kata, *others = matching(root, name)
    if others:
        names = ", ".join(each.name for each in (kata, *others))
        raise RepositoryError(f"{name!r} matches {1 + len(others)} katas: {names}")
    return kata


# ---- sync ----


class SyncOutcome(enum.Enum):
    """The result of `sync` for one kata's file."""

    SAME = "same"
    WRITTEN = "written"
    DIFFERS = "differs from its blanked solution"
    HELD = "contains an attempt: left unchanged"


@dataclass(frozen=True, slots=True)
class SyncResult:
    """A kata, and the result of `sync`."""

    kata: Kata
    outcome: SyncOutcome


def sync(root: Path, check: bool) -> tuple[SyncResult, ...]:
    """Generate every kata from its solution by blanking the regions; with `check`, only compare.

    Files with an attempt are left alone. Raises KeyProblem or RegionError.
    """
    return tuple(SyncResult(kata, sync_kata(kata, check)) for kata in katas(root, SOLUTIONS))


def sync_kata(kata: Kata, check: bool) -> SyncOutcome:
    """Generate one kata from its solution."""
    shipped = kata.stub_text()
    present = kata.path.read_bytes() if kata.path.exists() else None
    if present == shipped.encode():
        return SyncOutcome.SAME
    if present is not None and not is_stub(present, kata):
        return SyncOutcome.HELD
    if check:
        return SyncOutcome.DIFFERS
    _write(kata, shipped, datetime.datetime.now())
    return SyncOutcome.WRITTEN


def is_stub(content: bytes, kata: Kata) -> bool:
    """Whether every region contains the key's text, or a single raise.

    Stubs of other versions of the course count, too.
    """
    try:
        bodies = [region.body for region in regions(content.decode())]
    except (RegionError, UnicodeDecodeError):
        return False
    stub_bodies = set(kata.key.fillings)
    return bool(bodies) and all(body in stub_bodies or _is_single_raise(body) for body in bodies)


def _is_single_raise(body: str) -> bool:
    if len(body) > MAX_ADDED:  # not a stub, and it may crash Python's compiler
        return False
    try:
        statements = ast.parse(body).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    if any(line.lstrip().startswith("#") for line in body.splitlines()):
        return False  # a comment may be an attempt
    return (
        len(statements) == 1
        and isinstance(statements[0], ast.Raise)
        and isinstance(statements[0].exc, ast.Call)
        and ast.unparse(statements[0].exc.func) == "NotImplementedError"
    )


# ---- reset ----


def reset(kata: Kata, now: datetime.datetime) -> Path | None:
    """Restore the stub. The attempt is saved first. Returns its file, None if there was none."""
    return _write(kata, kata.stub_text(), now)


def save_attempt(kata: Kata, now: datetime.datetime) -> Path | None:
    """Save the file as an attempt. Returns the attempt's file; None if there is only a stub.

    Each content is saved once, with the time when it was last saved.
    """
    try:
        shipped = kata.stub_text().encode()
    except (OSError, ValueError):  # its key or solution is broken: save the file anyway
        shipped = b""
    if not kata.path.exists() or (present := kata.path.read_bytes()) == shipped:
        return None
    folder = attempts_folder(kata)
    folder.mkdir(parents=True, exist_ok=True)
    saved = folder / f"{now:{TIME_FORMAT}}_{blob_id(shipped)[:STUB_DIGITS]}.py"
    same = [file for file in folder.glob("*.py") if file.read_bytes() == present]
    saved.write_bytes(present)
    for file in same:
        if file != saved:
            file.unlink()
    return saved


def attempts_folder(kata: Kata) -> Path:
    """The folder of a kata's saved attempts, which may not exist."""
    return kata.root / STATE / ATTEMPTS / kata.id


def _write(kata: Kata, shipped: str, now: datetime.datetime) -> Path | None:
    """Write the stub, and save the old file if it differs. Returns the saved file or None."""
    saved = save_attempt(kata, now)
    kata.path.parent.mkdir(parents=True, exist_ok=True)
    kata.path.write_bytes(shipped.encode())
    return saved


# ---- a course without solutions ----

#: Files of a clone that a course has too, if they exist.
_COPIED = (
    *("LICENSE", ".gitignore", ".gitattributes", ".vscode", ".devcontainer"),
    ".github/workflows/katas.yml",
)
_OUTWARD_LINK = re.compile(r"(?<=\]\()(?P<path>\.\./[^)#\s]*)")


def _require_known(names: Collection[str]) -> None:
    all_katas = katas(COURSE, SOLUTIONS)
    known = {name: None for kata in all_katas for name in (kata.track, kata.name)}
    if not names:
        raise RepositoryError(f"{SETTINGS}: tool.{TABLE}.only selects no kata")
    for name in names:
        if name not in known:
            advice = did_you_mean(name, known) or "remove it, or correct it"
            raise RepositoryError(f"{SETTINGS}: no track or kata {name!r}; {advice}")


def shortened(chosen: Collection[Kata]) -> tuple[str, ...]:
    """The names of these katas, for `is_chosen`; a track's name for all of its katas."""
    all_katas = katas(COURSE, SOLUTIONS)
    missing = {kata.track for kata in all_katas if kata not in chosen}
    names = (kata.name if kata.track in missing else kata.track for kata in chosen)
    return tuple(dict.fromkeys(names))


def write_course(folder: Path, choice: CourseSettings, address: str) -> None:
    """Write the course into an empty folder: stubs, READMEs and settings, without solutions.

    READMEs link to `address`, the page of the repository's files, for files that the folder doesn't
    have. Raises RepositoryError if a chosen name is that of no track or kata.
    """
    if choice.only is not None:
        _require_known(choice.only)
    chosen = [kata for kata in katas(COURSE, SOLUTIONS) if is_chosen(kata, choice.only)]
    for kata in chosen:
        file = folder / KATAS / kata.track / kata.path.name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(kata.stub_text(), encoding="utf-8", newline="\n")
    for file in (COURSE / KATAS).glob("**/*"):
        name = file.relative_to(COURSE)
        is_present = len(name.parts) == 2 or (folder / KATAS / name.parts[1]).is_dir()
        if file.suffix in (".md", ".svg") and is_present:
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(file, folder / name)
    for name in _COPIED:
        if (COURSE / name).is_dir():
            shutil.copytree(COURSE / name, folder / name)
        elif (COURSE / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(COURSE / name, folder / name)
    first = chosen[0]
    texts = {
        SETTINGS: templates.course_settings(choice),
        "conftest.py": templates.COURSE_CONFTEST,
        readmes.README: templates.course_readme(f"{KATAS}/{first.id}.py", first.name),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    readmes.sync(folder, check=False)
    for file in (folder / KATAS).glob("**/*.md"):
        _replace_outward_links(file, folder, address)


def _replace_outward_links(file: Path, folder: Path, address: str) -> None:
    """Replace links to files that a course doesn't have by those of the repository's page.

    Links to the root's README, too: a course has another one.
    """

    def replaced(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(file.parent / link["path"]))
        if target.is_relative_to(folder / KATAS) and target.exists():
            return link[0]
        return f"{address}/{target.relative_to(folder).as_posix()}"

    text = _OUTWARD_LINK.sub(replaced, file.read_text(encoding="utf-8"))
    file.write_text(text, encoding="utf-8", newline="\n")


# ---- new ----


def new_kata(root: Path, place: str, kind: KataKind = KataKind.KERNEL) -> Kata:
    """Write the three files of a kata "TRACK/NAME", numbered after the track's last.

    Raises RepositoryError for a malformed place, a name that is taken, or a course.
    """
    require_own_solutions(root)
    track, _, name = place.partition("/")
    valid_name = FILE.fullmatch(f"kata_00_{name}.py") and not keyword.iskeyword(name)
    if not TRACK.fullmatch(track) or not valid_name:
        raise RepositoryError(f"{place!r}: needs TRACK/NAME, such as 2_fusion/row_softmax")
    all_katas = katas(root, SOLUTIONS)
    if taken := [kata for kata in all_katas if kata.name == name]:
        raise RepositoryError(f"{name} is taken: {taken[0].id}")
    last = max((int(kata.number) for kata in all_katas if kata.track == track), default=0)
    kata = Kata(root, track, f"kata_{last + 1:02}_{name}")
    kata.solution.parent.mkdir(parents=True, exist_ok=True)
    kata.solution.write_text(templates.solution(name, kind), encoding="utf-8")
    kata.key_path.write_text(templates.key(name, kind), encoding="utf-8")
    sync_kata(kata, check=False)
    return kata


_NAME = re.compile(r"(?P<time>[\d-]+_[\d-]+_\d+)(?:_(?P<stub>[0-9a-f]+))?\.py")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One saved file. `number` counts a kata's attempts from 1, the oldest."""

    kata: Kata
    number: int
    file: Path
    saved: datetime.datetime
    stub: str  # the first digits of the stub's id at that time; "" if it is unknown

    @property
    def when(self) -> str:
        return f"{self.saved:%Y-%m-%d %H:%M}"

    def text(self) -> str:
        """The saved text, with "?" for invalid UTF-8."""
        return self.file.read_text(encoding="utf-8", errors="replace")

    def body(self) -> list[str]:
        """The non-blank lines of its regions; of the whole file if it has none."""
        try:
            regions = region_lines(self.text())
        except RegionError:
            regions = ()
        lines = [line for region in regions for line in region] or self.text().split("\n")
        return [line.strip() for line in lines if line.strip()]


def attempts(kata: Kata) -> tuple[Attempt, ...]:
    """The attempts of one kata, oldest first. Files with other names are ignored."""
    found = []
    for file in sorted(attempts_folder(kata).glob("*.py")):
        if (name := _NAME.fullmatch(file.name)) and (saved := _parse_time(name["time"])):
            found.append(Attempt(kata, len(found) + 1, file, saved, name["stub"] or ""))
    return tuple(found)


def _parse_time(text: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.strptime(text, TIME_FORMAT)
    except ValueError:
        return None


def all_attempts(root: Path) -> tuple[Attempt, ...]:
    """Every attempt of the clone, by kata, including deleted katas."""
    folders = (root / STATE / ATTEMPTS).glob("*/*")
    paths = (f.relative_to(root / STATE / ATTEMPTS) for f in folders)
    files = (root / "katas" / path.parent / f"{path.name}.py" for path in paths)
    katas_with_attempts = {kata for file in files if (kata := kata_at(root, file))}
    existing = [kata for kata in katas(root) if kata in katas_with_attempts]
    deleted = sorted(katas_with_attempts.difference(existing), key=lambda kata: kata.id)
    return tuple(attempt for kata in (*existing, *deleted) for attempt in attempts(kata))


def find_attempt(kata: Kata, number: int | None) -> Attempt:
    """The attempt with this number, the newest for None. Raises RepositoryError."""
    saved = attempts(kata)
    if not saved:
        raise RepositoryError(f"no attempt at {kata.name} is saved; kata reset saves one")
    if number is None:
        return saved[-1]
    if not 1 <= number <= len(saved):
        count = f"{len(saved)} are" if len(saved) > 1 else "1 is"
        raise RepositoryError(f"{kata.name} has no attempt {number}: {count} saved, kata restore")
    return saved[number - 1]


def restored_content(attempt: Attempt, whole: bool) -> tuple[bytes, bool]:
    """The content that restores an attempt, and whether it is exactly the saved file.

    With `whole`, or if the stub hasn't changed since, this is the saved file. Otherwise upstream
    has changed the kata, and the attempt's regions are inserted into the current stub. Raises
    RepositoryError if the regions don't fit.
    """
    data = attempt.file.read_bytes()
    if whole:
        return data, True
    shipped = attempt.kata.stub_text()
    if attempt.stub == blob_id(shipped.encode())[:STUB_DIGITS]:
        return data, True
    try:
        text = fill_regions(shipped, region_lines(data.decode().replace("\r\n", "\n")))
    except ValueError as error:
        raise RepositoryError(
            f"attempt {attempt.number} doesn't have the regions of today's {attempt.kata.name} "
            f"({error}): kata restore {attempt.kata.name} {attempt.number} --whole restores the "
            "saved file"
        ) from None
    return text.encode(), text.encode() == data
