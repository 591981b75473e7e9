"""Loads the plugin: options, then the process that imports jax.

SIGTERM, with which a workflow or an editor stops pytest: an orderly end, as by Ctrl-C.
Left to itself it would end the process at once: no grades written, no temporary files removed.

What pytest loads: the options and, where there is something to grade, jax's process.
Importing jax takes as long as all the rest, so that process starts before this one imports what it
judges with.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grader.exercise.cases import random_seed
from grader.exercise.catalog import Kata, katas, selects
from grader.plugin import options
from grader.sandbox import devices
from grader.sandbox.isolation import Isolation, NotIsolated, demanded
from grader.sandbox.worker_pool import Launcher


class Terminated(KeyboardInterrupt):
    """SIGTERM has come. pytest ends its session then, tells what it knows, exits with 2."""


def end_orderly() -> Callable[[], None]:
    """From now on SIGTERM raises Terminated, once; returns what takes that back.

    Whoever has a handler already keeps it, and so does a pytest that isn't in the main thread.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return lambda: None
    signal.signal(signal.SIGTERM, _terminate)
    return _restore


def _terminate(*_: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the end has begun
    raise Terminated("SIGTERM")


def _restore() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    options.add(parser)


def pytest_configure(config: pytest.Config) -> None:
    worker_input: dict[str, Any] = getattr(config, "workerinput", {})
    given = config.option
    seed = worker_input.get(options.SEED, given.kata_seed)
    alone = not (worker_input or _deals(config))
    try:
        device = devices.choose(given.kata_mode, devices.probe(os.environ), alone)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    if any(katas(config.rootpath)):
        config.add_cleanup(end_orderly())
    isolation = Isolation(given.kata_isolation)
    try:
        demanded(isolation)
    except NotIsolated as error:
        raise pytest.UsageError(f"--kata-isolation require: {error}") from None
    something = _something_to_grade(config)
    launcher = Launcher(device, isolation=isolation) if something else None

    from grader.plugin import hooks
    from grader.plugin.items import SESSION, Session
    from grader.plugin.reporter import Reporter

    session = Session(
        config.rootpath,
        random_seed() if seed is None else seed,
        device,
        tuple(given.kata_require),
        options.chips(given.kata_chip),
        launcher,
        alone=not worker_input,
        isolation=isolation,
        gpu=given.kata_gpu,
    )
    config.stash[SESSION] = session
    config.add_cleanup(session.close)
    _require_known(session.requirements.unknown)
    config.pluginmanager.register(hooks, "kata-hooks")
    if not worker_input:
        config.pluginmanager.register(Reporter(config), "kata-reporter")


def _require_known(unknown: Any) -> None:
    try:
        names = unknown()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    if names:
        raise pytest.UsageError(f"--kata-require: {names[0]}")


def _something_to_grade(config: pytest.Config) -> bool:
    """Whether this process will grade a kernel, as far as that can be told before collecting."""
    given = config.option
    if given.collectonly or given.help or given.version or given.setupplan or given.setuponly:
        return False
    if _deals(config):
        return False
    return any(not kata.untouched() for kata in _selected(config))


def _deals(config: pytest.Config) -> bool:
    """Whether this process is xdist's controller, which leaves the grading to its workers."""
    return bool(getattr(config.option, "tx", None)) and not hasattr(config, "workerinput")


def _selected(config: pytest.Config) -> Iterator[Kata]:
    """The katas that the command line's paths and -k leave."""
    paths = [Path(config.invocation_params.dir, arg.partition("::")[0]) for arg in config.args]
    expression = config.option.keyword
    for kata in katas(config.rootpath):
        named = any(path == kata.path or path in kata.path.parents for path in paths)
        if named and (not expression or selects(expression, kata)):
            yield kata
