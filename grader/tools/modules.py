"""Import a Python file by its path, or what was read of it."""

from __future__ import annotations

import importlib.util
import linecache
import sys
from pathlib import Path
from types import ModuleType


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
