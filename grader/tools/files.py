"""Files that are written whole, and why one can't be."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


def replace_text(file: Path, text: str) -> None:
    """Write all of a text, or leave what was there: whoever reads never sees half. Raises OSError.

    The folder is made where there is none.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f"{file.name}.part")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, file)


def in_words(error: OSError) -> str:
    """An error with the file that it is about, and what is needed where that can't be changed."""
    if error.strerror is None or error.filename is None:
        return str(error)
    told = f"{error.filename}: {error.strerror}"
    needs = ". This needs a clone that you may change"
    return told + needs if error.errno in _READ_ONLY else told
