"""Predictions and verdicts are functions of text, case, chip and versions: of nothing else.

Two processes with different hash seeds, one in the opposite order of the other, predict a dozen
kernels; for `.ci/full`, more. (That a solution's time is the same in two workers is seen with each
of its verdicts.) Each writes what it found to a file:

    python -m tests.course.test_determinism FILE forward|backward STEP
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from grader.exercise.cases import draw
from grader.exercise.catalog import Kata, katas
from pallascope.runs.launch_runs import trace_argument
from pallascope.tools import codec
from pallascope.tpu import Prediction
from tests.support.contract import Plan
from tests.support.repositories import ROOT
from tools.benchmarks import verdicts

Launch = tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Found:
    """The kernels of one launch."""

    name: str
    kernels: tuple[Prediction, ...]


@dataclass(frozen=True, slots=True)
class All:
    found: tuple[Found, ...]


def solution(kata: Kata) -> Launch:
    """A solution in the first of its hidden cases."""
    from grader.exercise import specs

    spec = importlib.util.spec_from_file_location(kata.stem, kata.solution)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[kata.stem] = module
    spec.loader.exec_module(module)
    case = draw(kata.id, kata.key, 0)[0]
    reference = specs.reference(module, kata.name, case, evaluated=False)
    inputs = list(map(trace_argument, reference.inputs))
    return getattr(module, kata.name), inputs, reference.keywords


def others() -> dict[str, Callable[[], Launch]]:
    """What the solutions don't show: scalar prefetch, dynamic grids, manual DMA, loops within."""
    import jax.numpy as jnp
    import numpy as np
    from jax.experimental.pallas.ops.tpu import paged_attention, splash_attention

    from tests.pallascope.support import launches, schedule_kernels

    groups = np.array([40, 0, 200, 16], np.int32)
    gmm: Any = importlib.import_module("jax.experimental.pallas.ops.tpu.megablox.gmm")

    def grouped() -> Launch:
        x, w = (launches.shape("bfloat16", *sizes) for sizes in ((256, 256), (4, 256, 128)))
        return gmm.gmm, [x, w, groups], {"preferred_element_type": jnp.bfloat16}

    def paged() -> Launch:
        pages = launches.shape("bfloat16", 2, 32, 16, 128)
        table = np.arange(32, dtype=np.int32)[::-1].reshape(4, 8).copy()
        lengths = np.array([5, 128, 64, 90], np.int32)
        q = launches.shape("bfloat16", 4, 16, 128)
        keywords = {"pages_per_compute_block": 4}
        return paged_attention.paged_attention, [q, pages, pages, lengths, table], keywords

    def masked() -> Launch:
        masks = splash_attention.MultiHeadMask([splash_attention.LocalMask((512, 512), (64, 0), 0)])
        kernel = splash_attention.make_splash_mha_single_device(masks)
        return kernel, [launches.shape("bfloat16", 1, 512, 128)] * 3, {}

    def drawn() -> Launch:
        one = next(launches.draw(seed=1, count=1))
        return one.launch, [one.argument], {}

    def made(name: str) -> Callable[[], Launch]:
        return lambda: (*schedule_kernels.KERNELS[name]()[:2], {})

    return {
        "grouped matmul": grouped,
        "paged attention": paged,
        "masked attention": masked,
        "drawn blocks": drawn,
        **{name: made(name) for name in ("double buffered", "nested pipelines")},
    }


def launches_by_name(step: int) -> dict[str, Callable[[], Launch]]:
    """Functions that make each launch: every `step`-th solution, and what they don't show.

    Launches for several devices and for GPUs have no predicted time, and those for two cores none
    on one.
    """
    every = [kata for kata in katas(ROOT, "solutions") if kata.key.kernel and not kata.key.mesh]
    solved = [kata for kata in every if kata.key.cores == 1 and kata.key.target.uses_libtpu][::step]
    return {kata.name: functools.partial(solution, kata) for kata in solved} | others()


def main(file: str, order: str, step: str) -> None:
    """Predict all, first to last or last to first, and write them down first to last."""
    from pallascope.tpu import predictions

    makers = launches_by_name(int(step))
    found: dict[str, Found] = {}
    for name in makers if order == "forward" else reversed(makers):
        function, args, keywords = makers[name]()
        found[name] = Found(name, predictions(function, *args, events=100, **keywords))
    Path(file).write_bytes(codec.pack(All(tuple(found[name] for name in makers))))


def start(file: Path, order: str, seed: int, step: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.course.test_determinism", str(file), order, str(step)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(seed), "JAX_PLATFORMS": "cpu"},
        stderr=subprocess.PIPE,
    )


@pytest.fixture(scope="module")
def results(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> tuple[bytes, bytes]:
    """What both processes wrote."""
    step = 10 if Plan.of(pytestconfig).every_case else 30
    pytest.importorskip("libtpu")
    folder = tmp_path_factory.mktemp("predictions")
    files = folder / "one", folder / "two"
    processes = [
        start(file, order, seed, step)
        for file, order, seed in zip(files, ("forward", "backward"), (1, 2), strict=True)
    ]
    for process in processes:
        _, err = process.communicate(timeout=240)
        assert process.returncode == 0, err.decode()
    return files[0].read_bytes(), files[1].read_bytes()


@pytest.mark.timeout(280)
def test_two_processes_predict_the_same_to_the_byte(results: tuple[bytes, bytes]) -> None:
    one, two = (codec.unpack(All, packed) for packed in results)
    different = [a.name for a, b in zip(one.found, two.found, strict=True) if a != b]
    assert not different
    assert results[0] == results[1]


@pytest.mark.timeout(280)
def test_each_launch_has_a_predicted_time(results: tuple[bytes, bytes]) -> None:
    found = codec.unpack(All, results[0]).found
    assert len(found) >= 10
    unknown = {one.name: k.unknown for one in found for k in one.kernels if k.seconds is None}
    assert not unknown
    assert all(one.kernels for one in found)


#: Katas whose known mistakes are graded three times: a race, a deadlock, a copy that is late.
SOME, MANY = ("kata_02_tma_copy",), ("10_gpu", "1_basics")


@pytest.mark.timeout(1800)
def test_verdicts_are_the_same_beside_other_work(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Three runs at the same time, which delay each other."""
    for word in MANY if Plan.of(pytestconfig).every_case else SOME:
        files = [tmp_path / f"{word}.{run}.jsonl" for run in range(3)]
        command = [sys.executable, "-m", "tools.benchmarks.verdicts", "write"]
        options = ["--kinds", "mistake", "-k", word]
        runs = [subprocess.Popen([*command, str(file), *options], cwd=ROOT) for file in files]
        assert [run.wait() for run in runs] == [0, 0, 0]
        graded = [verdicts.read(file) for file in files]
        assert len(graded[0]) >= 5
        assert graded[0] == graded[1] == graded[2]


if __name__ == "__main__":
    main(*sys.argv[1:])
