"""The site: it builds without warnings, gives no answer away, and works in a browser."""

from __future__ import annotations

import functools
import html.parser
import importlib
import json
import posixpath
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from grader.exercise.catalog import SOLUTIONS, katas
from grader.view.document import SCHEMA, Document, VerdictView
from grader.view.launch_view import page as view_page
from pallascope.tools.regions import regions
from tests.support.repositories import ROOT

sys.path.append(str(ROOT / "tools"))
playground_data = importlib.import_module("playground_data")
roofline_data = importlib.import_module("roofline_data")

EVERY = katas(ROOT, SOLUTIONS)
#: The site's input. Sphinx's sources are written next to conf.py, so the test works in a copy.
LINKED = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "pyproject.toml"),
    *("katas", "solutions", "grader", "pallascope", "integrations", "tools", "tests"),
    *(".github", ".devcontainer", ".vscode"),
)
pytestmark = pytest.mark.timeout(600)  # the first test builds the site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site, with a view without a launch for the front page."""
    room = tmp_path_factory.mktemp("site")
    copy = room / "course"
    copy.mkdir()
    for name in LINKED:
        (copy / name).symlink_to(ROOT / name)
    written = shutil.ignore_patterns("extra", "guides", "katas", "__pycache__")
    shutil.copytree(ROOT / "docs", copy / "docs", ignore=written)
    verdict = VerdictView("unasked", "drawn")
    drawn = Document(SCHEMA, "tiled_matmul", "Tiled matmul", "", "v5e", "par", verdict, "", (), ())
    views = copy / "docs/site/extra/views"
    views.mkdir(parents=True)
    (views / "tiled_matmul.html").write_text(view_page(drawn), encoding="utf-8")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-j", "2"]
    ran = subprocess.run(
        [*command, str(copy / "docs/site"), str(room / "out")],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return room / "out"


class Page(html.parser.HTMLParser):
    """The links, anchors and text of a page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.words: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors.update(given[name] or "" for name in ("id", "name") if name in given)
        self.links += [given[name] or "" for name in ("href", "src", "data-view") if name in given]

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    """Every page, by its address on the site."""
    found = (file for file in site.rglob("*.html") if "views" not in file.parts)
    return {file.relative_to(site).as_posix(): Page(file) for file in found}


def test_every_link_to_a_page_or_an_anchor_of_the_site_leads_there(
    site: Path, pages: dict[str, Page]
) -> None:
    broken = []
    for address, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link in ("", "#"):
                continue
            folder = posixpath.dirname(address)
            to = posixpath.normpath(posixpath.join(folder, unquote(parts.path)))
            to = to if parts.path else address
            if not (site / to).is_file():
                broken.append(f"{address}: {link}")
            elif parts.fragment and to in pages and parts.fragment not in pages[to].anchors:
                broken.append(f"{address}: {link}: no such anchor")
    assert not broken


def test_nothing_is_loaded_from_another_server(site: Path) -> None:
    loads = re.compile(r"<(?:script|img|iframe|link rel=\"stylesheet\")[^>]*(?:src|href)=\"https?:")
    assert not [file for file in site.rglob("*.html") if loads.search(file.read_text("utf-8"))]


@pytest.mark.parametrize("exercise", EVERY, ids=lambda exercise: exercise.name)
def test_a_page_has_its_parts_and_no_answer(exercise: Any, pages: dict[str, Page]) -> None:
    page = pages[f"katas/{exercise.track}/{exercise.name}.html"]
    words = " ".join(page.text.split())
    for heading in ("Goal", "Concept", "Hints", "The file"):
        assert heading in words
    for place in (1, 2, 3):
        assert f"Hint {place}:" in words
    before, _, _ = page.text.partition("After you have solved it")
    given, answers = exercise.stub_text(), exercise.solution.read_text(encoding="utf-8")
    for region in regions(answers):
        lines = [line.strip() for line in region.body.splitlines() if len(line.strip()) > 30]
        own = [line for line in lines if line not in given]
        hinted = " ".join(" ".join(exercise.key.hints).split())
        told = [line for line in own if line in before and line not in hinted]
        assert not told, f"these lines of the solution are on the page: {told}"


def test_errors_have_known_mistakes_folded_by_name(pages: dict[str, Page]) -> None:
    words = pages["errors.html"].text
    missing = [
        one.title
        for exercise in EVERY
        for one in exercise.key.mistakes
        if " ".join(one.title.replace("`", "").replace("*", "").split())
        not in " ".join(words.replace("*", "").split())
    ]
    assert not missing


# ---- in a browser ----


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """A server of the site: the search loads pages, which a browser refuses for files."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


class Tab:
    """A page in the browser, and the errors of its console."""

    def __init__(self, browser: Any, width: int, theme: str) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900})
        self.context.add_init_script(
            f"localStorage.getItem('theme') || localStorage.setItem('theme', '{theme}')"
        )
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.page.on(
            "console", lambda said: self.errors.append(said.text) if said.type == "error" else None
        )
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))


SHOWN = (
    *("index", "katas/1_basics/index", "katas/1_basics/ragged_tail", "playground"),
    *("errors", "guides/predictions", "api/pallascope", "search"),
)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1600])
def test_pages_fit_and_say_no_error(width: int, theme: str, browser: Any, address: str) -> None:
    tab = Tab(browser, width, theme)
    for name in SHOWN:
        tab.page.goto(f"{address}/{name}.html", wait_until="load")
        wide = tab.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{name} is {wide} pixels wide"
    assert not tab.errors
    tab.context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", SHOWN)
