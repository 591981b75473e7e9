"""The command `kata view`: writes the page, and opens it where there is a screen."""

from __future__ import annotations

import argparse
import os
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from grader import repository, studies
from grader.costs import Add, add_launch_options
from grader.tpu.asking import assignments
from grader.view.gather import gather
from grader.view.page import page


def add_commands(add: Add) -> None:
    """Add the command by `add`, which takes a name, what it runs, and what it does in a line."""
    view = add("view", _view, "a picture of a launch, step by step, for a browser")
    add_launch_options(view)
    view.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="where to write it; a file that is there is replaced (default: NAME.view.html)",
    )
    view.add_argument("--no-open", action="store_true", help="write the file, open no browser")


def _view(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.one(root, options.name)
    given = assignments(options.sizes)
    case = studies.case_of(kata, options.case, options.seed, given)
    with studies.studio(options.chip) as grader:
        document = gather(grader, kata, case, options.chip, drawn=not given)
    file = options.output or Path(f"{kata.name}.view.html")
    file.write_text(page(document), encoding="utf-8")
    whose = "the solution's launch, since yours is still to do"
    told = whose if document.whose == "par" else "your launch"
    verdict = "" if document.whose == "par" else f": {document.verdict.words}"
    console.print(f"wrote {file}: {told}{verdict}", markup=False, soft_wrap=True)
    address = file.resolve().as_uri()
    why = "" if options.no_open else screenless(os.environ, sys.platform)
    if options.no_open or why or not webbrowser.open(address):
        where = why or "open it in a browser"
        console.print(f"{where}: {address}", markup=False, soft_wrap=True)
    else:
        console.print(f"opened {address}", markup=False, soft_wrap=True)
    return 0


def screenless(environ: Mapping[str, str], platform: str) -> str:
    """Why no browser is opened here; nothing where one may be."""
    if environ.get("BROWSER"):
        return ""
    if environ.get("SSH_CONNECTION"):
        return "this is a remote shell; copy the file to where a browser is"
    if platform == "linux" and not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        return "no display here; open it where a browser is"
    return ""
