"""What one pytest session knows of its katas: seed, device, requirements, the bench."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import pytest

from grader.exercise.cases import hidden_cases
from grader.exercise.catalog import Kata, katas
from grader.exercise.keys import GPUS
from grader.grading.counted import Requirements
from grader.grading.grader import Grader
from grader.model import Case, Conditions, Device
from grader.sandbox.asking import Asking, Lines
from grader.sandbox.bench import Bench
from grader.sandbox.isolation import Isolation, Level, level
from grader.sandbox.launcher import Launcher
from grader.sandbox.on_hardware import OnHardware, OnTpu
from grader.tpu.chips import DEFAULT


class Session:
    """One process's session. Without a `launcher`, jax starts when the first kernel is graded.

    `alone`: no other process grades beside this one.
    """

    def __init__(
        self,
        root: Path,
        seed: int,
        device: Device,
        required: tuple[str, ...] = (),
        chips: tuple[str, ...] = (DEFAULT,),
        launcher: Launcher | None = None,
        alone: bool = True,
        isolation: Isolation = Isolation.AUTO,
        gpu: str = GPUS[0],
    ) -> None:
        self.root = root
        self.seed = seed
        self.device = device
        self.chips = chips
        self.gpu = gpu
        self._required = required
        self._launcher = launcher
        self._alone = alone
        self._isolation = isolation
        self.bench: Bench | None = None  # None before the first grade
        self._tpu: OnTpu | None = None

    @property
    def conditions(self) -> Conditions:
        """What its grades are given under."""
        return Conditions(self.seed, self.device, self.chips, str(self.isolated), self.gpu)

    @cached_property
    def isolated(self) -> Level:
        """What a process that imports a kata is isolated by."""
        return level(self._isolation)

    def cases(self, kata: Kata) -> tuple[Case, ...]:
        """The kata's hidden cases in this session. Raises keys.KeyProblem."""
        return hidden_cases(kata, self.seed)

    @cached_property
    def requirements(self) -> Requirements:
        """Which katas --kata-require names."""
        return Requirements(self._required, katas(self.root))

    @cached_property
    def grader(self) -> Grader:
        """Started on first use, closed with the session."""
        self.bench = Bench(self.device, self._launcher, self._isolation)
        self._tpu = OnTpu() if self.device.tpu else None
        lines, hardware = Lines(self.bench), OnHardware()
        asking = Asking(
            lines, self.chips, self._alone, gpu=self.gpu, hardware=hardware, tpu=self._tpu
        )
        return Grader(asking)

    def close(self) -> None:
        """End the bench's processes, if any were started."""
        if self.bench is not None:
            self.bench.close()
        elif self._launcher is not None:
            self._launcher.close()
        if self._tpu is not None:
            self._tpu.close()


SESSION = pytest.StashKey[Session]()
