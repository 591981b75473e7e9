"""Bytes that are no carried trace: SerializationError, whatever they are."""

from __future__ import annotations

import dataclasses
import functools
import gc
import json
import random
from typing import Any

import jax
import pytest
from jax.experimental.pallas import tpu as pltpu

from pallascope.kernels.serialization import (
    SerializationError,
    dumped,
    encoding,
    loaded,
)
from pallascope.kernels.serialization.wire_format import BYTES, TRACEBACK
from tests.pallascope.support.sample_traces import NESTED, X, by_pipeline, traced
from tests.pallascope.support.tpu_kernels import launches

HEAD = len(b"pallas trace 1\n") + 8
Document = dict[str, Any]


@functools.cache
def carried(name: str) -> bytes:
    table = {**{name: lambda f=f: (f, [X]) for name, f in NESTED.items()}, **launches()}
    function, args = table[name]()
    return dumped(traced(function, *args))


def parted(data: bytes) -> tuple[Document, bytes]:
    end = HEAD + int.from_bytes(data[HEAD - 8 : HEAD], "big")
    return json.loads(data[HEAD:end]), data[end:]


def joined(document: Document, blobs: bytes = b"") -> bytes:
    text = json.dumps(document).encode()
    return b"pallas trace 1\n" + len(text).to_bytes(8, "big") + text + blobs


def document(*nodes: Any, forms: tuple[str, ...] = (), **more: Any) -> bytes:
    """Bytes by hand; the last node is the trace."""
    made = {
        "jax": jax.__version__,
        "forms": list(forms),
        "frames": [],
        "stacks": [],
        "nodes": list(nodes),
        "blobs": [],
        "root": len(nodes) - 1,
    }
    return joined({**made, **more})


STRANGE = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63), 2**64, 10**30, 1e308, float("nan")),
    *("", "x", "float32", "tuple", "\ud800", [], [0], [TRACEBACK, 0], [BYTES, 0], [-3, 0], {}),
)


def broken(rng: random.Random, data: bytes) -> bytes:
    """Some bits turned, cut off, or a document of which a few nodes are others."""
    way = rng.random()
    if way < 0.1:
        changed = bytearray(data)
        for _ in range(rng.randrange(1, 5)):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        return bytes(changed)
    if way < 0.15:
        return data[: rng.randrange(len(data))]
    if way < 0.2:
        return data + rng.randbytes(5)
    whole, blobs = parted(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        change(rng, whole)
    return joined(whole, blobs)


def change(rng: random.Random, whole: Document) -> None:
    if rng.random() < 0.1:
        part = rng.choice(["forms", "frames", "stacks", "blobs", "root", "jax", "nodes"])
        if isinstance(whole[part], list) and whole[part] and part != "nodes":
            whole[part][rng.randrange(len(whole[part]))] = rng.choice(STRANGE)
        elif part != "nodes":
            whole[part] = rng.choice(STRANGE)
        return
    nodes = whole["nodes"]
    number = rng.randrange(len(nodes))
    node, before = nodes[number], max(number, 1)
    if type(node) is not list or not node or rng.random() < 0.15:
        nodes[number] = rng.choice(STRANGE)
        return
    at = rng.randrange(len(node))
    match rng.randrange(5):
        case 0:
            node[at] = rng.randrange(-2, before + 2)
        case 1:
            node.insert(at + 1, rng.randrange(before))
        case 2:
            node.pop(at)
        case 3:
            node[0] = rng.randrange(64)
        case 4:
            rng.shuffle(node)


def is_refused(data: bytes) -> bool:
    """Whether bytes are no trace; an exception of any other class is passed on."""
    try:
        return not hasattr(loaded(data), "jaxpr")
    except SerializationError:
        return True


@pytest.mark.parametrize(
    ("name", "times"),
    [("pallas_call", 600), ("pl.kernel", 400), ("matmul", 400), ("emit_pipeline", 100)],
)
def test_broken_in_all_ways(name: str, times: int) -> None:
    data, rng = carried(name), random.Random(name)
    refused = sum(is_refused(broken(rng, data)) for _ in range(times))
    assert refused > times / 2


FORMS = ("tuple", "Var", "primitive", "left behind", "tree", "array", "dtype")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"pallas trace 1\n",
        b"pallas trace 1\n" + b"\xff" * 8,
        document(),
        document(7),
        document([0], forms=("tuple",)),
        document([0, 0], forms=("tuple",)),
        document([0], forms=("os.system",)),
        document("os", "system", [0, 0, 1], forms=("primitive",)),
        document("jax._src.core", "eval_jaxpr", [0, 0, 1], forms=("primitive",)),
        document("jax._src.hijax", "HiPrim", None, [0, 0, 1, 2], forms=("hijax.HiPrim",)),
        document("posix.system", None, [0, 0, 1], forms=("left behind",)),
        document([TRACEBACK, 0]),
        document([BYTES, 0]),
        document([TRACEBACK]),
        document(0, stacks=[[0] * 99], frames=[["f", "g", 1, 1, 1, 1]]),
        document(0, stacks=[[0]], frames=[["f", "g", 1 << 40, 1, 1, 1]]),
        document(0, stacks=[[0]], frames=[[7, "g", 1, 1, 1, 1]]),
        document(0, blobs=[1 << 60]),
        document(0, blobs=[-1, 1]),
        document(10**25),
        document(0, jax="0.4.1"),
        b"pallas trace 1\n" + (4).to_bytes(8, "big") + b"1e9999",
        joined({"nodes": [[[[[[]]]]]]}),
        b"pallas trace 1\n" + (200_000).to_bytes(8, "big") + b"[" * 200_000,
    ],
    ids=range(25),
)
def test_made_by_hand(data: bytes) -> None:
    with pytest.raises(SerializationError):
        loaded(data)


