"""Kernels that Mosaic refuses, each beside the usual way round, which it lowers.

Both interpreters run all of them. The line that Mosaic refuses ends in `# refused`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import io_callback
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

F32 = jax.ShapeDtypeStruct((16, 128), jnp.float32)
BF16 = jax.ShapeDtypeStruct((16, 128), jnp.bfloat16)
F16 = jax.ShapeDtypeStruct((16, 128), jnp.float16)
I8 = jax.ShapeDtypeStruct((32, 128), jnp.int8)
I32 = jax.ShapeDtypeStruct((16, 128), jnp.int32)
SQUARE = jax.ShapeDtypeStruct((128, 128), jnp.float32)
BATCHES = jax.ShapeDtypeStruct((2, 2, 16, 128), jnp.float32)
IDS = jax.ShapeDtypeStruct((16,), jnp.int32)
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)
HBM = pl.BlockSpec(memory_space=pltpu.HBM)
ANY = pl.BlockSpec(memory_space=pl.ANY)
WHOLE = pl.BlockSpec()
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))


class Pair:
    """A kernel that is refused, and what the advice makes of it.

    `operation` is the one that Mosaic stops at; `says` a part of the advice; `only` the beginning
    of the versions of jax that refuse it. `inputs`, `output` and `options` are those of `instead`
    too, apart from the `others`. `verbatim`: `instead` contains the lines of code advised, and is
    no second way, that words alone describe.
    """

    operation: ClassVar[str | None]
    says: ClassVar[str]
    only: ClassVar[str] = ""
    inputs: ClassVar[tuple[Any, ...]] = (F32,)
    output: ClassVar[Any] = F32
    options: ClassVar[dict[str, Any]] = {}
    others: ClassVar[dict[str, Any]] = {}
    verbatim: ClassVar[bool] = True
    refused: Callable[..., None]
    instead: Callable[..., None]

    @classmethod
    def launch(cls, kernel: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The launch function of `refused` or `instead`, and the arrays that it takes."""
        given = {"inputs": cls.inputs, "output": cls.output, "options": cls.options}
        given |= cls.others if kernel == "instead" else {}

        def launched(*arrays: Any) -> Any:
            body = getattr(cls, kernel)
            return pl.pallas_call(body, given["output"], **given["options"])(*arrays)  # refused

        return launched, given["inputs"]


def pairs(of: type[Pair] = Pair) -> Iterator[type[Pair]]:
    """All pairs."""
    for pair in of.__subclasses__():
        yield pair
        yield from pairs(pair)


# ---- values ----


class Cumsum(Pair):
    operation, says = "cumsum", "triangle of ones"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = jnp.cumsum(x_ref[...], axis=0)  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        x, n = x_ref[...], 16
        rows = lax.broadcasted_iota(jnp.int32, (n, n), 0)
        columns = lax.broadcasted_iota(jnp.int32, (n, n), 1)
        o_ref[...] = jnp.dot((rows >= columns).astype(x.dtype), x, precision="highest")


class Cummax(Pair):
    operation, says = "cummax", "loop over the rows"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = lax.cummax(x_ref[...], axis=0)  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        n = 16

        def row(r, above):
            here = jnp.maximum(above, x_ref[pl.ds(r, 1), :])
            o_ref[pl.ds(r, 1), :] = here
            return here

        o_ref[0:1, :] = x_ref[0:1, :]
        lax.fori_loop(1, n, row, x_ref[0:1, :])


class Cumprod(Cummax):
    operation = "cumprod"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = jnp.cumprod(x_ref[...], axis=0)  # refused


class Cummin(Cummax):
    operation = "cummin"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = lax.cummin(x_ref[...], axis=0)  # refused


class CumLogSumExp(Cummax):
    operation = "cumlogsumexp"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = lax.cumlogsumexp(x_ref[...], axis=0)  # refused


class AssociativeScan(Cummax):
    operation, says = "slice", "lax.associative_scan, end with one"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = lax.associative_scan(jnp.maximum, x_ref[...], axis=0)  # refused


class Sort(Pair):
    operation, says = "sort", "mask it"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = jnp.sort(x_ref[...], axis=1)  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        x = x_ref[...]
        for _ in range(3):
            best = jnp.max(x, axis=1, keepdims=True)
            x = jnp.where(x == best, -jnp.inf, x)
        o_ref[...] = x


