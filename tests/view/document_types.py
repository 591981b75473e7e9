"""Writes grader/view/web/document.d.ts, the types of the page's document for its scripts:

python -m tests.view.document_types
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from pathlib import Path
from typing import Any

from grader.view import document

FILE = Path(document.__file__).parent / "web" / "document.d.ts"
HEAD = """\
// What document.py gives the page, as JSON has it. Written by: python -m tests.view.document_types

declare namespace View {
"""
NAMES = {int: "number", float: "number", str: "string", bool: "boolean", types.NoneType: "null"}


def text() -> str:
    """The whole file."""
    classes = [
        value
        for value in vars(document).values()
        if inspect.isclass(value) and value.__module__ == document.__name__
    ]
    return HEAD + "\n\n".join(map(_interface, classes)) + "\n}\n"


def _interface(kind: type[Any]) -> str:
    fields = typing.get_type_hints(kind)
    lines = (
        f"    {field.name}: {_type(fields[field.name])};" for field in dataclasses.fields(kind)
    )
    return "\n".join((f"  interface {kind.__name__} {{", *lines, "  }"))


def _type(kind: Any) -> str:
    if kind in NAMES:
        return NAMES[kind]
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is tuple:
        item, rest = arguments
        assert rest is Ellipsis
        return f"{_type(item)}[]" if len(typing.get_args(item)) < 2 else f"({_type(item)})[]"
    if arguments:
        return " | ".join(map(_type, arguments))
    return kind.__name__


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
