"""Loads the plugin: options, --pdb, and the process that imports jax.

Importing jax takes as long as everything else, so its process starts before this one imports the
rest. SIGTERM, with which a workflow or an editor stops pytest, works like Ctrl-C, so that grades
are written and temporary files removed.
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
from grader.exercise.catalog import Kata, katas, selects, settings
from grader.exercise.targets import GPUS
from grader.sandbox import devices
from grader.sandbox.isolation import Isolation, NotIsolated, demanded
from grader.sandbox.launcher import Launcher
from pallascope.tpu.chips import CHIPS, DEFAULT

ALL_CHIPS = "all"


def chips(option: str) -> tuple[str, ...]:
    """The chips of --kata-chip. Costs are judged on the first."""
    if option == ALL_CHIPS:
        return (DEFAULT, *(name for name in CHIPS if name != DEFAULT))
    return (option,)


class Terminated(KeyboardInterrupt):
    """SIGTERM was received. pytest ends its session, writes its summary, and exits with 2."""


def raise_on_sigterm() -> Callable[[], None]:
    """Make the first SIGTERM raise Terminated. Returns a function that undoes this.

    Nothing changes outside of the main thread, or if there is another handler.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return lambda: None
    signal.signal(signal.SIGTERM, _terminate)
    return _restore


def _terminate(*_: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the session is ending already
    raise Terminated("SIGTERM")


def _restore() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("katas", "Pallas katas")
    group.addoption(
        "--kata-seed",
        type=int,
        metavar="N",
        help="draw the same hidden cases as the session that printed this seed (default: random)",
    )
    group.addoption(
        "--kata-mode",
        choices=devices.MODES,
        default=devices.AUTO,
        help="strict: the TPU interpreter; auto: the same, and kernels that pass also run on this "
        "machine's TPU; interpret: the plain, forgiving interpreter; compiled: only on the TPU. "
        "The last two record nothing (default: %(default)s)",
    )
    group.addoption(
        "--kata-chip",
        choices=[*CHIPS, ALL_CHIPS],
        default=DEFAULT,
        help="the TPU to compile for, and to predict costs on (default: %(default)s); all: compile "
        f"for each, costs on {DEFAULT}",
    )
    group.addoption(
        "--kata-gpu",
        choices=[*GPUS],
        default=GPUS[0],
        help="the GPU to compile katas for GPUs for (default: %(default)s)",
    )
    group.addoption(
        "--kata-isolation",
        choices=[isolation.value for isolation in Isolation],
        default=Isolation.AUTO.value,
        help="isolate a kata's process from other files, the network and other processes, with "
        "Linux's Landlock and seccomp: auto: as far as the kernel can; require: fully, or grade "
        "nothing; off: not at all",
    )
    group.addoption(
        "--kata-require",
        action="append",
        default=[],
        metavar="TRACK_OR_KATA",
        help="count a todo of these katas as a failure; matches like -k; may be repeated",
    )
    group.addoption(
        "--kata-json",
        type=Path,
        metavar="FILE",
        help="write every grade with its findings (schema: docs/json-schema.md)",
    )
    group.addoption(
        "--kata-summary",
        type=Path,
        metavar="FILE",
        help='append the map as Markdown, for a workflow\'s "$GITHUB_STEP_SUMMARY"',
    )


def pytest_configure(config: pytest.Config) -> None:
    worker_input: dict[str, Any] = getattr(config, "workerinput", {})
    options_given = config.option
    alone = not (worker_input or _is_xdist_controller(config))
    try:
        settings(config.rootpath)
        device = devices.choose(options_given.kata_mode, devices.probe(os.environ), alone)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    if any(katas(config.rootpath)):
        config.add_cleanup(raise_on_sigterm())
    isolation = Isolation(options_given.kata_isolation)
    try:
        demanded(isolation)
    except NotIsolated as error:
        raise pytest.UsageError(f"--kata-isolation require: {error}") from None
    needs_jax = _has_kernels_to_grade(config)
    launcher = Launcher(device, isolation=isolation) if needs_jax else None

    from grader.plugin import hooks
    from grader.plugin.items import SEED, SESSION, Session
    from grader.plugin.reporter import Reporter

    seed = worker_input.get(SEED, options_given.kata_seed)
    session = Session(
        config.rootpath,
        random_seed() if seed is None else seed,
        device,
        tuple(options_given.kata_require),
        chips(options_given.kata_chip),
        launcher,
        alone=not worker_input,
        isolation=isolation,
        gpu=options_given.kata_gpu,
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


def _has_kernels_to_grade(config: pytest.Config) -> bool:
    """Whether this process will probably grade a kernel. Nothing is collected yet."""
    option = config.option
    if option.collectonly or option.help or option.version or option.setupplan or option.setuponly:
        return False
    if _is_xdist_controller(config):
        return False
    return any(not kata.untouched() for kata in _selected_katas(config))


def _is_xdist_controller(config: pytest.Config) -> bool:
    """Whether this process is xdist's controller, whose workers do the grading."""
    return bool(getattr(config.option, "tx", None)) and not hasattr(config, "workerinput")


def _selected_katas(config: pytest.Config) -> Iterator[Kata]:
    """The katas that the command line's paths and -k select."""
    paths = [Path(config.invocation_params.dir, arg.partition("::")[0]) for arg in config.args]
    expression = config.option.keyword
    for kata in katas(config.rootpath):
        is_in_paths = any(path == kata.path or path in kata.path.parents for path in paths)
        if is_in_paths and (not expression or selects(expression, kata)):
            yield kata
