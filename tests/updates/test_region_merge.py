"""Merging an exercise's texts along its regions: what the learner wrote is never touched."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.record.ledger import LEDGER
from grader.tools.git import Git
from grader.updates import file_merge
from pallascope.tools.regions import fill_regions, region_lines

BASE = '''"""Double every element.

Why it matters.
"""


def spec(x):
    return x * 2


def load(x_ref):
    # BEGIN SOLUTION
    raise NotImplementedError("load")
    # END SOLUTION


def store(o_ref, value):
    # BEGIN SOLUTION
    raise NotImplementedError("store")
    # END SOLUTION


def launch(x, *, bm=8):
    return call(load, store, x)
'''
LOAD = ("    # mine  ", "", "    return x_ref[...]", "")
STORE = ("    o_ref[...] = (", "  value", "    )")
LOAD_STUB, STORE_STUB = region_lines(BASE)


@functools.cache
def git() -> Git:
    return Git(Path(__file__).parent)


def merged(
    base: str, ours: str, theirs: str, path: str = "katas/1_a/kata_01_a.py"
) -> file_merge.MergedText:
    """As bytes and back, through git where git is needed."""
    found = file_merge.merge_file(git(), path, base.encode(), ours.encode(), theirs.encode())
    return file_merge.MergedText(found.data.decode(), found.conflicts)


def clean(ours: str, theirs: str) -> str:
    found = merged(BASE, ours, theirs)
    assert not found.conflicts, found.text
    return found.text


SOLVED = fill_regions(BASE, [LOAD, STORE])
HALF = fill_regions(BASE, [LOAD, STORE_STUB])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Why it matters.", "Why it matters, in more words.\n\nAnd a picture."),
        ("return x * 2", "return x + x"),
        ("return call(load, store, x)", "return call(load, store, x, grid=(x.shape[0] // bm,))"),
        ("def load(x_ref):\n", "def load(x_ref, scale_ref):\n"),
        ("    # END SOLUTION\n\n\ndef store", "    # END SOLUTION\n    # given\n\n\ndef store"),
        ("def store(o_ref, value):\n", 'def store(o_ref, value):\n    """Store it."""\n'),
        ("", "#!/usr/bin/env python\n"),
    ],
    ids=["docstring", "spec", "launch", "signature", "below", "above", "top"],
)
@pytest.mark.parametrize("bodies", [(LOAD, STORE), (LOAD, STORE_STUB)], ids=["solved", "half"])
def test_what_changed_outside_arrives(
    old: str, new: str, bodies: tuple[file_merge.Body, ...]
) -> None:
    theirs = BASE.replace(old, new, 1)
    assert clean(fill_regions(BASE, bodies), theirs) == fill_regions(theirs, bodies)


def test_a_reworded_stub_arrives_only_where_nothing_was_written() -> None:
    theirs = BASE.replace('"load"', '"load the block"').replace('"store"', '"store the block"')
    assert clean(BASE, theirs) == theirs
    assert clean(SOLVED, theirs) == SOLVED
    assert clean(HALF, theirs) == fill_regions(HALF, [LOAD, region_lines(theirs)[1]])


def test_a_region_of_several_lines_is_one_persons() -> None:
    """Line by line, git would mix given code with the learner's."""
    given = fill_regions(BASE, [("    a = 1", "    b = 2", "    c = 3", "    d = 4"), STORE_STUB])
    ours = given.replace("a = 1", "a = 10")
    theirs = given.replace("d = 4", "d = 40")
    assert merged(given, ours, theirs).text == ours
    assert "a = 10" in merged(given, ours, theirs, "notes.py").text
    assert "d = 40" in merged(given, ours, theirs, "notes.py").text


NEW = """def scale(x):
    # BEGIN SOLUTION
    raise NotImplementedError("scale")
    # END SOLUTION


"""


@pytest.mark.parametrize("before", ["def load", "def store", "def launch"])
def test_a_new_region_comes_as_a_stub(before: str) -> None:
    theirs = BASE.replace(before, NEW + before)
    assert clean(SOLVED, theirs) == SOLVED.replace(before, NEW + before)


