"""Files that are written whole."""

from __future__ import annotations

import os
from pathlib import Path


def replace_text(file: Path, text: str) -> None:
    """Write all of a text, or leave what was there: whoever reads never sees half. Raises OSError.

    The folder is made where there is none. Half a surrogate pair is written as Python escapes it.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f"{file.name}.part")
    beside.write_text(text, encoding="utf-8", errors="backslashreplace")
    os.replace(beside, file)
