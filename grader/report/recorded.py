"""What a session adds to the ledger, and how the learner is told of it."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.text import Text

from grader.catalog import katas, name_of
from grader.git import NoGit, git_in
from grader.model import Grade, State
from grader.record.ledger import Pass
from grader.record.recording import Recorded, passes, record
from grader.report import jsonfile, marks
from grader.report.progress import COMMIT, some, warned
from grader.session import Session

#: What judged, as the ledger names it, and the package that it is.
_JUDGES = {"grader": "pallas-katas", "jax": "jax", "libtpu": "libtpu"}


def remember(session: Session, grades: Sequence[Grade]) -> Recorded:
    """Record the passes among a whole session's grades."""
    if not any(grade.state is State.PASSED for grade in grades):
        return Recorded()
    versions = jsonfile.versions()
    judges = {name: versions[package] for name, package in _JUDGES.items()}
    judges["chip"] = session.chips[0]
    found = passes(katas(session.root), grades, datetime.date.today(), judges)
    return record(session.root, found, session.device.mode)


def told(recorded: Recorded, root: Path) -> Iterator[Text]:
    """Which passes are new, and what commits them; or what kept them out."""
    if not recorded.passes:
        return
    names = some([_name(one) for one in recorded.passes])
    if recorded.trouble:
        yield Text(f"not recorded  {names}: {recorded.trouble}", "yellow")
    else:
        yield Text.assemble(("recorded  ", "bold"), f"{names}   {_commit(root)}")
    yield from warned(recorded.warnings)


def _commit(root: Path) -> str:
    try:
        git_in(root)
    except NoGit as error:
        return f"(no commit of it: {error})"
    return COMMIT


def _name(one: Pass) -> str:
    return f"{name_of(one.kata)} {marks.stars(one.stars).plain}"
