"""The page of one kata: its docstring, spec, hints, file, the solution's traffic, and `after`."""

from __future__ import annotations

import ast
import html
import re
from collections.abc import Iterator, Sequence

from grader.exercise.answer_key import HINTS
from grader.exercise.catalog import Kata
from grader.exercise.readmes import labelled_text, prerequisites

#: A section of a docstring: its title alone in a line, then its text, indented.
_SECTION = re.compile(r"^(?P<title>[A-Z][a-z]+)\n(?P<body>(?:(?: {4}.*)?\n)+)", re.MULTILINE)
#: Sections that are tables of text.
_AS_PRINTED = ("Shapes", "Try")
_CODE = re.compile(r"(?P<code>(?P<ticks>`+).+?(?P=ticks))|(?P<url>https?://[^\s,;)]+[^\s,;).])")
_SIGN = re.compile(r"([\\*_\[\]<>|#$~{}])")
_LIST = re.compile(r"(?:-|\d+\.) ")


def page(kata: Kata, all_katas: Sequence[Kata], drawn: bool) -> str:
    """The page as Markdown, with links relative to the kata's file. `drawn`: it has a view."""
    text = kata.stub_text()
    docstring = ast.get_docstring(ast.parse(text)) or ""
    parts = [f"# {number(kata)} {kata.name}", _facts(kata, all_katas, docstring)]
    parts += _sections(docstring + "\n")
    if spec := function(text, f"{kata.name}_spec"):
        parts += ["## Specification", fence("python", spec)]
    parts += ["## Hints", _hints(kata.key.hints)]
    parts += ["## The file", "Your task is between `# BEGIN SOLUTION` and `# END SOLUTION`."]
    parts.append(dropdown("The file with its task, to copy", fence("python", _code(text))))
    if drawn:
        parts += ["## The solution, step by step"]
        how = "Click into it, and the arrow keys step."
        parts += [f"The blocks that the solution moves, without its code. {how}"]
        parts.append(view(kata.name, "../../views"))
    if kata.key.after:
        told = "\n\n".join(_blocks(kata.key.after.strip("\n")))
        parts += ["## After you have solved it", dropdown("This gives away the answer", told)]
    return "\n\n".join(parts) + "\n"


def number(kata: Kata) -> str:
    """ "1.09": the track's number and the kata's."""
    return f"{kata.track.partition('_')[0]}.{kata.number}"


def _facts(kata: Kata, all_katas: Sequence[Kata], docstring: str) -> str:
    """A short list: idea, task, the katas before and after, what to read."""
    by_name = {other.name: other for other in all_katas}
    needed = [by_name[name] for name in prerequisites(kata) if name in by_name]
    leads = [other for other in all_katas if kata.name in prerequisites(other)]
    facts = [("New idea", escaped(kata.key.concept)), ("You write", escaped(kata.key.write))]
    facts += [("Needs", ", ".join(map(_link, needed)) or "nothing")]
    facts += [("Leads to", ", ".join(map(_link, leads)))] if leads else []
    if read := labelled_text(docstring, "Read on"):
        facts.append(("Read on", _reading(read.replace("\n", " "))))
    facts.append(("Grade it", f"`pytest -k {kata.name}`"))
    return "\n".join(f"- **{title}:** {text}" for title, text in facts)


def _link(kata: Kata) -> str:
    return f"[{kata.name}](../{kata.track}/{kata.path.name})"


def _reading(text: str) -> str:
    """ "TITLE, ADDRESS" as a link."""
    return re.sub(
        r"(?P<title>[^,;].*?),\s+(?P<url>https?://\S+?)(?=[,;.]?(?:\s|$))",
        lambda found: f"[{escaped(found['title'])}]({found['url']})",
        text,
    )


def function(text: str, name: str) -> str:
    """The source of a function of a module; "" if there is none."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return ast.get_source_segment(text, node) or ""
    return ""


def _code(text: str) -> str:
    """The file below its docstring, which is the rest of the page."""
    first = ast.parse(text).body[0]
    return "\n".join(text.splitlines()[first.end_lineno :]).strip("\n")


def _hints(hints: Sequence[str]) -> str:
    """Each hint folded into the one before it."""
    text = ""
    for place in range(len(hints) - 1, -1, -1):
        body = "\n\n".join(filter(None, ["\n\n".join(_blocks(hints[place].strip("\n"))), text]))
        text = dropdown(f"Hint {place + 1}: {HINTS[place]}", body, colons=5 + len(hints) - place)
    return text


def view(name: str, folder: str, play: bool = False) -> str:
    """A frame with the view of a kata. site.js gives it its address, with the page's theme."""
    told = html.escape(name)
    return fence(
        "{raw} html",
        f'<iframe class="view" data-view="{folder}/{told}.html"{" data-play" if play else ""} '
        f'loading="lazy" title="{told}, step by step"></iframe>\n'
        f'<p class="view-link"><a href="{folder}/{told}.html">Open it in a new page</a></p>',
    )


# ---- plain text as Markdown ----


def _sections(docstring: str) -> Iterator[str]:
    """A docstring's first lines and its sections, as Markdown."""
    first = _SECTION.search(docstring)
    yield from _blocks(docstring[: first.start()].strip() if first else docstring)
    for found in _SECTION.finditer(docstring):
        body = re.sub(r"^ {4}", "", found["body"], flags=re.MULTILINE).strip("\n")
        yield f"## {found['title']}"
        yield from [fence("text", body)] if found["title"] in _AS_PRINTED else _blocks(body)


def _blocks(text: str) -> Iterator[str]:
    """Paragraphs and lists. Indented lines are a picture or code, also over empty lines."""
    picture: list[str] = []
    prose: list[str] = []

    def ended(lines: list[str], code: bool) -> Iterator[str]:
        told = "\n".join(lines).strip("\n")
        lines.clear()
        if told.strip():
            yield fence("text", _dedented(told)) if code else escaped(told)

    in_list = False
    for line in text.splitlines():
        if not line.strip():
            (picture or prose).append("")
        elif line.startswith(" ") and not (in_list and prose and prose[-1].strip()):
            yield from ended(prose, code=False)
            picture.append(line)
        else:
            yield from ended(picture, code=True)
            in_list = bool(_LIST.match(line)) or (in_list and line.startswith(" "))
            prose.append(line)
    yield from ended(prose, code=False)
    yield from ended(picture, code=True)


def _dedented(text: str) -> str:
    lines = text.splitlines()
    least = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return "\n".join(line[least:] for line in lines)


def escaped(text: str) -> str:
    """Text for Markdown: `code` and *terms* stay, addresses become links, other signs are plain."""
    parts, end = [], 0
    for found in _CODE.finditer(text):
        parts += [_plain(text[end : found.start()]), found["code"] or f"<{found['url']}>"]
        end = found.end()
    return "".join([*parts, _plain(text[end:])])


def _plain(text: str) -> str:
    pieces = re.split(r"(\*[A-Za-z][\w -]*\*)", text)
    return "".join(
        piece if place % 2 else _SIGN.sub(r"\\\1", piece) for place, piece in enumerate(pieces)
    )


def fence(kind: str, text: str) -> str:
    """A block of code, or a directive such as "{raw} html"."""
    opened = kind if kind.startswith("{") else f"{{code-block}} {kind}"
    return f"````{opened}\n{text.rstrip()}\n````"


def dropdown(title: str, text: str, colons: int = 5) -> str:
    """Markdown that is folded under a title. Outer ones have more colons than inner ones."""
    marks = ":" * colons
    return f"{marks}{{dropdown}} {title}\n{text.strip()}\n{marks}"