class Median(Sort):
    @staticmethod
    def refused(x_ref, o_ref):
        x = x_ref[...]
        o_ref[...] = x - jnp.median(x, axis=1, keepdims=True)  # refused


class TopK(Sort):
    operation, only, output = "top_k", "0.10", jax.ShapeDtypeStruct((16, 4), jnp.float32)
    others: ClassVar[dict[str, Any]] = {"output": F32}

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = lax.top_k(x_ref[...], 4)[0]  # refused


class StableTopK(Pair):
    operation, only, says = "top_k", "0.12", "in their order"
    output = jax.ShapeDtypeStruct((16, 4), jnp.float32)

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = lax.top_k(x_ref[...], 4)[0]  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        x, k = x_ref[...], 4
        best, _ = lax.top_k(x, k, is_stable=False)  # pyright: ignore[reportCallIssue]
        o_ref[...] = best


class Reversed(Pair):
    operation, says = "rev", "reverses the lanes or sublanes"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = x_ref[...][::-1]  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        n = 16

        def row(r, _):
            o_ref[pl.ds(r, 1), :] = x_ref[pl.ds(n - 1 - r, 1), :]

        lax.fori_loop(0, n, row, None)


class ReversedByProduct(Reversed):
    """The other way round that is named: zeros, with ones on the counterdiagonal."""

    verbatim = False

    @staticmethod
    def instead(x_ref, o_ref):
        n = 16
        rows = lax.broadcasted_iota(jnp.int32, (n, n), 0)
        columns = lax.broadcasted_iota(jnp.int32, (n, n), 1)
        counterdiagonal = (rows + columns == n - 1).astype(jnp.float32)
        o_ref[...] = jnp.dot(counterdiagonal, x_ref[...], precision="highest")


class NarrowDot(Pair):
    operation, says = "dot_general", "adds them up in 32 bits"
    inputs, output = (BF16, jax.ShapeDtypeStruct((128, 128), jnp.bfloat16)), BF16

    @staticmethod
    def refused(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] @ y_ref[...]  # refused

    @staticmethod
    def instead(x_ref, y_ref, o_ref):
        x, y = x_ref[...], y_ref[...]
        o_ref[...] = jnp.dot(x, y, preferred_element_type=jnp.float32).astype(o_ref.dtype)


class UnsignedDot(Pair):
    operation, says = "dot_general", "treats all integers as signed"
    inputs = (jax.ShapeDtypeStruct((32, 128), jnp.uint8), jax.ShapeDtypeStruct((128, 128), "uint8"))
    output = jax.ShapeDtypeStruct((32, 128), jnp.int32)

    @staticmethod
    def refused(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.int32)  # refused

    @staticmethod
    def instead(x_ref, y_ref, o_ref):
        x = x_ref[...].astype(jnp.bfloat16)
        y = y_ref[...].astype(jnp.bfloat16)
        o_ref[...] = jnp.dot(x, y, preferred_element_type=jnp.float32).astype(jnp.int32)


class TwoPrecisions(Pair):
    operation, says, inputs = "dot_general", "takes several passes", (F32, SQUARE)

    @staticmethod
    def refused(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...], precision=("default", "highest"))  # refused

    @staticmethod
    def instead(x_ref, y_ref, o_ref):
        x, y = x_ref[...], y_ref[...]
        o_ref[...] = jnp.dot(x, y, precision="highest")


class HighPrecision(TwoPrecisions):
    only = "0.10"

    @staticmethod
    def refused(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...], precision="high")  # refused


class DotAlgorithm(TwoPrecisions):
    @staticmethod
    def refused(x_ref, y_ref, o_ref):
        preset = lax.DotAlgorithmPreset.BF16_BF16_F32_X3
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...], precision=preset)  # refused


