"""Write every picture and every quoted output of the docs and READMEs, or only compare them.

    python tools/generate.py [--check] [WORD …]     all, or those whose page or command has a WORD

A quoted output is a fenced block under a comment with its command:

    <!-- output: kata cost right_and_slow | lines 1-9, 14 -->
    <!-- output: pytest -k tiled_matmul --kata-seed 7 | with never clears | lines 5-12 -->
    <!-- output of the code above -->

`with` chooses a known mistake of that kata by words of its title, which stands in the kata
meanwhile; `with class` is a folder of students' clones, and `with files above` the files that the
page gives further up, each under a comment <!-- file: PATH -->. Each command runs in a copy of the
repository whose katas are stubs otherwise. Seconds, and the clocks of a race, are not compared.
Predicted times, and shares of them, are compared with the libtpu that docs/roofline.json names,
and only their places with another one. With --check nothing is written, and the exit code is 1 if
anything differs.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import difflib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import roofline_data

from grader.exercise.catalog import SOLUTIONS, Kata, katas
from grader.record.ledger import LEDGER, Pass
from grader.tools.git import blob_id
from pallascope.tools.versions import versions

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 100
#: Scripts that draw or write one thing each, and compare it with --check.
SCRIPTS = (
    *("draw_basics", "draw_fusion", "draw_attention", "draw_grouped_matmul", "draw_numerics"),
    *("draw_pipelines", "draw_serving", "draw_many_cores"),
    *("draw_roofline", "draw_accuracy", "draw_terminal", "write_notebook", "sweep_blocks"),
    *("cost_of_operations", "cost_of_a_batch", "shipped_kernels"),
)
#: These take screenshots, which differ from browser to browser: they are only written.
SCREENSHOTS = ("draw_view",)

#: The packages, and the fixture `pallas`.
PYTHONPATH = os.pathsep.join((str(ROOT), str(ROOT / "integrations" / "pytest")))
CLASS, FILES = "class", "files above"
MARK = re.compile(
    r"^<!-- output(?:: (?P<command>[^|]+?)(?: \| with (?P<scene>[^|]+?))?"
    r"(?: \| lines (?P<lines>[\d, -]+?))?| of the code above) -->\n```\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
FILE = re.compile(
    r"^<!-- file: (?P<path>\S+) -->\n```\w+\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)
CODE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: What differs from run to run, and what from libtpu to libtpu.
RUN = re.compile(r"(?<=in )\d+\.\d+s|(?<=clock: )\[.*\]|(?<=from 0, )\d(?=, pallas_call)")
COMPILED = re.compile(r"\d[\d.,]*(?= ?(?:ns|µs|ms|%|×))| *█+|\d{1,3}(?:,\d{3})+")


@dataclass(frozen=True, slots=True)
class Quote:
    """A quoted output: its command ("" for the code above it), where that runs, which lines of what
    it prints are shown (all, if there are none), and what is shown today."""

    page: Path
    command: str
    scene: str
    lines: tuple[range, ...]
    text: str
    begin: int  # of the text, in the page

    def cut(self, output: str) -> str:
        """The chosen lines of an output, with "…" for those left out between them."""
        lines = [line.rstrip() for line in output.strip("\n").splitlines()]
        chosen = self.lines or (range(1, len(lines) + 1),)
        parts = ["\n".join(lines[part.start - 1 : part.stop - 1]) for part in chosen]
        return "\n…\n".join(parts) + "\n"


def quotes(page: Path) -> list[Quote]:
    """The quoted outputs of a page, in order."""
    return [
        Quote(
            page,
            found["command"] or "",
            found["scene"] or "",
            tuple(_range(part) for part in (found["lines"] or "").split(",") if part),
            found["text"],
            found.start("text"),
        )
        for found in MARK.finditer(page.read_text(encoding="utf-8"))
    ]


def _range(words: str) -> range:
    first, dash, last = words.strip().partition("-")
    return range(int(first), int(last or (10_000 if dash else first)) + 1)


def pages() -> list[Path]:
    """Every page of the course that may quote an output."""
    return sorted(
        file
        for pattern in ("*.md", "docs/*.md", "docs/site/parts/*.md", "katas/**/*.md")
        for file in ROOT.glob(pattern)
    )


# ---- what a command prints ----


@contextlib.contextmanager
def workplace(quote: Quote) -> Iterator[Path]:
    """A copy of the repository with stubs, and what `with` puts there."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch)
        for folder in (SOLUTIONS, "integrations"):
            shutil.copytree(ROOT / folder, copy / folder)
        every = {kata.name: kata for kata in katas(ROOT, SOLUTIONS)}
        for kata in every.values():
            _write(copy, kata, kata.stub_text())
        (copy / "pytest.ini").write_text("[pytest]\ntestpaths = katas\n")
        shutil.copy(ROOT / "conftest.py", copy)
        subprocess.run(["git", "init", "-q", scratch], check=True)
        if quote.scene == CLASS:
            _class(copy / CLASS, every)
        elif quote.scene == FILES:
            _files(copy, quote.page.read_text(encoding="utf-8")[: quote.begin])
        elif quote.scene:
            kata = every[next(word for word in shlex.split(quote.command) if word in every)]
            (mistake,) = (one for one in kata.key.mistakes if quote.scene in one.title)
            _write(copy, kata, _solved(kata, (mistake.old, mistake.new)))
        yield copy


