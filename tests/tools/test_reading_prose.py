"""The report of phrases that make English hard to read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import prose

PAGE = """# What follows

A page says what it draws. What is it? It is no picture, of its own. `what`

    what = code

```
what is told
```
| what | is told |
"""
CODE = '''"""What a module holds."""

def f(x):
    raise ValueError(f"the answer {x} is told: what you get")
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        "README.md": PAGE,
        "katas/1_some/README.md": "Nothing is told.\n",
        "katas/1_some/kata_01_some.py": '"""Some.\n\nGoal\n    See what happens.\n"""\n',
        "solutions/1_some/kata_01_some.toml": 'says = "what it says to you"\nname = "what"\n',
        "grader/some.py": CODE,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "CHANGELOG.md").write_text("what is told")
    return tmp_path


def test_phrases_are_counted_by_kind_of_text(root: Path) -> None:
    found = prose.counts(list(prose.texts(root)))
    counted = {
        kind: tuple(counter[name] for name in prose.PATTERNS) for kind, counter in found.items()
    }
    assert counted == {
        "pages": (2, 1, 1, 0),
        "track READMEs": (0, 0, 0, 1),
        "katas": (1, 0, 0, 0),
        "keys": (1, 0, 0, 0),
        "docstrings": (1, 0, 0, 0),
        "messages": (1, 0, 0, 1),
    }
    assert found["track READMEs"]["words"] == 3


def test_rates_are_for_ten_thousand_words(root: Path) -> None:
    first, *_, last = prose.table(prose.counts(list(prose.texts(root)))).splitlines()
    assert first.split()[0] == "words"
    assert last.split() == ["aim", "6.0", "0.5", "1.0", "0.2"]
    words = prose.table({"pages": prose.Counter({"words": 2000, "what": 3})})
    assert words.splitlines()[1].split() == ["pages", "2,000", "15.0", "0.0", "0.0", "0.0"]


def test_sentences_are_listed_with_their_file(capsys: pytest.CaptureFixture[str]) -> None:
    prose.main(["--list", "what", str(prose.ROOT / "docs/testing.md")])
    for line in capsys.readouterr().out.splitlines():
        assert line.startswith("docs/testing.md:1: ")
        assert "what" in line.lower()
