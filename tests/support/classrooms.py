"""A class of students: clones of a shop's repository, without git."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path

from grader.exercise.catalog import KATAS, Kata
from grader.record.ledger import Pass, append_passes
from grader.tools.git import blob_id
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
