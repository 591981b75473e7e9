"""Files that try to get stars that they haven't earned, and the required message for each.

`text` replaces the kernel and the launch in the solution of constant_add.
"""

from __future__ import annotations

from dataclasses import dataclass

from grader.verdict import State
from pallascope.model import Check

IMPORTS = """
import jax.numpy as jnp
from jax.experimental.pallas import tpu as pltpu
"""
ZEROS = """
def constant_add_kernel(x_ref, o_ref):
    o_ref[...] = jnp.zeros_like(o_ref)
"""
RIGHT = """
def constant_add_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 10
"""
LAUNCH = """
def constant_add(x):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(constant_add_kernel, out_shape=shape)(x)
"""
#: Right in the interpreter, and nothing that a TPU takes.
SORTS = """
def sorting_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 10 + 0 * jnp.sort(x_ref[...])
"""
#: What the file hands over is `changed(closed)` in the place of its trace.
FORGED = """
import dataclasses
import pallascope.kernels.traced_launch as _made
_dumped = _made.dumped
_made.dumped = lambda closed, **_: _dumped(changed(closed))

def with_params(closed, **changes):
    eqns = [e.replace(params={**e.params, **changes}) for e in closed.jaxpr.eqns]
    return closed.replace(jaxpr=closed.jaxpr.replace(eqns=eqns))

def with_block(closed, **changes):
    mapping = closed.jaxpr.eqns[0].params["grid_mapping"]
    first, *rest = mapping.block_mappings
    blocks = (dataclasses.replace(first, **changes), *rest)
    return with_params(closed, grid_mapping=dataclasses.replace(mapping, block_mappings=blocks))

def first_block(closed):
    return closed.jaxpr.eqns[0].params["grid_mapping"].block_mappings[0]
"""
#: Writes into whatever socket the process has.
SPEAKS = """
import os, struct
from pallascope.model import *
from grader.sandbox.messages import *
from pallascope.tools import codec
from pallascope.tools.child_process import framed

def says(message):
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                os.write(int(name), message)
        except OSError:
            pass
"""


@dataclass(frozen=True, slots=True)
class Hostile:
    """One file, the check that must fail it, and words of the message.

    `stars` are the stars that it has earned.
    """

    name: str
    text: str
    check: Check | None
    says: str = ""
    stars: int = 0
    state: State = State.FAILED
    seconds: float = 60

    @property
    def source(self) -> str:
        return f"{IMPORTS}{self.text}".strip()


STORED_ZEROS = "x_ref is never read by the kernel"


def zeros(name: str, setup: str, says: str = STORED_ZEROS) -> Hostile:
    """A file that stores zeros, and patches something at import."""
    return Hostile(name, setup + ZEROS + LAUNCH, Check.VALUES, says)


def fails_to(name: str, setup: str, says: str) -> Hostile:
    """A file that stores zeros, and tries something that it may not do."""
    return Hostile(name, setup + ZEROS + LAUNCH, Check.RUNS, says)


def two_faced(name: str, honest: str, setup: str = "") -> Hostile:
    """A launch that tries to have one kernel for the interpreter, another for the compiler.

    `honest` is the expression that distinguishes them; it is evaluated only once.
    """
    launch = f"""
{setup}
def constant_add(x):
    kernel = sorting_kernel if {honest} else constant_add_kernel
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(kernel, out_shape=shape)(x)
"""
    return Hostile(name, ZEROS + SORTS + launch, None)


