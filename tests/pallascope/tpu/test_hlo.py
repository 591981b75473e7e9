"""What XLA's programs move, read from their compiled text."""

from __future__ import annotations

import pytest

from pallascope.model import InstructionBytes
from pallascope.tpu.hlo import bytes_in_hbm, has_loops, steps_of

HLO = """HloModule jit_f

%fused (p: bf16[8,128]) -> f32[8] {
  ROOT %inside = f32[8]{0:T(1024)} reduce(bf16[8,128]{1,0} %p), dimensions={1}
}

ENTRY %main.1 (x: bf16[8,128], w: bf16[128]) -> bf16[8,128] {
  %x = bf16[8,128]{1,0:T(8,128)(2,1)} parameter(0), sharding={replicated}
  %w = bf16[128]{0:T(256)(128)(2,1)} parameter(1)
  %two = (f32[8]{0:T(1024)}, f32[8,128]{1,0:T(8,128)}) fusion(%x), kind=kLoop, calls=%fused
  %sums = f32[8]{0:T(1024)} get-tuple-element(%two), index=0
  %wide = f32[8,128]{1,0:T(8,128)} get-tuple-element(%two), index=1
  %copy-start = (bf16[128]{0:S(1)}, bf16[128]{0}, u32[]{:S(2)}) copy-start(%w)
  %near = bf16[128]{0:T(256)(128)(2,1)S(1)} copy-done(%copy-start)
  ROOT %out = bf16[8,128]{1,0:T(8,128)(2,1)} fusion(%wide, %sums, %near), kind=kLoop
}
"""


def test_each_instruction_reads_its_operands_and_writes_its_results() -> None:
    assert steps_of(HLO) == (
        InstructionBytes("two", read=2048, written=32 + 4096),
        InstructionBytes("copy-start", read=256, written=4),
        InstructionBytes("out", read=4096 + 32, written=2048),
    )


def test_what_runs_as_often_as_only_it_knows() -> None:
    assert not has_loops(HLO)
    assert has_loops(HLO.replace("copy-start(%w)", "while(%w), body=%fused"))


@pytest.mark.parametrize(
    ("types", "size"),
    [
        ("bf16[8,128]{1,0:T(8,128)(2,1)}", 2048),
        ("s8[100]", 100),
        ("f32[]", 4),
        ("pred[16]{0}", 16),
        ("(f32[8]{0}, s32[2,2])", 48),
        ("f32[1024]{0:T(1024)S(1)}", 0),
    ],
)
def test_sizes_of_types(types: str, size: int) -> None:
    assert bytes_in_hbm(types) == size
