"""What `kata sync` and `kata new` say of READMEs, and of what is still to be written."""

from __future__ import annotations

import pytest

from tests.support.repositories import Shop

README = "# 1_first: from one to two\n\n<!-- BEGIN KATAS -->\n<!-- END KATAS -->\n"


@pytest.fixture
def readme(shop: Shop) -> str:
    (shop.root / "katas/1_first/README.md").write_text(README)
    return "katas/1_first/README.md"


def test_a_table_that_differs_fails_the_check(shop: Shop, readme: str) -> None:
    said = shop.run("sync", "--check", code=1)
    assert f"{readme}: its table or count differs from the keys\n" in said
    assert "3 katas, 0 not in step" in said
    assert (shop.root / readme).read_text() == README
    assert f"{readme}: written\n" in shop.run("sync")
    assert shop.run("sync", "--check") == "3 katas, 0 not in step with their solutions\n"


def test_new_names_its_files_and_what_to_write_over(shop: Shop, readme: str) -> None:
    assert shop.run("new", "1_first/softmax").splitlines() == [
        "solutions/1_first/kata_03_softmax.py",
        "solutions/1_first/kata_03_softmax.toml",
        "katas/1_first/kata_03_softmax.py",
        readme,
        "solutions/1_first/kata_03_softmax.py: still the template's: "
        "the first line, Goal, Concept, Needs, Read on, softmax_spec, softmax_kernel",
        "solutions/1_first/kata_03_softmax.toml: still the template's: "
        "title, concept, write, todo, hints, after, mistakes (at least three)",
        "Edit these files, then: kata sync && pytest tests -k softmax",
    ]
    assert "| [softmax](kata_03_softmax.py) |" in (shop.root / readme).read_text()


def test_new_begins_a_tracks_readme(shop: Shop) -> None:
    said = shop.run("new", "3_third/softmax")
    assert "\nkatas/3_third/README.md\n" in said
    assert "katas/3_third/README.md: still the template's: the heading, " in said
    assert (shop.root / "katas/3_third/README.md").exists()


def test_sync_says_what_is_left_without_failing(shop: Shop) -> None:
    shop.run("new", "2_second/softmax")
    said = shop.run("sync", "--check")
    assert "kata_02_softmax.toml: still the template's: title, " in said
    key = shop.root / "solutions/2_second/kata_02_softmax.toml"
    key.write_text(key.read_text().replace("its name in words", "Softmax"))
    assert "kata_02_softmax.toml: still the template's: concept, " in shop.run("sync")
