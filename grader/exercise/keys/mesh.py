"""The part of an answer key that says how many devices a launch is for."""

from __future__ import annotations

from collections.abc import Collection

from grader.exercise.keys.table import Table
from grader.model import Axes, devices_of

#: The devices of the smallest slice of each chip that libtpu compiles for.
MOST_DEVICES = 4
MESH = "mesh"


def mesh_of(source: Table, cases: Collection[str]) -> Axes:
    """[mesh]: the named axes, outermost first; () where there is no such table. Raises KeyProblem.

    The launch then has a keyword `mesh`, so none of the names of `cases` may be that.
    """
    table = source.data.get(MESH)
    if table is None:
        return ()
    if not isinstance(table, dict) or not table:
        raise source.fail(MESH, "needs a table of axes and their sizes, such as x = 4")
    for name, size in table.items():
        if not name.isidentifier():
            raise source.fail(f"{MESH}.{name}", "an axis needs the name of a Python variable")
        if type(size) is not int or size < 2:
            raise source.fail(f"{MESH}.{name}", f"needs 2 or more devices, not {size!r}")
    axes = tuple(table.items())
    if devices_of(axes) not in (2, MOST_DEVICES):
        count = devices_of(axes)
        raise source.fail(MESH, f"has {count} devices; 2 or {MOST_DEVICES} can be had")
    if MESH in cases:
        raise source.fail(f"cases.{MESH}", "is what the launch's mesh is called")
    for name in ("predictions", "tested", "random"):
        if name in source.data:
            raise source.fail(MESH, f"means nothing beside {name}")
    if source.data.get("kernel") is False:
        raise source.fail(MESH, "means nothing where there is no kernel")
    return axes
