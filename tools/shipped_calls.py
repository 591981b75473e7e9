"""Calls of the functions in jax's package that launch TPU kernels, with sizes as in production.

`tools/shipped_kernels.py` predicts them. Attention has the heads of Llama 3 8B: 32 heads of queries
and 8 of keys, 128 wide. The grouped matmuls have the sizes of Mixtral 8x7B. Arrays whose contents
decide the work (lengths, tables of pages, sizes of groups) are drawn, always the same; of all
others, only the shapes are given.
"""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

OPS = "jax.experimental.pallas.ops.tpu"
SHIPPED = Path(jax.__file__).parent / "experimental/pallas/ops/tpu"
BF16, F8, I8, I32, U32 = jnp.bfloat16, jnp.float8_e4m3fn, jnp.int8, jnp.int32, jnp.uint32
_SHORT = {"bfloat16": "bf16", "float32": "f32", "int32": "i32", "uint32": "u32", "int8": "i8"}
_SHORT |= {"float8_e4m3fn": "f8", "uint8": "u8", "bool": "bool"}

Function = Callable[..., Any]


def module(name: str) -> Any:
    """A module of OPS; some packages have a function of its name."""
    return importlib.import_module(f"{OPS}.{name}")


double, matmul, all_gather = map(module, ("example_kernel", "matmul", "all_gather"))
flash = module("flash_attention")
splash = module("splash_attention.splash_attention_kernel")
masks = module("splash_attention.splash_attention_mask")
paged = module("paged_attention.paged_attention_kernel")
quantization = module("paged_attention.quantization_utils")
ragged = module("ragged_paged_attention.kernel")
gmm, grouped = module("megablox.gmm"), module("megablox.ops")
philox, threefry = module("random.philox"), module("random.threefry")


@dataclass(frozen=True)
class Call:
    """A call of the function at `path` in OPS, through `function`, which fixes some arguments.

    `options` says in words how it is called. `mesh` has the sizes of a mesh's axes.
    """

    path: str
    options: str
    function: Function
    args: Sequence[Any]
    mesh: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert hasattr(module(self.home), self.path.rpartition(".")[2]), self.path

    @property
    def home(self) -> str:
        """The function's module, from OPS on."""
        return self.path.rpartition(".")[0]

    def told(self) -> str:
        """The arguments and options, such as "2 × bf16[8192,8192], blocks of 512"."""
        arrays = (_array(each) for each in jax.tree.leaves(list(self.args)))
        runs = ((text, len(list(same))) for text, same in itertools.groupby(arrays))
        texts = [text if count == 1 else f"{count} × {text}" for text, count in runs]
        return ", ".join([*texts, *[self.options] * bool(self.options)])


def _array(array: Any) -> str:
    sizes = ",".join(map(str, array.shape))
    known = "=…" if isinstance(array, np.ndarray) else ""
    return f"{_SHORT[np.dtype(array.dtype).name]}[{sizes}]{known}"


def array(*sizes: int, dtype: Any = BF16) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, dtype)


def gradients(function: Function) -> Function:
    """The gradients with respect to q, k, v; the fourth argument is that of the result."""

    def backward(q: Any, k: Any, v: Any, do: Any, *rest: Any) -> Any:
        return jax.vjp(lambda *qkv: function(*qkv, *rest), q, k, v)[1](do)

    return backward


# ---- attention of whole sequences ----

BATCH, HEADS, KV_HEADS, LENGTH, WIDTH, WINDOW, CAP = 4, 32, 8, 4096, 128, 1024, 50.0
Q, KV = array(BATCH, HEADS, LENGTH, WIDTH), array(BATCH, KV_HEADS, LENGTH, WIDTH)
QKV = (Q, Q, Q)
IDS = (array(BATCH, LENGTH, dtype=I32),) * 2
BLOCK = 512


