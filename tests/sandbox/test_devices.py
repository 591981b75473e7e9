"""Backend and mode: what is chosen for which machine, and what JAX is told of it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from grader.sandbox.devices import (
    AUTO,
    GOOGLE,
    MODES,
    Hardware,
    ModeError,
    choose,
    in_words,
    probe,
)
from grader.sandbox.launcher import Launcher
from grader.sandbox.messages import WorkerRole
from grader.sandbox.worker_environment import environment, passed_on
from grader.sandbox.worker_pool import WorkerPool
from grader.verdict import Device
from pallascope.model import Mode
from pallascope.runs import run_process
from pallascope.runs.questions import Warm, Warmed
from pallascope.runs.run_process import QUICK_TO_COMPILE

NOTHING = Hardware(tpu=False, gpu=False)
GPU = Hardware(tpu=False, gpu=True)
TPU = Hardware(tpu=True, gpu=False)
BOTH = Hardware(tpu=True, gpu=True)

#: What JAX_PLATFORMS may say: also what jax doesn't know, and what this machine hasn't got.
PLATFORMS = ("", "cpu", "gpu", "cuda", "rocm", "cuda,cpu", "tpu", "tpu,cpu", " tpu , cpu", "metal")
MACHINES = [
    Hardware(one.tpu, one.gpu, platforms)
    for one in (NOTHING, GPU, TPU, BOTH)
    for platforms in PLATFORMS
]


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("hardware", MACHINES, ids=str)
def test_auto_is_strict_on_every_machine(hardware: Hardware, alone: bool) -> None:
    """Where workers have the same mode and the same environment, they give the same verdicts."""
    device = choose(AUTO, hardware, alone)
    assert (device.backend, device.mode) == ("cpu", Mode.STRICT)
    given = {"JAX_PLATFORMS": hardware.platforms, "JAX_PLATFORM_NAME": "gpu"}
    assert environment(device, given) == environment(choose("strict", NOTHING), {})


@pytest.mark.parametrize("hardware", MACHINES, ids=str)
@pytest.mark.parametrize("mode", [Mode.STRICT, Mode.INTERPRET])
def test_interpreters_run_on_the_cpu_alone(mode: Mode, hardware: Hardware) -> None:
    assert choose(mode.value, hardware) == Device("cpu", mode)


@pytest.mark.parametrize("hardware", MACHINES, ids=str)
def test_a_tpu_comes_in_addition_where_jax_would_use_it(hardware: Hardware) -> None:
    platforms = [name.strip() for name in hardware.platforms.split(",") if name]
    usable = "tpu" in platforms if platforms else hardware.tpu
    assert choose(AUTO, hardware).tpu is usable
    assert not choose(AUTO, hardware, alone=False).tpu
    assert not choose("strict", hardware).tpu
    if usable:
        assert choose("compiled", hardware) == Device("tpu", Mode.COMPILED)


@pytest.mark.parametrize(
    ("hardware", "words"),
    [
        (NOTHING, "needs a TPU: none is here"),
        (GPU, "needs a TPU: none is here"),
        (Hardware(True, False, "cpu"), "needs a TPU: JAX_PLATFORMS=cpu"),
        (Hardware(True, False, "metal"), "needs a TPU: JAX_PLATFORMS=metal"),
    ],
    ids=["nothing", "gpu", "told", "unknown"],
)
def test_compiled_needs_a_tpu(hardware: Hardware, words: str) -> None:
    with pytest.raises(ModeError, match=f"--kata-mode compiled {words}"):
        choose("compiled", hardware)


def test_compiled_is_for_one_process() -> None:
    with pytest.raises(ModeError, match="run pytest without -n"):
        choose("compiled", TPU, alone=False)


def test_every_mode_can_be_asked_for() -> None:
    assert [choose(mode, TPU).mode.value for mode in MODES if mode != AUTO] == list(MODES[1:])


# ---- environment ----


def test_jax_is_told_to_stay_on_the_cpu() -> None:
    device = Device("cpu", Mode.INTERPRET)
    told = environment(device, {"JAX_PLATFORMS": "else", "HOME": "/home/me"})
    assert told["JAX_PLATFORMS"] == "cpu"
    assert told["HOME"] == "/home/me"
    assert told["TPU_SKIP_MDS_QUERY"] == "1"


def test_what_nobody_needs_is_not_passed_on() -> None:
    """A kata's code may print what it finds, and whoever grades has keys."""
    secrets = {"OPENAI_API_KEY": "s", "HF_TOKEN": "s", "NVIDIA_API_KEY": "s", "MY_OWN": "s"}
    secrets |= {"PYTHON_KEYRING_TOKEN": "s", "TPU_PASSWORD": "s", "AWS_SECRET_ACCESS_KEY": "s"}
    needed = {"PATH": "p", "LD_LIBRARY_PATH": "l", "PYTHONPATH": "y", "TPU_LIBRARY_PATH": "t"}
    needed |= {"LC_ALL": "c", "JAX_ENABLE_X64": "0", "CUDA_VISIBLE_DEVICES": "0"}
    assert passed_on({**secrets, **needed}) == needed
    told = environment(Device("cpu", Mode.STRICT), {**secrets, **needed})
    assert not set(secrets) & set(told)


