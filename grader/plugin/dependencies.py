"""Checks for missing packages, before anything imports them.

Without the environment activated, `pytest` may be that of another environment.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

MIN_PYTHON = (3, 11)
#: The packages that grading needs, with the modules that are imported.
REQUIRED_MODULES = {
    "jax": "jax",
    "ml_dtypes": "ml_dtypes",
    "numpy": "numpy",
    "pytest-timeout": "pytest_timeout",
    "jaxtyping": "jaxtyping",
    "beartype": "beartype",
    "rich": "rich",
}
_ROOT = Path(__file__).parents[2]
_INSTALL_COMMAND = "python3 -m venv .venv && .venv/bin/pip install -q -e '.[tpu]'"


def require(root: Path = _ROOT) -> None:
    """Raise pytest.UsageError, with a remedy, if this Python can't grade.

    The README's command creates the environment in `root`.
    """
    missing = [
        name
        for name, module in REQUIRED_MODULES.items()
        if importlib.util.find_spec(module) is None
    ]
    version = "{}.{}".format(*sys.version_info)
    needed = "{}.{}".format(*MIN_PYTHON)
    if sys.version_info < MIN_PYTHON:
        reason = f"is Python {version}, and grading needs {needed} or newer"
    elif missing:
        reason = f"lacks packages that grading needs: {', '.join(missing)}"
    else:
        return
    is_active = Path(sys.prefix) == root / ".venv"
    if (root / ".venv").is_dir() and not is_active:
        remedy = "Run `source .venv/bin/activate`, and pytest again; or run .venv/bin/pytest."
    else:
        remedy = f"Install it as README.md says, and run .venv/bin/pytest:\n  {_INSTALL_COMMAND}"
    raise pytest.UsageError(f"the Python of this pytest, {sys.executable}, {reason}.\n{remedy}")
