"""Backend and mode: what is chosen for which machine, and what JAX is told of it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from grader.model import Device, Mode
from grader.sandbox import environment as workers_environment
from grader.sandbox.devices import AUTO, GOOGLE, MODES, Hardware, ModeError, choose, in_words, probe
from grader.sandbox.environment import QUICK_TO_COMPILE, environment, passed_on

NOTHING = Hardware(tpu=False, gpu=False)
GPU = Hardware(tpu=False, gpu=True)
TPU = Hardware(tpu=True, gpu=False)
BOTH = Hardware(tpu=True, gpu=True)

CHOICES = {
    "nothing": (NOTHING, "auto", "cpu", Mode.STRICT),
    "gpu": (GPU, "auto", "gpu", Mode.INTERPRET),
    "tpu": (TPU, "auto", "tpu", Mode.COMPILED),
    "tpu-and-gpu": (BOTH, "auto", "tpu", Mode.COMPILED),
    "strict": (NOTHING, "strict", "cpu", Mode.STRICT),
    "strict-beside-gpu": (GPU, "strict", "cpu", Mode.STRICT),
    "strict-beside-tpu": (TPU, "strict", "cpu", Mode.STRICT),
    "interpret": (NOTHING, "interpret", "cpu", Mode.INTERPRET),
    "interpret-on-gpu": (GPU, "interpret", "gpu", Mode.INTERPRET),
    "interpret-on-tpu": (TPU, "interpret", "tpu", Mode.INTERPRET),
    "compiled-on-tpu": (TPU, "compiled", "tpu", Mode.COMPILED),
}


@pytest.mark.parametrize(
    ("hardware", "asked", "backend", "mode"), CHOICES.values(), ids=CHOICES.keys()
)
def test_the_device_follows_hardware_and_option(
    hardware: Hardware, asked: str, backend: str, mode: Mode
) -> None:
    device = choose(asked, hardware)
    assert (device.backend, device.mode) == (backend, mode)
    if asked != AUTO:
        assert device.why == f"--kata-mode {asked}"


WHY = {
    "no TPU or GPU here": NOTHING,
    "a GPU is here, no TPU": GPU,
    "a TPU is here": TPU,
    "JAX_PLATFORMS=cpu": Hardware(tpu=True, gpu=True, platforms="cpu"),
}


@pytest.mark.parametrize(("why", "hardware"), WHY.items(), ids=["none", "gpu", "tpu", "told"])
def test_auto_says_why(why: str, hardware: Hardware) -> None:
    assert choose(AUTO, hardware).why == why


PLATFORMS = {
    "cpu": "cpu",
    "tpu": "tpu",
    "gpu": "gpu",
    "cuda": "gpu",
    "rocm": "gpu",
    "cuda,cpu": "gpu",
    "cpu,tpu": "cpu",
    " tpu , cpu": "tpu",
}


@pytest.mark.parametrize(("platforms", "backend"), PLATFORMS.items())
@pytest.mark.parametrize("hardware", [NOTHING, BOTH], ids=["nothing", "both"])
def test_jax_platforms_outdoes_the_hardware(
    platforms: str, backend: str, hardware: Hardware
) -> None:
    told = Hardware(hardware.tpu, hardware.gpu, platforms)
    assert choose(AUTO, told).backend == backend


@pytest.mark.parametrize("platforms", ["metal", "metal,cpu", "CPU"])
def test_an_unknown_platform_is_refused(platforms: str) -> None:
    with pytest.raises(ModeError, match=f"JAX_PLATFORMS={platforms}: .* run on cpu, gpu or tpu"):
        choose(AUTO, Hardware(tpu=False, gpu=False, platforms=platforms))


@pytest.mark.parametrize(
    ("hardware", "words"),
    [
        (NOTHING, r"needs a TPU; here is a cpu \(no TPU or GPU here\)"),
        (GPU, r"needs a TPU; here is a gpu \(a GPU is here, no TPU\)"),
        (Hardware(True, False, "cpu"), r"needs a TPU; here is a cpu \(JAX_PLATFORMS=cpu\)"),
    ],
    ids=["nothing", "gpu", "told"],
)
def test_compiled_needs_a_tpu(hardware: Hardware, words: str) -> None:
    with pytest.raises(ModeError, match=f"--kata-mode compiled {words}"):
        choose("compiled", hardware)


def test_every_mode_can_be_asked_for() -> None:
    assert [choose(mode, TPU).mode.value for mode in MODES if mode != AUTO] == list(MODES[1:])


# ---- environment ----


def test_jax_is_told_to_stay_on_the_cpu() -> None:
    device = Device("cpu", Mode.INTERPRET, "")
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
    told = environment(Device("cpu", Mode.STRICT, ""), {**secrets, **needed})
    assert not set(secrets) & set(told)


def test_accelerators_are_left_to_jax() -> None:
    """With "cuda,rocm", jax.devices() raises where only one of the two plugins is installed."""
    device = choose(AUTO, GPU)
    assert "JAX_PLATFORMS" not in environment(device, {})
    assert environment(device, {"JAX_PLATFORMS": "cuda"})["JAX_PLATFORMS"] == "cuda"


@pytest.mark.parametrize("mode", [Mode.STRICT, Mode.INTERPRET], ids=lambda mode: mode.value)
def test_interpreted_cases_round_as_they_say(mode: Mode) -> None:
    flags = environment(Device("cpu", mode, ""), {})["XLA_FLAGS"].split()
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
    told = environment(Device("cpu", Mode.STRICT, ""), os.environ)
    subprocess.run([sys.executable, "-c", code], check=True, env=told)


@pytest.mark.parametrize(
    ("jaxlib", "known"),
    [("0.10.2", True), ("0.11.0", True), ("0.11.2", False), ("0.12.0.1", False), (None, False)],
)
def test_flags_that_xla_may_not_know_are_passed_to_versions_that_do(
    monkeypatch: pytest.MonkeyPatch, jaxlib: str | None, known: bool
) -> None:
    """One that it does not know ends the process."""
    monkeypatch.setattr(workers_environment, "versions", lambda: {"jaxlib": jaxlib})
    flags = environment(choose(AUTO, NOTHING), {})["XLA_FLAGS"]
    assert (QUICK_TO_COMPILE in flags) is known


def test_flags_of_the_users_own_win_unless_they_change_what_is_computed() -> None:
    mine = "--xla_backend_optimization_level=3 --xla_disable_hlo_passes=cse"
    flags = environment(choose(AUTO, NOTHING), {"XLA_FLAGS": mine})["XLA_FLAGS"]
    last = dict(flag.split("=") for flag in flags.split())
    assert last["--xla_backend_optimization_level"] == "3"
    assert last["--xla_disable_hlo_passes"] == "algsimp"


def test_a_compiled_kernel_is_compiled_as_ever() -> None:
    device = choose(AUTO, TPU)
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
    [("dev/nvidiactl", "jax_cuda12_plugin"), ("dev/kfd", "jax_rocm7_plugin")],
    ids=["nvidia", "amd"],
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


@pytest.mark.parametrize(
    ("hardware", "words"),
    [
        (NOTHING, "cpu (no TPU or GPU here), strict: TPU interpreter"),
        (GPU, "gpu (a GPU is here, no TPU), interpret: plain interpreter, forgives"),
        (TPU, "tpu (a TPU is here), compiled"),
    ],
    ids=["strict", "interpret", "compiled"],
)
def test_the_header_says_backend_why_and_mode(hardware: Hardware, words: str) -> None:
    assert in_words(choose(AUTO, hardware)).startswith(words)
