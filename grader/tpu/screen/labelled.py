"""Messages with labelled paragraphs, laid out anew for another width."""

from __future__ import annotations

import re

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

_LABEL = re.compile(r" {2}(\w+) {1,6}(?=\S)")
_UNDER = 9  # columns that a paragraph's further lines are indented by


def labelled(message: str, style: str = "") -> RenderableType:
    """A message whose paragraphs stand beside their labels, as findings have them.

    The first lines, up to the first label, are in `style`. Lines that are indented further than
    their paragraph, such as code, are not joined.
    """
    head: list[str] = []
    parts: list[tuple[str, list[str]]] = []
    for line in message.splitlines():
        if found := _LABEL.match(line):
            parts.append((found[1], [line[found.end() :]]))
        elif not parts:
            head.append(line)
        elif line[: _UNDER + 1].strip():
            parts[-1][1][-1] += f" {line.strip()}"
        else:
            parts[-1][1].append(line[_UNDER:])
    shown: list[RenderableType] = [Text("\n".join(head), style)]
    if parts:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(style="dim", no_wrap=True)
        table.add_column()
        for label, lines in parts:
            table.add_row(f"  {label}", Text("\n".join(lines)))
        shown.append(table)
    return Group(*shown)
