"""Which editor is opened, with which words, and what is said where none can be."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from grader.tools import editor
from grader.tools.editor import NoEditor, editor_from_environment, open_at

FILE = Path("/katas/it.py")
COMMANDS = {
    "code": "code -g /katas/it.py:7",
    "code --wait": "code --wait -g /katas/it.py:7",
    "cursor": "cursor -g /katas/it.py:7",
    "subl": "subl /katas/it.py:7",
    "zed": "zed /katas/it.py:7",
    "hx": "hx /katas/it.py:7",
    "vim": "vim +7 /katas/it.py",
    "/usr/bin/nvim -R": "/usr/bin/nvim -R +7 /katas/it.py",
    "emacs": "emacs +7 /katas/it.py",
    "nano": "nano +7 /katas/it.py",
    "pycharm": "pycharm --line 7 /katas/it.py",
    "/opt/pycharm/bin/pycharm.sh": "/opt/pycharm/bin/pycharm.sh --line 7 /katas/it.py",
    "idea": "idea --line 7 /katas/it.py",
    "unheard_of --flag": "unheard_of --flag /katas/it.py",
    "unheard_of {file}@{line}": "unheard_of /katas/it.py@7",
    "code -r -g {file}:{line}:1": "code -r -g /katas/it.py:7:1",
    "unheard_of -l {line}": "unheard_of -l 7 /katas/it.py",
}


@pytest.mark.parametrize(("value", "command"), COMMANDS.items(), ids=COMMANDS.keys())
def test_each_editor_is_told_the_line_in_its_own_way(value: str, command: str) -> None:
    assert editor_from_environment({"KATA_EDITOR": value}).command(FILE, 7) == command.split()


def test_a_path_with_spaces_stays_one_word() -> None:
    command = editor_from_environment({"EDITOR": "'/my tools/code'"}).command(Path("/a b/c.py"), 1)
    assert command == ["/my tools/code", "-g", "/a b/c.py:1"]


def test_our_own_variable_comes_first() -> None:
    environ = {"EDITOR": "nano", "VISUAL": "vim", "KATA_EDITOR": "code"}
    for name in ("code", "vim", "nano"):
        assert editor_from_environment(environ).name == name
        del environ[editor_from_environment(environ).variable]
    with pytest.raises(NoEditor, match=r"no editor is chosen\. Set KATA_EDITOR"):
        editor_from_environment({"KATA_EDITOR": " "})
    with pytest.raises(NoEditor, match="""VISUAL is "'vim": No closing quotation"""):
        editor_from_environment({"VISUAL": "'vim"})


@pytest.fixture
def editors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for commands, which is all that PATH holds."""
    for variable in editor.VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def install(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_an_editor_is_run(editors: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("code", "vim"):
        install(editors, name, f'echo "$@" > {editors}/{name}.said')
        monkeypatch.setenv("EDITOR", name)
        assert open_at(FILE, 7, terminal=True) == name
    assert (editors / "code.said").read_text() == "-g /katas/it.py:7\n"
    assert (editors / "vim.said").read_text() == "+7 /katas/it.py\n"


def test_a_window_is_not_waited_for(editors: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(editors, "code", f"echo $$ > {editors}/code.pid; exec /bin/sleep 60")
    monkeypatch.setattr(editor, "START_SECONDS", 0.2)
    monkeypatch.setenv("EDITOR", "code --wait")
    assert open_at(FILE, 7, terminal=False) == "code"
    while not (editors / "code.pid").exists():
        time.sleep(0.05)
    os.kill(int((editors / "code.pid").read_text()), 9)


def test_what_needs_a_terminal_is_not_run_without_one(
    editors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(editors, "vim", f"touch {editors}/ran")
    monkeypatch.setenv("EDITOR", "vim")
    with pytest.raises(NoEditor, match=r"vim needs its own terminal: vim \+7 /katas/it\.py"):
        open_at(FILE, 7, terminal=False)
    assert not (editors / "ran").exists()


@pytest.mark.parametrize("name", ["code", "vim"])
def test_an_editor_that_fails_is_told(
    editors: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    install(editors, name, "exit 3")
    monkeypatch.setenv("VISUAL", name)
    with pytest.raises(NoEditor, match=rf"{name} failed \(exit code 3\): {name} "):
        open_at(FILE, 7, terminal=True)


def test_an_editor_that_is_not_there_is_told(
    editors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KATA_EDITOR", "kode")
    with pytest.raises(NoEditor, match="KATA_EDITOR names 'kode', but no such command exists"):
        open_at(FILE, 7, terminal=True)
