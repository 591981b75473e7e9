"""Imports of Python files by path, functions by name, atomic writes, exit codes of commands."""

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
    """Write a file atomically: readers see the old text or the new one. Raises OSError.

    Creates the folder if needed. Lone surrogates are written as Python's escapes.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f"{file.name}.part")
    part.write_text(text, encoding="utf-8", errors="backslashreplace")
    os.replace(part, file)


def describe_os_error(error: OSError) -> str:
    """An error with its file, and a hint if the file is read-only."""
    if error.strerror is None:
        return str(error)
    if error.filename is None:
        return error.strerror
    message = f"{error.filename}: {error.strerror}"
    hint = ". This needs a clone that you may change"
    return message + hint if error.errno in _READ_ONLY else message


#: The exit code if the reader of the output has closed the pipe; rich uses the same.
EXIT_CLOSED_PIPE = 1


def exit_code(command: Callable[[], int], name: str) -> int:
    """Run a command that writes to standard output, and return its exit code.

    A ValueError or OSError is printed after `name`, and the code is 2. If the reader of the output
    has closed the pipe, as `| head` does, nothing is printed.
    """
    try:
        try:
            return command()
        finally:
            print(end="", flush=True)  # nothing where there is no stdout, as after `>&-`
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the last flush
        return EXIT_CLOSED_PIPE
    except OSError as error:
        print(f"{name}: {describe_os_error(error)}", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2


def load_module(file: Path, name: str = "") -> ModuleType:
    """Import a file as a new module, named `name` or after the file.

    Propagates exceptions from the file.
    """
    spec = importlib.util.spec_from_file_location(name or file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def load_source(file: str, content: bytes) -> ModuleType:
    """Import a file's content as a new module named after it. Propagates exceptions from the file.

    The file itself need not exist: tracebacks show the lines of `content`.
    """
    module = ModuleType(Path(file).stem)
    module.__file__ = file
    show_lines(file, content)
    sys.modules[module.__name__] = module
    exec(compile(content, file, "exec", dont_inherit=True), module.__dict__)
    return module


def show_lines(file: str, content: bytes) -> None:
    """From now on, messages quote the lines of `content` for a file, whatever it holds."""
    lines = content.decode(errors="replace").splitlines(keepends=True)
    linecache.cache[file] = (len(content), None, lines, file)


Function = Callable[..., Any]

#: Prefixes of files that aren't the user's; the standard library's folder has site-packages too.
_LIBRARIES = (
    "<",
    *(str(Path(__file__).parents[2] / name) for name in ("pallascope", "grader")),
    sysconfig.get_path("stdlib"),
)


def function_at(place: str) -> Function:
    """The function FILE.py:NAME or MODULE:NAME. Raises ValueError, also if the import fails."""
    module_name, _, name = place.rpartition(":")
    if not module_name:
        raise ValueError(f"{place!r} is not of the form FILE.py:NAME or MODULE:NAME")
    try:
        module = (
            _import_file(Path(module_name))
            if module_name.endswith(".py")
            else importlib.import_module(module_name)
        )
    except Exception as error:
        reason = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
        raise ValueError(f"{module_name} can't be imported: {reason}{user_line(error)}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise ValueError(f"{module_name} has no function {name}")
    return function


def user_line(error: BaseException) -> str:
    """The traceback's innermost line in the user's code, as text; "" if there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if "site-packages" not in frame.filename and not frame.filename.startswith(_LIBRARIES):
            return f"\n  line   {frame.filename}:{frame.lineno}\n             {frame.line}"
    return ""


def _import_file(file: Path) -> Any:
    """Import a file; it can import its neighbours, as when Python runs it."""
    sys.path.insert(0, str(file.resolve().parent))
    return load_module(file.resolve())