def test_pages_are_accessible(name: str, theme: str, browser: Any, address: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    tab = Tab(browser, 1200, theme)
    tab.page.goto(f"{address}/{name}.html", wait_until="load")
    found = Axe().run(tab.page, options={"iframes": False}).response["violations"]
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    told = [(each["id"], [node["html"][:120] for node in each["nodes"][:4]]) for each in serious]
    assert not told
    tab.context.close()


def test_the_view_follows_the_switch_of_the_page(browser: Any, address: str) -> None:
    tab = Tab(browser, 1200, "light")
    tab.page.goto(f"{address}/index.html", wait_until="load")
    frame = tab.page.frame_locator("iframe.view")
    theme = "getComputedStyle(document.documentElement).colorScheme"
    frame.locator("h1").wait_for()
    (view,) = (each for each in tab.page.frames if "views/" in each.url)
    assert view.evaluate(theme) == "light"
    tab.page.evaluate("document.body.dataset.theme = 'dark'")
    for _ in range(100):
        if view.evaluate(theme) == "dark":
            break
        tab.page.wait_for_timeout(50)
    assert view.evaluate(theme) == "dark"
    assert not tab.errors
    tab.context.close()


@pytest.mark.parametrize(
    ("words", "result"),
    [
        ("tiled_matmul", "1.10 tiled_matmul"),
        ("pl.multiple_of", "1.16 promised_alignment"),
        ("padding was used", "Errors explained"),
    ],
)
def test_search_finds_names_and_phrases(
    words: str, result: str, browser: Any, address: str
) -> None:
    tab = Tab(browser, 1200, "light")
    tab.page.goto(f"{address}/search.html?q={words.replace(' ', '+')}", wait_until="load")
    tab.page.locator("#search-results a", has_text=result).first.wait_for()
    assert not tab.errors
    tab.context.close()


def test_a_message_leads_to_its_entry(browser: Any, address: str) -> None:
    tab = Tab(browser, 1200, "light")
    tab.page.goto(f"{address}/index.html", wait_until="load")
    tab.page.locator("pre a", has_text="errors.html#").click()
    tab.page.wait_for_url("**/errors.html#read-before-it-was-written")
    found = tab.page.locator(".find + ul")
    for message, entry in (
        ("values: padding of x_ref was used", "padding-was-used"),
        ("waits on sems[0, 0], where no copy was started", "no-copy-was-started"),
    ):
        tab.page.locator(".find input").fill(message)
        assert found.locator("a").first.get_attribute("href") == f"#{entry}"
        assert tab.page.locator(f"[id='{entry}'] h3").count() == 1
    tab.page.locator(".find input").fill("no report has these words")
    assert found.inner_text() == ""
    assert not tab.errors
    tab.context.close()


# ---- the playground ----


def test_the_playground_has_all_solutions_at_the_sizes_of_today() -> None:
    told = list(playground_data.differences(roofline_data.every()))
    assert not told, f"run: python tools/playground_data.py NAME, for these: {told}"


def test_the_playground_tells_each_point_as_its_data_does(browser: Any, address: str) -> None:
    data = json.loads((ROOT / "docs/site/parts/playground.json").read_text(encoding="utf-8"))
    tab = Tab(browser, 1200, "light")
    tab.page.goto(f"{address}/playground.html#chip=v6e&kata=int8_matmul&size=0", wait_until="load")
    case = next(each for each in data["katas"] if each["kata"] == "int8_matmul")["cases"][0]
    seconds, size = case["on"]["v6e"]
    roof = min(
        data["chips"]["v6e"]["peaks"]["int8"],
        case["operations"] / size * data["chips"]["v6e"]["bandwidth"],
    )
    told = tab.page.locator("#told").inner_text()
    assert case["case"] in told
    assert f"{seconds * 1e6:.0f} µs" in told
    share = re.search(r"and ([\d.]+) % of the roof", told)
    assert share
    assert float(share[1]) == pytest.approx(100 * case["operations"] / seconds / roof, rel=0.06)
    assert tab.page.locator("#plot circle").count() > 50
    rows = tab.page.locator("#points tr").count()
    assert rows == len(data["katas"]) + 1
    tab.page.locator("summary", has_text="Your own kernel").click()
    for name, value in (("operations", "2e12"), ("bytes", "1e9"), ("time", "4000")):
        tab.page.locator(f"#own-{name}").fill(value)
    assert "at least 2.18 ms" in tab.page.locator("#own-told").inner_text()
    tab.page.locator("#own-time").fill("400")
    assert "No kernel is faster" in tab.page.locator("#own-told").inner_text()
    tab.page.locator("#own-time").fill("400 µs")
    assert "plain numbers" in tab.page.locator("#own-told").inner_text()
    tab.page.locator("#own-time").fill("")
    tab.page.locator("#track").select_option("5_pipelines")
    listed = tab.page.locator("#kata option").all_inner_texts()
    assert listed
    assert all(name.startswith("5.") for name in listed)
    tab.page.locator("#chip").select_option("v5e")
    assert "at least 10.2 ms" in tab.page.locator("#own-told").inner_text()
    assert not tab.errors
    tab.context.close()
