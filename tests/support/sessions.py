"""pytest sessions, run in this process or in a separate one.

A session in this process takes a tenth of the time: pytest and the grader are imported already,
and a pool that other tests have used has imported jax.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from grader.plugin import items, start
from grader.sandbox.messages import WorkerRole
from grader.sandbox.worker_pool import WorkerPool
from grader.verdict import Device

#: Root, arguments and added environment in; exit code, and what stdout and stderr got.
Session = Callable[[Path, Sequence[str], Mapping[str, str]], tuple[int, str]]

#: The small repositories of tests have no conftest.py that loads the plugin.
_PLUGIN = ("-p", "grader.plugin")


class LentPool(WorkerPool):
    """A pool that sessions use one after another. Each gets it like a new one, but warm."""

    def opened(self, device: Device) -> WorkerPool:
        """Gives this pool to a session that would open one for this device, which is the CPU."""
        assert device.backend == self.device.backend
        self.device = device
        return self

    def close(self) -> None:
        """End the processes that have imported a file of the session, or still owe an answer."""
        for post, worker in list(self._workers.items()):
            if worker.busy or post in (WorkerRole.ATTEMPTING, WorkerRole.SPARE):
                self._drop(post)
        self._attempted = None

    def give_back(self) -> None:
        """End the fork server, too."""
        super().close()


def here(
    opened: Callable[[Device], WorkerPool],
    root: Path,
    arguments: Sequence[str],
    environ: Mapping[str, str],
) -> tuple[int, str]:
    """A session in this process. `opened` gives it its pool."""
    text = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with pytest.MonkeyPatch.context() as patch, _imports_of(root), _garbage_of_its_own():
        patch.chdir(root)
        for name, value in {"PYTEST_ADDOPTS": "", **environ}.items():
            patch.setenv(name, value)
        patch.setattr(items, "WorkerPool", lambda device, *_: opened(device))
        patch.setattr(start, "_has_kernels_to_grade", lambda _config: False)  # jax is there already
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            code = pytest.main([*_PLUGIN, *arguments])
    return int(code), text.buffer.getvalue().decode()  # type: ignore[attr-defined]


@contextlib.contextmanager
def _imports_of(root: Path) -> Iterator[None]:
    """Forget afterwards what was imported from below `root`, and that it was looked for there."""
    path, modules = list(sys.path), set(sys.modules)
    try:
        yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            file = getattr(sys.modules[name], "__file__", None)
            if file and Path(file).is_relative_to(root):
                del sys.modules[name]


@contextlib.contextmanager
def _garbage_of_its_own() -> Iterator[None]:
    """Collect garbage only among objects that are made meanwhile: pytest collects at the end of
    each session, and for all objects of this process that takes up to a second."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def apart(
    timeout: float, root: Path, arguments: Sequence[str], environ: Mapping[str, str]
) -> tuple[int, str]:
    """A session in a separate process, with a limit of `timeout` seconds."""
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *_PLUGIN, *arguments],
        cwd=root,
        env={**os.environ, "PYTEST_ADDOPTS": "", **environ},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return ran.returncode, ran.stdout + ran.stderr
