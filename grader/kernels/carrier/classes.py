"""The classes of JAX and Pallas that are taken apart attribute by attribute."""

from __future__ import annotations

from collections.abc import Iterator

from grader.kernels.carrier.forms import Form, filled, member, row
from grader.kernels.jax_internals import DATACLASSES, ENUMS, NAMED_TUPLES, SLOTTED, found


def forms() -> Iterator[Form]:
    """The forms of these classes, as far as this JAX has them."""
    for make, table in ((member, ENUMS), (row, NAMED_TUPLES), (filled, DATACLASSES)):
        yield from map(make, found(table))
    yield from slotted(SLOTTED)


def slotted(table: dict[str, dict[str, tuple[str, ...]]]) -> Iterator[Form]:
    """The forms of classes whose attributes a table names, as far as this JAX has them."""
    for module, attributes in table.items():
        for name, names in attributes.items():
            yield from (filled(kind, names) for kind in found({module: name}))
