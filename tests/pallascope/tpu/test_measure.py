"""Measuring with a stand-in for the TPU: the source of times, children that fail, rows, screens."""

from __future__ import annotations

import datetime
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from pallascope.kernels import TracedLaunch
from pallascope.model import Array
from pallascope.tools.arrays import from_numpy
from pallascope.tools.text import render_text
from pallascope.tpu import measure
from pallascope.tpu.__main__ import main
from pallascope.tpu.measure import (
    DeviceEvent,
    JaxTpu,
    LocalTpu,
    MeasuredLaunch,
    MeasuredSide,
    MeasuredTimes,
    MeasureFailure,
    MeasureQuestion,
    Method,
    NoTpu,
    append_rows,
    chip_of_kind,
    contents_of,
    event_times,
    events_below,
    measured,
    measured_screen,
)
from tests.pallascope.support import stand_in_tpu
from tests.pallascope.support.stand_in_tpu import EMPTY, KERNEL, KIND, StandInTpu, kernel_events


def doubled(x: Any) -> Any:
    def double_kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2

    return pl.pallas_call(double_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def question(shape: tuple[int, ...] = (8, 128), values: Sequence[float] = (1.0, 2.0)) -> Any:
    """Measure `doubled`, whose input repeats these values."""
    traced = TracedLaunch.of(doubled, [jax.ShapeDtypeStruct(shape, jnp.float32)], {})
    return MeasureQuestion(traced.dumped(), (from_numpy(np.array(values, np.float32)),))


# ---- the source of times ----


def test_a_launch_runs_on_contents_that_repeat() -> None:
    device = StandInTpu()
    measured(question(), device)
    (result,) = device.results
    assert result.shape == (8, 128)
    assert result[0, :4].tolist() == [2.0, 4.0, 2.0, 4.0]


def test_the_events_of_kernels_count_alone() -> None:
    found = measured(question(), StandInTpu())
    assert found.method is Method.KERNELS
    assert len(found.seconds) == measure.MOST
    assert found.seconds[0] == pytest.approx(KERNEL)
    assert found.seconds[1] > found.seconds[0]


def test_the_kernels_of_one_launch_are_added() -> None:
    found = event_times(kernel_events(4, each=3), 4)
    assert found
    assert found.seconds[0] == pytest.approx(3 * KERNEL)


def test_without_a_known_kernel_the_program_counts() -> None:
    events = [event for event in kernel_events(4) if not event.kernel]
    found = event_times(events, 4)
    assert found == MeasuredTimes((1e-3,) * 4, Method.PROGRAM)


def test_events_that_fit_no_repetition_count_for_nothing() -> None:
    assert event_times(kernel_events(4)[:-1], 4) == MeasuredTimes((1e-3,) * 4, Method.PROGRAM)
    assert event_times([DeviceEvent(measure.MODULES, 0.0, 1e-3)], 4) is None
    assert event_times([], 4) is None


def test_without_events_an_empty_call_is_subtracted() -> None:
    found = measured(question(), StandInTpu(lambda _: ()))
    assert found.method is Method.WALL
    assert found.empty == EMPTY
    assert found.median == pytest.approx(50e-6)


def test_a_call_shorter_than_an_empty_one_takes_no_negative_time() -> None:
    assert measured(question(), StandInTpu(lambda _: (), wall=EMPTY / 2)).median == 0


def test_a_long_launch_is_repeated_less_often() -> None:
    found = measured(question(), StandInTpu(lambda _: (), wall=measure.BUDGET))
    assert len(found.seconds) == measure.FEWEST


# ---- jax itself ----

PLANES = """
planes {
  name: "PLANE"
  lines {
    name: "XLA Modules"
    events { metadata_id: 1 offset_ps: 0 duration_ps: 9000000 }
  }
  lines {
    name: "XLA Ops"
    events { metadata_id: 2 offset_ps: 1000000 duration_ps: 2000000 }
    events { metadata_id: 3 offset_ps: 4000000 duration_ps: 3000000 }
    events {
      metadata_id: 4 offset_ps: 7000000 duration_ps: 1000000
      stats { metadata_id: 1 str_value: "custom-call" }
    }
  }
  lines {
    name: "Steps"
    events { metadata_id: 1 offset_ps: 0 duration_ps: 9000000 }
  }
  event_metadata { key: 1 value { id: 1 name: "jit_f(123)" } }
  event_metadata { key: 2 value { id: 2 name: "%copy.1 = f32[8,128] copy(f32[8,128] %x)" } }
  event_metadata {
    key: 3
    value { id: 3 name: "%k.1 = f32[8] custom-call(%x), custom_call_target=\\"tpu_custom_call\\"" }
  }
  event_metadata { key: 4 value { id: 4 name: "k.2" } }
  stat_metadata { key: 1 value { id: 1 name: "hlo_category" } }
}
"""


@pytest.mark.filterwarnings("ignore:builtin type")
@pytest.mark.parametrize("plane", ["/device:TPU:0", "/device:TPU:0 SparseCore 0", "/host:CPU"])
def test_a_profile_is_read_as_jax_writes_it(plane: str, tmp_path: Path) -> None:
    written = jax.profiler.ProfileData.text_proto_to_serialized_xspace(
        PLANES.replace("PLANE", plane)
    )
    folder = tmp_path / "plugins" / "profile" / "today"
    folder.mkdir(parents=True)
    (folder / "host.xplane.pb").write_bytes(written)
    found = [(event.line, event.seconds, event.kernel) for event in events_below(tmp_path)]
    expected = [
        ("XLA Modules", 9e-6, False),
        ("XLA Ops", 2e-6, False),
        ("XLA Ops", 3e-6, True),
        ("XLA Ops", 1e-6, True),
    ]
    assert found == (expected if plane == "/device:TPU:0" else [])


def test_jax_runs_and_profiles_a_function_on_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything but the TPU: the CPU has no events of one."""
    monkeypatch.setattr(jax, "devices", lambda _: jax.local_devices(backend="cpu"))
    device = JaxTpu()
    assert device.kind == "cpu"
    traced = TracedLaunch.of(jnp.sin, [jax.ShapeDtypeStruct((8,), jnp.float32)], {})
    run = device.compiled(traced, [np.zeros(8, np.float32)])
    assert device.clocked(run) > 0
    assert device.clocked(device.empty()) > 0
    assert device.profiled(run, 2) == ()


# ---- the process that uses the TPU ----

STAND_IN = stand_in_tpu.__name__


def test_a_process_measures_one_launch_after_another() -> None:
    with LocalTpu(STAND_IN) as tpu:
        assert tpu.kind == KIND
        for _ in range(2):
            asked = question()
            found = tpu.measure(asked.trace, asked.contents)
            assert isinstance(found, MeasuredTimes)
            assert found.method is Method.KERNELS


def test_a_launch_that_fails_leaves_the_process_to_the_next() -> None:
    asked = question()
    with LocalTpu(STAND_IN) as tpu:
        broken = tpu.measure(b"no trace", asked.contents)
        assert isinstance(broken, MeasureFailure)
        assert broken.message.startswith("SerializationError: ")
        assert isinstance(tpu.measure(asked.trace, asked.contents), MeasuredTimes)


def test_a_process_that_hangs_or_dies_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = question()
    ending = TracedLaunch.of(jnp.cosh, [jax.ShapeDtypeStruct((8,), jnp.float32)], {}).dumped()
    with LocalTpu(STAND_IN) as tpu:
        died = tpu.measure(ending, asked.contents)
        assert isinstance(died, MeasureFailure)
        assert "the process ended with exit code 3" in died.message
        assert tpu.kind
        with monkeypatch.context() as hurried:
            hurried.setattr(measure, "LAUNCH_SECONDS", 0.0)
            hung = tpu.measure(asked.trace, asked.contents)
        assert isinstance(hung, MeasureFailure)
        assert "no answer within 0 s" in hung.message
        assert isinstance(tpu.measure(asked.trace, asked.contents), MeasuredTimes)


@pytest.mark.parametrize("module", [STAND_IN, "tests.pallascope.support.no_such_module"])
def test_without_a_tpu_the_reason_is_told(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_TPU", "none")
    with LocalTpu(module) as tpu, pytest.raises(NoTpu) as raised:
        assert tpu.kind
    reason = "Unable to initialize backend 'tpu': none" if module == STAND_IN else "No module named"
    assert reason in str(raised.value)
    assert "JAX_PLATFORMS" not in str(raised.value)


# ---- results ----


@pytest.mark.parametrize(
    ("kind", "name"),
    [("TPU v5 lite", "v5e"), ("TPU v5e", "v5e"), ("TPU v5p", "v5p"), ("TPU7x", "tpu7x")],
)
def test_a_chip_is_known_by_each_of_its_names(kind: str, name: str) -> None:
    assert chip_of_kind(kind).name == name


def test_an_unknown_tpu_is_refused() -> None:
    with pytest.raises(ValueError, match="this machine has a TPU v2; times are predicted for v4"):
        chip_of_kind("TPU v2")


TIMES = MeasuredTimes((1.0e-5, 1.1e-5, 1.2e-5, 1.3e-5, 2.0e-5), Method.KERNELS)
LAUNCH = MeasuredLaunch(
    "matmul",
    "bm=128",
    KIND,
    (
        MeasuredSide("solution", TIMES, 1e-5),
        MeasuredSide("yours", MeasuredTimes((3e-5, 3e-5), Method.WALL, 1e-4), 1e-5, least=True),
        MeasuredSide("other", trouble="XlaRuntimeError: out of memory"),
    ),
)


def test_the_screen_has_the_spread_and_the_source_of_each_time() -> None:
    text = render_text(measured_screen(LAUNCH), 100, False)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[:2] == ["matmul measured on a TPU v5 lite", "bm=128"]
    assert "measured (median) 12 µs 30 µs" in lines
    assert "quartiles 11 to 13 µs 30 to 30 µs" in lines
    assert "lowest to highest 10 to 20 µs 30 to 30 µs" in lines
    assert "repetitions 5 2" in lines
    assert "predicted 10 µs ≥ 10 µs" in lines
    assert "predicted / measured 0.83× ≥ 0.33×" in lines
    assert "other: XlaRuntimeError: out of memory" in lines
    assert lines[-2:] == [
        "profiler: the kernels' events in the profiler's trace",
        "wall: wall time of one call, less that of an empty call (100 µs)",
    ]


def test_rows_are_appended_for_the_measured_sides(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    append_rows(file, LAUNCH)
    append_rows(file, LAUNCH)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["side"] for row in rows] == ["solution", "yours"] * 2
    assert rows[0]["date"] == datetime.date.today().isoformat()
    assert rows[0]["jax"] == jax.__version__
    assert {name: rows[0][name] for name in list(rows[0])[:9]} == {
        "function": "matmul",
        "arguments": "bm=128",
        "side": "solution",
        "median_seconds": 1.2e-5,
        "seconds": list(TIMES.seconds),
        "method": "profiler",
        "events": "kernels",
        "predicted_seconds": 1e-5,
        "device_kind": KIND,
    }


def test_a_benchmark_reads_the_rows() -> None:
    benchmark = importlib.import_module("tools.benchmarks.tpu_rows")
    rows = [*LAUNCH.rows(datetime.date(2026, 11, 28))] * 2
    lines = list(benchmark.report([*rows, {**rows[0], "predicted_seconds": None}]))
    assert lines[0] == "TPU v5 lite\n"
    assert lines[3].startswith("| matmul | bm=128 | solution | kernels | 12 µs | 10 µs | 0.833 |")
    assert "kernels: 2 rows, median 0.833, worst 0.833" in lines
    assert "wall: 2 rows, median 0.333, worst 0.333" in lines
    assert lines[-1] == "1 of 5 rows left out"


def test_contents_are_kept_and_others_drawn_integers_zero() -> None:
    given = np.array([3, 1], np.int32)
    kept, drawn, zeros = contents_of(
        [given, jax.ShapeDtypeStruct((8, 8), jnp.bfloat16), jax.ShapeDtypeStruct((8,), jnp.int8)]
    )
    assert kept == from_numpy(given)
    assert drawn.dtype == "bfloat16"
    assert any(drawn.data)
    assert zeros == Array("int8", (1,), b"\0")


# ---- the command ----

FILE = """
import jax
from jax.experimental import pallas as pl


def double_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


def doubled(x, *, bm=64):
    rows = pl.BlockSpec((bm, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        double_kernel, grid=(x.shape[0] // bm,), in_specs=[rows], out_specs=rows, out_shape=x
    )(x)


def plain(x):
    return x * 2


def broken(x):
    return x.no_such_thing
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of functions in the current folder, and a stand-in for the TPU."""
    (tmp_path / "launches.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.setattr("pallascope.tpu.__main__.LocalTpu", lambda: LocalTpu(STAND_IN))
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What the command prints; if it is misused, on stderr."""
    assert main([arguments[0], "--case", "f32[512,256]", "--measure", *arguments[1:]]) == code
    captured = capsys.readouterr()
    return captured.err if code == 2 else captured.out


def test_a_function_is_measured_next_to_another(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = run(capsys, "launches.py:doubled", "--against", "launches.py:plain", "--rows", "r.jsonl")
    assert text.startswith("doubled measured on a TPU v5 lite\nf32[512,256]\n")
    assert "yours" in text
    rows = [json.loads(line) for line in (folder / "r.jsonl").read_text().splitlines()]
    assert [row["side"] for row in rows] == ["yours", "other"]
    assert rows[1]["predicted_seconds"] is None


def test_a_function_that_raises_is_told_and_the_other_is_measured(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("launches.py:broken", "--against", "launches.py:doubled")
    text = run(capsys, *arguments, code=1)
    assert "yours: AttributeError: " in text
    assert "return x.no_such_thing" in text
    assert "measured (median)" in text


def test_the_command_needs_a_tpu(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_TPU", "none")
    text = run(capsys, "launches.py:doubled", code=2)
    assert text.startswith("pallascope.tpu: --measure needs a TPU, and jax can't use one here; ")
    assert "without --measure, times are predicted" in text
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--measure", "--sweep", "bm=8"), "--measure can't be combined with --sweep or --trace"),
        (("--rows", "r.jsonl"), "--rows needs --measure"),
    ],
)
def test_options_that_exclude_each_other(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["launches.py:doubled", "--case", "f32[512,256]", *arguments])
    assert raised.value.code == 2
    assert words in capsys.readouterr().err
