"""Calls of TPU kernels in the repositories of others, with sizes as in production.

`tools/shipped_kernels.py --foreign FOLDER` predicts them. FOLDER has a checkout of each of
REPOSITORIES. Their modules are imported from there; what they import besides jax is replaced by
stubs, so that nothing has to be installed. Kernels for SparseCores and GPUs are left out.

Sizes are those of `shipped_calls`, where a kernel has no model of its own.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.machinery
import itertools
import logging
import re
import sys
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import typing_extensions
from jax.experimental import pallas as pl
from shipped_calls import (
    BF16,
    CAP,
    DECODES,
    EXPERTS,
    F8,
    HEADS,
    HIDDEN,
    I8,
    I32,
    KV_HEADS,
    LENGTH,
    MIXED,
    MODEL,
    MOST,
    QKV,
    ROWS,
    WIDTH,
    WINDOW,
    Call,
    Function,
    array,
    gradients,
)

F32, U8 = jnp.float32, jnp.uint8


@dataclass(frozen=True)
class ForeignCall(Call):
    """A call of a function in another repository; `path` begins in its folder of kernels."""

    def __post_init__(self) -> None:
        """Nothing is checked: `function` has been imported."""


@dataclass(frozen=True)
class Repository:
    """A repository of kernels. `git` is its name on GitHub.

    Its packages lie in `source`, a folder of the checkout. `kinds` make its calls, each for a few
    kernels.
    """

    git: str
    folder: str
    source: str
    kinds: Sequence[Callable[[], list[ForeignCall]]]


# ---- modules ----


class _Absent:
    """Anything of a package that isn't installed: no array is an instance of it."""

    def __class_getitem__(cls, _: Any) -> type[_Absent]:
        return cls

    def __init__(self, *_: Any, **__: Any) -> None:
        """Takes any arguments."""

    def __call__(self, function: Any) -> Any:
        return function


class _Stub(types.ModuleType):
    """A module that has every name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (_Absent,), {})


def _stub(name: str, **known: Any) -> None:
    stub = _Stub(name)
    stub.__path__ = []
    vars(stub).update(known)
    sys.modules[name] = stub
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, stub)


def _package(name: str, folder: Path) -> None:
    """A package without what its __init__ does, which often starts a whole server or model."""
    package = types.ModuleType(name)
    package.__path__ = [str(folder)]
    sys.modules[name] = package


def _aligned(size: int, to: int) -> int:
    return -(-size // to) * to


def _packing(dtype: Any) -> int:
    return 4 // np.dtype(dtype).itemsize


class _OlderSource(importlib.machinery.SourceFileLoader):
    """Reads modules that are for Python 3.12 in Python 3.11."""

    def source_to_code(self, data: Any, path: Any, *rest: Any, **options: Any) -> types.CodeType:
        if isinstance(data, bytes):
            data = re.sub(rb"^type (\w+) = ", rb"\1 = ", data, flags=re.MULTILINE)
        return super().source_to_code(data, path, *rest, **options)


def _read_older_source(folder: Path) -> None:
    """Let all modules in the folder be read so."""
    found = importlib.machinery.FileFinder.path_hook((_OlderSource, [".py"]))

    def hook(path: str) -> Any:
        if not Path(path).is_relative_to(folder):
            raise ImportError
        return found(path)

    sys.path_hooks.insert(0, hook)


class _Logger(logging.Logger):
    """vLLM's loggers have a few methods more."""

    def warning_once(self, *_: Any) -> None:
        """Says nothing."""

    info_once = debug_once = warning_once


def prepare(folder: Path) -> None:
    """Make the repositories' modules in this folder importable."""
    for name in ("pydantic", "pydantic_core", "qwix", "immutabledict", "tune_jax"):
        _stub(name)
    _stub("pydantic.dataclasses", dataclass=dataclasses.dataclass)
    _stub("qwix.pallas", pallas_call=pl.pallas_call, dot_general=jax.lax.dot_general, dot=jnp.dot)
    _stub("sympy", divisors=lambda size: [d for d in range(1, size + 1) if size % d == 0])
    if sys.version_info < (3, 12):
        _read_older_source(folder)
    if not hasattr(typing, "override"):
        setattr(typing, "override", typing_extensions.override)  # noqa: B010
    of = {each.folder: folder / each.folder / each.source for each in REPOSITORIES}
    vllm = "tpu_inference"
    _package(vllm, of["tpu-inference"] / vllm)
    _package(f"{vllm}.kernels.gdn", of["tpu-inference"] / vllm / "kernels/gdn")
    _stub(f"{vllm}.logger", init_logger=_Logger)
    _stub(f"{vllm}.envs", MLA_XPOSE_N_TILE_SIZE=160)
    _stub(f"{vllm}.utils", align_to=_aligned, get_dtype_packing=_packing, get_device_name=_device)
    setattr(sys.modules[f"{vllm}.utils"], "TPU_HEAD_SIZE_ALIGNMENT", 128)  # noqa: B010
    _package("tokamax", of["tokamax"] / "tokamax")
    for name in ("tokamax._src", "tokamax._src.ops", "tokamax._src.ops.ragged_dot"):
        _package(name, of["tokamax"].joinpath(*name.split(".")))
    _stub("tokamax._src.ops.op")
    _stub("tokamax._src.ops.ragged_dot.base")
    _stub("tokamax._src.quantization", as_array_or_qarray_without_zero_point=lambda x: x)
    maxtext = of["maxtext"] / "maxtext"
    for name in ("", ".kernels", ".kernels.megablox", ".kernels.attention", ".common", ".utils"):
        _package(f"maxtext{name}", maxtext.joinpath(*name.split(".")))
    _stub("maxtext.common.common_types", DEFAULT_MASK_VALUE=-0.7 * float(np.finfo(np.float32).max))