def _files(root: Path, page: str) -> None:
    """The READMEs with their tables, and every file that a page gives."""
    readmes = [ROOT / "README.md", *(ROOT / "katas").rglob("README.md")]
    given = {file.relative_to(ROOT): file.read_text(encoding="utf-8") for file in readmes}
    given |= {Path(found["path"]): found["text"] for found in FILE.finditer(page)}
    for path, text in given.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def _write(root: Path, kata: Kata, text: str) -> None:
    file = root / kata.path.relative_to(ROOT)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def _solved(kata: Kata, edit: tuple[str, str] = ("", "")) -> str:
    return kata.solution.read_text(encoding="utf-8").replace(*edit)


def _class(folder: Path, every: Mapping[str, Kata]) -> None:
    """Five students: what stands in their katas, and on which day their ledgers have it."""
    never_clears = ("acc_ref[...] = jnp.zeros_like(acc_ref)", "pass")
    plus_11, plus_9 = ("+ 10", "+ 11"), ("+ 10", "+ 9")
    right = ("", "")
    students: Mapping[str, Mapping[str, tuple[tuple[str, str], int]]] = {
        "ada": {"constant_add": (right, 19), "tiled_matmul": (right, 21), "rms_norm": (right, 22)},
        "ben": {"constant_add": (right, 20), "tiled_matmul": (never_clears, 0)},
        "homework 3/cleo": {"constant_add": (plus_11, 0), "tiled_matmul": (never_clears, 0)},
        "dave": {"constant_add": (plus_9, 18)},
        "eve": {"constant_add": (right, 0)},
    }
    for student, begun in students.items():
        for kata in every.values():
            _write(folder / student, kata, kata.stub_text())
        lines = []
        for name, (edit, day) in begun.items():
            text = _solved(every[name], edit)
            _write(folder / student, every[name], text)
            if day:
                date = datetime.date(2026, 11, day)
                lines.append(f"{Pass(every[name].id, blob_id(text.encode()), 3, date)}\n")
        (folder / student / LEDGER).write_text("".join(lines), encoding="utf-8")


def printed(quote: Quote) -> str:
    """The output of a command, or of several joined by "&&", on a terminal of WIDTH columns."""
    with workplace(quote) as folder:
        return "".join(_printed(command, folder) for command in quote.command.split(" && "))


