"""Write docs/colab.ipynb: the katas in Google Colab, with the first one as a cell.

    python tools/write_notebook.py [--check]

The first kata's cell holds its stub. With --check nothing is written, and the exit code is 1 if the
notebook differs from what would be written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from grader.exercise.catalog import Kata, katas

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "docs" / "colab.ipynb"

INTRODUCTION = """# Pallas Katas in Google Colab

Learn to write TPU kernels in Pallas. The TPU's own compiler grades them. You don't need a TPU or a
GPU: Colab's CPU runtime is enough (*Runtime → Change runtime type → CPU*).

Run the cells from top to bottom. What you write is on the disk of this session and is deleted when
the session ends, unless you keep it in your Drive."""

SETUP = """REPOSITORY = "https://github.com/OWNER/pallas-katas"  # @param {type:"string"}
KEEP_IN_DRIVE = False  # @param {type:"boolean"}

FOLDER = "/content/pallas-katas"
if KEEP_IN_DRIVE:
    from google.colab import drive

    drive.mount("/content/drive")
    FOLDER = "/content/drive/MyDrive/pallas-katas"
!test -d {FOLDER} || git clone -q {REPOSITORY} {FOLDER}
%cd {FOLDER}
!python -m pip install -q -e '.[tpu]'"""

SETUP_TEXT = """## Set up

Run this once in each session. `REPOSITORY` is the repository that contains this notebook, or your
own fork of it. Installing takes a minute or two."""

FIRST = """## The first kata

Read the kata and write the kernel between `# BEGIN SOLUTION` and `# END SOLUTION`. Then run the
cell, which saves the file. If you run the cell unchanged, the kata is as it was at the start."""

GRADE_FIRST = "!python -m pytest -q -k {name}"

STUCK = """If you are stuck, ask for a hint. Each time you ask, it says more:"""

HINT_FIRST = "!kata hint {name}"

OTHERS = """## The other katas

`kata next` shows which kata comes next. Enter its name below to open it in an editor next to this
notebook. The editor saves it while you type."""

LIST = "!kata next"

OPEN = """from pathlib import Path

from google.colab import files

NAME = "tiled_vector_add"  # @param {type:"string"}

(file,) = Path("katas").glob(f"*/kata_*_{NAME}.py")
files.view(str(file))"""

GRADE = "!python -m pytest -q -k {NAME}"

HINT = "!kata hint {NAME}"

LOOK = """## Look at a kernel

The first cell predicts how long the kernel takes on a TPU. The second one shows its grid step by
step: which blocks are in VMEM, what is copied, and how many bytes."""

COST = "!kata cost {NAME}"

VIEW = """!kata view {NAME} --no-open -o view.html

import html

from IPython.display import HTML

page = html.escape(Path("view.html").read_text(encoding="utf-8"))
HTML(f'<iframe srcdoc="{page}" width="100%" height="900" style="border:0"></iframe>')"""


def cells(first: Kata) -> list[dict[str, Any]]:
    """The notebook's cells, the stub of `first` among them."""
    name = first.name
    file = first.path.relative_to(first.root).as_posix()
    return [
        _text(INTRODUCTION),
        _text(SETUP_TEXT),
        _code(SETUP, hidden=True),
        _text(FIRST),
        _code(f"%%writefile {file}\n{first.stub_text()}"),
        _code(GRADE_FIRST.format(name=name)),
        _text(STUCK),
        _code(HINT_FIRST.format(name=name)),
        _text(OTHERS),
        _code(LIST),
        _code(OPEN, hidden=True),
        _code(GRADE),
        _code(HINT),
        _text(LOOK),
        _code(COST),
        _code(VIEW, hidden=True),
    ]


def _text(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": _lines(source)}


def _code(source: str, hidden: bool = False) -> dict[str, Any]:
    metadata = {"cellView": "form"} if hidden else {}
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": metadata,
        "outputs": [],
        "source": _lines(source),
    }


def _lines(source: str) -> list[str]:
    return source.rstrip("\n").splitlines(keepends=True)


def notebook(root: Path) -> str:
    """The notebook's file."""
    listed = [{**cell, "id": f"cell-{n}"} for n, cell in enumerate(cells(katas(root)[0]))]
    content = {
        "cells": listed,
        "metadata": {
            "colab": {"name": "Pallas Katas", "provenance": []},
            "kernelspec": {"display_name": "Python 3", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def main(check: bool) -> int:
    text = notebook(ROOT)
    if check:
        same = NOTEBOOK.exists() and NOTEBOOK.read_text(encoding="utf-8") == text
        if not same:
            print(f"{NOTEBOOK.relative_to(ROOT)} differs: python tools/write_notebook.py")
        return 0 if same else 1
    NOTEBOOK.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
