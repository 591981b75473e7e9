"""A class of students: clones of a shop's repository, without git until they commit."""

from __future__ import annotations

import datetime
import os
import shutil
from pathlib import Path
from unittest import mock

from grader.exercise.catalog import KATAS, Kata
from grader.record.ledger import Pass, append_passes
from grader.tools.git import Git, blob_id
from tests.support.repositories import Repository, Shop

DAY = datetime.date(2026, 11, 18)


class ClassOf:
    """Students' clones in a folder."""

    def __init__(self, shop: Shop, folder: Path) -> None:
        self.shop, self.folder = shop, folder

    def join(self, student: str) -> Path:
        """A clone with all stubs."""
        root = self.folder / student
        shutil.copytree(self.shop.root / KATAS, root / KATAS)
        return root

    def write(self, student: str, kata: Kata, body: str = Repository.BODY) -> bytes:
        """Write this region body to the student's file; returns its content."""
        text = kata.solution.read_text().replace(Repository.BODY, body)
        path = self.folder / student / KATAS / f"{kata.id}.py"
        path.write_text(text)
        return text.encode()

    def passed(self, student: str, kata: Kata, stars: int = 3, body: str = Repository.BODY) -> None:
        """The same, with a pass in the ledger."""
        blob = blob_id(self.write(student, kata, body))
        append_passes(self.folder / student, [Pass(kata.id, blob, stars, DAY)])

    def commit(self, student: str, day: str) -> str:
        """Commit everything of a student at noon of a day (UTC), and return the commit's id."""
        root = self.folder / student
        if not (root / ".git").exists():
            Git(root)("init", "-q", "-b", "main", "--template=")
        noon = f"{day}T12:00:00+00:00"
        dates = {"GIT_AUTHOR_DATE": noon, "GIT_COMMITTER_DATE": noon}
        who = ("-c", "user.name=A", "-c", "user.email=a@example.com")
        with mock.patch.dict(os.environ, dates):
            Git(root)("add", "-A")
            Git(root)(*who, "commit", "-q", "--allow-empty", "-m", day)
        return Git(root)("rev-parse", "HEAD").strip()