PATCHED_METHOD = zeros(
    "a method of the grader's own kernels package",
    """
from pallascope.kernels import TracedLaunch
TracedLaunch.run = lambda self, args, *_, **__: [args[0] + 10]
TracedLaunch.kernels = lambda self, args: ()
""",
)
HIDDEN_VALUES = Hostile(
    "walks frames and gc for hidden values",
    """
import gc, sys
import numpy as np
from pallascope.model import Array, Reference

def frames():
    frame = sys._getframe()
    while frame:
        yield from frame.f_locals.values()
        frame = frame.f_back

def found(shape):
    for one in [*frames(), *gc.get_objects()]:
        several = isinstance(one, (tuple, dict, list))
        for held in [one, *gc.get_referents(one)] if several else [one]:
            if type(held) in (Array, Reference):
                return held
            if isinstance(held, (np.ndarray, jax.Array)) and held.shape == shape:
                if not isinstance(held, jax.core.Tracer):
                    return held

def constant_add(x):
    values = found(x.shape)
    assert values is not None, "no hidden value anywhere"
    return x + 10
""",
    Check.RUNS,
    "no hidden value anywhere",
)
SILENCED_RACE = Hostile(
    "a race that is silenced",
    """
import builtins
from jax._src.pallas.mosaic.interpret import race_detection_state as _races
_state = _races.RaceDetectionState
_state.check_read = _state.check_write = lambda *_, **__: None
_races.print = builtins.print = lambda *_, **__: None

def constant_add_kernel(x_ref, o_ref, buffer, done):
    buffer[...] = x_ref[...] + 10
    pltpu.sync_copy(buffer, o_ref)

def constant_add(x):
    return pl.pallas_call(
        constant_add_kernel,
        grid=(2,),
        in_specs=[pl.BlockSpec(memory_space=pltpu.VMEM)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x)
""",
    Check.VALUES,
    "race between two cores",
)
FORGED_TRACES = (
    Hostile(
        "the types of a forged trace are a lie",
        FORGED
        + """
def changed(closed):
    (aval,) = closed.jaxpr.eqns[0].params["out_avals"]
    return with_params(closed, out_avals=(aval.update(shape=(128,)),))
"""
        + RIGHT
        + LAUNCH,
        Check.RUNS,
        "types do not fit",
    ),
    Hostile(
        "a forged array beside a block",
        FORGED
        + """
def changed(closed):
    return with_block(closed, array_aval=first_block(closed).array_aval.update(shape=(1 << 20,)))
"""
        + RIGHT
        + LAUNCH,
        Check.RUNS,
        "types do not fit: the array of a block",
    ),
    Hostile(
        "a forged Ref of a block",
        FORGED
        + """
def changed(closed):
    ref = first_block(closed).transformed_block_aval
    return with_block(
        closed,
        transformed_block_aval=ref.update(inner_aval=ref.inner_aval.update(shape=(128,))),
    )
"""
        + RIGHT
        + LAUNCH,
        Check.RUNS,
        "types do not fit: the Ref of a block",
    ),
    Hostile(
        "a forged shape of a block",
        FORGED
        + """
def changed(closed):
    return with_block(closed, block_shape=(pl.Blocked(128),))
"""
        + RIGHT
        + LAUNCH,
        Check.RUNS,
        "types do not fit: the shape of a block",
    ),
    Hostile(
        "a forged constant",
        FORGED
        + """
import numpy as np
_SMALL = np.ones(128, "float32")

def changed(closed):
    closed.consts[:] = [np.ones(7, "float32")]
    return closed

def constant_add_kernel(ones_ref, x_ref, o_ref):
    o_ref[...] = x_ref[...] + 10

def constant_add(x):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(constant_add_kernel, out_shape=shape)(_SMALL, x)
""",
        Check.RUNS,
        "types do not fit: a constant",
    ),
    Hostile(
        "a trace for smaller inputs",
        """
from pallascope.kernels import TracedLaunch
_of = TracedLaunch.of
TracedLaunch.of = lambda function, args, keywords: _of(
    function, [jax.ShapeDtypeStruct((128,), args[0].dtype)], keywords
)
"""
        + RIGHT
        + LAUNCH,
        Check.RUNS,
        "a trace for other inputs than the case has: float32[128]",
    ),
    Hostile(
        "a trace for inputs of another dtype",
        """
from pallascope.kernels import TracedLaunch
_of = TracedLaunch.of
TracedLaunch.of = lambda function, args, keywords: _of(
    function, [jax.ShapeDtypeStruct(args[0].shape, "int8")], keywords
)

def constant_add_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...].astype("float32") + 10

def constant_add(x):
    return pl.pallas_call(
        constant_add_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, "float32")
    )(x)
""",
        Check.RUNS,
        "a trace for other inputs than the case has: int8[1024]",
    ),
    fails_to(
        "a trace of another jax",
        """
import pallascope.kernels.serialization.dump as _dumping, types
_dumping.jax = types.SimpleNamespace(__version__="1.0", config=jax.config)
""",
        "a trace of jax '1.0'",
    ),
    fails_to(
        "a pickle in the place of a trace",
        """
import pallascope.kernels.traced_launch as _made, os, pickle
class Runs:
    def __reduce__(self):
        return os.system, ("true",)
_made.dumped = lambda closed, **_: pickle.dumps(Runs())
""",
        "not a carried trace",
    ),
)
ANSWERS = (
    zeros(
        "packs another answer", "from pallascope.tools import codec\ncodec.pack = lambda _: b''\n"
    ),
    fails_to(
        "speaks of another question",
        SPEAKS + "says(framed(codec.pack(Warmed())))\n",
        "gave no readable answer",
    ),
    fails_to(
        "speaks as a judge",
        SPEAKS
        + """
import numpy as np
results = (Array("float32", (1024,), np.ones(1024, "float32").tobytes()),)
says(framed(codec.pack(RunResult(None, None, results))))
""",
        "gave no readable answer",
    ),
    fails_to(
        "speaks as a compiler",
        SPEAKS + "from pallascope.tpu import OnChip\nsays(framed(codec.pack(OnChip(None, ()))))\n",
        "gave no readable answer",
    ),
    fails_to("speaks nonsense", SPEAKS + "says(framed(bytes([255]) * 99))\n", "no readable answer"),
    fails_to(
        "speaks without end",
        SPEAKS
        + """
problem = Problem(Stage.TRACE, "ValueError", "word " * (20 << 20))
says(framed(codec.pack(Traced(problem))))
""",
        "gave no readable answer",
    ),
    fails_to(
        "speaks of nothing",
        SPEAKS + "says(framed(codec.pack(Traced(None, b''))))\n",
        "not a carried trace",
    ),
    fails_to(
        "speaks of a run",
        SPEAKS + "says(framed(codec.pack(Traced(Problem(Stage.RUN, 'ValueError', '')))))\n",
        "gave no readable answer",
    ),
    fails_to(
        "speaks of a compiler's refusal",
        SPEAKS + "says(framed(codec.pack(Traced(Problem(Stage.LOWER, 'NotLowered', '')))))\n",
        "gave no readable answer",
    ),
    Hostile(
        "announces more than it says",
        SPEAKS + "says(struct.pack('!Q', 1 << 26))\n" + ZEROS + LAUNCH,
        Check.RUNS,
        "no answer after",
        seconds=2,
    ),
    fails_to(
        "announces more than is taken",
        SPEAKS + "says(struct.pack('!Q', 1 << 30))\n",
        "gave no readable answer",
    ),
    fails_to(
        "raises what no file holds",
        "raise ValueError('\\udfff \\0 \\x1b[2J')\n",
        r"ValueError: \udfff \x00 \x1b[2J",
    ),
    Hostile(
        "says that nobody has tried",
        SPEAKS
        + """
problem = Problem(Stage.TRACE, "NotImplementedError", "to do", todo=True)
says(framed(codec.pack(Traced(problem))))
"""
        + ZEROS
        + LAUNCH,
        None,
        state=State.TODO,
    ),
    fails_to(
        "hangs up",
        "import os, time\nos.closerange(3, 1000)\ntime.sleep(9)\n",
        "closed its connection",
    ),
)
PATCHES = (
    zeros(
        "patches Pallas's interpreter",
        """
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as _interpreter
_interpreter.interpret_pallas_call = lambda *args, **params: [args[0] + 10]
""",
    ),
    zeros(
        "patches what a multiplication is lowered to",
        """
from jax._src.lax import lax as _lax
from jax.interpreters import mlir as _mlir
_mlir.register_lowering(_lax.mul_p, lambda context, x, y: [x])
""",
    ),
    zeros(
        "puts its own modules into the grader's place",
        """
import sys, types
for name in ("pallascope.runs.launch_runs", "pallascope.checks.values", "pallascope.tools.arrays"):
    sys.modules[name] = types.ModuleType(name)
""",
    ),
    zeros(
        "leaves a thread and an exit handler behind",
        """
import atexit, threading, time
def later():
    while True:
        time.sleep(0.01)
threading.Thread(target=later, daemon=True).start()
atexit.register(later)
""",
    ),
    fails_to("reaches for the comparison", "import pallascope.checks.compare\n", "PermissionError"),
    fails_to("reaches for the ladder", "import grader.grading.ladder\n", "PermissionError"),
    Hostile(
        "silences jaxtyping",
        """
import grader.sandbox.trace_worker as _tracing
_tracing.jaxtyped = lambda function, **_: function

def constant_add_kernel(x_ref, o_ref):
    o_ref[...] = jnp.zeros_like(o_ref)

def constant_add(x):
    shape = jax.ShapeDtypeStruct((x.shape[0], 1), x.dtype)
    return pl.pallas_call(constant_add_kernel, out_shape=shape)(x)
""",
        Check.CONTRACT,
        "returns shape (1024, 1)",
    ),
    Hostile(
        "returns another dtype",
        RIGHT
        + """
def constant_add(x):
    shape = jax.ShapeDtypeStruct(x.shape, "bfloat16")
    return pl.pallas_call(constant_add_kernel, out_shape=shape)(x.astype("bfloat16"))
""",
        Check.CONTRACT,
        "returns dtype bfloat16",
    ),
    Hostile(
        "gives jax.jit another trace to make",
        """
_jit = jax.jit
jax.jit = lambda function, **options: _jit(lambda x: x + 10)
"""
        + ZEROS
        + LAUNCH,
        Check.PALLAS_USED,
        "no pallas_call",
    ),
)
