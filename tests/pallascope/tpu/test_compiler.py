"""The TPU's own compiler: what it makes of kernels, why it refuses some, and what it leaves behind.

libtpu is loaded in processes of their own: it reads its environment once.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pallascope.model import KernelCall, Operand, Role
from pallascope.tpu import compiler, libtpu
from pallascope.tpu.chips import CHIPS
from pallascope.tpu.hlo import estimated_cycles, kernel_instructions
from pallascope.tpu.libtpu_errors import LibtpuRefusalKind, read_refusal
from pallascope.tpu.vmem import (
    Allocation,
    Use,
    footprint,
    min_window_bytes,
    named_allocations,
    smaller_blocks,
)
from tests.pallascope.support import ROOT
from tests.pallascope.support.calls import call, operand
from tests.pallascope.support.tpu_kernels import Built, read

MIB = 1 << 20
AGAIN = ("doubling", "column", "outer", "matmul", "spilling", "large_blocks", "unaligned")


def start(folder: Path, *arguments: str, **environ: str) -> subprocess.Popen[str]:
    """A Python process whose working directory and temporary files are in `folder`."""
    folder.mkdir(exist_ok=True)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TPU_", "LIBTPU_", "JAX_"))}
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env={
            **clean,
            "PYTHONPATH": str(ROOT),
            "JAX_PLATFORMS": "cpu",
            "TMPDIR": str(folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            **environ,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> str:
    """What a process says, once it has come to a good end."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out + err


def running(folder: Path, code: str, **environ: str) -> str:
    return said(start(folder, "-c", code, **environ))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """All kernels, and some of them again in a second process at the same time."""
    pytest.importorskip("libtpu")
    folders = tuple(tmp_path_factory.mktemp(name) for name in ("first", "second"))
    run = ("-m", "tests.pallascope.support.tpu_kernels")
    processes = [
        start(folder / "work", *run, str(folder / "built"), "v5e", *names, PYTHONHASHSEED=seed)
        for folder, names, seed in zip(folders, ((), AGAIN), ("1", "2"), strict=True)
    ]
    for folder, process in zip(folders, processes, strict=True):
        (folder / "said").write_text(said(process))
    return folders[0], folders[1]


@pytest.fixture(scope="module")
def built(runs: tuple[Path, Path]) -> dict[str, Built]:
    return read(runs[0] / "built")


def test_nothing_is_printed_and_nothing_left_behind(runs: tuple[Path, Path]) -> None:
    for folder in runs:
        assert (folder / "said").read_text() == ""
        assert list((folder / "work").iterdir()) == []


def test_two_processes_at_once_make_the_same(
    runs: tuple[Path, Path], built: dict[str, Built]
) -> None:
    others = read(runs[1] / "built")
    assert tuple(others) == AGAIN
    assert others == {name: built[name] for name in AGAIN}


COMPILED = ["doubling", "column", "outer", "matmul", "dynamic", "squeezed", "named", "asking"]


@pytest.mark.parametrize("name", [*COMPILED, "spilling", "exactly"])
def test_the_schedule_is_the_kernels_own(name: str, built: dict[str, Built]) -> None:
    """Listings of layout changes around a kernel are larger at times, but hold no such line."""
    build = built[name].build
    assert (build.failure, build.missing, build.chip) == (None, "", "v5e")
    passed = set(re.findall(r"index: (\d+), kind: (input|output)", build.bundles))
    inputs = len(built[name].call.role(Role.PREFETCH, Role.INPUT)) + (name == "dynamic")
    outputs = len(built[name].call.role(Role.OUTPUT))
    kinds = ["input"] * inputs + ["output"] * outputs
    assert sorted(passed, key=lambda p: int(p[0])) == [(str(i), k) for i, k in enumerate(kinds)]


