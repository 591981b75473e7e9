"""Sphinx's settings for the site. In the repository, after `pip install -e '.[docs]'`:

    python docs/site/views.py                          draws the launches: libtpu, a few minutes
    python -m sphinx -W docs/site build/site           builds the site, without a network

jax is only imported, for the pages of the API. Without views, the pages of katas have none.
`pages.py` writes Sphinx's sources, into this folder.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT), str(ROOT / "integrations/pytest")]

import pages  # noqa: E402

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = html_title = "Pallas Katas"
author = copyright = "the Pallas Katas authors"
version = release = _PROJECT["version"]
extensions = ["myst_parser", "sphinx_design", "sphinx_copybutton", "sphinx.ext.autodoc"]
exclude_patterns = ["parts"]
linkcheck_timeout, linkcheck_retries = 20, 2
#: Pages that don't exist before the first release, and sites that refuse programs.
linkcheck_ignore = [
    rf"{_PROJECT['urls']['Repository']}.*",
    rf"{_PROJECT['urls']['Documentation']}.*",
    r"https://colab\..*",
    r"https://codespaces\..*",
]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
smartquotes = False  # messages are searched for as they are printed

autodoc_typehints = "signature"
autodoc_member_order = "bysource"

html_theme = "furo"
html_baseurl = _PROJECT["urls"]["Documentation"] + "/"
html_static_path, html_favicon = ["static"], "static/favicon.svg"
html_css_files, html_js_files = ["site.css"], [("site.js", {"priority": 100})]
html_extra_path = ["extra"]  # views, as they are
html_copy_source = html_show_sourcelink = False
pygments_style, pygments_dark_style = "a11y-light", "github-dark"


def setup(app: Sphinx) -> None:
    repository = _PROJECT["urls"]["Repository"]
    sources = pages.write_pages(ROOT, HERE, repository)

    def link_to_source(_: Any, page: str, __: str, context: dict[str, Any], ___: Any) -> None:
        if page in sources:
            context["theme_source_edit_link"] = f"{repository}/edit/main/{sources[page]}"
            context["theme_source_view_link"] = f"{repository}/blob/main/{sources[page]}"

    app.connect("html-page-context", link_to_source)
    app.connect("autodoc-process-docstring", pages.docstring_as_rst)
