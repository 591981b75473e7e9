"""Opens a file at a line in the learner's editor.

The environment names it, as git does: KATA_EDITOR, else VISUAL, else EDITOR. The value is a command
with its own options. How a line is given is known for the editors below; for any other, {file} and
{line} in the value say where they go.
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
#: Seconds after which an editor's command is taken to have opened its window.
QUIET = 1

_COLON = ("{file}:{line}",)
_PLUS = ("+{line}", "{file}")
_OPTION = ("--line", "{line}", "{file}")
#: Editors with windows of their own, and what each takes after its options.
_WINDOWS = {
    **dict.fromkeys(
        ("code", "code-insiders", "codium", "cursor", "windsurf"), ("-g", "{file}:{line}")
    ),
    **dict.fromkeys(("subl", "zed", "zeditor"), _COLON),
    **dict.fromkeys(("pycharm", "charm", "idea", "clion", "kate"), _OPTION),
    **dict.fromkeys(("gvim", "mvim", "gedit"), _PLUS),
}
#: Editors that take over the terminal.
_TERMINAL = {
    **dict.fromkeys(("vi", "vim", "nvim", "nano", "emacs", "emacsclient", "micro", "kak"), _PLUS),
    **dict.fromkeys(("hx", "helix"), _COLON),
}


class NoEditor(ValueError):
    """Nothing can be opened; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Editor:
    """A command that opens files, and the variable that names it."""

    words: tuple[str, ...]
    variable: str

    @property
    def name(self) -> str:
        """The command's name without its folder or ending: "code" for /usr/bin/code."""
        return Path(self.words[0]).stem.lower()

    @property
    def windowed(self) -> bool:
        """Whether it opens a window of its own. Any other needs a terminal."""
        return self.name in _WINDOWS

    def command(self, file: Path, line: int) -> list[str]:
        """What to run; without the line for an editor that is not known and has no {line}."""
        words = self.words
        if not any(FILE in word for word in words):
            words += (_WINDOWS | _TERMINAL).get(self.name, (FILE,))
        return [word.replace(FILE, str(file)).replace(LINE, str(line)) for word in words]


def chosen(environ: Mapping[str, str]) -> Editor:
    """The editor that the environment names. Raises NoEditor where it names none."""
    for variable in VARIABLES:
        if text := environ.get(variable, "").strip():
            try:
                return Editor(tuple(shlex.split(text)), variable)
            except ValueError as error:
                raise NoEditor(f"{variable} is {text!r}: {error}") from None
    raise NoEditor(
        f"no editor is chosen. Set {VARIABLES[0]} to its command, such as code, vim, emacs, "
        f"pycharm or subl; for another one, say where file and line go: 'name {FILE} {LINE}'"
    )


def open_at(file: Path, line: int, terminal: bool) -> str:
    """Open `file` at `line` (1-based); returns the editor's name.

    An editor without a window of its own takes this process's terminal until it ends; it needs
    `terminal` to be free for it. Raises NoEditor.
    """
    editor = chosen(os.environ)
    command = editor.command(file, line)
    if shutil.which(command[0]) is None:
        raise NoEditor(f"{editor.variable} names {command[0]!r}, and there is no such command")
    if editor.windowed:
        code = _beside(command)
    elif terminal:
        code = subprocess.run(command, check=False).returncode
    else:
        raise NoEditor(f"{editor.name} needs a terminal of its own: {shlex.join(command)}")
    if code:
        raise NoEditor(f"{editor.name} failed (exit code {code}): {shlex.join(command)}")
    return editor.name


def _beside(command: list[str]) -> int:
    """Start a command that may stay as long as its window does; its exit code if it is quick."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # it outlives the terminal
    )
    try:
        return process.wait(QUIET)
    except subprocess.TimeoutExpired:
        return 0
