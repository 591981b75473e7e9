"""The rung that holds blocks against the TPU's rules: operand, block, array, rule, legal blocks."""

from __future__ import annotations

import pytest

from pallascope.checks.lowers import check_blocks
from pallascope.model import Check, Observation, Operand, Role
from tests.pallascope.support.calls import call, doubling, operand, trace
from tests.support.factories import attempt, evidence


def finding_on(*operands: Operand) -> str:
    finding = check_blocks(evidence(attempt(traced=trace(call(*operands)))))
    if finding is None:
        return ""
    assert finding.check is Check.BLOCKS
    return f"{finding.phrase}\n" + " ".join(finding.message.split())


def test_legal_blocks_are_fine() -> None:
    assert check_blocks(evidence(attempt())) is None
    assert check_blocks(evidence(Observation())) is None
    squeezed = operand("x_ref", (4, 16, 256), (None, 8, 128))
    vector = operand("b_ref", (4096,), (1024,))
    whole = operand("c_ref", (3, 5), (3, 5))
    table = operand("t_ref", (7,), (7,), space="smem")
    assert finding_on(squeezed, vector, whole, table) == ""


def test_the_whole_message() -> None:
    said = finding_on(operand("x_ref", (64, 256), (7, 128), dtype="bfloat16"))
    assert said.startswith("a TPU refuses block (7, 128) of x_ref\n")
    assert "A TPU would refuse these blocks." in said
    assert "ref x_ref: block (7, 128) of bfloat16[64, 256]" in said
    assert "rule dimension 0 (a block of 7 of 64): The second-to-last dimension" in said
    assert "must be a multiple of 8" in said
    assert "legal nearest: (8, 128)" in said


def test_every_broken_rule_of_every_operand() -> None:
    said = finding_on(
        operand("x_ref", (64, 256), (7, 100)),
        operand("y_ref", (64, 256), (8, 128)),
        operand("o_ref", (4, 256), (None, 128), Role.OUTPUT),
    )
    assert said.startswith("a TPU refuses block (7, 100) of x_ref and o_ref\n")
    assert "dimension 1 (a block of 100 of 256): The last dimension" in said
    assert "dimension 0 (squeezed of 4): A squeezed dimension" in said
    assert "y_ref" not in said


def test_operands_with_the_same_fault_share_its_explanation() -> None:
    same = [operand(name, (64, 256), (7, 128)) for name in ("x_ref", "o_ref")]
    said = finding_on(*same, operand("y_ref", (32, 256), (7, 128)))
    assert said.startswith("a TPU refuses block (7, 128) of x_ref, o_ref and y_ref\n")
    assert "ref x_ref and o_ref: block (7, 128) of float32[64, 256]" in said
    assert "ref y_ref: block (7, 128) of float32[32, 256]" in said
    assert said.count("must be a multiple of 8") == 2


def test_a_block_of_rank_1_reads_as_python() -> None:
    said = finding_on(operand("x_ref", (5000,), (1500,)))
    assert said.startswith("a TPU refuses block (1500,) of x_ref\n")
    assert "(1024,)" in said


def test_width_of_the_elements_matters() -> None:
    assert finding_on(operand("x_ref", (4096,), (128,), dtype="bfloat16"))
    assert not finding_on(operand("x_ref", (4096,), (128,), dtype="float32"))
    assert not finding_on(operand("x_ref", (4096,), (256,), dtype="bfloat16"))


def test_the_space_matters() -> None:
    said = finding_on(operand("x_ref", (64, 256), (8, 128), space="any"))
    assert "A block in ANY or HBM must be the whole array" in said
    assert "nearest: (64, 256)" in said


def test_a_moving_block_in_hbm_has_no_other_block_to_offer() -> None:
    said = finding_on(operand("x_ref", (64, 256), space="hbm", moves=True))
    assert "index map of a block in ANY or HBM must return zeros" in said
    assert "nearest" not in said


@pytest.mark.parametrize("role", [Role.SCRATCH, Role.PREFETCH])
def test_only_blocks_are_asked(role: Role) -> None:
    assert finding_on(operand("acc_ref", (7, 100), (7, 3), role)) == ""


@pytest.mark.parametrize("dtype", ["key<fry>", "dma_sem"])
def test_what_is_no_number_has_no_block_rule(dtype: str) -> None:
    assert finding_on(operand("k_ref", (64, 256), (7, 100), dtype=dtype)) == ""


def test_every_kernel_is_asked() -> None:
    bad = call(operand("x_ref", (64, 256), (7, 128)))
    for calls in ([bad, doubling()], [doubling(), bad]):
        assert check_blocks(evidence(attempt(traced=trace(*calls))))
