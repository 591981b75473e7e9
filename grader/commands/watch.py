"""`kata watch`: threads, terminal and options around `Watch`."""

from __future__ import annotations

import argparse
import contextlib
import queue
import sys
from pathlib import Path

from rich.console import Console

from grader.exercise.cases import random_seed
from grader.model import Mode
from grader.sandbox import devices
from grader.tpu.chips import CHIPS, DEFAULT
from grader.watching.events import Event
from grader.watching.keyboard import keyboard
from grader.watching.lanes import Lanes, lanes_here
from grader.watching.saves import Saves
from grader.watching.screen import KEYS, Screen
from grader.watching.side_commands import Commands
from grader.watching.watch import Settings, Watch

TIMEOUT = 30.0  # seconds for a hidden case, as for pytest


def arguments(parser: argparse.ArgumentParser) -> None:
    keys = ", ".join(f"{key} {word}" for key, word in KEYS.items())
    parser.epilog = f"Keys: {keys}. A pass is confirmed, and recorded, by pytest."
    parser.add_argument("name", nargs="?", default="", help="only these katas, as for pytest -k")
    parser.add_argument(
        "--poll",
        action="store_true",
        help="look at the files again and again, where the file system tells of no change "
        "(network drives, some containers)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="S",
        help="draw hidden cases as the session did that printed this seed (default: random)",
    )
    parser.add_argument(
        "--chip", choices=list(CHIPS), default=DEFAULT, help="the TPU (default: %(default)s)"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=TIMEOUT,
        metavar="SECONDS",
        help="stop a kernel that takes longer; 0: never (default: %(default)g)",
    )


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    seed = random_seed() if options.seed is None else options.seed
    settings = Settings(root, options.name, seed, options.chip, options.timeout or None)
    device = devices.choose(Mode.STRICT.value, devices.Hardware(tpu=False, gpu=False))
    commands = Commands(root, events.put, console.is_terminal)
    recorder = Commands(root, events.put, console.is_terminal)
    with contextlib.ExitStack() as stack:
        stack.callback(commands.drop)
        stack.callback(recorder.drop)
        keys = console.is_terminal and stack.enter_context(keyboard(sys.stdin, events.put))
        lanes = Lanes(device, (options.chip,), events.put, lanes_here())
        screen = Screen(console, console.is_terminal, keys)
        watch = Watch(settings, lanes, commands, recorder, screen)
        stack.enter_context(lanes)
        saves = Saves(root, events.put, options.poll)
        saves.start()
        stack.callback(saves.close)
        watch.begin()
        while watch.handle(events.get()):
            pass
    return 0
