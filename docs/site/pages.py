"""Writes the site's pages, as Markdown: from the READMEs, docs/*.md, the katas and their keys.

A page's place follows from its file's, so that addresses stay short:

    README.md, CHANGELOG.md, …       start, changelog, …
    docs/errors.md, docs/NAME.md     errors, guides/NAME
    katas/TRACK/README.md            katas/TRACK/index
    katas/TRACK/kata_01_NAME.py      katas/TRACK/NAME

Links are rewritten; a file without a page is linked to in the repository.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import kata_page
from kata_page import dropdown, escaped, fence

from grader.exercise.answer_key import Mistake
from grader.exercise.catalog import SOLUTIONS, Kata, katas
from grader.exercise.mutants import wrong_version

#: Folders and files that are written here, and removed before.
WRITTEN = ("api", "guides", "katas")
VIEWS = "extra/views"
#: Top-level files, in the order in which the site lists them, and their pages.
TOP = {
    "README.md": "start",
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "SECURITY.md": "security",
}
#: Guides by readers, in the order of the site's navigation. All others come after them.
LEARNERS = (
    *("your-day", "commands", "editors", "view", "why-write-a-kernel"),
    *("choosing-a-kernel-language", "debugging-a-kernel", "cost-of-operations"),
    *("cost-of-a-batch", "from-jaxpr-to-bundles", "predictions", "other-kernels"),
    *("reading-production-kernels", "profiling-on-a-tpu", "on-a-gpu"),
)
OTHERS = ("your-own-kernels", "teaching-a-class", "grading-many", "scale", "guiding-a-model")
#: Comments around a kata's task.
MARKERS = ("# BEGIN SOLUTION", "# END SOLUTION")
_LINK = re.compile(r"(?P<before>\]\()(?P<to>[^)#\s]+)(?P<after>(?:#[^)\s]*)?(?: \"[^\"]*\")?\))")
#: A linked picture of another server: a badge. The site loads nothing from elsewhere.
_BADGE = re.compile(r"\[!\[(?P<words>[^\]]*)\]\(https?://[^)]*\)\]\((?P<to>[^)]*)\)")
_CODE = re.compile(r"^(?P<fence>`{3,}|~{3,})[\s\S]*?^(?P=fence)$", re.MULTILINE)
#: In a docstring: code, and signs that reStructuredText would read as marks.
_PROSE = re.compile(r"`(?P<code>[^`]+)`|(?P<sign>[*|_\\](?!\w))")
#: A row of a list of names, such as of a package's modules.
_ROW = re.compile(r"\S+ {2,}\S")
_TRACKS = re.compile(r"<!-- BEGIN TRACKS.*?-->\n(?P<table>.*?)<!-- END TRACKS -->", re.DOTALL)


class _Site:
    """The pages that are written to `folder`, and the file of `root` that each was made from."""

    def __init__(self, root: Path, folder: Path, repository: str) -> None:
        self.root, self.folder, self.repository = root, folder, repository
        self.katas = katas(root, SOLUTIONS)
        self.pages = self._pages()
        self.sources: dict[str, str] = {}

    def _pages(self) -> dict[str, str]:
        """The file, relative to the root -> the page without its suffix."""
        pages = dict(TOP)
        for file in sorted((self.root / "docs").glob("*.md")):
            pages[f"docs/{file.name}"] = (
                "errors" if file.stem == "errors" else f"guides/{file.stem}"
            )
        pages["katas/README.md"] = "katas/index"
        for kata in self.katas:
            pages[f"katas/{kata.track}/README.md"] = f"katas/{kata.track}/index"
            pages[f"katas/{kata.id}.py"] = f"katas/{kata.track}/{kata.name}"
        return pages

    def write(self, page: str, text: str, source: str = "") -> None:
        """`text` is Markdown whose links are relative to `source`, or else to the page."""
        file = self.folder / f"{page}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        if source:
            text = self._linked(text, posixpath.dirname(source), posixpath.dirname(page))
            self.sources[page] = source
        file.write_text(text, encoding="utf-8", newline="\n")

    def _linked(self, text: str, here: str, page: str) -> str:
        def link(found: re.Match[str]) -> str:
            return found["before"] + self._target(found["to"], here, page) + found["after"]

        parts, end = [], 0
        for code in _CODE.finditer(text):
            parts += [_LINK.sub(link, _BADGE.sub(r"[\g<words>](\g<to>)", text[end : code.start()]))]
            parts += [code[0]]
            end = code.end()
        rest = _BADGE.sub(r"[\g<words>](\g<to>)", text[end:])
        return "".join([*parts, _LINK.sub(link, rest)])

    def _target(self, link: str, here: str, page: str) -> str:
        """A link of a file in the folder `here`, as one of a page in the folder `page`."""
        if ":" in link:
            return link
        to = posixpath.normpath(posixpath.join(here, link))
        if (self.root / to).is_dir():
            readme = posixpath.join(to, "README.md")
            to = readme if readme in self.pages else to
        if to in self.pages:
            return posixpath.relpath(f"{self.pages[to]}.md", page or ".")
        if not (self.root / to).exists():
            raise ValueError(f"a link to {link} in {here or '.'}: there is no {to}")
        if to.endswith((".svg", ".png")):
            return posixpath.relpath(self._picture(to), page or ".")
        return f"{self.repository}/tree/main/{to}"

    def _picture(self, file: str) -> str:
        place = re.sub(r"^docs/", "guides/", file)
        (self.folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.root / file, self.folder / place)
        return place


def write_pages(root: Path, folder: Path, repository: str) -> dict[str, str]:
    """Write all pages to `folder`. Returns the source of each page: both relative, `/` in between.

    `repository` is its address. Raises ValueError for a link to a file that doesn't exist, and
    KeyProblem.
    """
    for name in WRITTEN:
        shutil.rmtree(folder / name, ignore_errors=True)
    for file in folder.glob("*.md"):
        file.unlink()
    (folder / VIEWS).mkdir(parents=True, exist_ok=True)
    site = _Site(root, folder, repository)
    for source, page in site.pages.items():
        if source.endswith(".md"):
            text = (root / source).read_text(encoding="utf-8")
            if source == "README.md":  # the front page has its title
                text = re.sub(r"^# .*", "# Start", text, count=1)
            site.write(page, text + _below(site, source), source)
    for kata in site.katas:
        drawn = (folder / VIEWS / f"{kata.name}.html").exists()
        text = kata_page.page(kata, site.katas, drawn)
        site.write(f"katas/{kata.track}/{kata.name}", text, f"katas/{kata.id}.py")
    parts = folder / "parts"
    playground = (parts / "playground.md").read_text(encoding="utf-8")
    data = (folder / "parts/playground.json").read_text(encoding="utf-8").strip()
    site.write("playground", playground.replace("{{DATA}}", data))
    site.sources["playground"] = "docs/site/parts/playground.md"
    for file in sorted((parts / "api").glob("*.md")):
        site.write(f"api/{file.stem}", file.read_text(encoding="utf-8"))
        site.sources[f"api/{file.stem}"] = f"docs/site/parts/api/{file.name}"
    site.write("index", _front(site), "docs/site/parts/front.md")
    return site.sources


def _below(site: _Site, source: str) -> str:
    """The text that a page gets below that of its file."""
    if source == "docs/errors.md":
        return known_mistakes(site.katas)
    if source == "katas/README.md":
        return toctree("", [f"{track}/index" for track in _tracks(site)]) + _list_of_katas(site)
    track = Path(source).parent.name
    return toctree("", [kata.name for kata in site.katas if kata.track == track])


def _list_of_katas(site: _Site) -> str:
    """All katas with their new ideas, folded by track."""
    parts = ["## All katas"]
    for track in _tracks(site):
        rows = ["| kata | new idea |", "|---|---|"]
        for kata in site.katas:
            if kata.track == track:
                name = f"[{kata_page.number(kata)} {kata.name}]({kata.id}.py)"
                rows.append(f"| {name} | {_cell(kata.key.concept)} |")
        parts.append(dropdown(track, "\n".join(rows)))
    return "\n\n" + "\n\n".join(parts) + "\n"


def _tracks(site: _Site) -> list[str]:
    return list(dict.fromkeys(kata.track for kata in site.katas))


def _front(site: _Site) -> str:
    text = (site.folder / "parts/front.md").read_text(encoding="utf-8")
    readme = (site.root / "README.md").read_text(encoding="utf-8")
    table = _TRACKS.search(readme)
    assert table, "README.md has no table of tracks"
    text = text.replace("{{WRONG}}", fence("python", _wrong_kernel(site.katas)))
    text = text.replace("{{TRACKS}}", table["table"].replace("](", "](../../../").strip())
    view = kata_page.view("tiled_matmul", "views", play=True)
    drawn = (site.folder / VIEWS / "tiled_matmul.html").exists()
    text = text.replace("{{VIEW}}", view if drawn else "*This site was built without views.*")
    guides = {Path(page).name for page in site.pages.values() if page.startswith("guides/")}
    rest = sorted(guides.difference(LEARNERS, OTHERS))
    trees = [
        ("Learn", ["Start <start>", "katas/index", "errors", "playground", *_guides(LEARNERS)]),
        ("Use", [*_guides(OTHERS), "api/index"]),
        ("Contribute", ["contributing", *_guides(rest), "changelog", "security"]),
    ]
    return text + "".join(toctree(caption, entries) for caption, entries in trees)


def _wrong_kernel(all_katas: Iterable[Kata]) -> str:
    """The kernel of the front page. parts/front.md has the same mistake in its command."""
    kata = next(kata for kata in all_katas if kata.name == "row_sum")
    title = "clears the sums on the wrong grid axis"
    mistake = next(one for one in kata.key.mistakes if one.title == title)
    text = wrong_version(kata.solution.read_text(encoding="utf-8"), mistake)
    lines = kata_page.function(text, "row_sum_kernel").splitlines()
    return "\n".join(line for line in lines if line.strip() not in MARKERS)


def _guides(names: Iterable[str]) -> list[str]:
    return [f"guides/{name}" for name in names]


def toctree(caption: str, entries: list[str]) -> str:
    """A hidden table of contents; "" without entries."""
    if not entries:
        return ""
    options = ":hidden:\n" + (f":caption: {caption}\n" if caption else "")
    return f"\n\n```{{toctree}}\n{options}\n" + "\n".join(entries) + "\n```\n"


# ---- known mistakes ----


def known_mistakes(all_katas: Iterable[Kata]) -> str:
    """A section with each kata's known mistakes and the words of their reports, folded."""
    parts = [
        "## Known mistakes of each kata",
        "Each kata has mistakes that its tests plant in the solution, to see that the report names "
        "them. These lists give away parts of the answers.",
    ]
    track = ""
    for kata in all_katas:
        if kata.track != track:
            track = kata.track
            parts.append(f"### {track}")
        rows = ["| mistake | check | the report says |", "|---|---|---|"]
        rows += [_row(mistake) for mistake in kata.key.mistakes]
        if kata.key.mistakes:
            parts.append(dropdown(f"{kata_page.number(kata)} {kata.name}", "\n".join(rows)))
    return "\n\n" + "\n\n".join(parts) + "\n"


