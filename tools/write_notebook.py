"""Write docs/colab.ipynb: the katas in Google Colab, with the first one as a cell.

    python tools/write_notebook.py [--check]

The notebook grades the first kata with a wrong kernel and with a right one. With --check nothing is
written, and the exit code is 1 if the notebook differs from what would be written.

`.ci/run_notebook.py` runs it. The cells' tags tell it which output to expect; see `Tag`.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Any

from grader.exercise.catalog import Kata, katas

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "docs" / "colab.ipynb"
BRANCH = "main"
#: The body of the first kernel. The wrong one reads memory that nothing has written.
WRONG = "o_ref[...] = o_ref[...] + 10"
RIGHT = "o_ref[...] = x_ref[...] + 10"
_REGION = re.compile(r"(# BEGIN SOLUTION\n).*?(\n +# END SOLUTION)", re.DOTALL)


class Tag(StrEnum):
    """The result that a cell must have."""

    FAILED = "expect-failed"
    THREE_STARS = "expect-three-stars"
    PREDICTED = "expect-predicted"
    PAGE = "expect-page"


INTRODUCTION = """# Pallas Katas

Learn to write TPU kernels in Pallas. The TPU's own compiler grades them. You don't need a TPU or a
GPU: Colab's CPU runtime is enough (*Runtime → Change runtime type → CPU*).

Run the cells from top to bottom. [The README]({address}#verdicts) explains the verdicts."""

SETUP_TEXT = """## Set up

This installs the newest release, and `kata init` writes the katas into a folder. It takes a minute
or two. In Colab, run it once in each session: your code is deleted when the session ends, unless
you keep it in your Drive."""

SETUP = """import os

KEEP_IN_DRIVE = False  # @param {type:"boolean"}

START = globals().get("START", os.getcwd())  # so that you can run this cell again
FOLDER = f"{START}/my-katas"
if KEEP_IN_DRIVE:
    try:
        from google.colab import drive
    except ImportError:
        print("This isn't Colab, so the katas are kept here:", FOLDER)
    else:
        drive.mount("/content/drive")
        FOLDER = "/content/drive/MyDrive/my-katas"
# The variable names a wheel to install instead of the newest release.
PACKAGE = os.environ.get("PALLAS_KATAS_WHEEL", "pallas-katas")
%pip install -q '{PACKAGE}[tpu]'
!test -d '{FOLDER}/katas' || kata init '{FOLDER}'
%cd {FOLDER}"""

FIRST = """## A wrong kernel

This is the first kata. Its kernel, between `# BEGIN SOLUTION` and `# END SOLUTION`, has a mistake.
The first cell saves the file, and the second one grades it."""

GRADE = "!pytest -q -k {name}"

REPAIR_TEXT = """## A right kernel

The kernel read `o_ref` before anything was written to it, and such memory contains NaN here. It has
to read `x_ref`. Run these cells, and the kernel gets three stars: it is correct, a TPU would accept
it, and it is as fast as the reference solution."""

REPAIR = """from pathlib import Path

kata = Path("{file}")
text = kata.read_text(encoding="utf-8")
text = text.replace("{wrong}", "{right}")
kata.write_text(text, encoding="utf-8")"""

LOOK = """## Look at a kernel

The first cell predicts how long the kernel takes on a TPU. The second one shows its launch step by
step: which blocks are in VMEM, what is copied, and how many bytes."""

COST = "!kata cost {name}"

VIEW = """!kata view {name} --no-open -o view.html

import html

from IPython.display import HTML

page = html.escape(Path("view.html").read_text(encoding="utf-8"))
HTML(f'<iframe srcdoc="{{page}}" width="100%" height="900" style="border:0"></iframe>')"""

OTHERS = """## Your turn

`kata next` shows which kata comes next. Enter its name below to open it in an editor next to this
notebook. The editor saves it while you type."""

LIST = "!kata next"

OPEN = """NAME = "{name}"  # @param {{type:"string"}}

(file,) = Path("katas").glob(f"*/kata_*_{{NAME}}.py")
try:
    from google.colab import files
except ImportError:
    print("Open this file in your editor:", file)
else:
    files.view(str(file))"""

STUCK = """Grade it as often as you like. If you are stuck, ask for a hint. Each time you ask, it
says more."""

HINT = "!kata hint {name}"


def repository_address() -> str:
    """The address of the repository, from pyproject.toml: that of the metadata may be older."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["project"]["urls"]["Repository"]


def colab_address() -> str:
    """The address that opens the notebook in Colab."""
    path = repository_address().removeprefix("https://github.com/")
    notebook = NOTEBOOK.relative_to(ROOT).as_posix()
    return f"https://colab.research.google.com/github/{path}/blob/{BRANCH}/{notebook}"


def with_body(stub: str, body: str) -> str:
    """The text of a stub whose first region contains `body`, a single line."""
    return _REGION.sub(lambda found: f"{found[1]}    {body}{found[2]}", stub, count=1)


def cells(first: Kata, second: Kata) -> list[dict[str, Any]]:
    """The notebook's cells. It shows the first kata, and the learner goes on with the second."""
    name = first.name
    file = first.path.relative_to(first.root).as_posix()
    return [
        _text(INTRODUCTION.format(address=repository_address())),
        _text(SETUP_TEXT),
        _code(SETUP, hidden=True),
        _text(FIRST),
        _code(f"%%writefile {file}\n{with_body(first.stub_text(), WRONG)}"),
        _code(GRADE.format(name=name), Tag.FAILED),
        _text(REPAIR_TEXT),
        _code(REPAIR.format(file=file, wrong=WRONG, right=RIGHT)),
        _code(GRADE.format(name=name), Tag.THREE_STARS),
        _text(LOOK),
        _code(COST.format(name=name), Tag.PREDICTED),
        _code(VIEW.format(name=name), Tag.PAGE, hidden=True),
        _text(OTHERS),
        _code(LIST),
        _code(OPEN.format(name=second.name), hidden=True),
        _text(STUCK),
        _code(GRADE.format(name="{NAME}")),
        _code(HINT.format(name="{NAME}")),
    ]


def _text(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": _lines(source)}


def _code(source: str, tag: Tag | None = None, hidden: bool = False) -> dict[str, Any]:
    metadata: dict[str, Any] = {"cellView": "form"} if hidden else {}
    if tag:
        metadata["tags"] = [tag.value]
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
    listed = [{**cell, "id": f"cell-{n}"} for n, cell in enumerate(cells(*katas(root)[:2]))]
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
