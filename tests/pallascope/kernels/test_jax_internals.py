"""Each internal of JAX that the grader uses is where `jax_internals` says."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator

import jax
import pytest

from pallascope.kernels import jax_internals
from pallascope.kernels.jax_internals import PLACES, UnsupportedJax, found
from pallascope.kernels.serialization import make_ready_for_gpus
from tests.pallascope.support import ROOT

#: What one end of the supported versions lacks. Who raises the oldest version empties its list.
NOT_IN_0_10 = {
    "jax._src.api.Inline",
    "jax._src.core.UnreducedKind",
    "jax._src.flattree.FTDict",
    "jax._src.flattree.FTFiltered",
    "jax._src.flattree.FTPyTree",
    "jax._src.flattree.FTSingleton",
    "jax._src.flattree.FTStatic",
    "jax._src.flattree.FTTuple",
    "jax._src.hijax.HiPrim",
    "jax._src.layout.LayoutMode",
    "jax._src.pallas.mosaic.core.AccMemorySpace",
    "jax._src.pallas.mosaic.core.AccessAssumption",
    "jax._src.pallas.mosaic.core.AccessAssumptionTransform",
    "jax._src.pallas.mosaic_gpu.core.Im2ColTransform",
    "jax._src.pallas.mosaic_gpu.core._pdl_effect",
    "jax._src.state.types.MemorySpaceCastTransform",
    "jax._src.tpu_info",
    "jax._src.util.Either",
}
NOT_IN_0_12 = {
    "jax._src.hijax.VJPHiPrimitive",
    "jax._src.pallas.mosaic.core.TensorCore",
}
MISSING = NOT_IN_0_10 if jax.__version_info__ < (0, 11) else NOT_IN_0_12

TABLES = {
    name: table
    for name, table in vars(jax_internals).items()
    if name.isupper() and isinstance(table, dict) and name != "PLACES"
}


def listed() -> Iterator[str]:
    for table in TABLES.values():
        for module, row in table.items():
            names = row.split() if isinstance(row, str) else row
            yield from (f"{module}.{name}" for name in names)


@pytest.fixture(autouse=True, scope="module")
def gpus() -> None:
    make_ready_for_gpus()


@pytest.mark.parametrize("name", PLACES)
def test_a_name_is_in_its_place(name: str) -> None:
    if PLACES[name] in MISSING:
        with pytest.raises(UnsupportedJax):
            getattr(jax_internals, name)
    else:
        assert getattr(jax_internals, name) is not None


@pytest.mark.parametrize("place", sorted(set(listed())))
def test_what_the_carrier_knows_is_in_its_place(place: str) -> None:
    module, _, name = place.rpartition(".")
    assert len(list(found({module: name}))) == (place not in MISSING), place


@pytest.mark.parametrize("module", [*jax_internals.ASKED_THROUGH, *jax_internals.ASKING_ON_BEHALF])
def test_a_module_that_is_known_by_name_is_there(module: str) -> None:
    if module in MISSING:
        with pytest.raises(ImportError):
            importlib.import_module(module)
    else:
        importlib.import_module(module)


#: What the grader reads or replaces in these modules and classes.
ATTRIBUTES = {
    "callback": "io_callback io_callback_impl",
    "gpu_callbacks": "_swap",
    "gpu_interpreter": "reset_gpu_interpret_mode_state",
    "jax_core": "Jaxpr JaxprEqn Var Literal",
    "linear_util": "wrap_init",
    "mlir": "lower_fun register_lowering",
    "mosaic_primitives": (
        "_dma_flatten pack_elementwise_p prng_random_bits_p prng_seed_p stochastic_round_p "
        "unpack_elementwise_p"
    ),
    "pallas_call": "_trace_kernel_to_jaxpr",
    "prng": "random_bits_impl_base random_bits_p random_unwrap",
    "race_detection_state": "RaceDetectionState",
    "runtime_tokens": "clear",
    "source_info_context": "context",
    "thread_map": "_run_jaxpr",
    "tpu_interpreter": (
        "DMA TOKEN_SHAPE_DTYPE _get_grid_point _get_parallel_dim_semantics "
        "_get_parallel_subgrid_size _get_randomized_grid_coordinates _get_shared_memory "
        "_allocate_buffer _interpret_impls _interpret_jaxpr fail_on_exception interpret_pallas_call"
    ),
    "tpu_interpreter_utils": (
        "get_uninitialized_array get_uninitialized_value pad_to_block_dimension to_range"
    ),
    "xla_bridge": "get_backend local_devices",
    "Semaphore": "wait",
    "SharedMemory": ("get_buffer_content get_sempahores_with_nonzero_count store_buffer_content"),
}


@pytest.mark.parametrize(
    ("home", "name"), [(home, name) for home, row in ATTRIBUTES.items() for name in row.split()]
)
def test_a_part_of_an_internal_is_there(home: str, name: str) -> None:
    assert hasattr(getattr(jax_internals, home), name), f"{PLACES[home]}.{name}"


def test_a_moved_name_is_told() -> None:
    moved = {"gone": "jax._src.core.gone", "far": "jax._src.gone.far"}
    for name, place in moved.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(PLACES, name, place)
            with pytest.raises(UnsupportedJax, match=f"has moved {place}"):
                getattr(jax_internals, name)


def test_each_name_is_used_and_no_other() -> None:
    used: set[str] = set()
    for file in [*(ROOT / "grader").rglob("*.py"), *(ROOT / "pallascope").rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == jax_internals.__name__:
                used.update(alias.name for alias in node.names)
    assert {*PLACES, *TABLES} <= used
    assert used <= {*PLACES, *vars(jax_internals)}


def test_nothing_is_imported_before_it_is_used() -> None:
    """A verdict would wait for Mosaic GPU, which no kernel for a TPU needs."""
    code = "import sys, pallascope.kernels; print('jax._src.pallas.mosaic_gpu.core' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "False\n"
