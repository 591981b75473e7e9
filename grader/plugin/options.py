"""The options --kata-…."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.exercise.targets import GPUS
from grader.sandbox import devices
from grader.sandbox.isolation import Isolation
from pallascope.tpu.chips import CHIPS, DEFAULT

ALL_CHIPS = "all"
SEED = "kata_seed"  # the key of the controller's seed in an xdist worker's input


def chips(option: str) -> tuple[str, ...]:
    """The chips of --kata-chip. Costs are judged on the first."""
    if option == ALL_CHIPS:
        return (DEFAULT, *(name for name in CHIPS if name != DEFAULT))
    return (option,)


def add_options(parser: pytest.Parser) -> None:
    """Add every option."""
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
