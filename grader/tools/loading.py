"""A Python file as a module, by its path."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def loaded(file: Path, name: str = "") -> ModuleType:
    """Import a file as a fresh module, called `name` or as the file is. Raises what it raises."""
    spec = importlib.util.spec_from_file_location(name or file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
