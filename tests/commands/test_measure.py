"""`kata measure` with a stand-in for the TPU; the rest is real: imports, traces, predictions."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from pallascope.tpu.measure import LocalTpu
from tests.pallascope.support import stand_in_tpu
from tests.support.repositories import Shop

needs_libtpu = pytest.mark.skipif(find_spec("libtpu") is None, reason="libtpu is not installed")


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "grader.commands.launches.LocalTpu", lambda: LocalTpu(stand_in_tpu.__name__)
    )


def rows_of(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@needs_libtpu
def test_a_solved_one_is_measured_next_to_the_solution(shop: Shop, tmp_path: Path) -> None:
    shop.repository.solve(shop.double)
    rows = tmp_path / "rows.jsonl"
    text = shop.run("measure", "double", "bm=16", "M=64", "N=256", "--rows", str(rows))
    assert text.startswith("double measured on a TPU v5 lite\nbm=16, M=64, N=256, dtype=")
    assert re.search(r"^ +solution +yours$", text, re.MULTILINE)
    assert re.search(r"^method +profiler +profiler$", text, re.MULTILINE)
    assert re.search(r"^predicted / measured +\S+× +\S+×$", text, re.MULTILINE)
    assert text.endswith("This doesn't check correctness: pytest -k double does\n")
    own = rows_of(rows)[1]
    assert (own["function"], own["side"]) == ("double", "yours")
    assert own["arguments"] == text.splitlines()[1]
    assert own["predicted_seconds"]


def test_of_a_stub_only_the_solution_is_measured(shared: Shop, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    text = shared.run("measure", "double", "--rows", str(rows))
    assert "yours: Still to do.\n" in text
    assert [row["side"] for row in rows_of(rows)] == ["solution"]


def test_large_inputs_get_contents(shared: Shop) -> None:
    sizes = ("bm=4096", "M=8192", "N=256", "dtype=float32")
    assert "measured (median)" in shared.run("measure", "double", *sizes)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("o_ref[...] = x_ref.no_such_thing", "no_such_thing"),
        (
            "o_ref[...] = jax.numpy.sinh(x_ref[...])",
            "yours: RuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem.\n",
        ),
        ("o_ref[...] = (x_ref[...]", "SyntaxError"),
    ],
    ids=["not traced", "refused by the device", "not imported"],
)
def test_a_launch_that_fails_leaves_the_solutions_time(shop: Shop, body: str, words: str) -> None:
    shop.repository.solve(shop.double, body)
    text = shop.run("measure", "double", code=1)
    assert words in text
    assert re.search(r"^ +solution$", text, re.MULTILINE)
    assert "measured (median)" in text
    assert "More." not in text


def test_wall_times_are_named(shared: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_TPU", "wall")
    text = shared.run("measure", "double")
    assert re.search(r"^measured \(median\) +50 µs$", text, re.MULTILINE)
    assert "wall: wall time of one call, less that of an empty call (100 µs)" in text


def test_without_a_tpu_one_line_says_how_to_predict(
    shared: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_TPU", "none")
    text = shared.run("measure", "double", code=2)
    beginning = "kata: kata measure needs a TPU, and jax can't use one here; kata cost double"
    assert text.startswith(beginning)
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize(
    ("added", "words"),
    [
        ('target = "gpu"', "double is for GPUs: try kata cost double"),
        ("mesh = {x = 4}", "double runs on several TPUs, and kata measure uses only one"),
    ],
)
def test_launches_for_other_devices_are_refused(shop: Shop, added: str, words: str) -> None:
    shop.edit_key(shop.double, "[cases]", f"{added}\n\n[cases]")
    assert words in shop.run("measure", "double", code=2)


def test_misuse_is_told(shop: Shop) -> None:
    assert "double has no size 'bq'" in shop.run("measure", "double", "bq=8", code=2)
    assert "double has cases 0 to 2, not 9" in shop.run("measure", "double", "--case", "9", code=2)
