"""`kata view`: writes the picture of a launch, and opens it where there is a screen."""

from __future__ import annotations

import argparse
import os
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from grader.commands.launches import launch_arguments, named_launch, output_option, written
from grader.exercise import repository
from grader.tools.rendering import say
from grader.view.gather import gather
from grader.view.page import page

ENDING = ".view.html"


def arguments(parser: argparse.ArgumentParser) -> None:
    launch_arguments(parser, case=0)
    output_option(parser, ENDING)
    parser.add_argument(
        "--no-open", action="store_true", help="write the file without opening a browser"
    )


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.one(root, options.name)
    with named_launch(options, kata) as (asking, case):
        document = gather(asking, kata, case, drawn=not options.sizes)
    file = written(options, f"{kata.name}{ENDING}", page(document))
    whose = "the solution's launch, since yours is still to do"
    told = whose if document.whose == "par" else "your launch"
    verdict = "" if document.whose == "par" else f": {document.verdict.words}"
    say(console, f"wrote {file}: {told}{verdict}")
    address = file.resolve().as_uri()
    why = "" if options.no_open else screenless(os.environ, sys.platform)
    if options.no_open or why or not webbrowser.open(address):
        where = why or "open it in a browser"
        say(console, f"{where}: {address}")
    else:
        say(console, f"opened {address}")
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
