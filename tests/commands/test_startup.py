"""What commands that are typed all day import: nothing that they can do without."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.repositories import Shop

HEAVY = ("_pytest", "numpy", "jax", "watchfiles", "pallascope.tpu", "grader.sandbox", "argcomplete")


def imported(shop: Shop, *words: str) -> set[str]:
    """The heavy modules that a command has imported once it is done."""
    code = (
        "import sys\nfrom grader.cli import main\n"
        f"code = main({list(words)!r})\n"
        "print('imported', *sys.modules, file=sys.stderr)\nsys.exit(code)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=shop.root, capture_output=True, text=True, check=True
    )
    return set(ran.stderr.split())


@pytest.mark.parametrize(
    "words",
    [
        *([], ["next"], ["list"], ["list", "row"], ["hint", "double"], ["progress"]),
        *(
            ["show", "double", "--yes"],
            ["list", "--path", "double"],
            ["reset", "double"],
            ["restore"],
        ),
    ],
    ids=" ".join,
)
def test_a_light_command_stays_light(shop: Shop, words: list[str]) -> None:
    assert not set(HEAVY) & imported(shop, *words)


def test_the_version_needs_no_exercises_and_no_rich(shop: Shop) -> None:
    assert not {*HEAVY, "rich", "grader.exercise"} & imported(shop, "--version")


def test_an_expression_does_need_pytest(shop: Shop) -> None:
    """So that the others are known to be told apart from it."""
    assert "_pytest" in imported(shop, "list", "row and first")


def test_next_reads_no_more_keys_than_it_has_to(shop: Shop) -> None:
    """The first stub is next whatever follows it: a broken key of a later kata is not even read."""
    shop.row_max.key_path.write_text("broken")
    assert "kata_01_double.py" in shop.run("next")
