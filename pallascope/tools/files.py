"""Python files by path, functions by name, files written whole, exit codes.

Files that are written whole, why one can't be, and the exit code of a command.

Import a Python file by its path, or what was read of it.

A function that a command line names, and where in its file an exception comes from.
"""

from __future__ import annotations

import errno
import importlib
import importlib.util
import linecache
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

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


def load_module(file: Path, name: str = "") -> ModuleType:
    """Import a file as a new module, named `name` or after the file. Raises what it raises."""
    spec = importlib.util.spec_from_file_location(name or file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def load_source(file: str, content: bytes) -> ModuleType:
    """Import what was read of a file, as a new module named after it. Raises what it raises.

    The file itself need not be there: tracebacks show its lines as they were read.
    """
    module = ModuleType(Path(file).stem)
    module.__file__ = file
    lines = content.decode(errors="replace").splitlines(keepends=True)
    linecache.cache[file] = (len(content), None, lines, file)
    sys.modules[module.__name__] = module
    exec(compile(content, file, "exec", dont_inherit=True), module.__dict__)
    return module


Function = Callable[..., Any]

#: Files that are nobody's own; the standard library's folder holds site-packages as well.
_LIBRARIES = (
    "<",
    *(str(Path(__file__).parents[2] / name) for name in ("pallascope", "grader")),
    sysconfig.get_path("stdlib"),
)


def function_at(place: str) -> Function:
    """FILE.py:NAME or MODULE:NAME. Raises ValueError; what importing raises is told as such."""
    where, _, name = place.rpartition(":")
    if not where:
        raise ValueError(f"{place!r} is not of the form FILE.py:NAME or MODULE:NAME")
    try:
        module = _imported(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    except Exception as error:
        said = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
        raise ValueError(f"{where} can't be imported: {said}{own_line(error)}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise ValueError(f"{where} has no function {name}")
    return function


def own_line(error: BaseException) -> str:
    """The innermost line of the user's own, on lines of its own; "" where there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if "site-packages" not in frame.filename and not frame.filename.startswith(_LIBRARIES):
            return f"\n  line   {frame.filename}:{frame.lineno}\n             {frame.line}"
    return ""


def _imported(file: Path) -> Any:
    """A file as a module; what lies beside it can be imported, as when it is run."""
    sys.path.insert(0, str(file.resolve().parent))
    return load_module(file.resolve())
