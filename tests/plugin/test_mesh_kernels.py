"""Katas that are solved with `pl.kernel` and `pl.core_map`, graded as any others."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.support.repositories import Ran, Repository

pytestmark = pytest.mark.skipif(find_spec("libtpu") is None, reason="libtpu is not installed")

LAUNCH = """
from jax.experimental.pallas import tpu as pltpu


def mesh(cores):
    if hasattr(pltpu, "TensorCoreMesh"):
        return pltpu.TensorCoreMesh(axis_name="core", num_cores=cores)
    return pltpu.create_tensorcore_mesh("core", num_cores=cores)


def NAME(x: Float[Array, "M N"], *, bm: int = 8) -> Float[Array, "M N"]:
    each = x.shape[0] // CORES

    def kernel(x_ref, o_ref, buffer):
        rows = pl.ds(jax.lax.axis_index("core") * each, each)
        pltpu.sync_copy(x_ref.at[rows], buffer)
        buffer[...] = BODY
        pltpu.sync_copy(buffer, o_ref.at[rows])

    scratch = [pltpu.VMEM((each, x.shape[1]), x.dtype)]
    return pl.kernel(kernel, x, mesh=mesh(CORES), scratch_types=scratch)(x)


"""
MAPPED = """    x_ref, o_ref = jax.new_ref(x), jax.new_ref(jax.numpy.zeros_like(x))

    @pl.core_map(mesh(1))
    def _():
        pl.run_scoped(lambda buffer: kernel(x_ref, o_ref, buffer), scratch[0])

    return o_ref[...]
"""
PIPELINED = """    rows = pl.BlockSpec((bm, x.shape[1]), lambda i: (i, 0))

    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    def piped(x_ref, o_ref):
        steps = {"grid": (x.shape[0] // bm,), "in_specs": [rows], "out_specs": [rows]}
        pltpu.emit_pipeline(body, **steps)(x_ref, o_ref)

    return pl.kernel(piped, x, mesh=mesh(1))(x)
"""
DOUBLED = "buffer[...] * 2"
SORTED = "jax.numpy.sort(buffer[...], axis=0) * 0 + buffer[...] * 2"


def graded(
    repository: Repository,
    body: str = DOUBLED,
    cores: int = 1,
    end: str = "",
    key: str = Repository.KEY,
) -> Ran:
    """A kata whose launch is not the solution's but LAUNCH."""
    kata = repository.add("double", key=key)
    text = kata.solution.read_text()
    launch = LAUNCH.replace("NAME", "double").replace("BODY", body).replace("CORES", str(cores))
    if end:
        launch = f"{launch[: launch.index('    return pl.kernel')]}{end}\n\n"
    start, after = text.index("\n\ndef double(x"), text.index("def test_double")
    kata.path.write_text(f"{text[:start]}{launch}{text[after:]}")
    return repository.pytest()


def test_a_kernel_over_a_mesh_earns_its_stars(repository: Repository) -> None:
    ran = graded(repository)
    assert ran.state("double") == "passed", ran.out
    grade, *_ = ran.grades["double"]
    assert grade["cost"]["bytes"] == grade["cost"]["par_bytes"]
    assert grade["cost"]["cycles"] > 0


def test_a_core_map_is_a_kernel_like_any_other(repository: Repository) -> None:
    ran = graded(repository, end=MAPPED)
    assert ran.state("double") == "passed", ran.out
    assert {grade["stars"] for grade in ran.grades["double"]} == {3}


def test_a_pipeline_within_a_kernel_over_a_mesh(repository: Repository) -> None:
    ran = graded(repository, end=PIPELINED)
    assert ran.state("double") == "passed", ran.out
    for grade in ran.grades["double"]:
        assert grade["cost"]["bytes"] == grade["cost"]["par_bytes"]


def test_what_no_tpu_takes_is_refused(repository: Repository) -> None:
    ran = graded(repository, SORTED)
    assert ran.state("double") == "failed"
    assert ran.phrase("double") == "Mosaic cannot lower sort"


def test_two_cores_are_more_than_the_chip_has(repository: Repository) -> None:
    ran = graded(repository, cores=2)
    assert ran.phrase("double") == "asks for 2 TensorCores; a v5e has one"


def test_what_is_for_two_cores_is_judged_for_a_chip_that_has_them(repository: Repository) -> None:
    """The session's chip has one: a note says so, and the ledger names the chip."""
    whole_tiles = Repository.KEY.replace('"2*bm", "3*bm"', '"4*bm", "8*bm"')
    ran = graded(repository, cores=2, key=f"cores = 2\n{whole_tiles}")
    assert ran.state("double") == "passed", ran.out
    assert {grade["cost"]["chip"] for grade in ran.grades["double"]} == {"v5p"}
    assert ran.out.count("judged for a v5p: its kernel is for two TensorCores") == 1
    ledger = (repository.root / "katas/ledger.txt").read_text()
    assert "chip=v5p" in ledger


def test_a_wrong_result_is_told_as_such(repository: Repository) -> None:
    ran = graded(repository, "buffer[...] * 3")
    assert ran.state("double") == "failed"
    assert "off by the same factor" in ran.phrase("double")