def test_regions_that_change_places_take_their_bodies_along() -> None:
    head, load, store, rest = re.split(r"(?=def load|def store|def launch)", BASE)
    theirs = head + store + load + rest
    assert region_lines(clean(SOLVED, theirs)) == (STORE, LOAD)


def test_a_renamed_function_keeps_its_body() -> None:
    theirs = BASE.replace("load", "fetch").replace('"fetch"', '"load"')
    assert region_lines(clean(SOLVED, theirs)) == (LOAD, STORE)
    single = "def a():\n    # BEGIN SOLUTION\n    raise E\n    # END SOLUTION\n"
    theirs = single.replace("def a", "def b").replace("raise E", "raise E('more')")
    ours = fill_regions(single, [("    mine",)])
    assert merged(single, ours, theirs) == file_merge.MergedText(ours.replace("def a", "def b"), 0)


def test_a_region_that_moves_in_takes_its_lines_along() -> None:
    theirs = BASE.replace(
        '    # BEGIN SOLUTION\n    raise NotImplementedError("load")\n    # END SOLUTION',
        "    if True:\n        # BEGIN SOLUTION\n        raise NotImplementedError('load')\n"
        "        # END SOLUTION",
    )
    assert region_lines(clean(SOLVED, theirs))[0] == (
        *("        # mine  ", "", "        return x_ref[...]", ""),
    )


REMOVED = BASE.replace(
    '    # BEGIN SOLUTION\n    raise NotImplementedError("store")\n    # END SOLUTION',
    "    o_ref[...] = value",
)


def test_a_region_that_goes_takes_nothing_that_was_written() -> None:
    assert clean(fill_regions(BASE, [LOAD, STORE_STUB]), REMOVED) == fill_regions(REMOVED, [LOAD])
    found = merged(BASE, SOLVED, REMOVED)
    assert found.conflicts
    assert "\n".join(STORE) in found.text


def test_a_choice_between_regions_is_not_guessed() -> None:
    """Upstream splits a region and rewords both halves."""
    two = '("one")\n    # END SOLUTION\n    # BEGIN SOLUTION\n    raise NotImplementedError("two")'
    found = merged(BASE, SOLVED, BASE.replace('("load")', two))
    assert found.conflicts
    assert "\n".join(LOAD[:3]) in found.text


def functions(**stubs: str) -> str:
    """Functions of one region for each letter, the stub that it stands for."""
    region = "    # BEGIN SOLUTION\n    raise {}\n    # END SOLUTION\n"
    parts = [f"def {n}():\n" + "".join(map(region.format, stubs[n])) for n in stubs]
    return "\n\n".join(parts)


def test_regions_of_one_wording_are_told_apart_by_their_functions() -> None:
    base = functions(f="s", g="s")
    ours = fill_regions(base, [LOAD, STORE])
    found = merged(base, ours, functions(h="s", f="st"))  # g, renamed, goes first
    assert not found.conflicts
    assert region_lines(found.text) == (STORE, LOAD, ("    raise t",))


def test_a_region_that_goes_beside_another_leaves_a_choice() -> None:
    found = merged(
        functions(f="st"), fill_regions(functions(f="st"), [LOAD, STORE]), functions(f="u")
    )
    assert found.conflicts
    for body in (LOAD, STORE):
        assert "\n".join(body).strip() in found.text


@pytest.mark.parametrize("marker", ["# BEGIN SOLUTION", "# END SOLUTION"])
def test_with_a_broken_marker_git_decides(marker: str) -> None:
    broken = SOLVED.replace(f"    {marker}\n", "", 1)
    theirs = BASE.replace("Why it matters.", "Why.")
    assert clean(broken, theirs) == broken.replace("Why it matters.", "Why.")
    assert merged(BASE, broken, BASE.replace('"load"', '"load it"')).conflicts == 1