def _device() -> str:
    """tpu_inference's name of the chip, such as "TPU v5e"."""
    return jax.devices()[0].device_kind.replace(" lite", "e")


def module(name: str) -> Any:
    return importlib.import_module(name)


def tpu_inference(name: str) -> Any:
    return module(f"tpu_inference.kernels.{name}")


def tokamax(name: str) -> Any:
    return module(f"tokamax._src.ops.{name}")


def maxtext(name: str) -> Any:
    return module(f"maxtext.kernels.{name}")


# ---- steps of a server: some prompts and some decodes ----


@dataclass(frozen=True)
class Step:
    """A step with these numbers of new tokens, for sequences of lengths up to MOST.

    Decodes come first. Each sequence has `pages` pages of `page` tokens.
    """

    new: Sequence[int]
    page: int = 128

    @property
    def pages(self) -> int:
        return MOST // self.page

    @property
    def tokens(self) -> int:
        return sum(self.new)

    @property
    def cached(self) -> int:
        """The number of pages of all sequences."""
        return len(self.new) * self.pages

    def decodes(self) -> int:
        return sum(1 for tokens in self.new if tokens == 1)

    def lengths(self) -> np.ndarray:
        old = np.random.default_rng(2).integers(0, MOST - max(self.new), len(self.new))
        return (old + self.new).astype(np.int32)

    def table(self) -> np.ndarray:
        return np.random.default_rng(1).permutation(self.cached).astype(np.int32)

    def starts(self) -> np.ndarray:
        return np.cumsum([0, *self.new]).astype(np.int32)

    def distribution(self) -> np.ndarray:
        """The ends of the decodes, of the prompts of one length, and of all."""
        return np.array([self.decodes(), self.decodes(), len(self.new)], np.int32)

    def slots(self) -> np.ndarray:
        """A slot of a cache of states for each sequence; slot 0 is for padding."""
        drawn = np.random.default_rng(4).permutation(len(self.new)) + 1
        return drawn.astype(np.int32)

    def told(self) -> str:
        prompts = len(self.new) - self.decodes()
        decodes = f"{self.decodes()} decodes"
        return f"{prompts} prompts and {decodes}" if prompts else decodes


DECODE, MIX = Step(DECODES), Step(MIXED)


def _told(step: Step, options: dict[str, Any]) -> str:
    return ", ".join([step.told(), *(f"`{name}={value!r}`" for name, value in options.items())])


# ---- tpu-inference ----


def rpa_v2() -> list[ForeignCall]:
    v2 = tpu_inference("ragged_paged_attention.v2.kernel")

    def call(step: Step, dtype: Any = BF16, **options: Any) -> ForeignCall:
        cache = array(step.cached, step.page, 2 * KV_HEADS, WIDTH, dtype=dtype)
        table = step.table().reshape(len(step.new), step.pages)
        arrays = [array(step.tokens, HEADS, WIDTH), cache, step.lengths(), table, step.starts()]
        given = {"sm_scale": WIDTH**-0.5, "vmem_limit_bytes": 64 << 20} | options
        function = functools.partial(v2.ragged_paged_attention, **given)
        count = np.array([len(step.new)], np.int32)
        path = "ragged_paged_attention.v2.kernel.ragged_paged_attention"
        return ForeignCall(path, _told(step, options), function, [*arrays, count])

    by = {"num_kv_pages_per_block": 8, "num_queries_per_block": 32}
    return [call(DECODE, **by), call(MIX, **by), call(MIX, F8, **by, k_scale=1.0, v_scale=1.0)]


def kv_cache_update() -> list[ForeignCall]:
    update = tpu_inference("ragged_paged_attention.v2.ragged_kv_cache_update").kv_cache_update
    tokens, heads, page, pages = 2048, 2 * KV_HEADS, 128, 512
    starts = np.arange(0, tokens, page)
    places = np.random.default_rng(5).permutation(pages)[: len(starts)] * page
    slices = np.stack([places, starts, np.full(len(starts), page)]).astype(np.int32)
    slices = np.pad(slices, ((0, 0), (0, 64 - len(starts))))
    function = functools.partial(update, page_size=page, num_slices_per_block=8)
    arrays = [array(tokens, heads, WIDTH), slices, array(pages * page, heads, WIDTH)]
    path = "ragged_paged_attention.v2.ragged_kv_cache_update.kv_cache_update"
    count = np.array([len(starts)], np.int32)
    return [ForeignCall(path, f"{tokens} tokens", function, [*arrays, count])]