def _row(mistake: Mistake) -> str:
    return f"| {_cell(mistake.title)} | {mistake.caught.title} | {_cell(mistake.says)} |"


def _cell(text: str) -> str:
    return escaped(text.replace("\n", " "))


# ---- docstrings ----


def docstring_as_rst(
    _app: object, _what: str, _name: str, _object: object, _options: object, lines: list[str]
) -> None:
    """Turn a docstring, which is plain text with `code`, into reStructuredText, in place.

    Indented lines, which are pictures or code, become literal blocks.
    """
    lines[:] = _literal_blocks(lines)


def _literal_blocks(lines: Iterable[str]) -> Iterator[str]:
    indented = False
    for line in lines:
        begins = line.startswith((" ", "\t")) or bool(_ROW.match(line))
        if begins and not indented:
            table = bool(_ROW.match(line.strip()))
            yield from ("", f".. code-block:: {'text' if table else 'python'}", "")
        elif line.strip() and not begins and indented:
            yield ""
        if line.strip():
            indented = begins
        yield f"    {line}" if begins else _PROSE.sub(_as_rst, line)


def _as_rst(found: re.Match[str]) -> str:
    ending = "\\ " if found["code"] and found.string[found.end() :][:1].isalnum() else ""
    return f"``{found['code']}``{ending}" if found["code"] else f"\\{found['sign']}"
