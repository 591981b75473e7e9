"""Counts words and phrases that make the repository's English hard to read.

    python tools/prose.py                   a table: phrases per 10,000 words, by kind of text
    python tools/prose.py --list what docs  each such sentence, in files below `docs`

It reads the pages (*.md), the docstrings of katas and of the packages, the TOML keys, and the texts
in code that users read: every string constant of at least `MESSAGE_WORDS` words. Code blocks and
text between backticks are left out.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MESSAGE_WORDS = 4
PER = 10_000  # words
#: Name -> the phrase, and how many of it, for each 10,000 words, are our aim.
PATTERNS = {
    "what": (re.compile(r"\bwhat\b", re.IGNORECASE), 6.0),
    # "There is no file" is plain English.
    "is no": (
        re.compile(r"(?<!there )\b(is|are|was|were) no\b(?! (longer|more|less)\b)", re.IGNORECASE),
        0.5,
    ),
    "of its own": (re.compile(r"\bof (its|their|your|our) own\b"), 1.0),
    "is told": (re.compile(r"\b(is|are|was|were|be) (told|said|asked)\b"), 0.2),
}
_CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`|<[^>\n]*>|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
#: A line of code, of a table or of a picture. Docstrings indent their sections.
_NO_PROSE = re.compile(r"^(?: {8}|\t|\||.*\S {3,}\S).*$", re.MULTILINE)
_INDENTED = re.compile(r"^ {4}.*$", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.?!:])\s+|\n\s*\n")
_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")


@dataclass(frozen=True)
class Text:
    """A text that users read. `kind` is a row of the table; `line` counts from 1."""

    kind: str
    file: Path
    line: int
    text: str

    def sentences(self) -> Iterator[str]:
        """The sentences, without code, tables and pictures."""
        text = _NO_PROSE.sub("", _CODE.sub("X", self.text))
        if self.file.suffix == ".md":
            text = _INDENTED.sub("", text)
        for sentence in _SENTENCE.split(text):
            if sentence.strip():
                yield " ".join(sentence.split())


def count_in(sentence: str, pattern: str) -> int:
    """How often a phrase is in a sentence. A question may begin with "what"."""
    if pattern == "what" and sentence.endswith("?"):
        return 0
    return len(PATTERNS[pattern][0].findall(sentence))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)


def _of_code(file: Path, docstrings: str) -> Iterator[Text]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    documented = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                first = node.body[0]
                assert isinstance(first, ast.Expr)
                documented.add(id(first.value))
                yield Text(docstrings, file, first.lineno, text)
    inside = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside.update(id(each) for each in ast.walk(node))
            parts = (each.value if isinstance(each, ast.Constant) else "X" for each in node.values)
            text = "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) in documented or id(node) in inside:
                continue
            text = node.value
        else:
            continue
        if len(_WORD.findall(text)) >= MESSAGE_WORDS and "  " not in text.strip():
            yield Text("messages", file, node.lineno, text)


def texts(root: Path = ROOT) -> Iterator[Text]:
    """All texts that users read."""
    for file in sorted([*root.glob("*.md"), *root.glob("docs/*.md")]):
        if file.name != "CHANGELOG.md":
            yield Text("pages", file, 1, file.read_text(encoding="utf-8"))
    for file in sorted(root.glob("katas/*/README.md")):
        yield Text("track READMEs", file, 1, file.read_text(encoding="utf-8"))
    for file in sorted(root.glob("katas/*/kata_*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        yield Text("katas", file, 1, ast.get_docstring(tree) or "")
    for file in sorted(root.glob("solutions/*/kata_*.toml")):
        for text in _strings(tomllib.loads(file.read_text(encoding="utf-8"))):
            if len(_WORD.findall(text)) >= MESSAGE_WORDS:
                yield Text("keys", file, 1, text)
    for package in ("grader", "pallascope"):
        for file in sorted((root / package).rglob("*.py")):
            yield from _of_code(file, "docstrings")


def counts(read: list[Text]) -> dict[str, Counter[str]]:
    """Kind of text -> phrases, and "words"."""
    by_kind: dict[str, Counter[str]] = {}
    for text in read:
        counted = by_kind.setdefault(text.kind, Counter())
        for sentence in text.sentences():
            counted["words"] += len(_WORD.findall(sentence))
            counted.update({name: count_in(sentence, name) for name in PATTERNS})
    return by_kind


def table(by_kind: dict[str, Counter[str]]) -> str:
    """Phrases for each 10,000 words, with a row for the sum and one for the aim."""
    total = Counter[str]()
    for counted in by_kind.values():
        total.update(counted)
    rows = [["", "words", *PATTERNS]]
    for kind, counted in [*by_kind.items(), ("all", total)]:
        rates = (PER * counted[name] / max(counted["words"], 1) for name in PATTERNS)
        rows.append([kind, f"{counted['words']:,}", *(f"{rate:.1f}" for rate in rates)])
    rows.append(["aim", "", *(f"{aim:.1f}" for _, aim in PATTERNS.values())])
    return "\n".join(f"{row[0]:<15}" + "".join(f"{cell:>12}" for cell in row[1:]) for row in rows)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawTextHelpFormatter
    parser.add_argument("--list", choices=PATTERNS, metavar="PHRASE", help=", ".join(PATTERNS))
    parser.add_argument("below", nargs="*", type=Path, default=[ROOT], help="files or folders")
    options = parser.parse_args(arguments)
    places = [place.resolve() for place in options.below]
    read = [text for text in texts() if any(text.file.is_relative_to(place) for place in places)]
    if options.list is None:
        sys.stdout.write(f"Phrases per {PER:,} words\n{table(counts(read))}\n")
        return
    for text in read:
        for sentence in text.sentences():
            if count_in(sentence, options.list):
                place = f"{text.file.relative_to(ROOT)}:{text.line}"
                sys.stdout.write(f"{place}: {sentence}\n")


if __name__ == "__main__":
    main()