def flash_call(
    block: int = 0, causal: bool = True, segments: bool = False, bias: bool = False
) -> Function:
    """`flash_attention` with blocks of one size, or with its default blocks."""
    names = [name for name in flash.BlockSizes.__dataclass_fields__ if name != "block_b"]
    blocks = flash.BlockSizes(**dict.fromkeys(names, block), block_b=1) if block else None

    def call(q: Any, k: Any, v: Any, *rest: Any) -> Any:
        given: dict[str, Any] = {"causal": causal, "sm_scale": WIDTH**-0.5, "block_sizes": blocks}
        given |= {"segment_ids": flash.SegmentIds(*rest)} if segments else {}
        given |= {"ab": rest[0]} if bias else {}
        return flash.flash_attention(q, k, v, **given)

    return call


def of_flash() -> list[Call]:
    shipped, by = "flash_attention.flash_attention", f"blocks of {BLOCK}"
    bias = array(BATCH, HEADS, LENGTH, LENGTH)
    masked = gradients(flash_call(BLOCK, segments=True))
    return [
        Call(shipped, "causal", flash_call(), QKV),
        Call(shipped, f"causal, {by}", flash_call(BLOCK), QKV),
        Call(shipped, f"`ab`, {by}", flash_call(BLOCK, causal=False, bias=True), [*QKV, bias]),
        Call(shipped, f"causal, {by}, gradients", gradients(flash_call(BLOCK)), [*QKV, Q]),
        Call(shipped, f"causal, `segment_ids`, {by}, gradients", masked, [*QKV, Q, *IDS]),
    ]


def splash_call(
    mask: Any, block: int = BLOCK, grouped: bool = False, fused: bool = False, **options: Any
) -> Function:
    """A splash kernel over a batch; `grouped`: heads of queries share one of keys."""
    apart = {} if fused else {"block_q_dq": block, "block_kv_dq": block}
    names = ("block_q", "block_kv", "block_q_dkv", "block_kv_dkv")
    sizes = dict.fromkeys(names, block) | apart | {"use_fused_bwd_kernel": fused}
    compute = {"block_kv_compute": BLOCK, "block_kv_dkv_compute": BLOCK}
    blocks = splash.BlockSizes(**sizes, **compute)
    make = splash.make_splash_mqa_single_device if grouped else splash.make_splash_mha_single_device
    heads = HEADS // KV_HEADS if grouped else HEADS

    def call(q: Any, k: Any, v: Any, *ids: Any) -> Any:
        kernel = make(masks.MultiHeadMask([mask] * heads), block_sizes=blocks, **options)
        if grouped:
            q = q.reshape(*k.shape[:2], heads, *q.shape[2:])
            return jax.vmap(jax.vmap(kernel))(q, k, v)
        if ids:
            return jax.vmap(kernel)(q, k, v, splash.SegmentIds(*ids))
        return jax.vmap(kernel)(q, k, v)

    return call


def of_splash() -> list[Call]:
    mha, mqa = (f"splash_attention.make_splash_{kind}_single_device" for kind in ("mha", "mqa"))
    square, by, large = (LENGTH, LENGTH), f"blocks of {BLOCK}", 2 * BLOCK
    causal, full = masks.CausalMask(square), masks.FullMask(square)
    local = masks.LocalMask(square, (WINDOW - 1, 0), 0)
    capped = splash_call(causal, attn_logits_soft_cap=CAP)
    backward = gradients(splash_call(causal))
    fused = gradients(splash_call(causal, fused=True))
    return [
        Call(mha, f"full, blocks of {large}", splash_call(full, large), QKV),
        Call(mha, f"causal, blocks of {large}", splash_call(causal, large), QKV),
        Call(mha, f"window of {WINDOW}, {by}", splash_call(local), QKV),
        Call(mha, f"causal, segments, soft cap, {by}", capped, [*QKV, *IDS]),
        Call(mqa, f"causal, {by}", splash_call(causal, grouped=True), [Q, KV, KV]),
        Call(mha, f"causal, {by}, gradients", backward, [*QKV, Q]),
        Call(mha, f"causal, {by}, gradients by the fused kernel", fused, [*QKV, Q]),
    ]


# ---- attention to pages of a cache ----