def _cached_attention(step: Step, dtype: Any, heads: int = HEADS, width: int = WIDTH) -> list[Any]:
    """The arguments of tpu-inference's attention from version 3 on."""
    pack = _packing(dtype)
    if width == WIDTH:
        cache = array(step.cached, step.page, 2 * KV_HEADS // pack, pack, WIDTH, dtype=dtype)
    else:
        cache = array(step.cached, step.page, KV_HEADS // pack, pack, WIDTH, dtype=dtype)
    q, kv = array(step.tokens, heads, width), array(step.tokens, KV_HEADS, width, dtype=dtype)
    return [q, kv, kv, cache, step.lengths(), step.table(), step.starts(), step.distribution()]


def rpa_v3() -> list[ForeignCall]:
    name, narrow = "ragged_paged_attention.v3.kernel", "ragged_paged_attention.v3.kernel_hd64"
    v3 = tpu_inference(name).ragged_paged_attention
    hd64 = tpu_inference(narrow).ragged_paged_attention_hd64

    def call(step: Step, dtype: Any = BF16, **options: Any) -> ForeignCall:
        function = functools.partial(v3, sm_scale=WIDTH**-0.5, **options)
        path, told = f"{name}.ragged_paged_attention", _told(step, options)
        return ForeignCall(path, told, function, _cached_attention(step, dtype))

    def of_64(step: Step) -> ForeignCall:
        function = functools.partial(hd64, sm_scale=64**-0.5)
        path, arrays = (
            f"{narrow}.ragged_paged_attention_hd64",
            _cached_attention(step, BF16, 64, 64),
        )
        return ForeignCall(path, step.told(), function, [*arrays, array(64, dtype=F32)])

    return [
        call(DECODE),
        call(MIX),
        call(MIX, sliding_window=WINDOW, soft_cap=CAP),
        call(MIX, F8, k_scale=1.0, v_scale=1.0),
        of_64(DECODE),
        of_64(MIX),
    ]


def rpa_experimental() -> list[ForeignCall]:
    page = DECODE.page
    caches = {
        "batched_rpa.wrapper": (2 * KV_HEADS, page // 2, 2, WIDTH),
        "stacked_rpa.wrapper": (2 * KV_HEADS, WIDTH, page),
        "rpa_v3_cp.kernel": (page, KV_HEADS, 2, WIDTH),
    }
    found = []
    for kind, cache in caches.items():
        function = tpu_inference(f"experimental.{kind}").ragged_paged_attention
        function = functools.partial(function, sm_scale=WIDTH**-0.5)
        path = f"experimental.{kind}.ragged_paged_attention"
        for step in (DECODE, MIX):
            arrays = _cached_attention(step, BF16)
            arrays[3] = array(step.cached, *cache)
            found.append(ForeignCall(path, step.told(), function, arrays))
    return found


def _latent(step: Step, heads: int = 128, width: int = 512, rope: int = 64) -> list[Any]:
    """Arguments of multi-head latent attention, with the sizes of DeepSeek V3."""
    q, q_pe = array(step.tokens, heads, width), array(step.tokens, heads, rope)
    new = [array(step.tokens, width), array(step.tokens, rope)]
    cache = array(step.cached, step.page // 2, 2, width + _aligned(rope, 128))
    lengths = [step.lengths(), step.table(), step.starts(), step.distribution()]
    return [q, q_pe, *new, cache, *lengths]


def _mla(function: Function, path: str, step: Step, **options: Any) -> ForeignCall:
    by = {"num_kv_pages_per_block": 4, "num_queries_per_block": 8}
    given = {"sm_scale": 192**-0.5, "vmem_limit_bytes": 100 << 20} | by | options
    arrays = _latent(step)
    if path.startswith("mla.v2"):  # the heads come first
        tokens, heads, width = arrays[0].shape
        arrays[0] = array(heads, tokens, width)
    function = functools.partial(function, **given)
    return ForeignCall(path, _told(step, by | options), function, arrays)


def mla() -> list[ForeignCall]:
    found = []
    for version in ("v1", "v2"):
        name = f"mla.{version}.kernel"
        function = tpu_inference(name).mla_ragged_paged_attention
        path = f"{name}.mla_ragged_paged_attention"
        found += [_mla(function, path, step) for step in (DECODE, MIX)]
    batched = _mla(function, path, DECODE, decode_batch_size=4)
    return [*found, batched]


def quantized_matmul() -> list[ForeignCall]:
    plain = tpu_inference("quantized_matmul.kernel").quantized_matmul_kernel
    by_block = tpu_inference("quantized_matmul.blockwise_kernel").quantized_matmul_kernel
    tuned = tpu_inference("quantized_matmul.tuned_block_sizes").TunedValue
    rows, block = 1024, 512
    x = array(rows, MODEL)
    paths = [f"quantized_matmul.{each}" for each in ("kernel", "blockwise_kernel")]
    plain_path, by_block_path = (f"{each}.quantized_matmul_kernel" for each in paths)
    found = []
    for dtype, short in ((I8, "int8"), (F8, "float8_e4m3fn")):
        w = array(HIDDEN, MODEL, dtype=dtype)
        arrays = [x, w, array(HIDDEN, dtype=F32)]
        function = functools.partial(plain, x_q_dtype=dtype)
        found.append(ForeignCall(plain_path, f"`x_q_dtype={short}`", function, arrays))
    arrays = [x, array(HIDDEN, MODEL, dtype=I8), array(HIDDEN, dtype=F32)]
    sizes = functools.partial(plain, x_q_dtype=I8, tuned_value=tuned(1024, 1024, 1024))
    found.append(ForeignCall(plain_path, "`x_q_dtype=int8`, blocks of 1024", sizes, arrays))
    only_weights = functools.partial(plain, x_q_dtype=BF16, tuned_value=tuned(1024, 1024, 1024))
    found.append(ForeignCall(plain_path, "only weights, blocks of 1024", only_weights, arrays))
    scales = array(MODEL // block, 1, HIDDEN, dtype=F32)
    given = {"block_size": block, "x_q_dtype": F8, "tuned_value": tuned(1024, 2048, 2048)}
    arrays = [x, array(HIDDEN, MODEL, dtype=F8), scales]

    def blockwise(x: Any, w: Any, scales: Any) -> Any:
        return by_block(x, w, scales, **given)

    found.append(ForeignCall(by_block_path, f"`block_size={block}`", blockwise, arrays))
    return found


def _sizes(groups: int = EXPERTS, rows: int = ROWS) -> np.ndarray:
    drawn = np.random.default_rng(3).integers(0, groups, rows)
    return np.bincount(drawn, minlength=groups).astype(np.int32)


def megablox() -> list[ForeignCall]:
    v1, v2 = tpu_inference("megablox.gmm"), tpu_inference("megablox.gmm_v2")
    x, w = array(ROWS, MODEL), array(EXPERTS, MODEL, HIDDEN)
    of_f8 = array(EXPERTS, MODEL, HIDDEN, dtype=F8)
    scales, sizes = array(EXPERTS, 1, 1, HIDDEN, dtype=F32), _sizes()
    tiling = (512, 1024, 1024)
    plain = functools.partial(v1.gmm, preferred_element_type=BF16, tiling=tiling)
    gated = functools.partial(v2.gmm_v2, fuse_act="silu")

    def scaled(x: Any, w: Any, sizes: Any, scales: Any) -> Any:
        return v2.gmm_v2(x, w, sizes, scales)

    return [
        ForeignCall("megablox.gmm.gmm", f"`tiling={tiling}`", plain, [x, w, sizes]),
        ForeignCall("megablox.gmm_v2.gmm_v2", "", v2.gmm_v2, [x, w, sizes]),
        ForeignCall("megablox.gmm_v2.gmm_v2", "`fuse_act='silu'`", gated, [x, w, sizes]),
        ForeignCall("megablox.gmm_v2.gmm_v2", "scales", scaled, [x, of_f8, sizes, scales]),
        ForeignCall(
            "megablox.gmm_v2.gmm_v2", "64 rows", v2.gmm_v2, [array(64, MODEL), w, _sizes(8, 64)]
        ),
    ]


def fused_moe() -> list[ForeignCall]:
    kernel = tpu_inference("fused_moe.v1.kernel")
    tokens, experts, hidden, top = 512, 128, 768, 8  # Qwen3 30B A3B
    model = 2048
    arrays = [
        array(tokens, model),
        array(experts, 2, model, hidden),
        array(experts, hidden, model),
        array(tokens, experts),
    ]

    def call(tokens: Any, first: Any, second: Any, gates: Any) -> Any:
        mesh = jax.sharding.get_abstract_mesh()
        blocks = {"bt": 32, "btc": 32, "bf": 256, "bfc": 256}
        blocks |= dict.fromkeys(("bd1", "bd2", "bd1c", "bd2c"), 512)
        return kernel.fused_ep_moe(mesh, tokens, first, second, gates, top, **blocks)

    path = "fused_moe.v1.kernel.fused_ep_moe"
    return [ForeignCall(path, "4 chips", call, arrays, {"data": 1, "model": 4})]


def flash() -> list[ForeignCall]:
    kernel = tpu_inference("flash_attention.kernel")

    def call(q: Any, k: Any, v: Any, *ids: Any) -> Any:
        blocks = kernel.BlockSizes(block_q=512, block_k_major=512, block_k=512, block_b=1)
        segments = kernel.SegmentIds(*ids) if ids else None
        given = {"causal": not ids, "block_sizes": blocks, "segment_ids": segments}
        return kernel.flash_attention(q, k, v, **given)

    ids = [array(4, LENGTH, dtype=I32)] * 2
    path, encoder = "flash_attention.kernel.flash_attention", "encoder_only_flash_attention"
    short = [array(2048, 16, 64)] * 3
    lengths = np.array([700, 348, 1000], np.int32)
    path_of_encoder = f"flash_attention.kernel.{encoder}"
    return [
        ForeignCall(path, "causal, blocks of 512", call, QKV),
        ForeignCall(path, "segments, blocks of 512", call, [*QKV, *ids]),
        ForeignCall(path_of_encoder, "", getattr(kernel, encoder), [*short, lengths]),
    ]


# Qwen3 Next: 16 heads of queries and keys, 32 of values, all 128 wide; the convolution has 4 taps.
DELTA = {"n_kq": 16, "n_v": 32, "d_k": 128, "d_v": 128}
CHANNELS, TAPS = 2 * 16 * 128 + 32 * 128, 4


def causal_conv1d() -> list[ForeignCall]:
    kernel = tpu_inference("causal_conv1d.causal_conv1d").ragged_causal_conv1d
    found = []
    for step in (DECODE, MIX):
        many = len(step.new)
        arrays = [array(step.tokens, CHANNELS), array(many + 1, TAPS - 1, CHANNELS)]
        arrays += [array(CHANNELS, 1, TAPS), array(CHANNELS)]
        known = [step.starts(), step.slots(), step.distribution(), np.ones(many, bool)]
        function = functools.partial(kernel, kernel_size=TAPS)
        path = "causal_conv1d.causal_conv1d.ragged_causal_conv1d"
        found.append(ForeignCall(path, step.told(), function, [*arrays, *known]))
    return found


def _delta(step: Step) -> dict[str, Any]:
    """Arguments of tpu-inference's gated delta net, by name."""
    heads = DELTA["n_v"]
    gate, many = array(step.tokens, heads), len(step.new)
    state = array(many + 1, heads, 128, 128, dtype=F32)
    of_heads = array(heads, dtype=F32)
    return {
        "mixed_qkv": array(step.tokens, CHANNELS),
        "b": gate,
        "a": gate,
        "recurrent_state": state,
        "A_log": of_heads,
        "dt_bias": of_heads,
        "query_start_loc": step.starts(),
        "state_indices": step.slots(),
        "distribution": step.distribution(),
        "has_initial_state": np.ones(many, bool),
    }


def gated_delta_net() -> list[ForeignCall]:
    decode = "ragged_gated_delta_rule_decode_only"
    found = []

    def add(path: str, function: Function, step: Step, given: dict[str, Any]) -> None:
        names = list(given)

        def call(*arrays: Any) -> Any:
            return function(**dict(zip(names, arrays, strict=True)), **DELTA)

        found.append(ForeignCall(path, step.told(), call, list(given.values())))

    for name in ("gdn.v1.fused_gdn_decode_kernel", "gdn.v2.gdn_decode_kernel"):
        add(f"{name}.{decode}", getattr(tpu_inference(name), decode), DECODE, _delta(DECODE))
    name = "gdn.v1.fused_gdn_kernel_wrapper"
    rule = tpu_inference(name).ragged_gated_delta_rule
    add(f"{name}.ragged_gated_delta_rule", rule, MIX, _delta(MIX))
    name = "gdn.v2.recurrent_scan_v2"
    add(f"{name}.recurrent_scan", tpu_inference(name).recurrent_scan, MIX, _delta(MIX))
    name = "gdn.v3.wrapper"
    v3 = functools.partial(tpu_inference(name).fused_conv1d_gdn, kernel_size=TAPS)
    for step in (DECODE, MIX):
        add(f"{name}.fused_conv1d_gdn", v3, step, _conv_delta(step))
    return found


def _conv_delta(step: Step) -> dict[str, Any]:
    """Arguments of the kernels that do the convolution too, by name."""
    from_, many = _delta(step), len(step.new)
    return {
        "qkv": from_["mixed_qkv"],
        "b": from_["b"],
        "a": from_["a"],
        "conv_state": array(many + 1, TAPS - 1, CHANNELS),
        "recurrent_state": from_["recurrent_state"],
        "conv_weight": array(CHANNELS, 1, TAPS),
        "conv_bias": array(CHANNELS),
        "a_log": from_["A_log"],
        "dt_bias": from_["dt_bias"],
        "query_start_loc": from_["query_start_loc"],
        "state_indices": from_["state_indices"],
        "distribution": from_["distribution"],
        "seq_lens": step.lengths(),
    }


def triangles() -> list[ForeignCall]:
    solver = tpu_inference("gdn.triangle_solver")
    matrices = [array(1, 32, 32, 64, 64, dtype=F32)]
    path = "gdn.triangle_solver"
    names = ("newton_schulz_inverse_pallas", "decompose_triangular_matrix_inverse_pallas")
    return [ForeignCall(f"{path}.{name}", "", getattr(solver, name), matrices) for name in names]


def sparse_matmul() -> list[ForeignCall]:
    kernel = tpu_inference("structured_sparse_matmul.v1.spmm").structured_spmm
    size = 4096
    given = {"rhs_sparse": True, "contract_sparse": True, "stride": 128}
    given |= {"block_m": 512, "block_k": 1024, "block_n": 512}

    def call(nonzeros: Any, metadata: Any, dense: Any) -> Any:
        return kernel((2, 4), nonzeros, metadata, dense, **given)

    arrays = [array(2, size // 4, size), array(2, size // 64, size, dtype=I32), array(1024, size)]
    path = "structured_sparse_matmul.v1.spmm.structured_spmm"
    return [ForeignCall(path, "2 of 4", call, arrays)]


def collectives() -> list[ForeignCall]:
    kernel = tpu_inference("collectives.all_gather_matmul").all_gather_matmul

    def call(x: Any, y: Any) -> Any:
        mesh = jax.sharding.get_abstract_mesh()
        return kernel(x, y, mesh, "x", bn=1024, bk=1024)

    path = "collectives.all_gather_matmul.all_gather_matmul"
    return [ForeignCall(path, "4 chips", call, [array(4096, 4096), array(4096, 8192)], {"x": 4})]


def deepseek_v4() -> list[ForeignCall]:
    name = "experimental.deepseek_v4"
    tokens, hidden, streams = 1024, 7168, 4
    flat, mixes = array(tokens, streams * hidden), 2 * streams + streams**2
    projection = array(mixes, streams * hidden, dtype=F32)
    scale, base = array(3, dtype=F32), array(mixes, dtype=F32)
    gates, table = array(tokens, streams, dtype=F32), array(tokens, streams**2, dtype=F32)
    pre, post = tpu_inference(f"{name}.mhc.pre_kernel"), tpu_inference(f"{name}.mhc.post_kernel")
    both = tpu_inference(f"{name}.mhc.fused_post_pre_kernel").fused_post_pre_mixes
    rope = tpu_inference(f"{name}.rope")
    positions = np.random.default_rng(6).integers(0, LENGTH, tokens).astype(np.int32)
    angles, heads = array(LENGTH, 64, dtype=F32), array(tokens, 128, 512)
    output = tpu_inference(f"{name}.o_projection")
    weights = [array(4096, 16 * 1024, dtype=F8), array(16 * 1024, dtype=F32)]

    def collapse(x: Any, fn: Any, scale: Any, base: Any) -> Any:
        return pre.mhc_pre_mixes_collapse(x, fn, scale, base, 1e-6, 1e-6)

    def fused(*arrays: Any) -> Any:
        return both(*arrays, 1e-6, 1e-6)

    def projected(x: Any, positions: Any, angles: Any, *weights: Any) -> Any:
        return output.fused_reverse_rope_wo_a_projection(
            x, positions, angles, *weights, head_dim=512
        )

    inner = [array(tokens, hidden), flat, gates, table]
    turned = [heads, positions, angles]
    return [
        ForeignCall(
            f"{name}.mhc.pre_kernel.mhc_pre_mixes", "", pre.mhc_pre_mixes, [flat, projection]
        ),
        ForeignCall(
            f"{name}.mhc.pre_kernel.mhc_pre_mixes_collapse",
            "",
            collapse,
            [flat, projection, scale, base],
        ),
        ForeignCall(f"{name}.mhc.post_kernel.mhc_post_2d", "", post.mhc_post_2d, inner),
        ForeignCall(
            f"{name}.mhc.fused_post_pre_kernel.fused_post_pre_mixes",
            "",
            fused,
            [*inner, projection, scale, base],
        ),
        ForeignCall(f"{name}.rope.rope", "", rope.rope, turned),
        ForeignCall(f"{name}.rope.qnorm_rope", "", rope.qnorm_rope, turned),
        ForeignCall(
            f"{name}.rope.rope_quant", "", rope.rope_quant, [array(tokens, 64, 128), *turned[1:]]
        ),
        ForeignCall(
            f"{name}.o_projection.fused_reverse_rope_wo_a_projection",
            "",
            projected,
            [*turned, *weights],
        ),
    ]


def deepseek_v4_attention() -> list[ForeignCall]:
    name = "experimental.deepseek_v4"
    top = tpu_inference(f"{name}.indexer.streamindex_topk").streamindex_topk
    attend = tpu_inference(f"{name}.core_attention.mla").mla_ragged_paged_attention
    found = []
    for step in (DECODE, MIX):
        given = {"num_kv_pages_per_block": 2, "num_queries_per_block": 8}
        function = functools.partial(top, k=512, compression_ratio=4, **given)
        cache = array(step.cached, step.page // 4, 4, 256, dtype=U8)
        arrays = [array(step.tokens, 64, 128), array(step.tokens, 64, dtype=F32), cache]
        known = [step.lengths(), step.table(), step.starts(), step.distribution()]
        path = f"{name}.indexer.streamindex_topk.streamindex_topk"
        found.append(ForeignCall(path, step.told(), function, [*arrays, *known]))
        function = functools.partial(attend, sm_scale=512**-0.5, **given)
        cache = array(step.cached, step.page * 2, 4, 128, dtype=U8)
        q, of_heads = array(step.tokens, 64, 512), array(step.tokens, 64, dtype=F32)
        reached = np.repeat(step.lengths(), step.new).astype(np.int32)
        known.insert(1, reached)
        arrays = [q, cache, *known, array(64, dtype=F32), q, of_heads, of_heads]
        path = f"{name}.core_attention.mla.mla_ragged_paged_attention"
        found.append(ForeignCall(path, step.told(), function, arrays))
    return found


# ---- tokamax ----


def _splash(package: Callable[[str], Any], name: str) -> list[ForeignCall]:
    kernel = package(f"{name}.splash_attention_kernel")
    masks = package(f"{name}.splash_attention_mask")
    square = (LENGTH, LENGTH)
    causal, full = masks.CausalMask(square), masks.FullMask(square)
    local = masks.LocalMask(square, (WINDOW - 1, 0), 0)

    def call(mask: Any, block: int = 1024, grouped: bool = False, **options: Any) -> Function:
        names = ("block_q", "block_kv", "block_q_dkv", "block_kv_dkv")
        names = (*names, "block_kv_compute", "block_kv_dkv_compute")
        config = kernel.SplashConfig(**dict.fromkeys(names, block), **options)
        kind = "mqa" if grouped else "mha"

        def attend(q: Any, k: Any, v: Any, *ids: Any) -> Any:
            make = getattr(kernel, f"make_splash_{kind}_single_device")
            attention = make(mask, config=config)
            if grouped:
                q = q.reshape(*k.shape[:2], HEADS // KV_HEADS, *q.shape[2:])
                return jax.vmap(jax.vmap(attention))(q, k, v)
            if ids:
                segments = package(f"{name}.base").SegmentIds
                return jax.vmap(lambda q, k, v, *i: attention(q, k, v, segments(*i)))(q, k, v, *ids)
            return jax.vmap(attention)(q, k, v)

        return attend

    mha, mqa = (
        f"{name}.make_splash_{kind}_single_device".partition("tpu.")[2]
        or f"{name}.make_splash_{kind}_single_device"
        for kind in ("mha", "mqa")
    )
    ids = [array(4, LENGTH, dtype=I32)] * 2
    kv = array(4, KV_HEADS, LENGTH, WIDTH)
    last = [*QKV, QKV[0]]
    return [
        ForeignCall(mha, "full", call(full), QKV),
        ForeignCall(mha, "causal", call(causal), QKV),
        ForeignCall(mha, f"window of {WINDOW}, blocks of 512", call(local, 512), QKV),
        ForeignCall(
            mha, "causal, segments, soft cap", call(causal, attn_logits_soft_cap=CAP), [*QKV, *ids]
        ),
        ForeignCall(mqa, "causal", call(causal, grouped=True), [QKV[0], kv, kv]),
        ForeignCall(mha, "causal, gradients", gradients(call(causal)), last),
    ]


def splash_of_tokamax() -> list[ForeignCall]:
    name = "experimental.tpu.splash_attention"
    found = _splash(tokamax, name)
    kernel, masks = (tokamax(f"{name}.splash_attention_{each}") for each in ("kernel", "mask"))
    names = ("block_q", "block_kv", "block_q_dkv", "block_kv_dkv")
    names = (*names, "block_kv_compute", "block_kv_dkv_compute")
    sizes = dict.fromkeys(names, 1024)
    mask = masks.CausalMask((LENGTH, LENGTH))

    def special(q: Any, k: Any, v: Any) -> Any:
        config = kernel.SplashConfig(**sizes, qk_diag_skip=True, use_experimental_scheduler=True)
        return jax.vmap(kernel.make_splash_mha_single_device(mask, config=config))(q, k, v)

    def dynamic(q: Any, k: Any, v: Any, mask: Any) -> Any:
        config = kernel.SplashConfig(**sizes)
        return jax.vmap(kernel.make_dynamic_splash_mha(mask, config=config))(q, k, v)

    path = "splash_attention.make_splash_mha_single_device"
    mask_array = array(LENGTH, LENGTH, dtype=jnp.bool_)
    return [
        *found,
        ForeignCall(path, "causal, `qk_diag_skip`, `use_experimental_scheduler`", special, QKV),
        ForeignCall(
            "splash_attention.make_dynamic_splash_mha", "mask unknown", dynamic, [*QKV, mask_array]
        ),
        ForeignCall(
            "splash_attention.make_dynamic_splash_mha",
            "mask known",
            dynamic,
            [*QKV, np.tril(np.ones((LENGTH, LENGTH), bool))],
        ),
    ]


def ring_of_tokamax() -> list[ForeignCall]:
    return _ring(tokamax, "experimental.tpu.splash_attention")


def _ring(package: Callable[[str], Any], name: str) -> list[ForeignCall]:
    ring, masks = package(f"{name}.ring_attention_kernel"), package(f"{name}.splash_attention_mask")
    kernel = package(f"{name}.splash_attention_kernel")

    def call(q: Any, k: Any, v: Any) -> Any:
        blocks = dict.fromkeys(("block_q", "block_kv", "block_kv_compute"), 512)
        config = kernel.SplashConfig(**blocks, use_base2_exp=False)
        mask = masks.FullMask((4 * LENGTH, 4 * LENGTH))
        make = ring.make_ring_attention
        attention = make(
            mask, is_mqa=False, config=config, ring_axis="x", q_seq_shards=4, kv_seq_shards=4
        )
        spec = jax.sharding.PartitionSpec(None, "x", None)
        table = attention.manual_sharding_spec()
        run = jax.shard_map(
            lambda kernel, q, k, v: kernel(q, k, v),
            in_specs=(table, spec, spec, spec),
            out_specs=spec,
            check_vma=False,
        )
        return run(attention, q, k, v)

    whole = [array(HEADS, 4 * LENGTH, WIDTH)] * 3
    path = "splash_attention.make_ring_attention"
    return [ForeignCall(path, "4 chips", call, whole, {"x": 4})]


def ragged_dot() -> list[ForeignCall]:
    v1 = tokamax("ragged_dot.pallas_mosaic_tpu_kernel")
    v2, transposed = tokamax("experimental.gmm_v2.gmm_v2"), tokamax("experimental.gmm_v2.tgmm_v2")
    x, w, y = array(ROWS, MODEL), array(EXPERTS, MODEL, HIDDEN), array(ROWS, HIDDEN)
    sizes, tiling = _sizes(), (512, 1024, 1024)
    given = {"precision": jax.lax.Precision.DEFAULT, "out_dtype": BF16, "tiling": tiling}
    told = f"`tiling={tiling}`"
    gmm, tgmm = (functools.partial(each, **given) for each in (v1.gmm, v1.tgmm))
    deep = functools.partial(v1.gmm, **given, input_buffer_count=3)
    path = "ragged_dot.pallas_mosaic_tpu_kernel"
    left = array(MODEL, ROWS)

    def turned(x: Any, y: Any, sizes: Any) -> Any:
        return transposed.tgmm_v2(x, y, sizes, EXPERTS, preferred_element_type=BF16)

    return [
        ForeignCall(f"{path}.gmm", told, gmm, [x, w, sizes]),
        ForeignCall(f"{path}.gmm", f"{told}, `input_buffer_count=3`", deep, [x, w, sizes]),
        ForeignCall(f"{path}.tgmm", told, tgmm, [left, y, sizes]),
        ForeignCall("experimental.gmm_v2.gmm_v2.gmm_v2", "", v2.gmm_v2, [x, w, sizes]),
        ForeignCall("experimental.gmm_v2.tgmm_v2.tgmm_v2", "", turned, [x, y, sizes]),
    ]


def cross_entropy() -> list[ForeignCall]:
    kernel = tokamax("linear_softmax_cross_entropy_loss.pallas_mosaic_tpu_kernel")
    rows, vocabulary = 4096, 128 * 1024
    x, labels, w = array(rows, MODEL), array(rows, dtype=I32), array(MODEL, vocabulary)
    one, sums = array(dtype=F32), array(rows, dtype=F32)
    name = "linear_softmax_cross_entropy_loss"
    path = f"{name}.pallas_mosaic_tpu_kernel.{name}"
    forward = getattr(kernel, f"{name}_fwd_pallas_mosaic_tpu")
    backward = getattr(kernel, f"{name}_bwd_pallas_mosaic_tpu")
    return [
        ForeignCall(f"{path}_fwd_pallas_mosaic_tpu", "", forward, [x, labels, w]),
        ForeignCall(f"{path}_bwd_pallas_mosaic_tpu", "", backward, [one, sums, x, labels, w]),
    ]


def mla_of_tokamax() -> list[ForeignCall]:
    name = "experimental.mla.pallas_mosaic_tpu_kernel"
    function = tokamax(name).mla_ragged_paged_attention
    path = f"{name}.mla_ragged_paged_attention"
    return [_mla(function, path, step) for step in (DECODE, MIX)]


def delta_of_tokamax() -> list[ForeignCall]:
    name = "causal_conv1d_gated_delta_rule.wrapper"
    fused = tokamax(name).fused_conv1d_gdn
    found = []
    for step in (DECODE, MIX):
        given = _conv_delta(step)

        def call(*arrays: Any, names: Sequence[str] = tuple(given)) -> Any:
            return fused(**dict(zip(names, arrays, strict=True)), **DELTA, kernel_size=TAPS)

        path = f"{name}.fused_conv1d_gdn"
        found.append(ForeignCall(path, step.told(), call, list(given.values())))
    return found


# ---- maxtext ----


def splash_of_maxtext() -> list[ForeignCall]:
    return _splash(maxtext, "tokamax_splash_attention")


def ring_of_maxtext() -> list[ForeignCall]:
    return _ring(maxtext, "tokamax_splash_attention")


def megablox_of_maxtext() -> list[ForeignCall]:
    v1 = maxtext("megablox.backend")
    v2 = maxtext("megablox.pallas_mosaic_tpu_v2_gmm_kernel")
    transposed = maxtext("megablox.pallas_mosaic_tpu_v2_tgmm_kernel")
    x, w, y = array(ROWS, MODEL), array(EXPERTS, MODEL, HIDDEN), array(ROWS, HIDDEN)
    sizes, tiling = _sizes(), (512, 1024, 1024)
    given = {"preferred_element_type": BF16, "tiling": tiling}
    told = f"`tiling={tiling}`"
    gmm, tgmm = (functools.partial(each, **given) for each in (v1.gmm, v1.tgmm))

    def turned(x: Any, y: Any, sizes: Any) -> Any:
        return transposed.tgmm_v2(x, y, sizes, EXPERTS, preferred_element_type=BF16)

    v2_path = "megablox.pallas_mosaic_tpu_v2"
    return [
        ForeignCall("megablox.backend.gmm", told, gmm, [x, w, sizes]),
        ForeignCall("megablox.backend.tgmm", told, tgmm, [array(MODEL, ROWS), y, sizes]),
        ForeignCall(f"{v2_path}_gmm_kernel.gmm_v2", "", v2.gmm_v2, [x, w, sizes]),
        ForeignCall(f"{v2_path}_tgmm_kernel.tgmm_v2", "", turned, [x, y, sizes]),
    ]


def mhc() -> list[ForeignCall]:
    api, common = maxtext("mhc.api"), maxtext("mhc.common")
    streams, width, turns = 4, 2048, 24
    flat = streams * width
    sizes = {"norm_scale": (flat,)}
    for name, count in (("pre", streams), ("post", streams), ("res", turns)):
        sizes |= {f"{name}_alpha": (flat, count), f"{name}_bias": (count,), f"{name}_scale": (1,)}
    weights = [array(*size) for size in sizes.values()]
    x = array(4, 2048, streams, width)
    orders = np.stack([np.eye(streams)[list(p)] for p in itertools.permutations(range(streams))])

    def call(x: Any, *weights: Any) -> Any:
        named = common.MhcWeights(**dict(zip(sizes, weights, strict=True)))
        inner, context = api.pre(x, named, orders.astype(BF16))
        return api.post(inner, context)

    def backward(x: Any, out: Any, *weights: Any) -> Any:
        return jax.vjp(call, x, *weights)[1](out)

    return [
        ForeignCall("mhc.api.pre, post", "", call, [x, *weights]),
        ForeignCall("mhc.api.pre, post", "gradients", backward, [x, x, *weights]),
    ]


def ragged_of_maxtext() -> list[ForeignCall]:
    kernel = maxtext("attention.ragged_attention")
    lengths = np.random.default_rng(0).integers(1, LENGTH, 32).astype(np.int32)
    kv, all_kv = array(32, LENGTH, KV_HEADS, WIDTH), array(32, LENGTH, HEADS, WIDTH)
    q, one = array(32, 1, HEADS, WIDTH), array(32, LENGTH, WIDTH)
    name = "attention.ragged_attention"
    return [
        ForeignCall(f"{name}.ragged_gqa", "", kernel.ragged_gqa, [q, kv, kv, lengths]),
        ForeignCall(f"{name}.ragged_mha", "", kernel.ragged_mha, [q, all_kv, all_kv, lengths]),
        ForeignCall(
            f"{name}.ragged_mqa",
            "",
            kernel.ragged_mqa,
            [array(32, HEADS, WIDTH), one, one, lengths],
        ),
    ]


REPOSITORIES = (
    Repository(
        "vllm-project/tpu-inference",
        "tpu-inference",
        ".",
        (
            rpa_v2,
            kv_cache_update,
            rpa_v3,
            rpa_experimental,
            mla,
            quantized_matmul,
            megablox,
            fused_moe,
            flash,
            causal_conv1d,
            gated_delta_net,
            triangles,
            sparse_matmul,
            collectives,
            deepseek_v4,
            deepseek_v4_attention,
        ),
    ),
    Repository(
        "openxla/tokamax",
        "tokamax",
        ".",
        (
            splash_of_tokamax,
            ring_of_tokamax,
            ragged_dot,
            cross_entropy,
            mla_of_tokamax,
            delta_of_tokamax,
        ),
    ),
    Repository(
        "AI-Hypercomputer/maxtext",
        "maxtext",
        "src",
        (splash_of_maxtext, ring_of_maxtext, megablox_of_maxtext, mhc, ragged_of_maxtext),
    ),
)