def test_too_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    data = carried("pallas_call")
    monkeypatch.setattr("pallascope.kernels.serialization.load.MOST_BYTES", len(data) - 1)
    with pytest.raises(SerializationError, match="too many"):
        loaded(data)


def test_objects_in_objects_without_end() -> None:
    deep = [[0, number] for number in range(encoding.MOST_LEVELS + 10)]
    with pytest.raises(SerializationError, match="without end"):
        loaded(document(0, *deep, forms=("tuple",)))
    wide = [[0, number, number] for number in range(64)]
    with pytest.raises(SerializationError, match="without end"):
        loaded(document(0, *wide, forms=("frozenset",)))


def test_a_leaf_with_children() -> None:
    """Reading such a tree, jaxlib would look for what is not there."""
    leaf = ["default_registry", None, "None", [0, 0, 1, 1]]
    with pytest.raises(SerializationError, match="a leaf has no children"):
        loaded(document(*leaf, [0, 0, 2, 1, 3], forms=("tree",)))
    with pytest.raises(SerializationError, match="a leaf has no children"):
        loaded(document(*leaf, [0, 0, 1, 1, 3], forms=("tree",)))


@pytest.mark.parametrize("size", [-1, 3, 2**40])
def test_an_array_of_another_size(size: int) -> None:
    made = document(
        *("float32", [0, 0], size, [1, 2], [BYTES, 0], [2, 1, 3, 4]),
        forms=("dtype", "tuple", "array"),
        blobs=[4],
    )
    with pytest.raises(SerializationError):
        loaded(made + b"1234")


def test_a_print_that_peeks_is_not_read_either() -> None:
    def launch(x: Any) -> Any:
        jax.debug.print("{x}", x=x)
        return x

    whole, blobs = parted(dumped(traced(launch, X)))
    whole["nodes"] = ["{x.data}" if node == "{x}" else node for node in whole["nodes"]]
    with pytest.raises(SerializationError, match="looks into its values"):
        loaded(joined(whole, blobs))


def test_flags_are_not_read_either() -> None:
    whole, _ = parted(carried("asking"))
    form = whole["forms"].index("pallas.mosaic.core.CompilerParams")
    at = [field.name for field in dataclasses.fields(pltpu.CompilerParams)].index("flags")
    (params,) = (node for node in whole["nodes"] if type(node) is list and node[0] == form)
    params[1 + at] = next(number for number, node in enumerate(whole["nodes"]) if node is True)
    with pytest.raises(SerializationError, match="flags for the compiler"):
        loaded(joined(whole))


def test_garbage_is_collected_afterwards() -> None:
    assert gc.isenabled()
    loaded(carried("pallas_call"))
    assert gc.isenabled()
    with pytest.raises(SerializationError):
        loaded(b"")
    assert gc.isenabled()


def test_the_same_again_from_what_was_read() -> None:
    """Less, at first: what was equal in tracing is one object after reading."""
    data = dumped(traced(by_pipeline, X))
    again = dumped(loaded(data))
    once_more = dumped(loaded(again))
    assert len(once_more) == len(again) <= len(data)
    assert str(loaded(once_more)) == str(loaded(data))