def test_the_same_lines_outside_are_a_conflict() -> None:
    ours = SOLVED.replace("return x * 2", "return 2 * x")
    found = merged(BASE, ours, BASE.replace("return x * 2", "return x + x"))
    assert found.conflicts == 1
    assert (
        "<<<<<<< yours\n    return 2 * x\n=======\n    return x + x\n>>>>>>> upstream" in found.text
    )
    assert region_lines(found.text) == (LOAD, STORE)


def test_both_sides_edits_outside_are_merged() -> None:
    ours = SOLVED.replace("Why it matters.", "Why it matters to me.")
    theirs = BASE.replace("bm=8", "bm=16")
    assert clean(ours, theirs) == ours.replace("bm=8", "bm=16")


def test_line_ends_and_bytes_stay_the_learners() -> None:
    theirs = BASE.replace("bm=8", "bm=16")
    windows = SOLVED.replace("\n", "\r\n").encode()
    found = file_merge.merge_file(
        git(), "katas/1_a/kata_01_a.py", BASE.encode(), windows, theirs.encode()
    )
    assert found.data == windows.replace(b"bm=8", b"bm=16")
    latin = SOLVED.encode().replace(b"# mine", b"# caf\xe9")
    found = file_merge.merge_file(
        git(), "katas/1_a/kata_01_a.py", BASE.encode(), latin, theirs.encode()
    )
    assert found.data == latin.replace(b"bm=8", b"bm=16")


def test_a_ledger_keeps_the_lines_of_both() -> None:
    found = merged("a\n", "a\nmine\n", "a\ntheirs\n", LEDGER)
    assert (found.conflicts, sorted(found.text.split())) == (0, ["a", "mine", "theirs"])


# ---- whatever happens ----

words = st.text(alphabet="ab @=", min_size=1, max_size=3).map(lambda text: f"x{text}")
outside = st.lists(words, max_size=3)
inside = st.lists(st.sampled_from(["    y = 1", "    z", "", "  @0", "\ty  "]), max_size=3)


@st.composite
def edited(draw: st.DrawFn, text: str) -> str:
    """A text with some lines outside of its regions replaced, added or deleted."""
    lines: list[str] = []
    within = False
    for line in text.split("\n"):
        marker = line.strip()
        within = marker == "# BEGIN SOLUTION" or (within and marker != "# END SOLUTION")
        kept = within or marker == "# END SOLUTION" or draw(st.integers(0, 5)) > 0
        lines += [line] if kept else draw(outside)
    return "\n".join(lines)


@st.composite
def versions(draw: st.DrawFn) -> tuple[str, str, str, list[file_merge.Body]]:
    """A base of one to three regions; ours and theirs; the bodies that ours has written."""
    names = [f"f{number}" for number in range(draw(st.integers(1, 3)))]
    parts = [
        "\n".join([*draw(outside), f"def {n}(x):", "    # BEGIN SOLUTION", f"    raise {n}"])
        for n in names
    ]
    base = "\n".join(f"{part}\n    # END SOLUTION\nreturn" for part in parts) + "\n"
    mine = [tuple(draw(st.one_of(st.just(body), inside))) for body in region_lines(base)]
    ours = fill_regions(draw(edited(base)), mine)
    theirs = draw(edited(base))
    for name in draw(st.sets(st.sampled_from(names))):
        stub = f"    # BEGIN SOLUTION\n    raise {name}\n    # END SOLUTION"
        reworded, given = stub.replace("raise", "raise in words"), "    given = 1"
        more = f"{stub}\n    # BEGIN SOLUTION\n    new\n    # END SOLUTION"
        theirs = theirs.replace(stub, draw(st.sampled_from([reworded, given, more])))
    changed = [body for body, stub in zip(mine, region_lines(base), strict=True) if body != stub]
    return base, ours, theirs, changed


@settings(max_examples=150, deadline=None, database=None)
@given(versions())
def test_what_was_written_comes_out_as_it_was_or_is_a_conflict(
    versions: tuple[str, str, str, list[file_merge.Body]],
) -> None:
    base, ours, theirs, changed = versions
    found = merged(base, ours, theirs)
    if not found.conflicts:
        bodies = list(region_lines(found.text))
        for body in changed:
            bodies.remove(body)
