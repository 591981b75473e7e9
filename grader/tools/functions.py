"""A function that a command line names, and where in its file an exception comes from."""

from __future__ import annotations

import importlib
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grader.tools.modules import load_module

Function = Callable[..., Any]

#: Files that are nobody's own; the standard library's folder holds site-packages as well.
_LIBRARIES = ("<", str(Path(__file__).parent.parent), sysconfig.get_path("stdlib"))


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
