"""Files that are written whole, why one can't be, and the exit code of a command."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


def replace_text(file: Path, text: str) -> None:
    """Write all of a text, or leave what was there: whoever reads never sees half. Raises OSError.

    The folder is made where there is none. Half a surrogate pair is written as Python escapes it.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f"{file.name}.part")
    beside.write_text(text, encoding="utf-8", errors="backslashreplace")
    os.replace(beside, file)


def in_words(error: OSError) -> str:
    """An error with the file that it is about, and what is needed where that can't be changed."""
    if error.strerror is None or error.filename is None:
        return str(error)
    told = f"{error.filename}: {error.strerror}"
    needs = ". This needs a clone that you may change"
    return told + needs if error.errno in _READ_ONLY else told


#: The exit code where nobody reads the output any more: rich ends a program with it, too.
CLOSED = 1


def exit_code(command: Callable[[], int], name: str) -> int:
    """Run a command that writes to standard output, and return its exit code.

    An error in what it was given is printed after `name`, and the code is 2. Where the reader of
    the output has gone, as after `| head`, nothing is printed.
    """
    try:
        try:
            return command()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the last flush
        return CLOSED
    except OSError as error:
        print(f"{name}: {in_words(error)}", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
