"""The format strings of debug prints: text for Python's `format`, which can look into objects."""

from __future__ import annotations

import string

_PRINT = "debug_print"


def peeks(primitive: str, params: dict[str, object]) -> bool:
    """Whether an equation prints more than its values: `{x.base}`, `{x[0]}`.

    Attributes of a value lead to the modules of the process that prints. Raises ValueError where
    the text is no format string.
    """
    return primitive == _PRINT and bool(params.get("has_placeholders")) and _peeks(params["fmt"])


def _peeks(text: object) -> bool:
    if type(text) is not str:
        raise ValueError("a debug print has a text")
    fields = [
        (name, spec) for _, name, spec, _ in string.Formatter().parse(text) if name is not None
    ]
    return any("." in name or "[" in name or _peeks(spec or "") for name, spec in fields)
