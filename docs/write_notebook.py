"""Write docs/colab.ipynb, in which the first kata is a cell: for those without a machine.

    python docs/write_notebook.py [--check]

The kata's text in the notebook is the stub's; with --check nothing is written, and the exit code is
1 where they differ.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from grader.exercise.catalog import Kata, katas

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "docs" / "colab.ipynb"

INTRODUCTION = """# Pallas Katas, without a machine of your own

Learn to write TPU kernels in Pallas, graded by the TPU's own compiler. Nothing here needs a TPU
or a GPU: Colab's plain CPU runtime will do (*Runtime → Change runtime type → CPU*).

Run the cells from the top. What you write lives in this session's disk and ends with it, unless
you keep it in your Drive."""

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

SETUP_TEXT = """## Set up, once a session

`REPOSITORY` is where you found this notebook, or better your own fork of it. Installing takes a
minute or two."""

FIRST = """## The first kata

Read it, write the kernel between `# BEGIN SOLUTION` and `# END SOLUTION`, run the cell: that
saves the file. Running it as it is starts that kata over."""

GRADE_FIRST = "!python -m pytest -q -k {name}"

STUCK = """Stuck? One hint, and one level more each time:"""

HINT_FIRST = "!kata hint {name}"

OTHERS = """## Every other kata

Name it, and it opens in an editor beside this notebook, where it is saved as you type. `kata
next` names the one to turn to."""

LIST = "!kata next"

OPEN = """from pathlib import Path

from google.colab import files

NAME = "tiled_vector_add"  # @param {type:"string"}

(file,) = Path("katas").glob(f"*/kata_*_{NAME}.py")
files.view(str(file))"""

GRADE = "!python -m pytest -q -k {NAME}"

HINT = "!kata hint {NAME}"

LOOK = """## Look at a kernel

What it takes on a TPU, and its grid step by step: which blocks are in VMEM, what moves, what it
costs."""

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
        _code(f"%%writefile {file}\n{first.shipped()}"),
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
            print(f"{NOTEBOOK.relative_to(ROOT)} differs: python docs/write_notebook.py")
        return 0 if same else 1
    NOTEBOOK.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