def test_not_the_listing_of_a_layout_change(built: dict[str, Built]) -> None:
    """XLA copies (512, 1) into another layout; of that there is a listing, too, a larger one."""
    listing = built["column"].build.bundles
    assert re.findall(r"shape: (\S+), index", listing) == ["f32[512,128]", "f32[512,1]"]


@pytest.mark.parametrize("name", [*COMPILED, "spilling", "exactly"])
def test_the_report_agrees_with_the_blocks(name: str, built: dict[str, Built]) -> None:
    vmem = built[name].build.vmem
    assert vmem is not None
    uses = (Use.WINDOW, Use.SCRATCH)
    reported = {a.name: (a.use, a.shape, a.buffers, a.size) for a in vmem.allocations}
    expected = {
        a.name: (a.use, a.shape, a.buffers, -(-a.size // 1024) * 1024)
        for a in footprint(built[name].call)
    }
    if name not in ("doubling", "spilling"):  # whose operands share a name
        assert {n: found for n, found in reported.items() if found[0] in uses} == expected
    assert vmem.used == sum(a.size for a in vmem.allocations)
    assert min_window_bytes(built[name].call) <= vmem.used


def test_every_kind_of_allocation(built: dict[str, Built]) -> None:
    vmem = built["matmul"].build.vmem
    assert vmem is not None
    assert set(vmem.allocations) == {
        Allocation(Use.SCRATCH, "acc_ref", "f32[128,128]", 1, 128 * 128 * 4),
        Allocation(Use.WINDOW, "x_ref", "bf16[128,256]", 2, 2 * 128 * 256 * 2),
        Allocation(Use.WINDOW, "y_ref", "bf16[256,128]", 1, 256 * 128 * 2),
        Allocation(Use.WINDOW, "w_ref", "f32[8,128]", 1, 8 * 128 * 4),
        Allocation(Use.WINDOW, "o_ref", "bf16[128,128]", 2, 2 * 128 * 128 * 2),
        Allocation(Use.WINDOW, "s_ref", "f32[128,1]", 2, 2 * 128 * 128 * 4),
    }
    spilling = built["spilling"].build.vmem
    assert spilling is not None
    assert spilling.spilled > 0
    assert vmem.spilled == 0


def test_limits(built: dict[str, Built]) -> None:
    limits = {n: v.limit for n, one in built.items() if (v := one.build.vmem)}
    assert limits["asking"] == 40 * MIB
    assert limits["doubling"] == CHIPS["v5e"].scoped_vmem == 16 * MIB
    exactly = built["exactly"].build.vmem
    assert exactly is not None
    assert exactly.used == exactly.limit


TOO_LARGE = {
    "large_blocks": 32,
    "large_array": 32,
    "larger_than_vmem": 256,
    "large_scratch": 24,
    "scratch_larger_than_vmem": 160,
}


@pytest.mark.parametrize(("name", "mebibytes"), TOO_LARGE.items())
def test_too_much_vmem(name: str, mebibytes: int, built: dict[str, Built]) -> None:
    failure = built[name].build.failure
    assert failure is not None
    assert (failure.kind, failure.limit) == (LibtpuRefusalKind.VMEM, 16 * MIB)
    assert failure.wanted // MIB == mebibytes
    assert failure.allocations == footprint(built[name].call)
    assert failure.full


def test_too_much_vmem_for_values(built: dict[str, Built]) -> None:
    """What blocks and scratch do not explain is looked up where it compiles."""
    failure = built["values_too_large"].build.failure
    assert failure is not None
    assert failure.kind is LibtpuRefusalKind.VMEM
    assert failure.wanted > failure.limit == 16 * MIB
    assert sum(a.size for a in footprint(built["values_too_large"].call)) < failure.limit
    spilled = [a for a in failure.allocations if a.use is Use.SPILL]
    assert len(spilled) == 1
    assert sum(a.size for a in failure.allocations) == pytest.approx(failure.wanted, rel=0.01)


@pytest.mark.parametrize(
    ("name", "kind", "wanted", "limit"),
    [
        ("large_table", LibtpuRefusalKind.SMEM, 1_600_000, MIB),
        ("many_semaphores", LibtpuRefusalKind.SEMAPHORES, 20_000, 2048),
        ("large_arrays", LibtpuRefusalKind.HBM, 64 << 30, 16_911_433_728),
    ],
)
def test_other_memories(
    name: str, kind: LibtpuRefusalKind, wanted: int, limit: int, built: dict[str, Built]
) -> None:
    failure = built[name].build.failure
    assert failure is not None
    assert (failure.kind, failure.wanted, failure.limit) == (kind, wanted, limit)


@pytest.mark.parametrize(
    ("name", "operation", "words"),
    [
        ("half", "tpu.load", "Invalid vector type for load"),
        ("unaligned", "tpu.vector_load", "statically prove that index in dimension 1"),
        ("bytes_multiplied", "arith.muli", "Please cast your input."),
        ("reshaped", "tpu.reshape", "unsupported shape cast"),
    ],
)
def test_unsupported(name: str, operation: str, words: str, built: dict[str, Built]) -> None:
    failure = built[name].build.failure
    assert failure is not None
    assert (failure.kind, failure.operation) == (LibtpuRefusalKind.UNSUPPORTED, operation)
    assert words in failure.message
    assert "\n" not in failure.message
    assert not re.match(r"E\d+|INTERNAL", failure.message)
    assert "Mosaic failed to compile" in failure.full
    assert re.search(r"\((memref|vector)<", failure.types)
    assert Path(failure.file).name == "tpu_kernels.py"
    source = (ROOT / "tests/pallascope/support/tpu_kernels.py").read_text().splitlines()
    assert failure.place is not None
    assert source[failure.place.line - 1].strip() == failure.place.text
    assert "x" in failure.place.text


def test_what_jax_does_not_lower(built: dict[str, Built]) -> None:
    failure = built["sorted_values"].build.failure
    assert failure is not None
    assert failure.kind is LibtpuRefusalKind.LOWERING
    assert "sort" in failure.message


# ---- the process around it ----

BUILD = """
from tests.pallascope.support.tpu_kernels import launches
from pallascope.kernels import TracedLaunch, for_chip
from pallascope.tpu import chips, compiler, libtpu

def build(name, chip="v5e"):
    target = chips.named(chip)
    function, args = launches()[name]()
    with for_chip(target.kind, target.cores):
        (kernel,) = TracedLaunch.of(function, args, {}).kernels(args)
    return compiler.build(kernel, target)
"""


@pytest.fixture(scope="module")
def on_chips(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What one process finds on all chips, one after another: a line for each."""
    pytest.importorskip("libtpu")
    code = """
for name, chip in chips.CHIPS.items():
    device = libtpu.device(chip)
    fine, large = build("doubling", name), build("large_scratch", name)
    limit = large.failure.limit if large.failure else large.vmem.limit
    print(device.device_kind, device.num_cores, fine.vmem.limit, limit, bool(large.failure))
    assert len(fine.bundles) > 1000 and not fine.failure and not fine.missing
"""
    return running(tmp_path_factory.mktemp("chips"), BUILD + code).splitlines()


@pytest.mark.parametrize("name", CHIPS)
def test_each_chip(name: str, on_chips: list[str]) -> None:
    """Its device, and what it lets a kernel have: 24 MiB are too much on some."""
    chip = CHIPS[name]
    expected = (chip.kind, chip.cores, chip.scoped_vmem, chip.scoped_vmem)
    refused = chip.scoped_vmem < 24 * MIB
    assert on_chips[list(CHIPS).index(name)] == " ".join(map(str, (*expected, refused)))


def test_the_users_environment_stays(tmp_path: Path) -> None:
    """Flags are added to, variables are put back, and a store of programs gets none of ours."""
    pytest.importorskip("libtpu")
    (tmp_path / "store").mkdir()
    out = running(
        tmp_path / "work",
        "import os, jax\nbefore = dict(os.environ)\n"
        + BUILD
        + """
print(len(build("doubling").bundles) > 1000, build("exactly").failure.kind)
print({k: v for k, v in os.environ.items() if before.get(k) != v and k != "TPU_LIBRARY_PATH"})
print(jax.config.jax_persistent_cache_min_compile_time_secs)
""",
        LIBTPU_INIT_ARGS="--xla_tpu_scoped_vmem_limit_kib=8192",
        JAX_COMPILATION_CACHE_DIR=str(tmp_path / "store"),
        JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
        JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="-1",
    )
    assert out == "True LibtpuRefusalKind.VMEM\n{}\n0.0\n"
    assert not [path for path in (tmp_path / "store").iterdir() if "program" not in path.name]


def test_libtpu_that_was_loaded_before(tmp_path: Path) -> None:
    pytest.importorskip("libtpu")
    out = running(
        tmp_path,
        BUILD
        + """
from jax.experimental import topologies
topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2")
fine, large = build("doubling"), build("large_blocks")
print(fine.bundles, fine.failure, large.failure.kind, sep="/")
print(fine.missing)
""",
        **libtpu._ENVIRONMENT,
    )
    assert out.startswith(
        "/None/LibtpuRefusalKind.VMEM\nlibtpu was loaded before, by another part of this"
    )


def test_a_fork_after_loading(tmp_path: Path) -> None:
    """A copy of a process that has loaded libtpu lacks its threads, and would hang."""
    pytest.importorskip("libtpu")
    out = running(
        tmp_path,
        BUILD
        + """
import os, warnings
warnings.simplefilter("ignore")
build("doubling")
if os.fork() == 0:
    try:
        libtpu.device(chips.named("v5e"))
    except compiler.CompilerUnavailable as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
""",
    )
    assert out == "libtpu was loaded before this process was forked\n"


def test_a_fork_before_loading(tmp_path: Path) -> None:
    """As in the sandbox: jax is there, nothing has run, each child loads libtpu itself."""
    pytest.importorskip("libtpu")
    out = running(
        tmp_path,
        BUILD
        + """
import os, warnings
warnings.simplefilter("ignore")
for _ in range(2):
    if os.fork() == 0:
        os.write(1, b"done\\n" * (len(build("doubling").bundles) > 1000))
        os._exit(0)
os.wait(), os.wait()
""",
    )
    assert out == "done\ndone\n"
    assert list(tmp_path.iterdir()) == []


def test_xla(tmp_path: Path) -> None:
    """XLA's estimate grows with the work; what it can't estimate is named."""
    pytest.importorskip("libtpu")
    out = running(
        tmp_path,
        """
import jax, jax.numpy as jnp, json
from pallascope.tpu import chips, compiler
v5e = chips.named("v5e")
x = lambda n: jax.ShapeDtypeStruct((n, n), jnp.bfloat16)
print(json.dumps([
    compiler.xla_cycles(jnp.dot, [x(1024), x(1024)], v5e).cycles,
    compiler.xla_cycles(jnp.dot, [x(2048), x(2048)], v5e).cycles,
    compiler.xla_cycles(lambda x, *, by: x + by, [x(1024)], v5e, by=10).cycles,
]))
print(compiler.xla_cycles(lambda x: jax.lax.fori_loop(0, 3, lambda i, y: y @ y, x), [x(256)], v5e))
print(compiler.xla_cycles(lambda x: x.nothing, [x(256)], v5e))
""",
    )
    cycles, loop, unknown = out.splitlines()
    small, large, add = map(int, cycles.strip("[]").split(","))
    v5e = CHIPS["v5e"]
    for n, found in ((1024, small), (2048, large)):
        least = 2 * n**3 / v5e.peak * v5e.clock
        assert least < found < 2.5 * least
    assert 2 * 1024 * 1024 * 2 / v5e.bandwidth * v5e.clock < add < small
    assert loop.startswith("Estimate(cycles=0, missing='XLA has no estimate for ")
    assert "while" in loop
    assert unknown.startswith("Estimate(cycles=0, missing=\"jax can't lower it for a TPU: Attr")


# ---- whether it is there ----


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A libtpu that is installed, whatever there is."""
    found = importlib.util.find_spec("json")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    wanted = ["numpy>=2", "libtpu==0.0.42.*; extra == 'tpu'", 'kubernetes; extra == "k8s"']
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: wanted)
    return monkeypatch


@pytest.mark.parametrize(
    ("version", "refused", "noted"),
    [
        ("0.0.42", False, False),
        ("0.0.42.1", False, False),
        ("0.0.51", False, True),
        ("0.1.0", False, True),
        ("0.0.41", True, False),
        ("0.0.9", True, False),
    ],
)
def test_versions(version: str, refused: bool, noted: bool, versions: pytest.MonkeyPatch) -> None:
    versions.setattr(importlib.metadata, "version", lambda name: version)
    older = f"libtpu {version} is older than jax asks for (0.0.42.*): pip install '.[tpu]'"
    assert compiler.unavailable_reason() == (older if refused else "")
    newer = f"libtpu {version}, while jax asks for 0.0.42.*"
    assert compiler.version_mismatch() == (newer if noted else "")


def test_no_libtpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert compiler.unavailable_reason() == "pip install '.[tpu]'"
    with pytest.raises(compiler.CompilerUnavailable, match="pip install"):
        libtpu.device(CHIPS["v5e"])
    monkeypatch.setattr(sys, "platform", "darwin")
    only = "libtpu, the TPU's compiler, exists for Linux on x86-64 only, and this is"
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert compiler.unavailable_reason() == f"{only} macOS on arm64"
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert compiler.unavailable_reason() == f"{only} Linux on aarch64"


def test_the_installed_jax_names_its_libtpu() -> None:
    assert re.fullmatch(r"0\.0\.\d+(\.\*)?", libtpu._versions()[1] or "0.0.0")
    assert any("libtpu" in line for line in importlib.metadata.requires("jax") or [])


def test_libtpu_that_does_not_load(tmp_path: Path) -> None:
    """Such as one cut short by a full disk."""
    pytest.importorskip("libtpu")
    broken = tmp_path / "libtpu.so"
    broken.write_bytes(b"not a library")
    out = running(
        tmp_path / "work",
        BUILD
        + """
try:
    build("doubling")
except compiler.CompilerUnavailable as error:
    print(error)
""",
        TPU_LIBRARY_PATH=str(broken),
    )
    assert "libtpu can't be loaded (" in out.splitlines()[-1]


def test_nothing_is_imported_before_it_is_needed(tmp_path: Path) -> None:
    code = "import sys, importlib.util\n"
    for module in ("chips", "hlo", "libtpu", "libtpu_errors", "vmem", "compiler"):
        code += f"import pallascope.tpu.{module}\n"
    code += "pallascope.tpu.compiler.unavailable_reason()\n"
    code += "print([name for name in ('jax', 'libtpu', 'jaxlib') if name in sys.modules])"
    assert running(tmp_path, code) == "[]\n"


# ---- texts ----

HLO = """HloModule jit_f

%inner (p: f32[8]) -> f32[8] {
  ROOT %add.1 = f32[8]{0} add(%p, %p), backend_config={"window_config":{"estimated_cycles":"7"}}
}

ENTRY %main (x: f32[8]) -> (f32[8], f32[8]) {
  %x = f32[8]{0:T(128)} parameter(0)
  %bit = f32[8]{0} bitcast(%x)
  %copy-done.2 = f32[8]{0:T(128)S(1)} fusion(%x), backend_config={"estimated_cycles":"100"}
  %a_kernel.1 = (f32[8]{0}, f32[8]{0}) custom-call(%x), custom_call_target="tpu_custom_call"
  %other = f32[8]{0} custom-call(%x), custom_call_target="AllocateBuffer"
  %sort.3 = (f32[8]{0}, s32[8]{0}) sort(%x, %x), dimensions={0}
  ROOT %t = (f32[8]{0}, f32[8]{0}) tuple(%bit, %x), backend_config={"estimated_cycles":"23"}
}
"""


def test_reading_hlo() -> None:
    assert kernel_instructions(HLO) == ["a_kernel.1"]
    assert estimated_cycles(HLO) == (123, ("custom-call", "sort"))
    endless = HLO.replace('"estimated_cycles":"100"', f'"estimated_cycles":"{2**62 - 1}"')
    assert estimated_cycles(endless) == (23, ("custom-call", "fusion", "sort"))


def test_a_refusal_of_unknown_form_stays_whole() -> None:
    failure = read_refusal(RuntimeError("the sky\nis falling"), call())
    assert (failure.kind, failure.message) == (LibtpuRefusalKind.INTERNAL, "RuntimeError: the sky")
    assert failure.full == "the sky\nis falling"
    assert failure.place is None


RAINS = """INTERNAL: Mosaic failed to compile TPU kernel: E2003: ItRains: it rains

The MLIR operation involved:
  %1 = "tpu.rain"(%0) <{drops = 7 : i32}> : (vector<8xf32>) -> i32
"""


def raised_in(*files: str) -> RuntimeError:
    """An exception whose traceback goes through functions of these files, from outside in."""
    scope: dict[str, object] = {"text": RAINS}
    exec("def call(): raise RuntimeError(text)", scope)
    for file in reversed(files):
        exec(compile("def call(inner=call): inner()", file, "exec"), scope)
    try:
        scope["call"]()  # pyright: ignore
    except RuntimeError as error:
        return error
    raise AssertionError


def test_the_kernels_line_is_looked_for_inside_of_this_package() -> None:
    ours, jax = str(ROOT / "pallascope/tpu/compiler.py"), "/lib/jax/_src/compiler.py"
    failure = read_refusal(raised_in("learner.py", ours, jax), call())
    assert (failure.message, failure.operation) == ("it rains", "tpu.rain")
    assert failure.types == "(vector<8xf32>) -> i32"
    assert (failure.file, failure.place) == ("", None)
    inside = read_refusal(raised_in("caller.py", ours, jax, "learner.py", jax), call())
    assert inside.file == "learner.py"
    assert inside.place is not None
    assert inside.place.line == 1


def test_scratch_is_named_in_order_or_by_shape() -> None:
    def buffer(name: str, *shape: int) -> Operand:
        return operand(name, shape, role=Role.SCRATCH, space="vmem")

    def found(kernel: KernelCall, *shapes: str) -> list[str]:
        listed = [("scratch operand", shape, 4096) for shape in shapes]
        return [allocation.name for allocation in named_allocations(listed, kernel)]

    same, other = "f32[8,128]", "f32[16,128]"
    three = call(buffer("a", 8, 128), buffer("b", 8, 128), buffer("c", 16, 128))
    assert found(three, same, same, other) == ["a", "b", "c"]
    assert found(three, same, other) == ["", "c"]  # one of two is not used: which?


# ---- blocks that would fit ----


def kernel(*operands: Operand, grid: tuple[int, ...]) -> KernelCall:
    return call(*operands, grid=grid)


def matmul(bm: int, bn: int, bk: int, m: int = 4096, n: int = 4096, k: int = 4096) -> KernelCall:
    return kernel(
        operand("x", (m, k), (bm, bk), moves=True, axes=(0, 2)),
        operand("y", (k, n), (bk, bn), moves=True, axes=(1, 2)),
        operand("o", (m, n), (bm, bn), Role.OUTPUT, moves=True, axes=(0, 1)),
        operand("acc", (bm, bn), role=Role.SCRATCH),
        grid=(m // bm, n // bn, k // bk),
    )


def blocks(found: tuple[object, ...]) -> dict[str, tuple[int | None, ...]]:
    return {fit.name: fit.block for fit in found}  # pyright: ignore


def test_the_largest_block_size_is_halved_first() -> None:
    # x: 1024*2048*4*2 = 16 MiB, y: 2048*512*4*2 = 8, o: 1024*512*4*2 = 4, acc: 2. In MiB: 30.
    assert blocks(smaller_blocks(matmul(1024, 512, 2048), 18 * MIB)) == {
        "x": (1024, 1024),
        "y": (1024, 512),
    }
    # Accumulators follow: 8+4+4+2 = 18 is still too much for 16.
    assert blocks(smaller_blocks(matmul(1024, 512, 2048), 16 * MIB)) == {
        "x": (512, 1024),
        "y": (1024, 512),
        "o": (512, 512),
        "acc": (512, 512),
    }
    assert smaller_blocks(matmul(1024, 512, 2048), 30 * MIB) == ()


def test_what_the_compiler_adds_is_taken_to_shrink_as_well() -> None:
    fit = smaller_blocks(matmul(1024, 512, 2048), 18 * MIB, 40 * MIB)
    assert blocks(fit)["o"] == (512, 512)


def test_blocks_stay_legal_and_edges_even() -> None:
    lanes = kernel(
        operand("x", (8, 384 * 64), (8, 384 * 32), moves=True, axes=(0,)),
        operand("o", (8, 384 * 64), (8, 384 * 32), Role.OUTPUT, moves=True, axes=(0,)),
        grid=(2,),
    )
    fit = blocks(smaller_blocks(lanes, 1 << 19))
    assert fit["x"] == fit["o"]
    rows, columns = fit["x"]
    assert rows == 8
    assert columns is not None
    assert columns % 128 == 0
    assert 384 * 64 % columns == 0


def test_edges_stay_even() -> None:
    """Of 120 rows, blocks of 40 become blocks of 8: 16 would be legal, but leave a ragged edge."""
    rows = kernel(operand("x", (120, 128), (40, 128), moves=True, axes=(0,)), grid=(3,))
    assert blocks(smaller_blocks(rows, 2 * 20 * 128 * 4)) == {"x": (8, 128)}


def test_a_kernel_without_a_grid_is_cut_by_rows() -> None:
    whole = kernel(
        operand("x", (4096, 2048)), operand("o", (4096, 2048), role=Role.OUTPUT), grid=()
    )
    # 512 rows of 2048 are 4 MiB, and each is there twice now.
    assert blocks(smaller_blocks(whole, 16 * MIB)) == {"x": (512, 2048), "o": (512, 2048)}


def test_what_can_be_cut_no_further() -> None:
    small = kernel(
        operand("x", (8, 128)),
        operand("acc", (4096, 4096), role=Role.SCRATCH),
        operand("sem", (2,), role=Role.SCRATCH, space="semaphore_mem", dtype="dma_sem"),
        operand("hbm", (1 << 20, 1 << 10), space="any"),
        grid=(1,),
    )
    assert smaller_blocks(small, 16 * MIB) == ()


@pytest.mark.parametrize("name", [*TOO_LARGE, "values_too_large"])
def test_the_compilers_own_cases(name: str, built: dict[str, Built]) -> None:
    failure = built[name].build.failure
    assert failure is not None
    fit = blocks(smaller_blocks(built[name].call, failure.limit, failure.wanted))
    if "scratch" in name:
        assert fit == {}
    else:
        rows = {"large_blocks": 1024, "large_array": 1024, "larger_than_vmem": 512}
        assert fit["x_ref"][0] == rows.get(name, fit["x_ref"][0])
        assert (fit["o_ref"][0], fit["x_ref"][0]) == (fit["x_ref"][0], fit["o_ref"][0])
