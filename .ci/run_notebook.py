"""Run docs/colab.ipynb from top to bottom in this environment, and check its outputs.

    PALLAS_KATAS_WHEEL=dist/NAME.whl python .ci/run_notebook.py docs/colab.ipynb

Needs nbclient and ipykernel. The notebook's first cells install the wheel and write its folder into
the current one. Exits with 1 if a cell raises, if a command fails, or if an output isn't the one
that a cell's tag asks for: tools/write_notebook.py has the tags.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

#: Tag -> the texts that the cell's output must have.
EXPECTED = {
    "expect-failed": ("0/1 solved", "☆☆☆ constant_add", "o_ref is read before it was written"),
    "expect-three-stars": ("1/1 solved", "★★★ constant_add"),
    "expect-predicted": ("on a TPU v5e, predicted", "HBM bytes"),
    "expect-page": ("right, ★★★", "<iframe srcdoc="),
}
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def tags(cell: Any) -> list[str]:
    return cell.metadata.get("tags", [])


def output(cell: Any) -> str:
    """Everything that a cell has printed or displayed, without colours."""
    parts = []
    for one in cell.outputs:
        parts.append(one.get("text", ""))
        parts += (str(value) for value in one.get("data", {}).values())
    return ESCAPES.sub("", "".join(parts))


def with_checks(cells: list[Any]) -> list[Any]:
    """The cells, and after each that runs a command another that looks at its exit code."""
    checked = []
    for cell in cells:
        checked.append(cell)
        if cell.cell_type == "code" and re.search(r"^!", cell.source, re.MULTILINE):
            wanted = int("expect-failed" in tags(cell))
            source = f"assert _exit_code == {wanted}, f'a command has exited with {{_exit_code}}'"
            checked.append(nbformat.v4.new_code_cell(source))
    return checked


def main(file: str) -> int:
    start = time.monotonic()
    notebook = nbformat.read(file, as_version=4)
    own = notebook.cells
    notebook.cells = with_checks(own)
    found = [tag for cell in own for tag in tags(cell)]
    problems = [f"no cell has the tag {tag}" for tag in EXPECTED if tag not in found]
    try:
        NotebookClient(
            notebook, timeout=600, resources={"metadata": {"path": Path.cwd()}}
        ).execute()
    except CellExecutionError as error:
        problems.append(f"a cell has failed\n{error}")
    for cell in own:
        for tag in tags(cell):
            said = output(cell)
            missing = [text for text in EXPECTED[tag] if text not in said]
            if missing:
                problems.append(f"{tag}: not in the output: {missing}\n{said[-3000:]}")
    if problems:
        said = "\n".join(output(cell) for cell in own if cell.cell_type == "code")
        print(said[-5000:], *problems, sep="\n", file=sys.stderr)
        return 1
    print(f"{file}: {len(own)} cells in {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
