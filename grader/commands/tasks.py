"""`kata tasks`: prompts for models, one a line."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console

from grader.batch.tasks import task
from grader.commands.arguments import some_katas
from grader.exercise.repository import matching
from grader.tools.rendering import say
from grader.tpu.chips import CHIPS, DEFAULT


def arguments(parser: argparse.ArgumentParser) -> None:
    some_katas(parser)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="write the tasks there, as JSONL"
    )
    parser.add_argument(
        "--chip", choices=CHIPS, default=DEFAULT, help="the TPU to name (default: %(default)s)"
    )


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    chosen = matching(root, options.name)
    lines = [json.dumps(task(kata, options.chip), ensure_ascii=False) for kata in chosen]
    options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    say(console, f"wrote {len(lines)} tasks to {options.out}")
    return 0
