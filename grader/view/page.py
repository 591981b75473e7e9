"""The page as one file: markup, style, scripts and the document, put together."""

from __future__ import annotations

import html
import json
from importlib.resources import files
from typing import Any

from grader.tools import codec
from grader.view.document import Document

#: In the order in which they use each other.
SCRIPTS = (
    "numbers",
    "words",
    "shapes",
    "arrays",
    "cards",
    "meters",
    "tables",
    "moments",
    "meeting",
    "timeline",
    "main",
)


def page(document: Document) -> str:
    """The whole page. It asks for nothing over a network."""
    parts = {
        "TITLE": html.escape(f"{document.name}: kata view"),
        "STYLE": _web("page.css"),
        "SCRIPT": "\n".join(_web(f"{name}.js") for name in SCRIPTS),
        "DOCUMENT": _json(codec.to_builtins(document)),
    }
    head, *rest = _web("page.html").split("{{")
    filled = (part.partition("}}") for part in rest)
    return head + "".join(parts[name] + after for name, _, after in filled)


def _web(name: str) -> str:
    return (files("grader.view") / "web" / name).read_text(encoding="utf-8")


def _json(value: Any) -> str:
    """JSON that may stand inside of <script>: nothing in it ends the element or opens a comment."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c")