SEQUENCES, PAGE, PAGES, TOGETHER, QUERIES = 32, 16, 256, 32, 32
MOST = PAGE * PAGES


def table(sequences: int) -> np.ndarray:
    """The pages of each sequence, in no order."""
    drawn = np.random.default_rng(1).permutation(sequences * PAGES)
    return drawn.reshape(sequences, PAGES).astype(np.int32)


def paged_call(words: str = "", dtype: Any = BF16, **options: Any) -> Call:
    """A decode step of SEQUENCES sequences, of lengths up to MOST."""
    cache: Any = array(KV_HEADS, SEQUENCES * PAGES, PAGE, WIDTH, dtype=dtype)
    if dtype is I8:
        scales = array(*cache.shape[:-1], 1, dtype=jnp.float32)
        cache = quantization.QuantizedTensor(cache, scales)
    lengths = np.random.default_rng(0).integers(1, MOST + 1, SEQUENCES).astype(np.int32)
    options = {"pages_per_compute_block": TOGETHER} | options
    function = functools.partial(paged.paged_attention, **options)
    arrays = [array(SEQUENCES, HEADS, WIDTH), cache, cache, lengths, table(SEQUENCES)]
    path = "paged_attention.paged_attention"
    return Call(path, words or _words(options), function, arrays)


