"""The READMEs of the course say what there is, and nothing of a template is left."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grader.exercise import readmes
from grader.exercise.answer_key import Slack
from grader.exercise.catalog import SOLUTIONS, Kata, katas
from grader.exercise.readmes import template_leftovers
from tests.support.repositories import ROOT

PAGES = (ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("katas/**/README.md"))
TRACKS = tuple(dict.fromkeys(kata.track for kata in katas(ROOT, SOLUTIONS)))


def _id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix().removeprefix("katas/")  # not for pytest -k kata


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


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_a_number_beside_a_name_is_its_own(page: Path) -> None:
    ours = katas(ROOT, SOLUTIONS)
    numbers = {kata.name: f"{kata.track.split('_')[0]}.{kata.number}" for kata in ours}
    beside = re.findall(r"`(\w+)`(?: |, | \()(\d+\.\d\d)\b", page.read_text(encoding="utf-8"))
    wrong = {name: said for name, said in beside if numbers.get(name, said) != said}
    assert not wrong, f"{page}: the numbers now are { ({name: numbers[name] for name in wrong}) }"


@pytest.mark.parametrize("kata", katas(ROOT, SOLUTIONS), ids=lambda kata: kata.name)
def test_its_texts_name_others_instead_of_numbering_them(kata: Kata) -> None:
    """A number says nothing to a reader, and it may change."""
    for file in (kata.solution, kata.key_path):
        assert not re.findall(r"\bkatas? \d\d\b", file.read_text(encoding="utf-8"), re.IGNORECASE)


@pytest.mark.parametrize("track", TRACKS)
def test_each_number_is_in_one_chapter_of_the_story(track: str) -> None:
    text = readmes.readme_of(ROOT, track).read_text(encoding="utf-8")
    heading = r"^(?:### [^(\n]+|\*\*[^*\n]+\*\*) \((\d\d[^)\n]*)\)"
    told = []
    for chapter in re.findall(heading, text, re.MULTILINE):
        for first, last in re.findall(r"(\d\d)(?: to (\d\d))?", chapter):
            told += range(int(first), int(last or first) + 1)
    ours = [kata for kata in katas(ROOT, SOLUTIONS) if kata.track == track]
    assert sorted(told) == list(range(1, len(ours) + 1))


def test_the_short_way_to_flash_attention_is_as_short_as_they_say() -> None:
    every = katas(ROOT, SOLUTIONS)
    (goal,) = (kata for kata in every if kata.name == "flash_attention")
    path = readmes.path_to(goal, every)
    assert f"flash attention: {len(path)} katas" in " ".join(
        (ROOT / "README.md").read_text().split()
    )
    here = sum(kata.track == "1_basics" for kata in path)
    words = {11: "eleven", 12: "twelve", 13: "thirteen", 4: "four", 5: "five", 6: "six"}
    said = f"{words[here]} katas here and {words[len(path) - here]} of [3_attention]"
    assert said in " ".join(readmes.readme_of(ROOT, "1_basics").read_text(encoding="utf-8").split())


def test_the_layouts_of_caches_are_those_of_the_specs() -> None:
    section = readmes.readme_of(ROOT, "6_serving").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `\[(.+?)\]`.*?\| (.+) \|$", section, re.MULTILINE)
    layouts = {name: dims for dims, names in rows for name in re.findall(r"`(\w+)`", names)}
    ours = {kata.name: kata for kata in katas(ROOT, SOLUTIONS) if kata.track == "6_serving"}
    assert set(layouts) == set(ours) - {"ragged_visits"}
    for name, dims in layouts.items():
        assert f'"{dims.replace(",", "")}"]' in ours[name].solution.read_text(encoding="utf-8")


def test_nothing_is_left_of_the_template() -> None:
    assert template_leftovers(ROOT) == ()


@pytest.mark.parametrize("kata", katas(ROOT, SOLUTIONS), ids=lambda kata: kata.name)
def test_what_the_learner_writes_fits_a_column(kata: Kata) -> None:
    assert len(kata.key.write) <= 30


def test_the_readme_states_the_default_limits_and_how_many_keys_differ() -> None:
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    default, others = Slack(), [s for s in limits_of("") if s != Slack()]
    assert f"moves at most {default.bytes * 100:.0f} % more bytes" in text
    assert f"predicted time is at most {default.cycles * 100:.0f} % longer" in text
    ranges = [
        f"{min(of) * 100:.0f} to {max(of) * 100:.0f} %"
        for of in ([s.bytes for s in others], [s.cycles for s in others])
    ]
    said = f"{len(others)} katas have other limits for ★★★: {ranges[0]} more bytes, and {ranges[1]}"
    assert said in text


@pytest.mark.parametrize("track", TRACKS)
def test_limits_that_a_track_states_are_those_of_its_keys(track: str) -> None:
    text = " ".join(readmes.readme_of(ROOT, track).read_text(encoding="utf-8").split())
    limits = limits_of(track)
    for percent in re.findall(r"(\d+) % more (?:bytes|than the solution)", text):
        assert {slack.bytes for slack in limits} == {int(percent) / 100}
    for percent in re.findall(r"at most (\d+) % (?:longer|slower)", text):
        assert {slack.cycles for slack in limits} == {int(percent) / 100}


def limits_of(track: str) -> list[Slack]:
    """Those of all katas, or of a track's, whose launch has a cost."""
    every = [kata for kata in katas(ROOT, SOLUTIONS) if not track or kata.track == track]
    return [kata.key.slack for kata in every if kata.key.kernel]