def test_a_tpu_is_asked_for_by_name() -> None:
    """Else jax would go on with another backend, and not say what is wrong with the TPU."""
    device = Device("tpu", Mode.COMPILED)
    assert environment(device, {"JAX_PLATFORMS": "cuda"})["JAX_PLATFORMS"] == "tpu,cpu"


CHOOSERS = ("JAX_PLATFORM_NAME", "JAX_DEFAULT_DEVICE", "JAX_XLA_BACKEND")
CHOOSERS += ("PJRT_NAMES_AND_LIBRARY_PATHS",)


@pytest.mark.parametrize("broken", ["import", "initialize"])
def test_a_broken_plugin_ends_no_worker(tmp_path: Path, broken: str) -> None:
    """jax loads every plugin that is installed, whichever backend it is to use."""
    end = "import os\nos._exit(9)\n"
    text = end if broken == "import" else f"def initialize():\n    {end.replace(chr(10), '; ')}"
    put(tmp_path / "jax_plugins/xla_cuda99.py", text)
    put(tmp_path / "broken_plugin/__init__.py", text)
    put(tmp_path / "broken-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: broken\nVersion: 1")
    put(tmp_path / "broken-1.dist-info/entry_points.txt", "[jax_plugins]\nx = broken_plugin.x\n")
    given = {**os.environ, "PYTHONPATH": str(tmp_path), "JAX_PLATFORMS": "cuda,tpu"}
    given |= dict.fromkeys(CHOOSERS, "cuda:/no/such/library.so")
    device = choose(AUTO, BOTH)
    pool = WorkerPool(device, Launcher(device, given))
    warmed = pool.worker(WorkerRole.RUNNING)
    warmed.ask(Warm(Mode.STRICT))
    assert warmed.answer(120) == Warmed()
    pool.close()


@pytest.mark.parametrize("mode", [Mode.STRICT, Mode.INTERPRET], ids=lambda mode: mode.value)
def test_interpreted_cases_round_as_they_say(mode: Mode) -> None:
    flags = environment(Device("cpu", mode), {})["XLA_FLAGS"].split()
    assert "--xla_allow_excess_precision=false" in flags
    assert "--xla_backend_optimization_level=0" in flags
    assert "--xla_cpu_experimental_ynn_fusion_type=" in flags


def test_a_rounding_within_a_sum_is_computed() -> None:
    """YNNPACK, to which XLA hands such a sum on a CPU, would leave the rounding out: 256 + 1."""
    code = (
        "import jax, jax.numpy as jnp\n"
        "x = jnp.full((64, 128), 1 + 2**-7, jnp.bfloat16)\n"
        "total = jax.jit(lambda x: jnp.sum((x * x).astype(jnp.float32), axis=0))(x)\n"
        "assert total[0] == 64 * (1 + 2**-6), total[0]\n"
    )
    told = environment(Device("cpu", Mode.STRICT), os.environ)
    subprocess.run([sys.executable, "-c", code], check=True, env=told)


@pytest.mark.parametrize(
    ("jaxlib", "known"),
    [("0.10.2", True), ("0.11.0", True), ("0.11.2", False), ("0.12.0.1", False), (None, False)],
)
def test_flags_that_xla_may_not_know_are_passed_to_versions_that_do(
    monkeypatch: pytest.MonkeyPatch, jaxlib: str | None, known: bool
) -> None:
    """One that it does not know ends the process."""
    monkeypatch.setattr(run_process, "versions", lambda: {"jaxlib": jaxlib})
    flags = environment(choose(AUTO, NOTHING), {})["XLA_FLAGS"]
    assert (QUICK_TO_COMPILE in flags) is known


def test_flags_of_the_users_own_win_unless_they_change_what_is_computed() -> None:
    mine = "--xla_backend_optimization_level=3 --xla_disable_hlo_passes=cse"
    flags = environment(choose(AUTO, NOTHING), {"XLA_FLAGS": mine})["XLA_FLAGS"]
    last = dict(flag.split("=") for flag in flags.split())
    assert last["--xla_backend_optimization_level"] == "3"
    assert last["--xla_disable_hlo_passes"] == "algsimp"


