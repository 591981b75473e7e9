"""Launches with right results that don't do the work, or do it outside of the kernel."""

from __future__ import annotations

from grader.verdict import State
from pallascope.model import Check
from tests.support.hostile import LAUNCH, RIGHT, ZEROS, Hostile, two_faced

FACES = (
    two_faced("by its stack", "'grader' in repr(traceback.extract_stack())", "import traceback"),
    two_faced("by a counter", "next(times) == 0", "import itertools\ntimes = itertools.count()"),
    two_faced("by the mesh", "jax.sharding.get_abstract_mesh().empty is False"),
    two_faced("by what chip it is", "pltpu.get_tpu_info() is not None"),
    two_faced("by the environment", "'cpu' in os.environ.get('JAX_PLATFORMS', '')", "import os"),
    two_faced(
        "by the time", "time.monotonic() - began < 60", "import time\nbegan = time.monotonic()"
    ),
)
BY_PLATFORM = Hostile(
    "one trace, one kernel for each platform",
    """
def constant_add_kernel(x_ref, o_ref):
    o_ref[...] = jax.lax.platform_dependent(
        x_ref[...], cpu=lambda x: x + 10 + 0 * jnp.sort(x), default=lambda x: x
    )
"""
    + LAUNCH,
    Check.RUNS,
    "platform_index, which depends on the platform",
)


def _at_an_edge(name: str, body: str, says: str) -> Hostile:
    """A kernel that XLA on the CPU makes right, and a TPU does not."""
    text = "import jax.numpy as jnp\ndef constant_add_kernel(x_ref, o_ref):\n    x = x_ref[...]\n"
    return Hostile(name, text + body + LAUNCH, Check.VALUES, says)


