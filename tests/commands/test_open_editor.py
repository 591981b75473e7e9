"""`--open`: the kata in the learner's editor, at the line to start typing at."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.repositories import Shop


@pytest.fixture
def said(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where an editor writes down what it was told to open."""
    code = shop.root / "code"
    code.write_text(f'#!/bin/sh\necho "$@" > {shop.root}/said\n')
    code.chmod(0o755)
    monkeypatch.setenv("KATA_EDITOR", str(code))
    return shop.root / "said"


@pytest.mark.parametrize("command", [["next"], ["hint", "double"]], ids=" ".join)
def test_an_exercise_is_opened_at_its_line(shop: Shop, said: Path, command: list[str]) -> None:
    told = shop.run(*command)
    assert not said.exists()
    if command == ["next"]:
        assert shop.run(*command, "--open") == told
    else:
        shop.run(*command, "--open")
    assert said.read_text() == f"-g {shop.double.path}:14\n"


def test_nothing_is_opened_where_nothing_is_next(shop: Shop, said: Path) -> None:
    for kata in (shop.double, shop.row_sum, shop.row_max):
        shop.repository.solve(kata)
    shop.run("next", "--open")
    assert not said.exists()


def test_an_editor_that_is_not_there_is_told(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KATA_EDITOR", "/no/such/editor")
    assert "KATA_EDITOR names '/no/such/editor'" in shop.run("next", "--open", code=2)
