"""Emulates a TPU's random number generator in the interpreter.

Each core of a TPU has a generator. `pltpu.prng_seed` sets its state, and each call of
`prng_random_bits` draws from it and advances it. The chip's bits aren't documented, so the bits
here are different, with the same properties: they depend only on the words of the seed, the number
of draws since, and the requested shape. With the same seed both cores draw the same. A kernel
begins with unseeded generators, and drawing from one raises `NotSeeded`. A launch that is lowered
for a chip keeps the chip's own operations.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback
from jax.extend import core

from pallascope.kernels.jax_internals import UnsupportedJax
from pallascope.kernels.jaxprs import sites
from pallascope.kernels.source_lines import line_in

WORD = 2**32


class NotSeeded(RuntimeError):
    """A kernel has drawn bits from a core's generator without seeding it."""

    def __init__(self) -> None:
        super().__init__(
            "prng_random_bits was called on a core whose generator this kernel has not seeded"
        )


class Generators:
    """The generators of all cores while one kernel runs; the next kernel begins with none."""

    def __init__(self) -> None:
        self._kernel: object = None
        self._states: dict[tuple[int, int], tuple[tuple[int, ...], int]] = {}

    def seed(self, kernel: object, at: tuple[int, int], words: Sequence[int]) -> None:
        """Seed the generator of core `at` (device, core) with 32-bit words."""
        self._of(kernel)[at] = tuple(word % WORD for word in words), 0

    def draw(self, kernel: object, at: tuple[int, int], shape: tuple[int, ...]) -> np.ndarray:
        """int32 of `shape`: the next bits. Raises NotSeeded."""
        states = self._of(kernel)
        if at not in states:
            raise NotSeeded
        words, drawn = states[at]
        states[at] = words, drawn + 1
        entropy = [len(words), *words, drawn, *shape]
        bits = np.random.Philox(np.random.SeedSequence(entropy))
        count = math.prod(shape)
        return bits.random_raw((count + 1) // 2).view(np.int32)[:count].reshape(shape)

    def _of(self, kernel: object) -> dict[tuple[int, int], tuple[tuple[int, ...], int]]:
        if kernel is not self._kernel:
            self._kernel, self._states = kernel, {}
        return self._states


@dataclass(frozen=True, slots=True)
class _Drawing:
    """Replaces the two operations on a generator while the `interpreter` runs a kernel."""

    interpreter: ModuleType
    usual: Callable[..., Any]
    generators: Generators = field(default_factory=Generators)

    def interpreted(self, jaxpr: core.Jaxpr, *args: Any, ctx: Any, token: Any) -> Any:
        """Interpret a body, with rules for the markers of the two operations."""
        marked = jaxpr.eqns[0] if len(jaxpr.eqns) == 1 else None
        where = ctx.device_id, ctx.local_core_id
        token_type = self.interpreter.TOKEN_SHAPE_DTYPE
        if marked and marked.primitive is _SEED:
            callback = self.interpreter.fail_on_exception(self._seeded)
            return io_callback(callback, token_type, token, *where, *args), []
        if marked and marked.primitive is _DRAW:
            shape, line = marked.params["shape"], marked.source_info.traceback
            failing = self.interpreter.fail_on_exception(self._drawn)
            callback = functools.partial(failing, shape=shape, line=line)
            types = token_type, jax.ShapeDtypeStruct(shape, jnp.int32)
            token, bits = io_callback(callback, types, token, *where)
            return token, [bits]
        return self.usual(jaxpr, *args, ctx=ctx, token=token)

    def _seeded(self, token: Any, device: Any, local: Any, *words: Any) -> Any:
        self.generators.seed(self._kernel(), (int(device), int(local)), list(map(int, words)))
        return token

    def _drawn(
        self, token: Any, device: Any, local: Any, *, shape: tuple[int, ...], line: Any
    ) -> Any:
        at = int(device), int(local)
        try:
            return token, self.generators.draw(self._kernel(), at, shape)
        except NotSeeded as error:
            raise error.with_traceback(line and line.as_python_traceback()) from None

    def _kernel(self) -> object:
        """An object that the interpreter creates for each kernel that it runs."""
        return self.interpreter._get_shared_memory()


@contextlib.contextmanager
def emulated_prng() -> Iterator[None]:
    """Let kernels that the strict interpreter runs in this context draw random bits.

    If jax keeps the replaced functions elsewhere, bits are zeros, as without this context.
    """
    try:
        from pallascope.kernels.jax_internals import tpu_interpreter as interpreter

        rules = _rules()
        drawing = _Drawing(interpreter, interpreter._interpret_jaxpr)
        known = interpreter._interpret_impls
        before = {rule: known.get(rule) for rule in rules}
        _ = interpreter.fail_on_exception, interpreter._get_shared_memory
        _ = interpreter.TOKEN_SHAPE_DTYPE
    except (UnsupportedJax, AttributeError):
        yield
        return
    known.update(rules)
    interpreter._interpret_jaxpr = drawing.interpreted
    try:
        yield
    finally:
        interpreter._interpret_jaxpr = drawing.usual
        for rule, old in before.items():
            known.pop(rule) if old is None else known.update({rule: old})


def _rules() -> dict[core.Primitive, Callable[..., Any]]:
    """The interpreter's rules for operations on random bits.

    Raises UnsupportedJax or AttributeError if jax keeps one of them elsewhere.
    """
    from pallascope.kernels.jax_internals import mosaic_primitives as primitives
    from pallascope.kernels.jax_internals import prng

    return {
        primitives.prng_seed_p: _SEED.bind,
        primitives.prng_random_bits_p: _DRAW.bind,
        primitives.stochastic_round_p: stochastically_rounded,
        prng.random_bits_p: _bits_of_keys,
    }


def _marker(name: str, results: Callable[..., Any], *, multiple: bool) -> core.Primitive:
    """An operation that occurs only in programs made here, so that it is recognised above."""
    primitive = core.Primitive(name)
    primitive.multiple_results = multiple
    primitive.def_abstract_eval(results)
    return primitive


def _no_result(*_words: Any) -> list[Any]:
    return []


def _bits(*, shape: tuple[int, ...]) -> Any:
    return jax.typeof(jax.ShapeDtypeStruct(shape, jnp.int32))


_SEED = _marker("seed_generator", _no_result, multiple=True)
_DRAW = _marker("draw_from_generator", _bits, multiple=False)


def _bits_of_keys(keys: Any, *, bit_width: int, shape: tuple[int, ...]) -> Any:
    """The bits that jax.random draws from keys; for Pallas' own kinds, with the generator."""
    from pallascope.kernels.jax_internals import prng

    words = prng.random_unwrap(keys)
    kind = keys.dtype._impl
    bits = prng.random_bits_impl_base(kind, words, keys.ndim, bit_width=bit_width, shape=shape)
    return bits if bits.dtype != jnp.int32 else lax.bitcast_convert_type(bits, jnp.uint32)


def drawing_line(jaxpr: core.Jaxpr, file: str) -> int | None:
    """The line of `file` on which a trace draws from a generator, 0 if the line is unknown.

    None if it doesn't draw.
    """
    for site in sites(jaxpr):
        if _draws(site.eqn):
            lines = (line_in(eqn, file) for eqn in (site.eqn, *reversed(site.path)))
            return next(filter(None, lines), 0)
    return None


def _draws(eqn: core.JaxprEqn) -> bool:
    if eqn.primitive.name == "random_bits":
        kind: Any = eqn.invars[0].aval
        return "pallas" in kind.dtype._impl.name
    return eqn.primitive.name == "prng_random_bits"


def stochastically_rounded(x: jax.Array, bits: jax.Array, *, target_dtype: Any) -> jax.Array:
    """`pltpu.stochastic_round` of float32: one of the two neighbours in a narrower dtype.

    `bits` are uint32 of the shape of x; as many of the lowest bits as x loses decide.
    """
    info = jnp.finfo(target_dtype)
    lost = 23 - int(info.nmant)
    magnitude = lax.bitcast_convert_type(x, jnp.uint32) & jnp.uint32(0x7FFFFFFF)
    dice = bits & jnp.uint32((1 << lost) - 1)
    cut = (magnitude + dice) & ~jnp.uint32((1 << lost) - 1)
    found = lax.bitcast_convert_type(cut, jnp.float32)
    if info.minexp > jnp.finfo(jnp.float32).minexp:
        step = 2.0 ** (int(info.minexp) - int(info.nmant))
        steps = jnp.abs(x) / step
        whole = jnp.floor(steps)
        up = (steps - whole) * (1 << lost) + dice.astype(jnp.float32) >= (1 << lost)
        found = jnp.where(jnp.abs(x) < 2.0 ** int(info.minexp), (whole + up) * step, found)
    rounded = jnp.where(jnp.isfinite(x), jnp.copysign(found, x), x)
    return rounded.astype(target_dtype)
