"""Schedules that the TPU's own compiler makes, run: the truth about each is known otherwise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from pallascope.tpu.chips import CHIPS
from pallascope.tpu.schedule import (
    NotUnderstood,
    OperandSource,
    Schedule,
    simulate,
)
from pallascope.tpu.schedule.bundles import parse
from pallascope.tpu.schedule.machine import Machine
from pallascope.tpu.schedule.scalar_core import ScheduleProgram
from tests.pallascope.support import ROOT

pytest.importorskip("libtpu")

PLANE = 256 * 256 * 4


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """By chip and name; compiled in a process of its own, for libtpu reads its environment once."""
    folder = tmp_path_factory.mktemp("schedules")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TPU_", "LIBTPU_"))}
    subprocess.run(
        [sys.executable, "-m", "tests.pallascope.support.schedule_kernels", str(folder / "all")],
        cwd=ROOT,
        env={**clean, "JAX_PLATFORMS": "cpu", "PYTHONDONTWRITEBYTECODE": "1"},
        check=True,
        timeout=300,
    )
    return json.loads((folder / "all").read_text(encoding="utf-8"))


ON_ALL = pytest.mark.parametrize("chip", ["v5e", "v6e", "tpu7x"])


def known(kernel: dict[str, Any]) -> dict[OperandSource, list[int]]:
    return {OperandSource("input", n): words for n, words in enumerate(kernel["words"]) if words}


def schedule(kernel: dict[str, Any], chip: str) -> Schedule:
    return simulate(kernel["listing"], CHIPS[chip], {}, known(kernel), most_events=1000)


def moved(found: Schedule) -> dict[str, int]:
    return {one.operand: one.size for one in found.moved}


class Recorder(Machine):
    """Keeps what is written out of SMEM."""

    written: list[Any]

    def transfer(self, kind: str, source: Any, granules: Any, *rest: Any, **kwargs: Any) -> None:
        if kind == "smem_to_hbm":
            count = granules * self.granule // 4
            self.written = [self.memory.get(source + n) for n in range(count)]
        super().transfer(kind, source, granules, *rest, **kwargs)


@ON_ALL
def test_the_scalar_core_computes_what_jax_does(kernels: Any, chip: str) -> None:
    kernel = kernels[chip]["arithmetic"]
    machine = Recorder(1.0, 1.0, CHIPS[chip].granule, {}, known(kernel), 0)
    ScheduleProgram(parse(kernel["listing"]), CHIPS[chip].branch_delay).run(machine)
    assert [word or 0 for word in machine.written] == kernel["truth"]


@pytest.mark.parametrize(
    ("chip", "name"),
    [
        ("v5e", "table int32"),
        ("v5e", "table int16"),
        ("v5e", "table int8"),
        ("v6e", "table int8"),
        ("tpu7x", "table int8"),
        ("v5e", "table int8 of few rows"),
        ("v5e", "table int4"),
        ("v5e", "table of rank 1"),
        ("v5e", "table bool"),
        ("v5e", "division"),
        ("v5e", "remainder"),
        ("v6e", "remainder"),
        ("tpu7x", "remainder"),
        ("v5e", "bounds"),
    ],
)
def test_blocks_move_as_the_index_maps_say(kernels: Any, chip: str, name: str) -> None:
    kernel = kernels[chip][name]
    found = schedule(kernel, chip)
    kinds = ["input"] * (len(kernel["bytes"]) - 1) + ["output"]
    assert moved(found) == {
        f"{kind} {n}": size
        for n, (kind, size) in enumerate(zip(kinds, kernel["bytes"], strict=True))
    }
    assert len(found.turns) == kernel["steps"] + 2
    assert found.cycles == pytest.approx(found.issue + sum(one.stalled for one in found.moved))


def test_a_dynamic_grid_is_as_large_as_it_is(kernels: Any) -> None:
    found = schedule(kernels["v5e"]["dynamic grid"], "v5e")
    assert moved(found) == {"input 1": 5 * 4096, "output 2": 5 * 4096}
    assert len(found.turns) == 5 + 2


def test_without_its_size_a_grid_is_not_understood(kernels: Any) -> None:
    kernel = {**kernels["v5e"]["dynamic grid"], "words": []}
    with pytest.raises(NotUnderstood, match=r"^control flow depends on the value of input 0$"):
        schedule(kernel, "v5e")


def test_loops_turn_as_often_as_they_are_told(kernels: Any) -> None:
    kernel = kernels["v5e"]["trips"]
    listing = parse(kernel["listing"])
    machine = Machine(1.0, 1.0, CHIPS["v5e"].granule, {}, known(kernel), 0)
    ran = ScheduleProgram(listing, CHIPS["v5e"].branch_delay).run(machine)
    powers = sum(
        count * sum(one.opcode.startswith(("vexp2", "vpow2")) for one in bundle.instructions)
        for bundle, count in zip(listing, ran.counts, strict=True)
    )
    assert powers == kernel["truth"]


def test_copies_by_hand(kernels: Any) -> None:
    found = schedule(kernels["v5e"]["double buffered"], "v5e")
    assert moved(found) == {"input 0": 4 * PLANE, "output 1": PLANE}
    reads = [transfer for transfer in found.transfers if transfer.inward]
    assert len(reads) == 4
    assert reads[1].start < reads[0].end  # one ahead


@ON_ALL
def test_pipelines_in_pipelines(kernels: Any, chip: str) -> None:
    found = schedule(kernels[chip]["nested pipelines"], chip)
    assert moved(found) == {"input 0": 4 * PLANE, "output 1": 4 * PLANE}


def test_strides_along_three_axes(kernels: Any) -> None:
    assert moved(schedule(kernels["v5e"]["strided"], "v5e")) == {"input 0": 4 * 8 * 128 * 4}


def test_a_copy_within_hbm_takes_at_least_its_bytes(kernels: Any) -> None:
    found = schedule(kernels["v5e"]["from HBM to HBM"], "v5e")
    assert found.least == "a DMA from HBM to HBM: its speed was never measured"
    assert found.cycles >= found.bytes / CHIPS["v5e"].bandwidth * CHIPS["v5e"].clock


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("never started", "a wait for something that this core never sends"),
        ("never awaited", "the kernel stops with an error: Semaphore"),
        ("by vector data", "control flow depends on values that the vector units compute"),
    ],
)
def test_what_is_not_understood_has_a_reason(kernels: Any, name: str, why: str) -> None:
    with pytest.raises(NotUnderstood, match=f"^{why}"):
        schedule(kernels["v5e"][name], "v5e")
