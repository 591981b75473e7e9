"""Says which packages are missing, before anything imports them.

Whoever forgets to activate the environment runs the pytest of another one.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

PYTHON = (3, 11)
#: Without these nothing can be graded: the names of packages, and what is imported of them.
MODULES = {
    "jax": "jax",
    "ml_dtypes": "ml_dtypes",
    "numpy": "numpy",
    "pytest-timeout": "pytest_timeout",
    "jaxtyping": "jaxtyping",
    "beartype": "beartype",
    "rich": "rich",
}
_ROOT = Path(__file__).parents[2]
_INSTALL = "python3 -m venv .venv && .venv/bin/pip install -q -e '.[tpu]'"


def require(root: Path = _ROOT) -> None:
    """Raise pytest.UsageError where this Python can't grade, with what to do instead.

    `root` is where the environment is made by the README's command.
    """
    lacks = [name for name, module in MODULES.items() if importlib.util.find_spec(module) is None]
    version = "{}.{}".format(*sys.version_info)
    needed = "{}.{}".format(*PYTHON)
    if sys.version_info < PYTHON:
        reason = f"is Python {version}, and grading needs {needed} or newer"
    elif lacks:
        reason = f"lacks what grading needs: {', '.join(lacks)}"
    else:
        return
    here = Path(sys.prefix) == root / ".venv"
    if (root / ".venv").is_dir() and not here:
        remedy = "Run `source .venv/bin/activate`, and pytest again; or run .venv/bin/pytest."
    else:
        remedy = f"Install it as README.md says, and run .venv/bin/pytest:\n  {_INSTALL}"
    raise pytest.UsageError(f"the Python of this pytest, {sys.executable}, {reason}.\n{remedy}")