def _printed(command: str, folder: Path) -> str:
    words = shlex.split(command)
    modules = {"kata": "grader.cli", "pytest": "pytest", "python": ""}
    module = modules[words[0]]
    start = [sys.executable, *(["-m", module] if module else [])]
    ran = subprocess.run(
        [*start, *words[1:]],
        cwd=folder,
        env={**os.environ, "COLUMNS": str(WIDTH), "PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return ran.stdout or ran.stderr


def printed_by_code(page: Path) -> list[str]:
    """What each block of Python on a page prints, those above it having run."""
    blocks = CODE.findall(page.read_text(encoding="utf-8"))
    between = "-- the next block --"
    code = f"\nprint({between!r}, flush=True)\n".join(blocks)
    with tempfile.TemporaryDirectory() as folder:
        start = [sys.executable, "-W", "ignore", "-c", code]
        ran = subprocess.run(
            start, cwd=folder, capture_output=True, text=True, timeout=300, check=True
        )
    return ran.stdout.split(f"{between}\n")


def outputs(of: Sequence[Quote]) -> list[str]:
    """What is to be quoted, for each; several commands run at a time."""
    coded = dict.fromkeys(quote.page for quote in of if not quote.command)
    with ThreadPoolExecutor(2) as pool:
        by_code = dict(zip(coded, pool.map(printed_by_code, coded), strict=True))
        commands = {(q.command, q.scene): q for q in of if q.command}
        by_command = dict(zip(commands, pool.map(printed, commands.values()), strict=True))
    found = []
    for quote in of:
        if quote.command:
            output = by_command[quote.command, quote.scene]
        else:
            above = quote.page.read_text(encoding="utf-8")[: quote.begin]
            output = by_code[quote.page][len(CODE.findall(above)) - 1]
        found.append(quote.cut(output))
    return found


# ---- comparing and writing ----


def alike(shown: str, now: str, same_compiler: bool) -> bool:
    """Whether an output is quoted as it is, but for what differs from run to run."""
    shown, now = (RUN.sub("#", text) for text in (shown, now))
    if not same_compiler:
        shown, now = (" ".join(COMPILED.sub("#", text).split()) for text in (shown, now))
    return shown == now


def renewed(page: Path, of: Sequence[Quote], now: Sequence[str]) -> str:
    """The page's text with these outputs in place of those that it quotes."""
    text = page.read_text(encoding="utf-8")
    for quote, output in reversed(list(zip(of, now, strict=True))):
        text = text[: quote.begin] + output + text[quote.begin + len(quote.text) :]
    return text


def quoted(words: Sequence[str], check: bool) -> int:
    """Write or compare the quoted outputs; how many differ."""
    chosen = [
        quote
        for page in pages()
        for quote in quotes(page)
        if not words or any(word in f"{page.name} {quote.command}" for word in words)
    ]
    told, here = roofline_data.data(), versions()
    if here["jax"] != told["jax"]:
        print(f"jax {here['jax']}: outputs of jax {told['jax']} are quoted, so none are compared")
        return 0
    same_compiler = here["libtpu"] == told["libtpu"]
    now = outputs(chosen)
    stale = [
        (quote, output)
        for quote, output in zip(chosen, now, strict=True)
        if not alike(quote.text, output, same_compiler)
    ]
    for quote, output in stale:
        name = quote.page.relative_to(ROOT).as_posix()
        print(f"{name}: {'differs' if check else 'written'}: {quote.command or 'code'}")
        if check:
            lines = (quote.text.splitlines(), output.splitlines())
            print("\n".join(difflib.unified_diff(*lines, "quoted", "now", lineterm="")))
    for page in [] if check else dict.fromkeys(quote.page for quote, _ in stale):
        of = [pair for pair in stale if pair[0].page == page]
        page.write_text(renewed(page, *zip(*of, strict=True)), encoding="utf-8")
    return len(stale)


def scripts(words: Sequence[str], check: bool) -> int:
    """Run the scripts that draw or write one thing each; how many find a difference, or fail."""
    names = [*SCRIPTS, *([] if check else SCREENSHOTS)]
    failed = 0
    for name in names:
        if not words or any(word in name for word in words):
            command = [sys.executable, f"tools/{name}.py", *["--check"] * check]
            failed += subprocess.run(command, cwd=ROOT).returncode != 0
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("words", nargs="*", metavar="WORD", help="only what has this in its name")
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 if any differs")
    options = parser.parse_args()
    differing = scripts(options.words, options.check) + quoted(options.words, options.check)
    return int(bool(differing) and options.check)


if __name__ == "__main__":
    sys.exit(main())
