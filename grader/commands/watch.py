"""`kata watch`: threads, terminal and options."""

from __future__ import annotations

import argparse
import contextlib
import queue
import sys
import tomllib
from pathlib import Path

from rich.console import Console

from grader.commands.arguments import some_katas
from grader.commands.launches import chip_option
from grader.exercise.cases import random_seed
from grader.sandbox import devices
from grader.tools import editor
from grader.watching.background_jobs import BackgroundCommands, GradingThreads, thread_count
from grader.watching.watch_events import Event, FileWatcher, keyboard
from grader.watching.watch_loop import Watch
from grader.watching.watch_screen import KEYS, Screen, Settings
from pallascope.model import Mode


def watch_arguments(parser: argparse.ArgumentParser) -> None:
    keys = ", ".join(f"{key} {word}" for key, word in KEYS.items())
    parser.epilog = f"Keys: {keys}. pytest confirms and records what passes."
    some_katas(parser)
    parser.add_argument(
        "--poll",
        action="store_true",
        help="check the files for changes several times a second, on file systems that don't "
        "report changes (network drives, some containers)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="S",
        help="draw the same hidden cases as the session that printed this seed (default: random)",
    )
    chip_option(parser)
    parser.add_argument(
        "--timeout",
        type=float,
        metavar="SECONDS",
        help="stop a kernel that takes longer; 0: never (default: as pytest, see pyproject.toml)",
    )


def run_watch(options: argparse.Namespace, root: Path, console: Console) -> int:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    seed = random_seed() if options.seed is None else options.seed
    seconds = pytest_timeout(root) if options.timeout is None else options.timeout
    settings = Settings(root, options.name, seed, options.chip, seconds or None)
    device = devices.choose(Mode.STRICT.value, devices.Hardware(tpu=False, gpu=False))
    commands = BackgroundCommands(root, events.put, console.is_terminal)
    recorder = BackgroundCommands(root, events.put, console.is_terminal)
    with contextlib.ExitStack() as stack:
        stack.callback(commands.cancel)
        stack.callback(recorder.cancel)
        keys = console.is_terminal and stack.enter_context(keyboard(sys.stdin, events.put))
        threads = GradingThreads(device, (options.chip,), events.put, thread_count())
        screen = Screen(console, console.is_terminal, keys)
        watch = Watch(settings, threads, commands, recorder, screen, _open_in_window)
        stack.enter_context(threads)
        watcher = FileWatcher(root, events.put, options.poll)
        watcher.start()
        stack.callback(watcher.close)
        watch.begin()
        while watch.handle(events.get()):
            pass
    return 0


def pytest_timeout(root: Path) -> float:
    """Seconds for a hidden case: pytest-timeout's in pyproject.toml; 0 for no limit."""
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return 0
    return float(project.get("tool", {}).get("pytest", {}).get("ini_options", {}).get("timeout", 0))


def _open_in_window(file: Path, line: int) -> str:
    """Open an editor in its own window, because the watch uses the terminal."""
    return editor.open_at(file, line, terminal=False)
