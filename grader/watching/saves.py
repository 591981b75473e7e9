"""The file system's side of `kata watch`: which katas have been saved."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from grader.exercise.catalog import KATAS, Kata, kata_at
from grader.watching.events import Blind, Event, Saved

#: Milliseconds without a further change, after which a save is taken to be complete.
QUIET = 10
#: Milliseconds between two looks, where the file system tells nothing by itself.
POLL = 150
#: Seconds for an editor that removes a file before it writes the new one.
BETWEEN = 0.1


class Saves(threading.Thread):
    """Tells of every kata's file that is written below `root`, until `close`.

    `poll` looks at all files again and again, for network and shared file systems that tell of no
    change. Where the system refuses to watch (its limit is reached), it is done anyway.
    """

    def __init__(self, root: Path, tell: Callable[[Event], None], poll: bool = False) -> None:
        super().__init__(name="saves", daemon=True)
        self._root = root
        self._tell = tell
        self._poll = poll
        self._end = threading.Event()

    def run(self) -> None:
        try:
            self._watch(self._poll)
        except OSError as error:
            self._tell(Blind(f"{error}: looking at the files every {POLL} ms instead"))
            self._watch(poll=True)

    def _watch(self, poll: bool) -> None:
        import watchfiles  # here, since every `kata` command imports this module

        changes = watchfiles.watch(
            self._root / KATAS,
            watch_filter=None,
            step=QUIET,
            stop_event=self._end,
            force_polling=poll or None,  # None: watchfiles knows where polling is needed
            poll_delay_ms=POLL,
            rust_timeout=500,
            raise_interrupt=False,
        )
        for batch in changes:
            for kata in changed(self._root, (Path(path) for _, path in batch)):
                self._tell(Saved(kata))

    def close(self) -> None:
        """Watch no more; returns once that is so."""
        self._end.set()
        self.join(timeout=2)


def changed(root: Path, paths: Iterable[Path]) -> Iterator[Kata]:
    """The katas of these files, each once, the one written last at the end."""
    # By their last two parts: the system may name the same folder otherwise than `root` does.
    places = (root / KATAS / path.parent.name / path.name for path in paths)
    found = {kata for kata in (kata_at(root, place) for place in places) if kata}
    return iter(sorted(found, key=_written))


def _written(kata: Kata) -> float:
    for pause in (BETWEEN, 0.0):
        try:
            return kata.path.stat().st_mtime
        except OSError:
            time.sleep(pause)
    return 0.0
