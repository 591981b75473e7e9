"""The READMEs of the course say what there is, and nothing of a template is left."""

from __future__ import annotations

import pytest

from grader.exercise import readmes
from grader.exercise.catalog import SOLUTIONS, Kata, katas
from grader.exercise.unwritten import unwritten
from tests.support.repositories import ROOT

TRACKS = tuple(dict.fromkeys(kata.track for kata in katas(ROOT, SOLUTIONS)))


def test_tables_and_counts_are_as_the_keys_have_them() -> None:
    assert readmes.sync(ROOT, check=True) == (), "run: kata sync"


@pytest.mark.parametrize("track", TRACKS)
def test_a_track_has_a_readme_with_its_table_and_its_count(track: str) -> None:
    text = readmes.readme_of(ROOT, track).read_text(encoding="utf-8")
    assert text.startswith(f"# {track}: ")
    assert "<!-- BEGIN KATAS" in text
    assert "This track has " in text


@pytest.mark.parametrize("file", ["README.md", "katas/README.md"])
def test_the_tracks_are_listed(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    assert "<!-- BEGIN TRACKS" in text
    assert all(f"[{track}](" in text for track in TRACKS)


def test_nothing_is_left_of_the_template() -> None:
    assert unwritten(ROOT) == ()


@pytest.mark.parametrize("kata", katas(ROOT, SOLUTIONS), ids=lambda kata: kata.name)
def test_what_the_learner_writes_fits_a_column(kata: Kata) -> None:
    assert len(kata.key.write) <= 30
