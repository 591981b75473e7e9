"""Print what CHANGELOG.md says of the version that a tag names: python .ci/release_notes.py v0.2.0

Exits with a message where the tag is not the version of pyproject.toml, or where that version has
no section with a date.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEADING = re.compile(r"^## \[(?P<version>[^]]+)\] - (?P<date>.+)$", re.MULTILINE)


def notes(tag: str, project: str, changelog: str) -> str:
    """The section of `changelog` on the version that `tag` names. Raises ValueError.

    `project` is the text of pyproject.toml.
    """
    version = tomllib.loads(project)["project"]["version"]
    if tag != f"v{version}":
        raise ValueError(f"the tag is {tag}, but pyproject.toml says {version}")
    for heading in HEADING.finditer(changelog):
        if heading["version"] != version:
            continue
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", heading["date"]):
            raise ValueError(f"CHANGELOG.md dates {version} {heading['date']!r}: needs YYYY-MM-DD")
        return changelog[heading.end() :].partition("\n## ")[0].strip() + "\n"
    raise ValueError(f"CHANGELOG.md has no section ## [{version}] - YYYY-MM-DD")


def main(tag: str) -> int:
    texts = [
        (ROOT / name).read_text(encoding="utf-8") for name in ("pyproject.toml", "CHANGELOG.md")
    ]
    try:
        print(notes(tag, *texts), end="")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
