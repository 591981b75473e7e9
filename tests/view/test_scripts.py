"""What the page's scripts are checked by says what is so; that they pass is `.ci/javascript`'s."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from tests.support.repositories import ROOT
from tests.view import document_types

WEB = document_types.FILE.parent
SCRIPTS = sorted(WEB.glob("*.js"))
HTML = (WEB / "page.html").read_text(encoding="utf-8")


def test_the_documents_types_are_those_of_its_classes() -> None:
    written = document_types.FILE.read_text(encoding="utf-8")
    assert written == document_types.text(), "run: python -m tests.view.document_types"


def test_every_script_is_checked() -> None:
    assert SCRIPTS
    for script in SCRIPTS:
        assert script.read_text(encoding="utf-8").startswith("// @ts-check\n"), script.name


def test_an_element_is_of_the_kind_that_its_type_says() -> None:
    types = (WEB / "page.d.ts").read_text(encoding="utf-8")
    listed = re.findall(r'^  "?([\w-]+)"?: HTML(\w+)Element;$', types, re.MULTILINE)
    assert listed
    for name, kind in listed:
        assert re.search(rf'<{kind.lower()}\b[^>]* id="{name}"', HTML), name


def test_every_element_that_is_asked_for_is_there() -> None:
    for script in SCRIPTS:
        for name in re.findall(r'\bbyId\("([\w-]+)"\)', script.read_text(encoding="utf-8")):
            assert f'id="{name}"' in HTML, f"{script.name}: {name}"


def test_where_there_is_no_npm_nothing_is_checked(tmp_path: Path) -> None:
    for tool in ("bash", "dirname"):
        (tmp_path / tool).symlink_to(shutil.which(tool) or "")
    ran = subprocess.run(
        [tmp_path / "bash", ROOT / ".ci" / "javascript"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "no npm: the page's JavaScript is not checked\n"