def test_a_compiled_kernel_is_compiled_as_ever() -> None:
    device = Device("tpu", Mode.COMPILED)
    assert "XLA_FLAGS" not in environment(device, {})
    assert environment(device, {"XLA_FLAGS": "--mine"})["XLA_FLAGS"] == "--mine"


def test_the_given_environment_is_left_alone() -> None:
    given = {"JAX_PLATFORMS": "gpu"}
    environment(choose(AUTO, NOTHING), given)
    assert given == {"JAX_PLATFORMS": "gpu"}


# ---- probe, in a made-up /dev and /sys ----


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The modules that seem to be installed; add to it."""
    found: set[str] = set()
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *_: object() if name in found else None
    )
    return found


def put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def put_pci(root: Path, vendor: str, kind: str) -> None:
    device = root / "sys/bus/pci/devices/0000:00:04.0"
    put(device / "vendor", vendor + "\n")
    put(device / "class", kind + "\n")


def test_an_empty_machine_has_nothing(tmp_path: Path, installed: set[str]) -> None:
    installed |= {"libtpu", "jax_cuda13_plugin"}
    assert probe({}, tmp_path) == NOTHING


def test_jax_platforms_is_read(tmp_path: Path) -> None:
    assert probe({"JAX_PLATFORMS": "cpu"}, tmp_path).platforms == "cpu"


@pytest.mark.parametrize(
    ("device", "plugin"),
    [
        ("dev/nvidiactl", "jax_cuda12_plugin"),
        ("dev/dxg", "jax_cuda13_plugin"),
        ("dev/kfd", "jax_rocm7_plugin"),
    ],
    ids=["nvidia", "windows", "amd"],
)
def test_a_gpu_counts_once_jax_can_use_it(
    tmp_path: Path, installed: set[str], device: str, plugin: str
) -> None:
    put(tmp_path / device, "")
    assert probe({}, tmp_path) == NOTHING
    installed.add(plugin)
    assert probe({}, tmp_path) == GPU


def test_a_tpu_counts_once_jax_can_use_it(tmp_path: Path, installed: set[str]) -> None:
    put_pci(tmp_path, GOOGLE, "0x088000")
    assert probe({}, tmp_path) == NOTHING
    installed.add("libtpu")
    assert probe({}, tmp_path) == TPU


@pytest.mark.parametrize(
    ("vendor", "kind"),
    [(GOOGLE, "0x020000"), (GOOGLE, "0x010802"), ("0x10de", "0x088000")],
    ids=["network", "disk", "another-vendor"],
)
def test_what_else_is_plugged_in_is_no_tpu(
    tmp_path: Path, installed: set[str], vendor: str, kind: str
) -> None:
    installed.add("libtpu")
    put_pci(tmp_path, vendor, kind)
    assert probe({}, tmp_path) == NOTHING


def test_a_pci_device_that_can_not_be_read_is_no_tpu(tmp_path: Path, installed: set[str]) -> None:
    installed.add("libtpu")
    put(tmp_path / "sys/bus/pci/devices/0000:00:04.0/vendor", GOOGLE)
    assert probe({}, tmp_path) == NOTHING


STRICTLY = "strict TPU interpreter: NaN in unwritten memory, two cores, races"
ON_THE_TPU = "kernels that pass also run on this machine's TPU; a difference is a note"
ON_THE_GPU = "katas for GPUs also run on this machine's GPU, if it is a Hopper or newer"


@pytest.mark.parametrize(
    ("hardware", "also"),
    [(NOTHING, []), (GPU, [ON_THE_GPU]), (TPU, [ON_THE_TPU]), (BOTH, [ON_THE_TPU, ON_THE_GPU])],
    ids=["nothing", "gpu", "tpu", "both"],
)
def test_the_header_names_every_run(hardware: Hardware, also: list[str]) -> None:
    assert in_words(choose(AUTO, hardware)) == "; ".join([STRICTLY, *also])
    assert in_words(choose("strict", hardware)) == STRICTLY


def test_the_header_says_why_nothing_runs_on_a_tpu() -> None:
    assert "several processes (-n) can't share it" in in_words(choose(AUTO, TPU, alone=False))
    assert ON_THE_TPU not in in_words(choose(AUTO, TPU, alone=False))


@pytest.mark.parametrize("mode", ["interpret", "compiled"])
def test_the_header_says_that_nothing_is_recorded(mode: str) -> None:
    assert "nothing is recorded" in in_words(choose(mode, TPU))
