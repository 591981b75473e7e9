"""Writes HTML pages of tables, all text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from pallascope.tools.text import printable

_STYLE = """\
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1, h2 { line-height: 1.2; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 0 0 1.5rem; }
caption { text-align: left; padding: 0 0 .4rem; opacity: .75; }
th, td { border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent);
  padding: .2rem .6rem; text-align: left; vertical-align: top; }
thead th { border-bottom-width: 2px; }
td.number { text-align: right; }
td.mark { text-align: center; padding: .2rem .25rem; }
td.good { background: color-mix(in srgb, #2a9d4a 30%, transparent); }
td.fair { background: color-mix(in srgb, #d9a400 30%, transparent); }
td.bad { background: color-mix(in srgb, #d0342c 30%, transparent); }
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table. `kind` is a CSS class: number, mark, good, fair, bad."""

    text: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class HtmlTable:
    """A table under a heading. The first cell of each row is the row's heading."""

    title: str
    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell | str]]


def page(title: str, introduction: Iterable[str], tables: Iterable[HtmlTable]) -> str:
    """A whole page: a title, a paragraph for each text in `introduction`, and the tables."""
    paragraphs = "\n".join(f"<p>{escape(text)}</p>" for text in introduction)
    return printable(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{paragraphs}\n"
        + "\n".join(map(_table, tables))
        + "\n</body>\n</html>\n"
    )


def _table(table: HtmlTable) -> str:
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in table.headings)
    body = "\n".join(f"<tr>{_row(row)}</tr>" for row in table.rows)
    return (
        f'<h2>{escape(table.title)}</h2>\n<div class="wide">\n<table>\n'
        f"<caption>{escape(table.caption)}</caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )


def _row(cells: Sequence[Cell | str]) -> str:
    first, *others = (cell if isinstance(cell, Cell) else Cell(cell) for cell in cells)
    return f'<th scope="row">{escape(first.text)}</th>' + "".join(map(_cell, others))


def _cell(cell: Cell) -> str:
    kind = f' class="{escape(cell.kind)}"' if cell.kind else ""
    return f"<td{kind}>{escape(cell.text)}</td>"