class ScalarDot(Pair):
    operation, says = "dot_general", "a single number is not one"
    inputs = (jax.ShapeDtypeStruct((128,), jnp.float32),) * 2

    @staticmethod
    def refused(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.full(o_ref.shape, jnp.dot(x_ref[...], y_ref[...]))  # refused

    @staticmethod
    def instead(x_ref, y_ref, o_ref):
        x, y = x_ref[...], y_ref[...]
        total = jnp.sum(x * y)
        o_ref[...] = jnp.full(o_ref.shape, total)


class TwoContractions(Pair):
    operation, only, says = "dot_general", "0.10", "Merge the two dimensions"
    inputs, output = (jax.ShapeDtypeStruct((4, 16, 128), jnp.float32),) * 2, SQUARE

    @staticmethod
    def refused(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.einsum("bmk,bmn->kn", x_ref[...], y_ref[...])  # refused

    @staticmethod
    def instead(x_ref, y_ref, o_ref):
        x, y = x_ref[...], y_ref[...]
        x = x.reshape(-1, x.shape[-1])
        y = y.reshape(-1, y.shape[-1])
        o_ref[...] = jnp.dot(x.T, y)


class MergedBatches(Pair):
    """The other way round that is named: one batch dimension."""

    operation, only, says = "dot_general", "0.10", "Merge the batch dimensions"
    inputs, output = (BATCHES, BATCHES), jax.ShapeDtypeStruct((2, 2, 16, 16), jnp.float32)
    verbatim = False

    @staticmethod
    def refused(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.einsum("bhqd,bhkd->bhqk", x_ref[...], y_ref[...])  # refused

    @staticmethod
    def instead(x_ref, y_ref, o_ref):
        x, y = (ref[...].reshape(4, 16, 128) for ref in (x_ref, y_ref))
        o_ref[...] = jnp.einsum("bqd,bkd->bqk", x, y).reshape(o_ref.shape)


class TwoBatches(Pair):
    operation, only, says = "dot_general", "0.10", "one batch dimension"
    inputs, output = (BATCHES, BATCHES), jax.ShapeDtypeStruct((2, 2, 16, 16), jnp.float32)

    @staticmethod
    def refused(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.einsum("bhqd,bhkd->bhqk", x_ref[...], y_ref[...])  # refused

    @staticmethod
    def instead(x_ref, y_ref, o_ref):
        for i in range(2):
            for j in range(2):
                o_ref[i, j] = jnp.dot(x_ref[i, j], y_ref[i, j].T)


class Convolution(Pair):
    operation, only, says = "conv_general_dilated", "0.10", "one product for each tap"
    inputs = (jax.ShapeDtypeStruct((1, 1, 16, 128), jnp.float32),) * 2
    output = inputs[0]
    others: ClassVar[dict[str, Any]] = {
        "inputs": (jax.ShapeDtypeStruct((24, 128), jnp.float32), F32),
        "output": F32,
    }

    @staticmethod
    def refused(x_ref, w_ref, o_ref):
        w = w_ref[:, :, :3, :3]
        o_ref[...] = lax.conv_general_dilated(x_ref[...], w, (1, 1), "SAME")  # refused

    @staticmethod
    def instead(x_ref, w_ref, o_ref):
        n = 16
        total = jnp.zeros(o_ref.shape, o_ref.dtype)
        for tap in range(3):
            total = total + x_ref[pl.ds(tap, n), :] * w_ref[pl.ds(tap, 1), :]
        o_ref[...] = total


class NarrowMax(Pair):
    operation, says, inputs = "reduce_max", "Widen before the reduction", (I8,)
    output = jax.ShapeDtypeStruct((32, 1), jnp.int8)

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = jnp.max(x_ref[...], axis=1, keepdims=True)  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        x = x_ref[...].astype(jnp.int32)
        o_ref[...] = jnp.max(x, axis=1, keepdims=True).astype(o_ref.dtype)


class UnsignedSum(NarrowMax):
    operation, inputs = "reduce_sum", (jax.ShapeDtypeStruct((16, 128), jnp.uint32),)
    output = jax.ShapeDtypeStruct((16, 1), jnp.uint32)

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = jnp.sum(x_ref[...], axis=1, keepdims=True)  # refused


class IntegerArgmax(Pair):
    operation, says, inputs = "argmax", "exact up to 2**24", (I32,)
    output = jax.ShapeDtypeStruct((16, 1), jnp.int32)

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = jnp.argmax(x_ref[...], axis=1, keepdims=True)  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        x = x_ref[...]
        o_ref[...] = jnp.argmax(x.astype(jnp.float32), axis=1, keepdims=True)


class Select(Pair):
    operation, says = "argmax", "the first condition outermost"

    @staticmethod
    def refused(x_ref, o_ref):
        x = x_ref[...]
        o_ref[...] = jnp.select([x > 1, x > 0], [x, 2 * x], 0.0)  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        x = x_ref[...]
        o_ref[...] = jnp.where(x > 1, x, jnp.where(x > 0, 2 * x, 0))


class SelectOfThree(Select):
    operation, says = "select_n", "chooses between two values"

    @staticmethod
    def refused(x_ref, o_ref):
        x = x_ref[...]
        which = lax.broadcasted_iota(jnp.int32, x.shape, 0) % 3
        o_ref[...] = lax.select_n(which, x, 2 * x, 3 * x)  # refused


class Product(Pair):
    operation, says = "reduce_prod", "Combine row by row"
    output = jax.ShapeDtypeStruct((1, 128), jnp.float32)

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = jnp.prod(x_ref[...], axis=0, keepdims=True)  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        n = 16

        def row(r, total):
            return total * x_ref[pl.ds(r, 1), :]

        x = lax.fori_loop(1, n, row, x_ref[0:1, :])
        for shift in (1, 2, 4, 8, 16, 32, 64):
            x = x * pltpu.roll(x, shift, 1)
        o_ref[...] = x


class ExclusiveOr(Product):
    operation, inputs, output = "reduce_xor", (I32,), jax.ShapeDtypeStruct((1, 128), jnp.int32)

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = lax.reduce(x_ref[...], 0, lax.bitwise_xor, (0,))[None]  # refused


class Pooling(Pair):
    operation, says = "reduce_window_max", "Give the windows their own dimension"
    output = jax.ShapeDtypeStruct((8, 128), jnp.float32)

    @staticmethod
    def refused(x_ref, o_ref):
        x = x_ref[...]
        o_ref[...] = lax.reduce_window(x, -jnp.inf, lax.max, (2, 1), (2, 1), "VALID")  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        x, n = x_ref[...], 16
        o_ref[...] = jnp.max(x.reshape(n // 2, 2, x.shape[1]), axis=1)


class StridedSlice(Pair):
    operation, says = "slice", "give the stride its own dimension"
    output = jax.ShapeDtypeStruct((8, 128), jnp.float32)

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = x_ref[...][::2]  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        x, n = x_ref[...], 16
        o_ref[...] = x.reshape(n // 2, 2, x.shape[1])[:, 0]


class StridedColumns(StridedSlice):
    """Columns are picked by the MXU."""

    verbatim, output = False, jax.ShapeDtypeStruct((16, 64), jnp.float32)

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = x_ref[...][:, ::2]  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        rows = lax.broadcasted_iota(jnp.int32, (128, 64), 0)
        columns = lax.broadcasted_iota(jnp.int32, (128, 64), 1)
        picks = (rows == 2 * columns).astype(jnp.float32)
        o_ref[...] = jnp.dot(x_ref[...], picks, precision="highest")


class FloatIota(Pair):
    operation, says = "iota", "counts lanes and sublanes only in int32"

    @staticmethod
    def refused(x_ref, o_ref):
        x = x_ref[...]
        o_ref[...] = x + jnp.arange(128, dtype=x.dtype)  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        x = x_ref[...]
        columns = lax.broadcasted_iota(jnp.int32, x.shape, 1).astype(x.dtype)
        o_ref[...] = x + columns


class Linspace(FloatIota):
    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = x_ref[...] + jnp.linspace(0, 1, 128)  # refused


class InteriorPadding(Pair):
    operation, says = "pad", "Stack the rows with zeros"
    output = jax.ShapeDtypeStruct((31, 128), jnp.float32)
    others: ClassVar[dict[str, Any]] = {"output": jax.ShapeDtypeStruct((32, 128), jnp.float32)}

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = lax.pad(x_ref[...], 0.0, ((0, 0, 1), (0, 0, 0)))  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        x, n = x_ref[...], 16
        o_ref[...] = jnp.stack([x, jnp.zeros_like(x)], axis=1).reshape(2 * n, x.shape[1])


class Bitcast(Pair):
    operation, says = "bitcast_convert_type", "packed along the sublanes"
    output = jax.ShapeDtypeStruct((32, 128), jnp.bfloat16)

    @staticmethod
    def refused(x_ref, o_ref):
        x = x_ref[...]
        o_ref[...] = lax.bitcast_convert_type(x, jnp.bfloat16).reshape(32, 128)  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        x = x_ref[...]
        o_ref[...] = pltpu.bitcast(x, jnp.bfloat16)


class RaggedDot(Pair):
    operation, says = "ragged_dot_general", "which rows belong to which group"
    inputs = (F32, jax.ShapeDtypeStruct((2, 128, 128), jnp.float32), IDS)
    others: ClassVar[dict[str, Any]] = {"inputs": (IDS, F32, inputs[1])}

    @staticmethod
    def refused(x_ref, y_ref, sizes_ref, o_ref):
        o_ref[...] = lax.ragged_dot(x_ref[...], y_ref[...], sizes_ref[0:2])  # refused

    @staticmethod
    def instead(group_ref, x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[0])

    @classmethod
    def launch(cls, kernel: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        if kernel == "refused":
            return super().launch(kernel)
        n = 128
        matrix = pl.BlockSpec((1, n, n), lambda i, group_ref: (group_ref[i], 0, 0))
        rows = pl.BlockSpec((8, 128), lambda i, group_ref: (i, 0))
        spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1, grid=(2,), in_specs=[rows, matrix], out_specs=rows
        )
        return pl.pallas_call(cls.instead, F32, grid_spec=spec), cls.others["inputs"]


class Inverse(Pair):
    operation, says, inputs, output = "lu", "steps that depend on each other", (SQUARE,), SQUARE
    others: ClassVar[dict[str, Any]] = {"inputs": (F32, SQUARE), "output": F32}

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = jnp.linalg.inv(x_ref[...])  # refused

    @staticmethod
    def instead(x_ref, inverse_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], inverse_ref[...])

    @classmethod
    def launch(cls, kernel: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        launched, inputs = super().launch(kernel)
        if kernel == "refused":
            return launched, inputs
        return lambda x, matrix: launched(x, jnp.linalg.inv(matrix)), inputs


class Cholesky(Inverse):
    operation = "cholesky"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = jnp.linalg.cholesky(x_ref[...])  # refused


class Eigenvectors(Inverse):
    operation = "eigh"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = jnp.linalg.eigh(x_ref[...])[1]  # refused


class SingularVectors(Inverse):
    operation = "svd"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = jnp.linalg.svd(x_ref[...])[0]  # refused


class Orthogonal(Inverse):
    operation = "qr"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = jnp.linalg.qr(x_ref[...])[0]  # refused


class Triangular(Inverse):
    operation = "triangular_solve"

    @staticmethod
    def refused(x_ref, o_ref):
        x = x_ref[...]
        o_ref[...] = jax.scipy.linalg.solve_triangular(x, x)  # refused


class Gamma(Inverse):
    operation, says = "lgamma", "no series for it"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = lax.lgamma(x_ref[...])  # refused


class LongFloat(Pair):
    """Refused under jax_enable_x64."""

    operation, says = "convert_element_type", "no 64-bit numbers"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = (x_ref[...].astype(jnp.float64) / 3).astype(jnp.float32)  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        o_ref[...] = x_ref[...] / 3


class LongArgmax(LongFloat):
    operation, output = "argmax", jax.ShapeDtypeStruct((16, 1), jnp.int32)

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = jnp.argmax(x_ref[...], axis=1, keepdims=True).astype(jnp.int32)  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        o_ref[...] = lax.argmax(x_ref[...], 1, jnp.int32)[:, None]


# ---- memory ----


class Scatter(Pair):
    operation, says = "scatter", "instead of using .at"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = x_ref[...].at[2:4].set(0.0)  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        x, new = x_ref[...], jnp.zeros((2, 128), jnp.float32)
        rows = lax.broadcasted_iota(jnp.int32, x.shape, 0)
        x = jnp.where(rows == 5, 0, x)
        o_ref[...] = x
        o_ref[2:4, :] = new


class ScatterAdd(Scatter):
    operation = "scatter-add"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = x_ref[...].at[3].add(1.0)  # refused


class ScatterMax(Scatter):
    operation = "scatter-max"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = x_ref[...].at[3].max(1.0)  # refused


class Histogram(Pair):
    """One-hot rows, added up by the MXU: the way round for adding by index."""

    verbatim = False
    operation, says, inputs = "scatter-add", "instead of using .at", (I32,)
    output = jax.ShapeDtypeStruct((1, 128), jnp.int32)
    others: ClassVar[dict[str, Any]] = {
        "inputs": (F32, jax.ShapeDtypeStruct((1, 16), jnp.int32)),
        "output": F32,
    }

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = jnp.bincount(x_ref[0], length=128)[None]  # refused

    @staticmethod
    def instead(x_ref, ids_ref, o_ref):
        groups = lax.broadcasted_iota(jnp.int32, (16, 16), 0)
        one_hot = (groups == ids_ref[...]).astype(jnp.float32)
        o_ref[...] = jnp.dot(one_hot, x_ref[...], precision="highest")


class SliceOfValue(Pair):
    operation, says = "dynamic_slice", "Slice the Ref instead of the value"
    output = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    options: ClassVar[dict[str, Any]] = {"grid": (2,)}

    @staticmethod
    def refused(x_ref, o_ref):
        start = pl.program_id(0) * 8
        o_ref[...] = lax.dynamic_slice(x_ref[...], (start, 0), (8, 128))  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        start = pl.program_id(0) * 8
        o_ref[...] = x_ref[pl.ds(pl.multiple_of(start, 8), 8), :]


class RowOfValue(SliceOfValue):
    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = x_ref[0:8] + x_ref[...][pl.program_id(0)]  # refused


class UpdateOfValue(SliceOfValue):
    operation = "dynamic_update_slice"

    @staticmethod
    def refused(x_ref, o_ref):
        x = x_ref[...]
        o_ref[...] = lax.dynamic_update_slice(x[:8], x[8:9], (pl.program_id(0), 0))  # refused


class Gather(Pair):
    operation, says = "gather", "let the MXU select the rows"
    inputs = (F32, jax.ShapeDtypeStruct((16, 1), jnp.int32))
    others: ClassVar[dict[str, Any]] = {
        "inputs": (*inputs, IDS),
        "options": {"in_specs": [WHOLE, WHOLE, SMEM]},
    }

    @staticmethod
    def refused(x_ref, ids_ref, o_ref):
        o_ref[...] = jnp.take(x_ref[...], ids_ref[:, 0], axis=0)  # refused

    @staticmethod
    def instead(x_ref, column_ref, ids_ref, o_ref):
        x, ids, n = x_ref[...], column_ref[...], 16

        def row(r, _):
            o_ref[pl.ds(r, 1), :] = x_ref[pl.ds(ids_ref[r], 1), :]

        lax.fori_loop(0, n, row, None)
        rows = lax.broadcasted_iota(jnp.int32, (n, n), 1)
        o_ref[...] += jnp.dot((ids == rows).astype(x.dtype), x, precision="highest")


class IndexedRef(Pair):
    operation, says, inputs = "get", "With an array of indices", (F32, IDS)
    others: ClassVar[dict[str, Any]] = {"options": {"in_specs": [WHOLE, SMEM]}}

    @staticmethod
    def refused(x_ref, ids_ref, o_ref):
        o_ref[...] = x_ref[ids_ref[...]]  # refused

    @staticmethod
    def instead(x_ref, ids_ref, o_ref):
        def row(r, _):
            o_ref[pl.ds(r, 1), :] = x_ref[pl.ds(ids_ref[r], 1), :]

        lax.fori_loop(0, 16, row, None)


class Scan(Pair):
    operation, says = "scan", "can't step along an array"

    @staticmethod
    def refused(x_ref, o_ref):
        def step(carry, row):
            carry = carry + row
            return carry, carry

        o_ref[...] = lax.scan(step, jnp.zeros(128), x_ref[...])[1]  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        n = 16

        def step(i, carry):
            carry = carry + x_ref[pl.ds(i, 1), :]
            o_ref[pl.ds(i, 1), :] = carry
            return carry

        lax.fori_loop(0, n, step, jnp.zeros((1, x_ref.shape[1]), x_ref.dtype))


class Map(Scan):
    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = lax.map(lambda row: 2 * row, x_ref[...])  # refused


class BackwardScan(Pair):
    operation, says = "scan", "count upwards"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = lax.scan(  # refused
            lambda carry, _: (2 * carry, None), x_ref[...], length=4, reverse=True
        )[0]

    @staticmethod
    def instead(x_ref, o_ref):
        n = 16

        def row(step, _):
            i = n - 1 - step
            o_ref[pl.ds(i, 1), :] = x_ref[pl.ds(i, 1), :]

        lax.fori_loop(0, n, row, None)


class PureCallback(Pair):
    operation, says = "pure_callback", "own core, without Python"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = jax.pure_callback(lambda x: x + 1, F32, x_ref[...])  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        x = x_ref[...]
        pl.debug_print("{}", x)
        o_ref[...] = x + 1


class IoCallback(PureCallback):
    operation = "io_callback"

    @staticmethod
    def refused(x_ref, o_ref):
        io_callback(print, None, x_ref[...])  # refused
        o_ref[...] = x_ref[...]


class Print(Pair):
    operation, says = "debug_print", "records of a fixed form"
    options: ClassVar[dict[str, Any]] = {"grid": (1,)}

    @staticmethod
    def refused(x_ref, o_ref):
        pl.debug_print("{} and {}", x_ref[...], o_ref[...])  # refused
        o_ref[...] = x_ref[...]

    @staticmethod
    def instead(x_ref, o_ref):
        x = x_ref[...]
        pl.debug_print("step {}", pl.program_id(0))
        pl.debug_print("block {}", x)
        o_ref[...] = x


class PrintFloat(Print):
    only, verbatim = "0.10", False

    @staticmethod
    def refused(x_ref, o_ref):
        pl.debug_print("first: {}", x_ref[0, 0])  # refused
        o_ref[...] = x_ref[...]

    @staticmethod
    def instead(x_ref, o_ref):
        pl.debug_print("first: ", x_ref[0, 0])
        o_ref[...] = x_ref[...]


class ScalarStore(Pair):
    operation, says = "swap", "single numbers belong to the scalar unit"
    output = jax.ShapeDtypeStruct((1, 1), jnp.float32)

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[0, 0] = jnp.sum(x_ref[...])  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        x = x_ref[...]
        o_ref[...] = jnp.sum(x, keepdims=True)


class ScalarOutput(ScalarStore):
    """The other way round that is named: an output in SMEM."""

    verbatim = False
    others: ClassVar[dict[str, Any]] = {"options": {"out_specs": SMEM}}

    @staticmethod
    def instead(x_ref, o_ref):
        o_ref[0, 0] = jnp.sum(x_ref[...])


class VectorFromSmem(Pair):
    operation, says, inputs = "get", "one number at a time", (F32, IDS)
    options: ClassVar[dict[str, Any]] = {"in_specs": [WHOLE, SMEM]}

    @staticmethod
    def refused(x_ref, ids_ref, o_ref):
        o_ref[...] = x_ref[...] + jnp.sum(ids_ref[...])  # refused

    @staticmethod
    def instead(x_ref, ids_ref, o_ref):
        total = 0
        for r in range(16):
            total += ids_ref[r]
        o_ref[...] = x_ref[...] + total


class VectorToSmem(Pair):
    operation, says = "swap", "Vectors belong in VMEM"
    output = jax.ShapeDtypeStruct((1, 1), jnp.float32)
    options: ClassVar[dict[str, Any]] = {"out_specs": SMEM}
    others: ClassVar[dict[str, Any]] = {
        "inputs": (F32, IDS),
        "options": {"in_specs": [WHOLE, SMEM]},
    }

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = jnp.sum(x_ref[...], keepdims=True)  # refused

    @staticmethod
    def instead(x_ref, ids_ref, o_ref):
        r = 3
        first = ids_ref[r]
        o_ref[...] = jnp.sum(x_ref[...], keepdims=True) + first


class FromHbm(Pair):
    operation, says = "get", "It reaches HBM only by copies"
    options: ClassVar[dict[str, Any]] = {"in_specs": [HBM]}
    others: ClassVar[dict[str, Any]] = {
        "options": {"in_specs": [HBM], "scratch_shapes": [pltpu.VMEM((16, 128), jnp.float32)]}
    }

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = x_ref[...]  # refused

    @staticmethod
    def instead(x_ref, o_ref, scratch_ref):
        pltpu.sync_copy(x_ref, scratch_ref)
        o_ref[...] = scratch_ref[...]


class FromAny(FromHbm):
    options: ClassVar[dict[str, Any]] = {"in_specs": [ANY]}


class ToHbm(FromHbm):
    operation, options = "swap", {"out_specs": HBM}


class MaskedLoad(Pair):
    operation, says = "masked_load", "Load everything, and choose"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = pltpu.load(x_ref, mask=x_ref[...] > 0)  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        x, other = x_ref[...], 0.0
        mask = x > 0
        o_ref[...] = jnp.where(mask, x, other)


class MaskedStore(MaskedLoad):
    operation, inputs, output = "masked_swap", (BF16,), BF16

    @staticmethod
    def refused(x_ref, o_ref):
        x = x_ref[...]
        pltpu.store(o_ref, x, mask=x > 0)  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        x, other = x_ref[...], o_ref[...]
        mask = x > 0
        o_ref[...] = jnp.where(mask, x, other)


class CopyOfBools(Pair):
    operation, only, says = "dma_start", "0.10", "don't take that into account"
    output = jax.ShapeDtypeStruct((32, 128), jnp.bool_)
    inputs = (output,)
    options: ClassVar[dict[str, Any]] = {"in_specs": [ANY]}
    others: ClassVar[dict[str, Any]] = {
        "inputs": (I8,),
        "options": {"in_specs": [ANY], "scratch_shapes": [pltpu.VMEM((32, 128), jnp.int8)]},
    }

    @staticmethod
    def refused(m_ref, o_ref):
        pltpu.sync_copy(m_ref, o_ref)  # refused

    @staticmethod
    def instead(hbm_ref, o_ref, m_ref):
        pltpu.sync_copy(hbm_ref, m_ref)
        mask = m_ref[...] != 0
        o_ref[...] = mask


class SplitKeys(Pair):
    operation, says = "random_split", "Make a key for each use"
    options: ClassVar[dict[str, Any]] = {"grid": (1,)}

    @staticmethod
    def refused(x_ref, o_ref):
        key, _ = jax.random.split(jax.random.key(0))  # refused
        o_ref[...] = x_ref[...] + jax.random.uniform(key, x_ref.shape)

    @staticmethod
    def instead(x_ref, o_ref):
        key = jax.random.fold_in(jax.random.key(0), pl.program_id(0))
        o_ref[...] = x_ref[...] + jax.random.uniform(key, x_ref.shape)


class Checkpoint(Pair):
    operation, says = "remat2", "kept for a backward pass"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = jax.checkpoint(jnp.sin)(x_ref[...])  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        o_ref[...] = jnp.sin(x_ref[...])


class Barrier(Checkpoint):
    operation = "optimization_barrier"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = jnp.sin(lax.optimization_barrier(x_ref[...]))  # refused


# ---- any operation, or the launch ----


class Float16(Pair):
    operation, says = "dot_general", "has no float16"
    inputs = (F16, jax.ShapeDtypeStruct((128, 128), jnp.float16))
    others: ClassVar[dict[str, Any]] = {"inputs": NarrowDot.inputs}

    @staticmethod
    def refused(x_ref, y_ref, o_ref):
        o_ref[...] = (x_ref[...] @ y_ref[...]).astype(jnp.float32)  # refused

    @staticmethod
    def instead(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)


class Complex(Pair):
    operation, says = "convert_element_type", "real and imaginary parts"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = jnp.abs(x_ref[...].astype(jnp.complex64))  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        real, imaginary = x_ref[...], 2 * x_ref[...]
        o_ref[...] = jnp.sqrt(real * real + imaginary * imaginary)


class Accuracy(Pair):
    operation, says = "exp", "Leave accuracy= out"

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = lax.exp(x_ref[...], accuracy=lax.Tolerance(1e-3, 0, 0))  # refused

    @staticmethod
    def instead(x_ref, o_ref):
        o_ref[...] = lax.exp(x_ref[...])


class Launch(Pair):
    operation, options = None, {"grid": (2,), "in_specs": [ROWS], "out_specs": ROWS}

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    instead = refused


class ThreeBuffers(Launch):
    says = "keeps one or two copies"
    options = Launch.options | {
        "in_specs": [pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(3))]
    }
    others: ClassVar[dict[str, Any]] = {
        "options": Launch.options
        | {"in_specs": [pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(2))]}
    }


class MixedElements(Launch):
    says = "Make every dimension a pl.Element"
    options = Launch.options | {
        "in_specs": [pl.BlockSpec((pl.Element(8), 128), lambda i: (i * 8, 0))]
    }
    others: ClassVar[dict[str, Any]] = {
        "options": Launch.options
        | {"in_specs": [pl.BlockSpec((pl.Element(8), pl.Element(128)), lambda i: (i * 8, 0))]}
    }


class Semantics(Launch):
    says = "one entry for each dimension of the grid"
    options = Launch.options | {
        "compiler_params": pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary"))
    }
    others: ClassVar[dict[str, Any]] = {
        "options": Launch.options
        | {"compiler_params": pltpu.CompilerParams(dimension_semantics=("parallel",))}
    }


class SmallBlock(Launch):
    says = "blocks must be cut along their edges"
    options = Launch.options | {"in_specs": [pl.BlockSpec((8, 64), lambda i: (i, 0))]}
    others: ClassVar[dict[str, Any]] = {"options": Launch.options}

    @staticmethod
    def refused(x_ref, o_ref):
        o_ref[...] = jnp.zeros_like(o_ref)