def _words(options: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}={value!r}`" for name, value in options.items())


def ragged_call(new: Sequence[int], dtype: Any = BF16, **options: Any) -> Call:
    """A step with these numbers of new tokens, for sequences of lengths up to MOST."""
    count = len(new)
    old = np.random.default_rng(2).integers(0, MOST - max(new), count)
    starts = np.cumsum([0, *new]).astype(np.int32)
    q, cache = array(int(starts[-1]), HEADS, WIDTH), (count * PAGES, PAGE, 2 * KV_HEADS, WIDTH)
    tables = [(old + new).astype(np.int32), table(count), starts, np.array([count], np.int32)]
    function = functools.partial(ragged.ragged_paged_attention, sm_scale=WIDTH**-0.5, **options)
    prompts = sum(1 for tokens in new if tokens > 1)
    step = f"{prompts} prompts and {count - prompts} decodes" if prompts else f"{count} decodes"
    arrays = [q, array(*cache, dtype=dtype), *tables]
    told = ", ".join(filter(None, [step, _words(options)]))
    return Call("ragged_paged_attention.ragged_paged_attention", told, function, arrays)


DECODES = [1] * 64
MIXED = [1] * 60 + [512, 300, 900, 276]


def of_pages() -> list[Call]:
    small = {"num_kv_pages_per_block": 8, "num_queries_per_block": QUERIES}
    large = {"num_kv_pages_per_block": 16, "num_queries_per_block": QUERIES}
    return [
        paged_call(),
        paged_call(inline_seq_dim=False),
        paged_call(attn_logits_soft_cap=CAP),
        paged_call(dtype=I8),
        paged_call(dtype=I8, inline_seq_dim=False),
        ragged_call(DECODES),
        ragged_call(DECODES, **large),
        ragged_call(MIXED, **small),
        ragged_call(MIXED, **large),
        ragged_call(MIXED, **large, sliding_window=WINDOW, soft_cap=CAP),
        ragged_call(MIXED, F8, **large, k_scale=1.0, v_scale=1.0),
        ragged_call(MIXED, I8, **large, k_scale=0.1, v_scale=0.1),
    ]


def calls_for_two_cores() -> list[Call]:
    """Calls that are meant for chips with two TensorCores."""
    return [
        paged_call(megacore_mode=mode, inline_seq_dim=inline)
        for mode in ("kv_head", "batch")
        for inline in (True, False)
    ]


# ---- matmuls, and all others ----

EXPERTS, ROWS, MODEL, HIDDEN, TILING = 8, 8192, 4096, 14336, (512, 1024, 1024)


def of_groups() -> list[Call]:
    drawn = np.random.default_rng(3).integers(0, EXPERTS, ROWS)
    sizes = np.bincount(drawn, minlength=EXPERTS).astype(np.int32)
    x, w, y = array(ROWS, MODEL), array(EXPERTS, MODEL, HIDDEN), array(ROWS, HIDDEN)
    plain, by = "megablox.gmm.gmm", f"`tiling={TILING}`"
    in_bf16 = {"preferred_element_type": BF16}
    tiled = functools.partial(gmm.gmm, **in_bf16, tiling=TILING)
    turned = functools.partial(tiled, transpose_rhs=True)
    half, first = array(EXPERTS // 2, MODEL, HIDDEN), EXPERTS // 2

    def offset(x: Any, w: Any, sizes: Any) -> Any:
        return tiled(x, w, sizes, group_offset=jnp.array(first, jnp.int32))

    def added(x: Any, w: Any, sizes: Any, y: Any) -> Any:
        return tiled(x, w, sizes, existing_out=y)

    def backward(x: Any, w: Any, sizes: Any, dy: Any) -> Any:
        return jax.vjp(lambda x, w: grouped.gmm(x, w, sizes, BF16, TILING), x, w)[1](dy)

    transposed = functools.partial(gmm.tgmm, **in_bf16, tiling=TILING)
    return [
        Call(plain, "default tiling", functools.partial(gmm.gmm, **in_bf16), [x, w, sizes]),
        Call(plain, by, tiled, [x, w, sizes]),
        Call(plain, f"{by}, sizes unknown", tiled, [x, w, array(EXPERTS, dtype=I32)]),
        Call(plain, f"{by}, `transpose_rhs`", turned, [x, array(EXPERTS, HIDDEN, MODEL), sizes]),
        Call(plain, f"{by}, `group_offset={first}`", offset, [x, half, sizes]),
        Call(plain, f"{by}, `existing_out`", added, [x, w, sizes, y]),
        Call("megablox.gmm.tgmm", by, transposed, [array(MODEL, ROWS), y, sizes]),
        Call("megablox.gmm", f"{by}, gradients", backward, [x, w, sizes, y]),
    ]


def of_others() -> list[Call]:
    size, key, bits = 8192, array(2, dtype=U32), (4096, 4096)
    blocks = {"block_shape": (512, 1024), "block_k": 1024}
    product = functools.partial(matmul.matmul, **blocks)
    whole = functools.partial(product, out_dtype=I32)
    square, of_int8 = [array(size, size)] * 2, [array(size, size, dtype=I8)] * 2

    def gathered(space: Any) -> Function:
        def call(x: Any) -> Any:
            mesh = jax.sharding.get_abstract_mesh()
            return all_gather.all_gather(x, mesh=mesh, axis_name="x", memory_space=space)

        return call

    def of_philox(key: Any) -> Any:
        return philox.philox_random_bits(key, 32, bits)

    def of_threefry(key: Any) -> Any:
        return threefry.plthreefry_random_bits(key, 32, bits)

    def split(key: Any) -> Any:
        return philox.philox_split(key, bits)

    four, vmem, hbm = {"x": 4}, pltpu.VMEM, pl.ANY
    return [
        Call("example_kernel.double", "", double.double, [array(1024, 2048)]),
        Call("matmul.matmul", _words(blocks), product, square),
        Call("matmul.matmul", f"{_words(blocks)}, `out_dtype=int32`", whole, of_int8),
        Call(
            "all_gather.all_gather", "4 chips, in VMEM", gathered(vmem), [array(4096, 1024)], four
        ),
        Call("all_gather.all_gather", "4 chips, in HBM", gathered(hbm), [array(16384, 4096)], four),
        Call("random.philox.philox_random_bits", f"`{bits}`", of_philox, [key]),
        Call("random.threefry.plthreefry_random_bits", f"`{bits}`", of_threefry, [key]),
        Call("random.philox.philox_split", f"`{bits}`", split, [key]),
        Call("random.philox.philox_fold_in", "", philox.philox_fold_in, [key, array(dtype=U32)]),
    ]


def calls() -> list[Call]:
    """All calls, in the order of the page."""
    return [*of_flash(), *of_splash(), *of_pages(), *of_groups(), *of_others()]
