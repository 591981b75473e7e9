"""Opens a file at a line in the learner's editor.

As for git, environment variables name the editor: KATA_EDITOR, else VISUAL, else EDITOR. The value
is a command with options. The tables below know how each editor takes a line number. For other
editors, put {file} and {line} into the value.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

VARIABLES = ("KATA_EDITOR", "VISUAL", "EDITOR")
FILE, LINE = "{file}", "{line}"
#: An editor's command that runs for this many seconds has opened its window.
START_SECONDS = 1

_COLON = ("{file}:{line}",)
_PLUS = ("+{line}", "{file}")
_OPTION = ("--line", "{line}", "{file}")
#: Editors that open a window, with the arguments that each takes after its options.
_WINDOWED_EDITORS = {
    **dict.fromkeys(
        ("code", "code-insiders", "codium", "cursor", "windsurf"), ("-g", "{file}:{line}")
    ),
    **dict.fromkeys(("subl", "zed", "zeditor"), _COLON),
    **dict.fromkeys(("pycharm", "charm", "idea", "clion", "kate"), _OPTION),
    **dict.fromkeys(("gvim", "mvim", "gedit"), _PLUS),
}
#: Editors that take over the terminal.
_TERMINAL_EDITORS = {
    **dict.fromkeys(("vi", "vim", "nvim", "nano", "emacs", "emacsclient", "micro", "kak"), _PLUS),
    **dict.fromkeys(("hx", "helix"), _COLON),
}


class NoEditor(ValueError):
    """No editor can be opened. The text gives the reason and a remedy."""


@dataclass(frozen=True, slots=True)
class Editor:
    """An editor's command line, and the environment variable that holds it."""

    argv: tuple[str, ...]
    variable: str

    @property
    def name(self) -> str:
        """The command's name without its folder or ending: "code" for /usr/bin/code."""
        return Path(self.argv[0]).stem.lower()

    @property
    def windowed(self) -> bool:
        """Whether it opens a window. Other editors need a terminal."""
        return self.name in _WINDOWED_EDITORS

    def command(self, file: Path, line: int) -> list[str]:
        """The command to run, without the line for an unknown editor that has no {line}."""
        argv = self.argv
        if not any(FILE in word for word in argv):
            argv += (_WINDOWED_EDITORS | _TERMINAL_EDITORS).get(self.name, (FILE,))
        return [word.replace(FILE, str(file)).replace(LINE, str(line)) for word in argv]


def editor_from_environment(environ: Mapping[str, str]) -> Editor:
    """The editor that the environment names. Raises NoEditor if it names none."""
    for variable in VARIABLES:
        if text := environ.get(variable, "").strip():
            try:
                return Editor(tuple(shlex.split(text)), variable)
            except ValueError as error:
                raise NoEditor(f"{variable} is {text!r}: {error}") from None
    raise NoEditor(
        f"no editor is chosen. Set {VARIABLES[0]} to its command, such as code, vim, emacs, "
        f"pycharm or subl; for another editor, add file and line: 'name {FILE} {LINE}'"
    )


def open_at(file: Path, line: int, terminal: bool) -> str:
    """Open `file` at `line` (1-based). Returns the editor's name. Raises NoEditor.

    An editor without a window uses this process's terminal until it ends, if `terminal` is true.
    """
    editor = editor_from_environment(os.environ)
    command = editor.command(file, line)
    if shutil.which(command[0]) is None:
        raise NoEditor(f"{editor.variable} names {command[0]!r}, but no such command exists")
    if editor.windowed:
        code = _start_in_background(command)
    elif terminal:
        code = subprocess.run(command, check=False).returncode
    else:
        raise NoEditor(f"{editor.name} needs its own terminal: {shlex.join(command)}")
    if code:
        raise NoEditor(f"{editor.name} failed (exit code {code}): {shlex.join(command)}")
    return editor.name


def _start_in_background(command: list[str]) -> int:
    """Start an editor that may run until its window closes. Returns the exit code, 0 if it runs."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # it outlives the terminal
    )
    try:
        return process.wait(START_SECONDS)
    except subprocess.TimeoutExpired:
        return 0