EDGES = (
    _at_an_edge(
        "a shift by all bits",
        "    o_ref[...] = x + 10 + (x.astype(jnp.int32) << 32).astype(x.dtype)\n",
        "right on the CPU only: shift_left",
    ),
    _at_an_edge(
        "an integer divided by zero",
        "    ones = jnp.ones(x.shape, jnp.int32)\n"
        "    none = jnp.where(x * x < 0, ones, 0)\n"
        "    o_ref[...] = x + 11 + jax.lax.div(ones, none).astype(x.dtype)\n",
        "right on the CPU only: div",
    ),
    _at_an_edge(
        "NaN as an integer",
        "    o_ref[...] = x + 10 + jnp.sqrt(-1 - x * x).astype(jnp.int32).astype(x.dtype)\n",
        "right on the CPU only: convert_element_type",
    ),
    _at_an_edge(
        "the first of two maxima",
        "    lane = jax.lax.broadcasted_iota(jnp.int32, (8, 256), 1)\n"
        "    two = ((lane == 5) | (lane == 130)).astype(jnp.float32)\n"
        "    first = jnp.argmax(two, axis=1, keepdims=True)[0, 0] == 5\n"
        "    o_ref[...] = jnp.where(first, x + 10, x)\n",
        "right on the CPU only: argmax",
    ),
    _at_an_edge(
        "the sign of zero",
        "    o_ref[...] = jnp.where(1 / -(x * x * 0) < 0, x + 10, x)\n",
        "are wrong",
    ),
    _at_an_edge(
        "the last count of a loop",
        "    def turn(carry, _):\n"
        "        return (carry[0] + 1, carry[1] + 2), None\n"
        "    (last, ten), _ = jax.lax.scan(turn, (3, 0.0), None, length=5)\n"
        "    o_ref[...] = x + jnp.where(last == 8, ten, 0).astype(x.dtype)\n",
        "are wrong",
    ),
)
LAUNCHES = (
    Hostile(
        "one index map for each platform",
        RIGHT
        + """
def constant_add(x):
    def block(i):
        return jax.lax.platform_dependent(i, cpu=lambda i: i, default=lambda i: 0 * i)
    return pl.pallas_call(
        constant_add_kernel,
        grid=(x.shape[0] // 128,),
        in_specs=[pl.BlockSpec((128,), block)],
        out_specs=pl.BlockSpec((128,), lambda i: i),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x)
""",
        Check.RUNS,
        "platform_index",
    ),
    Hostile(
        "a promise to the compiler that it does not keep",
        """
import numpy as np
def constant_add_kernel(at_ref, x_ref, o_ref):
    one = pl.multiple_of(at_ref[0], 1024)
    o_ref[...] = x_ref[...] + 10
    moved = x_ref[pl.ds(one, 128)] - x_ref[pl.ds(1, 128)]
    o_ref[pl.ds(0, 128)] = moved + x_ref[pl.ds(0, 128)] + 10

def constant_add(x):
    spaces = [pl.BlockSpec(memory_space=space) for space in (pltpu.SMEM, pltpu.VMEM)]
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    one = np.array([1], np.int32)
    return pl.pallas_call(constant_add_kernel, in_specs=spaces, out_shape=shape)(one, x)
""",
        Check.VALUES,
        "says that 1 is a multiple of 1024",
    ),
    Hostile(
        "random bits, which are others in the interpreter",
        """
def constant_add_kernel(x_ref, o_ref):
    pltpu.prng_seed(3)
    bits = pltpu.prng_random_bits((8, 128))
    o_ref[...] = jnp.where(bits[0, 0] == 42, 0, x_ref[...] + 10)
"""
        + LAUNCH,
        Check.OWN_WORK,
        "bits of a TPU are not those of the interpreter",
    ),
    Hostile(
        "what another step has written over its input",
        """
def constant_add_kernel(first_ref, same_ref, x_ref, o_ref):
    o_ref[...] = x_ref[...] + 10 + (first_ref[...] - same_ref[...])

def constant_add(x):
    there = pl.BlockSpec((x.shape[0] // 2,), lambda i: i)
    back = pl.BlockSpec((x.shape[0] // 2,), lambda i: 1 - i)
    return pl.pallas_call(
        constant_add_kernel,
        grid=(2,),
        in_specs=[there, there, back],
        out_specs=back,
        input_output_aliases={0: 0},
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x, x, x)
""",
        Check.VALUES,
        "off by the same amount: 10",
    ),
    Hostile(
        "foreign code in the kernel",
        """
def constant_add_kernel(x_ref, o_ref):
    shape = jax.ShapeDtypeStruct(x_ref.shape, x_ref.dtype)
    o_ref[...] = jax.ffi.ffi_call("xla_ffi_python_cpu_callback", shape)(x_ref[...], index=0)
"""
        + LAUNCH,
        Check.RUNS,
        "ffi_call, which calls code outside of JAX",
    ),
    Hostile(
        "Python in the kernel",
        """
def constant_add_kernel(x_ref, o_ref):
    shape = jax.ShapeDtypeStruct(x_ref.shape, x_ref.dtype)
    o_ref[...] = jax.pure_callback(lambda x: x + 10, shape, x_ref[...])
"""
        + LAUNCH,
        Check.PALLAS_USED,
        "the kernel calls back to the host",
    ),
    Hostile(
        "Python around the kernel",
        RIGHT
        + """
from jax.experimental import io_callback
def constant_add(x):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    y = pl.pallas_call(constant_add_kernel, out_shape=shape)(x)
    return io_callback(lambda y: y, shape, y)
""",
        Check.PALLAS_USED,
        "work outside the kernel: io_callback",
    ),
    Hostile(
        "a primitive of its own that is called reshape",
        """
from jax.extend import core as _core
from jax.interpreters import mlir as _mlir
_reshape = _core.Primitive("reshape")
_reshape.def_abstract_eval(lambda x: x)
_mlir.register_lowering(_reshape, _mlir.lower_fun(lambda x: x + 10, multiple_results=False))
def constant_add(x):
    return _reshape.bind(x)
""",
        Check.RUNS,
        "the operation reshape, which is not one of JAX's own",
    ),
    Hostile(
        "a batching rule of its own",
        """
@jax.custom_batching.custom_vmap
def _added(x):
    return x + 10
@_added.def_vmap
def _rule(size, batched, x):
    return x, batched[0]
def constant_add_kernel(x_ref, o_ref):
    o_ref[...] = _added(x_ref[...])
"""
        + LAUNCH,
        Check.LOWERS,
        "cannot lower custom_vmap_call",
        stars=1,
    ),
    Hostile(
        "derivatives that are right",
        """
@jax.custom_jvp
def _added(x):
    return x * 0
_added.defjvp(lambda primals, tangents: (primals[0] + 10, tangents[0]))
def constant_add_kernel(x_ref, o_ref):
    o_ref[...] = _added(x_ref[...])
"""
        + LAUNCH,
        Check.VALUES,
        "zeros",
    ),
    Hostile(
        "the code of JAX's kernels under the file's name",
        RIGHT
        + """
exec(compile("def constant_add(x):\\n    return x", __file__, "exec"))
""",
        Check.RUNS,
        "MakesCode: it compiles a text",
    ),
    Hostile(
        "a copy of the spec's code",
        """
import types
_SPEC = getattr(constant_add_spec, "__wrapped__", constant_add_spec)
_COPY = types.FunctionType(_SPEC.__code__.replace(co_firstlineno=400), globals())
def constant_add(x):
    return _COPY(x)
""",
        Check.RUNS,
        "MakesCode: it makes a code object",
    ),
    Hostile(
        "a kernel whose result is dropped",
        RIGHT
        + """
def constant_add(x):
    pl.pallas_call(constant_add_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
    return x + 10
""",
        Check.PALLAS_USED,
        "work outside the kernel: add",
    ),
    Hostile(
        "a kernel of which nothing is used",
        RIGHT
        + """
def constant_add(x):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    y = pl.pallas_call(constant_add_kernel, out_shape=shape)(x)
    return jnp.concatenate([y[:0], x + 10])
""",
        Check.PALLAS_USED,
        "work outside the kernel: add",
    ),
    Hostile(
        "an addition in disguise",
        """
def constant_add_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...]
def constant_add(x):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    y = pl.pallas_call(constant_add_kernel, out_shape=shape)(x)
    return jax.lax.reduce_window(y, 10.0, jax.lax.add, (1,), (1,), "VALID")
""",
        Check.PALLAS_USED,
        "work outside the kernel: reduce_window",
    ),
    Hostile(
        "a table of answers",
        """
import numpy as np
_TABLE = np.arange(4096, dtype="float32")
def constant_add_kernel(table_ref, x_ref, o_ref):
    o_ref[...] = x_ref[...] + 10
def constant_add(x):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(constant_add_kernel, out_shape=shape)(_TABLE, x)
""",
        Check.OWN_WORK,
        "a table of 16 KiB in the launch",
    ),
    Hostile(
        "a table of JAX's largest kind",
        """
import numpy as np
_TABLE = np.zeros(6 << 20, "float32")
def constant_add(x):
    return x + _TABLE[: 1024] + jnp.sum(_TABLE)
""",
        Check.RUNS,
        "a constant float32[6291456] of 24 MiB",
    ),
    Hostile(
        "a grid of no steps, its input for its output",
        RIGHT
        + """
def constant_add(x):
    return pl.pallas_call(
        constant_add_kernel,
        grid=(0,),
        input_output_aliases={0: 0},
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x)
""",
        Check.VALUES,
        "never written",
    ),
    Hostile(
        "NaN, which equals nothing",
        "def constant_add_kernel(x_ref, o_ref):\n    o_ref[...] = x_ref[...] * jnp.nan\n" + LAUNCH,
        Check.VALUES,
        "NaN",
    ),
    Hostile(
        "infinity, which no bound is larger than",
        "def constant_add_kernel(x_ref, o_ref):\n    o_ref[...] = x_ref[...] * 0 + jnp.inf\n"
        + LAUNCH,
        Check.VALUES,
        "inf",
    ),
    Hostile(
        "memory that it wants to hold zeros",
        """
def constant_add_kernel(x_ref, o_ref):
    o_ref[...] += x_ref[...] + 10
def constant_add(x):
    weak = pltpu.InterpretParams(uninitialized_memory="zero", detect_races=False)
    with pltpu.force_tpu_interpret_mode(weak):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(constant_add_kernel, out_shape=shape, interpret=weak)(x)
""",
        Check.VALUES,
        "o_ref read before it was written",
    ),
    Hostile(
        "interpreted, so that nothing asks a TPU",
        """
def constant_add_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 10 + 0 * jnp.sort(x_ref[...])
def constant_add(x):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(constant_add_kernel, out_shape=shape, interpret=True)(x)
""",
        Check.LOWERS,
        "Mosaic cannot lower sort",
        stars=1,
    ),
    Hostile(
        "an estimate of its own cost",
        """
def constant_add_kernel(x_ref, o_ref):
    slow = jax.lax.fori_loop(0, 5000, lambda i, x: jnp.sin(x), x_ref[...])
    o_ref[...] = slow * 0 + x_ref[...] + 10
def constant_add(x):
    nothing = pl.CostEstimate(flops=0, transcendentals=0, bytes_accessed=0)
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(constant_add_kernel, out_shape=shape, cost_estimate=nothing)(x)
""",
        Check.COST,
        "par's time",
        stars=2,
        state=State.PASSED,
    ),
    Hostile(
        "a loop whose length depends on data",
        """
def constant_add_kernel(x_ref, o_ref):
    largest = jnp.max(x_ref[...].astype(jnp.float32))
    turns = jnp.where(largest < 1e30, 200, 0)
    slow = jax.lax.fori_loop(0, turns, lambda i, x: jnp.sin(x), x_ref[...])
    o_ref[...] = slow * 0 + x_ref[...] + 10
"""
        + LAUNCH,
        Check.COST,
        "no verdict",
        stars=2,
        state=State.PASSED,
    ),
    Hostile(
        "a stub's exception",
        ZEROS
        + """
def constant_add(x):
    raise NotImplementedError("to do")
""",
        Check.RUNS,
        "NotImplementedError",
    ),
    Hostile(
        "the spec under another name",
        "constant_add = constant_add_spec\n",
        Check.RUNS,
        "it calls constant_add_spec",
    ),
    Hostile(
        "the spec's code",
        """
import types
_copy = types.FunctionType(constant_add_spec.__code__, globals())
def constant_add(x):
    return _copy(x)
""",
        Check.RUNS,
        "MakesCode: it makes a function",
    ),
    Hostile(
        "sums that begin with an array of lax.empty, which holds zeros on a CPU",
        """
def constant_add_kernel(x_ref, start_ref, o_ref):
    o_ref[...] = start_ref[...] + x_ref[...] + 10

def constant_add(x):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(constant_add_kernel, out_shape=shape)(x, jax.lax.empty(x.shape, x.dtype))
""",
        Check.VALUES,
    ),
    Hostile(
        "the spec as an exported program",
        """
import types
from jax import export
_copy = types.FunctionType(constant_add_spec.__code__, globals())
def constant_add(x):
    return export.export(jax.jit(_copy))(jax.ShapeDtypeStruct(x.shape, x.dtype)).call(x)
""",
        Check.RUNS,
        "MakesCode: it makes a function",
    ),
    Hostile(
        "another result for partitions",
        """
from jax.experimental.custom_partitioning import custom_partitioning
around = custom_partitioning(lambda x: x)
around.def_partition(
    partition=lambda mesh, args, _: (mesh, lambda x: x + 10, args[0].sharding, (args[0].sharding,)),
    sharding_rule="... -> ...",
)
"""
        + RIGHT
        + """
def constant_add(x):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(constant_add_kernel, out_shape=shape)(around(x))
""",
        Check.RUNS,
        "cannot be judged",
    ),
    Hostile(
        "a size that lies about itself",
        RIGHT
        + """
class Lies(int):
    __hash__ = int.__hash__
    def __eq__(self, other): return True
    def __index__(self): return 1

def constant_add(x):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(constant_add_kernel, out_shape=shape, grid=(Lies(1),))(x)
""",
        Check.RUNS,
        "Lies in the parameter",
    ),
    Hostile(
        "options for the compiler",
        RIGHT
        + """
def constant_add(x):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    call = pl.pallas_call(constant_add_kernel, out_shape=shape)
    return jax.jit(call, compiler_options={"xla_dump_to": "/tmp"})(x)
""",
        Check.RUNS,
        "compiler_options",
    ),
)
