"""What is drawn on the roofline, in docs/roofline.json: each solution, predicted.

`python tools/draw_roofline.py --measure` writes it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pallascope.runs.launch_runs import trace_argument

if TYPE_CHECKING:
    from types import ModuleType

    from grader.exercise.catalog import Kata
    from grader.verdict import Case

ROOT = Path(__file__).parents[1]
DATA = ROOT / "docs/roofline.json"
CHIP = "v5e"
INT8 = 2  # a v5e's matrix unit multiplies int8 twice as fast as bfloat16: 394 T a second


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """One solution at production size: what its spec asks for, and what its launch takes."""

    kata: str  # its name
    number: str  # "1.10"
    dtype: str
    case: str  # that was predicted, in words: "bm=256, …, dtype=bfloat16"
    operations: float  # that the result needs: what a mask or a router leaves out is not counted
    bytes: int  # between HBM and the chip
    seconds: float

    @property
    def intensity(self) -> float:
        """Operations per byte moved."""
        return self.operations / self.bytes

    @property
    def speed(self) -> float:
        """Operations a second."""
        return self.operations / self.seconds


def data() -> dict[str, Any]:
    """What was measured: chip, versions, peak and bandwidth, and the points."""
    return json.loads(DATA.read_text(encoding="utf-8"))


def points_of(told: dict[str, Any]) -> list[Measured]:
    """The solutions that were measured, in the order of their numbers."""
    return [Measured(**point) for point in told["points"]]


def stale(told: dict[str, Any]) -> list[str]:
    """Names of the solutions of which today's key draws another case than the one measured.

    A solution that is no longer there, or has no case of production size any more, is one of them.
    """
    today = {kata.name: words(production_case(kata)) for kata in every()}
    return [point.kata for point in points_of(told) if today.get(point.kata) != point.case]


def production_case(kata: Kata) -> Case:
    """The case that `kata cost NAME` shows, in bfloat16 where the kata takes it."""
    from grader.exercise.cases import draw

    case = draw(kata.id, kata.key, 0, {})[-1]
    if kata.key.production and "bfloat16" in kata.key.production.dtypes:
        return dataclasses.replace(case, dtype="bfloat16")
    return case


def every() -> list[Kata]:
    """All katas whose solutions are drawn: those for one chip, a TPU, with one core."""
    from grader.exercise.catalog import SOLUTIONS, katas

    drawn = [kata for kata in katas(ROOT, SOLUTIONS) if kata.key.kernel and kata.key.production]
    drawn = [kata for kata in drawn if kata.key.cores == 1 and not kata.key.mesh]
    return [kata for kata in drawn if kata.key.target.uses_libtpu]


def words(case: Case) -> str:
    """A case in words, without its production size being mentioned."""
    return str(dataclasses.replace(case, production=False))


# ---- measuring ----


def measure(names: Sequence[str]) -> None:
    """Predict these solutions, or all; what is known of the others is kept."""
    from pallascope.tpu.chips import named

    chip = named(CHIP)
    drawn = every()
    known = {point.kata: point for point in points_of(data())} if DATA.is_file() else {}
    for kata in drawn:
        if not names or kata.name in names:
            known[kata.name] = measured(kata, production_case(kata), CHIP)
            print(f"{kata.name}: {known[kata.name].seconds * 1e6:.0f} µs", flush=True)
            points = [known[one.name] for one in drawn if one.name in known]
            told = {
                "chip": CHIP,
                **versions_used(),
                "peak": chip.peak,
                "bandwidth": chip.bandwidth,
                "points": [dataclasses.asdict(point) for point in points],
            }
            DATA.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def versions_used() -> dict[str, str | None]:
    """The versions of jax and libtpu here, by name."""
    from pallascope.tools.versions import versions

    here = versions()
    return {name: here[name] for name in ("jax", "libtpu")}


def measured(kata: Kata, case: Case, chip: str) -> Measured:
    """A solution, predicted for a chip. `seconds` is NaN if its time isn't known.

    Raises ValueError if the chip's compiler refuses it.
    """
    from grader.exercise import specs
    from pallascope.kernels import flops
    from pallascope.tools.files import load_module
    from pallascope.tpu import predictions

    solution = load_module(kata.solution)
    reference = specs.reference(solution, kata.name, case, evaluated=False)
    inputs = [trace_argument(array) for array in reference.inputs]
    spec, keywords = specs.spec_of(solution, kata.name, case)
    launch = functools.partial(getattr(solution, kata.name), **reference.keywords)
    kernels = predictions(launch, *inputs, chip=chip)
    operations = flops(functools.partial(spec, **keywords), inputs)
    share = 1.0
    if kata.name in SHARES:
        share = SHARES[kata.name](solution, case, specs.drawn_inputs(solution, kata.name, case))
    integers = all(array.dtype == "int8" for array in inputs[:2])
    return Measured(
        kata=kata.name,
        number=f"{kata.track[0]}.{kata.number}",
        dtype="int8" if integers else case.dtype,
        case=words(case),
        operations=float(f"{operations * share:.4g}"),
        bytes=sum(kernel.bytes for kernel in kernels),
        seconds=float(f"{sum(kernel.seconds or math.nan for kernel in kernels):.4g}"),
    )


def _causal(solution: ModuleType, case: Case, inputs: Sequence[Any]) -> float:
    return (case.sizes["T"] + 1) / (2 * case.sizes["T"])


def _triangle(solution: ModuleType, case: Case, inputs: Sequence[Any]) -> float:
    return (case.sizes["M"] + 1) / (2 * case.sizes["M"])


def _mask(solution: ModuleType, case: Case, inputs: Sequence[Any]) -> float:
    return float((inputs[3] != 0).mean())


def _tables(solution: ModuleType, case: Case, inputs: Sequence[Any]) -> float:
    partial, kind, *_ = inputs[-4:]
    seen = ((kind == 1) * partial.mean((1, 2))[inputs[-1]]).sum() + (kind == 2).sum()
    blocks = case.sizes["T"] * case.sizes["S"] / (case.sizes["bq"] * case.sizes["bkv"])
    return float(seen / blocks)


def _segments(solution: ModuleType, case: Case, inputs: Sequence[Any]) -> float:
    q_ids, kv_ids = inputs[3:]
    return float((q_ids[:, :, None] == kv_ids[:, None, :]).mean())


def _window(solution: ModuleType, case: Case, inputs: Sequence[Any]) -> float:
    tokens, window, sinks = (case.sizes[name] for name in ("T", "window", "sinks"))
    pairs = sum(min(q + 1, window) + max(0, min(sinks, q + 1 - window)) for q in range(tokens))
    return pairs / tokens**2


def _one_group(solution: ModuleType, case: Case, inputs: Sequence[Any]) -> float:
    return 1 / case.sizes["G"]


def _rows_here(solution: ModuleType, case: Case, inputs: Sequence[Any]) -> float:
    sizes, (first,) = inputs[2:]
    here = sizes[first : first + case.sizes["L"]].sum()
    return float(here / (case.sizes["M"] * case.sizes["L"]))


def _top_k(solution: ModuleType, case: Case, inputs: Sequence[Any]) -> float:
    return case.sizes["top_k"] / case.sizes["E"]


def _absorbed(solution: ModuleType, case: Case, inputs: Sequence[Any]) -> float:
    latent, row, *of_a_head = (case.sizes[name] for name in ("R", "C", "D", "V", "P"))
    unabsorbed = sum(of_a_head[:2]) * latent + sum(of_a_head)
    return float(inputs[0].mean() / case.sizes["S"]) * (row + latent) / unabsorbed


def _with_drafts(solution: ModuleType, case: Case, inputs: Sequence[Any]) -> float:
    return float((inputs[0] + case.sizes["T"]).mean() / case.sizes["S"])


def _batch(solution: ModuleType, case: Case, inputs: Sequence[Any]) -> float:
    lengths, tables, ends, (seqs,) = inputs[:4]
    new, lengths = (ends[1:] - ends[:-1])[:seqs], lengths[:seqs]
    pairs = (new * (lengths - new) + new * (new + 1) / 2).sum()
    return float(pairs / (new.sum() * tables.size * case.sizes["page"]))


def _chunk(solution: ModuleType, case: Case, inputs: Sequence[Any]) -> float:
    tokens = case.sizes["N"] // case.sizes["R"]
    seen = float(inputs[0][0]) + (tokens + 1) / 2
    return seen / (case.sizes["n"] * case.sizes["page"])


def _lengths(solution: ModuleType, case: Case, inputs: Sequence[Any]) -> float:
    return float(inputs[0].mean()) / case.sizes["K"]


#: How much of its spec's work a result needs, where a mask or a router leaves some out.
SHARES: Mapping[str, Callable[[ModuleType, Case, Sequence[Any]], float]] = {
    "causal_flash": _causal,
    "flash_custom_vjp": _causal,
    "block_sparse_attention": _mask,
    "splash_attention": _tables,
    "splash_backward_dkv": _tables,
    "splash_backward_dq": _tables,
    "segment_ids_and_soft_cap": _segments,
    "sliding_window_and_sinks": _window,
    "mla_absorbed": _absorbed,
    "speculative_tree_mask": _with_drafts,
    "ragged_grouped_matmul": _one_group,
    "launch_grouped_matmul": _one_group,
    "transposed_grouped_matmul": _one_group,
    "grouped_matmul_vjp": _one_group,
    "moe_layer": _top_k,
    "sharded_experts": _rows_here,
    "nested_pipeline": _triangle,
    "chunked_prefill": _chunk,
    "ragged_paged_attention": _batch,
    "rpa_fused_write": _batch,
    "emit_pipeline": _lengths,
}
