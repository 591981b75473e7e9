"""What ptxas, nvdisasm and Mosaic GPU write, read. The texts are of kernels in this repository."""

from __future__ import annotations

import pytest

from pallascope.gpu.gpu_resources import (
    FAMILIES,
    LaunchShape,
    Resources,
    read_launch,
    read_mix,
    read_resources,
)

PTXAS = """
ptxas info    : (C7519) warpgroup.arrive is injected in around line 190 by compiler to allow use \
of registers in GMMA in function 'body_mosaic_gpu_kernel'
ptxas info    : (C7519) warpgroup.arrive is injected in around line 234 by compiler to allow use \
of registers in GMMA in function 'body_mosaic_gpu_kernel'
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'body_mosaic_gpu_kernel' for 'sm_90a'
ptxas info    : Function properties for body_mosaic_gpu_kernel
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 90 registers, used 2 barriers, 1 bytes smem
ptxas info    : Compile time = 105.165 ms
"""
SPILLED = """
ptxas warning : Registers are spilled to local memory in function 'body_mosaic_gpu_kernel', 3428 \
bytes spill stores, 3424 bytes spill loads
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'body_mosaic_gpu_kernel' for 'sm_90a'
ptxas info    : Function properties for body_mosaic_gpu_kernel
    3352 bytes stack frame, 3428 bytes spill stores, 3424 bytes spill loads
ptxas info    : Used 255 registers, used 2 barriers, 3352 bytes cumulative stack size
"""
SASS = """
.text.body_mosaic_gpu_kernel:
   -:-:1:Y:01        /*0000*/                   LDC R1, c[0x0][0x28]
   -:-:2:Y:07        /*0010*/                   S2R R5, SR_TID.X
.L_x_8:
   5:-:-:Y:01        /*00d0*/                   HFMA2.MMA R0, -RZ, RZ, 0, 1.52587890625e-05
   -:-:-:Y:01        /*0230*/                   @UP1 SYNCS.EXCH.64 URZ, [UR9], UR4
   -:-:-:Y:01        /*0240*/                   NOP
   1:-:-:Y:08        /*0250*/                   BAR.SYNC.DEFER_BLOCKING 0x0
   -:2:-:Y:01        /*0280*/                   @UP2 UTMALDG.2D [UR8], [UR12]
   -:-:-:Y:01        /*0290*/                   HGMMA.64x128x16.F32 R24, gdesc[UR4], R24
   -:-:-:Y:01        /*0a00*/              @!P0 STL [R1+0x10], R3
   -:-:-:Y:01        /*0a10*/              @!PT LDL.64 R2, [R1+0x10]
   -:1:-:Y:01        /*0b60*/                   @UP0 UBLKCP.G.S [UR4], [UR8], UR6
   -:0:-:Y:01        /*0b70*/                   UTMACMDFLUSH
   -:0:-:Y:01        /*0b80*/                   UBLKCP.S.G [UR4], [UR8], UR6
"""
MLIR = """
    %c4 = arith.constant 4 : index loc(#loc21)
    %c1 = arith.constant 1 : index loc(#loc21)
    %c1_0 = arith.constant 1 : index loc(#loc21)
    %c128 = arith.constant 128 : index loc(#loc21)
    %c32776_i32 = arith.constant 32776 : i32 loc(#loc21)
    %53 = gpu.launch async [%0] blocks(%a, %b, %c) in (%d = %c4, %e = %c1, %f = %c1_0) \
threads(%g, %h, %i) in (%j = %c128, %k = %c1, %l = %c1) dynamic_shared_memory_size %c32776_i32 {
    %c4_7 = arith.constant 7 : index loc(#loc21)
    %53 = gpu.launch async [%0] blocks(%a, %b, %c) in (%d = %c4_7, %e = %c1, %f = %c1_0) \
threads(%g, %h, %i) in (%j = %c128, %k = %c1, %l = %c1) {
"""
CLUSTERS = MLIR.replace("blocks(", "clusters(%x, %y, %z) in (%u = %c4, %v = %c1, %w = %c1) blocks(")


def test_ptxas_tells_registers_and_shared_memory() -> None:
    told = ("warpgroup.arrive is injected by compiler to allow use of registers in GMMA",)
    expected = Resources("sm_90a", 90, 0, 0, 0, barriers=2, static_shared=1, told=told)
    assert read_resources(PTXAS) == expected
    assert not expected.spills


def test_ptxas_tells_spills() -> None:
    found = read_resources(SPILLED)
    assert found
    assert (found.registers, found.stack, found.spill_stores, found.spill_loads) == (
        255,
        3352,
        3428,
        3424,
    )
    assert found.spills
    assert len(found.told) == 1
    assert found.told[0].startswith("Registers are spilled to local memory, 3428 bytes")


@pytest.mark.parametrize("text", ["", "ptxas info    : 0 bytes gmem\n"])
def test_what_names_no_kernel_has_no_resources(text: str) -> None:
    assert read_resources(text) is None


def test_instructions_are_counted_by_family() -> None:
    mix = read_mix(SASS)
    assert mix
    assert mix.instructions == 12  # the NOP fills up
    assert dict(mix.families) == {
        "wgmma": 1,
        "TMA loads": 2,
        "TMA stores": 1,
        "mbarrier": 1,
        "bar.sync": 1,
        "local loads": 1,
        "local stores": 1,
    }
    assert mix.count("TMA loads") == 2
    assert mix.count("tcgen05") == 0


def test_a_family_that_is_none_is_an_error() -> None:
    mix = read_mix(SASS)
    assert mix
    with pytest.raises(KeyError):
        mix.count("wmma")


def test_a_text_without_instructions_has_no_mix() -> None:
    assert read_mix("nvdisasm fatal: no such file\n") is None


def test_no_instruction_is_of_two_families() -> None:
    names = [name for family in FAMILIES.values() for name in family]
    assert len(set(names)) == len(names)


def test_the_first_launch_is_read() -> None:
    expected = LaunchShape((4, 1, 1), (128, 1, 1), dynamic_shared=32776)
    assert read_launch(MLIR.splitlines()) == expected
    assert (expected.blocks, expected.threads_of_block) == (4, 128)


def test_clusters_are_read() -> None:
    found = read_launch(CLUSTERS.splitlines())
    assert found
    assert found.cluster == (4, 1, 1)
    assert found.grid == (4, 1, 1)


def test_a_size_that_is_no_constant_is_unknown() -> None:
    found = read_launch([line for line in MLIR.splitlines() if "%c4 =" not in line])
    assert found
    assert found.grid == (0, 1, 1)


def test_a_module_without_launch_has_none() -> None:
    assert read_launch(["module @body {", "}"]) is None
