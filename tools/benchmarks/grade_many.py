"""Many submissions of all kinds through `kata grade` on two Ray nodes, which are killed meanwhile.

    python -m tools.benchmarks.grade_many [--count 1000] [--folder DIR] [--minutes M] [WORD …]
        [--local] [--calm] [--check N]

Solutions, known mistakes, mutants, hostile files, crashes and hangs, for the katas whose names hold
a WORD or for all of them, are graded under `--isolation require`. At a quarter and at three
quarters of them a node's raylet is killed and a new node started; at half, the driver is killed and
started again (`--calm`: neither). With `--local` there is no Ray: two processes of this machine,
one of which is killed. Everything is in DIR; the same command goes on where an earlier run, or one
whose M minutes were over, has stopped.

Then it checks that each submission has one verdict, that pytest gives the same to N of them (each
in a session of its own), and that no process and no file is left. It prints CPU seconds by
submission, Ray's share, memory over time, and what an evaluation of 10,000 would take. The exit
code is 1 where a check fails. It needs Ray, unless `--local`: pip install '.[scale,tpu,dev]'. Linux
only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tools.benchmarks.many import agreement, told
from tools.benchmarks.many.mixture import Made, mixture
from tools.benchmarks.many.nodes import Nodes, started
from tools.benchmarks.many.processes import (
    GRADES,
    MARK,
    Clock,
    Seen,
    descendants,
    kill_all,
    private_mib,
    running,
)

WORKERS = 2
EVENTS = ((0.25, "node"), (0.5, "driver"), (0.75, "node"))
ROLES = ("grader", "driver", "ray")
MEMORY_SECONDS = 10.0
GONE_SECONDS = 30.0


@dataclass(slots=True)
class Account:
    """What was measured so far, over all runs of a folder."""

    events: list[str] = field(default_factory=list)
    cpu: dict[str, float] = field(default_factory=dict)
    wall: float = 0.0
    calm: list[dict[str, float]] = field(default_factory=list)  # first and last look before a kill
    memory: list[tuple[int, float, float, float]] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    pytest: dict[str, tuple[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, file: Path) -> Account:
        return cls(**json.loads(file.read_text())) if file.exists() else cls()

    def save(self, file: Path) -> None:
        part = file.with_suffix(".part")
        part.write_text(json.dumps(asdict(self)))
        part.replace(file)


class Run:
    """The samples of a folder on their way through drivers that are killed."""

    def __init__(self, options: argparse.Namespace, made: list[Made]) -> None:
        self.folder: Path = options.folder
        self.made, self._options = made, options
        self.account = Account.of(self.folder / "account.json")
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        self.mark = str(self.temporary.resolve())
        self._ends = time.monotonic() + 60 * options.minutes
        self._clock = Clock()

    def save(self) -> None:
        self.account.save(self.folder / "account.json")

    @property
    def judged(self) -> int:
        """How many verdicts the store has."""
        with contextlib.suppress(sqlite3.Error), self.store() as found:
            return found.execute("select count(*) from verdicts").fetchone()[0]
        return 0

    @contextlib.contextmanager
    def store(self) -> Iterator[sqlite3.Connection]:
        database = sqlite3.connect(f"file:{self.folder / 'store.sqlite'}?mode=ro", uri=True)
        try:
            yield database
        finally:
            database.close()

    def grade(self) -> None:
        """Until all are judged, or the time is over."""
        if self._options.local:
            environ = {**os.environ, MARK: self.mark, "TMPDIR": str(self.temporary)}
            self._drive(environ, None)
        else:
            with Nodes(WORKERS, self.mark, self.temporary) as nodes:
                self._drive(nodes.environ, nodes)
        self._gone("the end", list(running(self.mark)))
        until = time.monotonic() + GONE_SECONDS
        while (files := os.listdir(self.temporary)) and time.monotonic() < until:
            time.sleep(0.2)
        self._note_leftovers("the end", files)
        kill_all(self.mark)
        self.save()

    def _drive(self, environ: dict[str, str], nodes: Nodes | None) -> None:
        driver = self._driver(environ, nodes)
        begun, looked, before = time.monotonic(), 0.0, self.account.wall
        spent = dict(self.account.cpu)
        try:
            while driver.poll() is None and time.monotonic() < self._ends:
                time.sleep(1)
                seen = list(running(self.mark))
                self._clock.look(seen)
                count = self.judged
                if time.monotonic() - looked > MEMORY_SECONDS:
                    looked = time.monotonic()
                    sizes = private_mib(seen)
                    grader, driving, ray = (sizes[role] for role in ROLES)
                    self.account.memory.append((count, grader, driving, ray))
                self.account.wall = before + time.monotonic() - begun
                self.account.cpu = {
                    role: spent.get(role, 0.0) + self._clock.seconds(role) for role in ROLES
                }
                self._note_calm(count)
                self.save()
                if nodes:
                    nodes.replace()
                if (event := self._due(count)) is not None:
                    self.account.events.append(event)
                    if event == "driver":
                        driver.kill()
                        driver.wait()
                        workers = [one for one in seen if one.role == "grader"]
                        self._gone("the driver", workers)
                        driver = self._driver(environ, nodes)
                    else:
                        self._kill_node(seen, nodes)
        finally:
            driver.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                driver.wait(60)
            driver.kill()
            driver.wait()
        self._gone("the driver at last", [s for s in running(self.mark) if s.role == "grader"])

    def _note_calm(self, count: int) -> None:
        """What was spent between the first verdict and the first kill: nothing starts then."""
        if count and not self.account.events:
            look = {**self.account.cpu, "judged": float(count), "wall": self.account.wall}
            self.account.calm = [*self.account.calm[:1], look]

    def _due(self, count: int) -> str | None:
        """What is to be killed now."""
        at = len(self.account.events)
        if self._options.calm or at == len(EVENTS):
            return None
        share, event = EVENTS[at]
        return event if share * len(self.made) <= count < len(self.made) else None

    def _kill_node(self, seen: list[Seen], nodes: Nodes | None) -> None:
        if nodes is None:
            victim = next(one for one in seen if GRADES[0] in one.command)
            workers = [one for one in descendants(victim.pid, seen) if one.pid != victim.pid]
            os.kill(victim.pid, signal.SIGKILL)
        else:
            raylet = nodes.raylet(len(self.account.events))
            workers = [one for one in descendants(raylet, seen) if one.role == "grader"]
            os.kill(raylet, signal.SIGKILL)
        self._gone("a node", workers)
        if nodes:
            nodes.replace()

    def _gone(self, whose: str, processes: list[Seen]) -> None:
        """Wait until the grader's processes are gone that a victim had; note those that stay."""
        known = {(one.pid, one.began) for one in processes}
        until = time.monotonic() + GONE_SECONDS
        while left := [s for s in running(self.mark) if (s.pid, s.began) in known]:
            if time.monotonic() > until:
                break
            time.sleep(0.2)
        self._note_leftovers(whose, [one.command for one in left])

    def _note_leftovers(self, whose: str, what: list[str]) -> None:
        self.account.leftovers += [f"after {whose}: {each[:100]}" for each in what]

    def _driver(self, environ: dict[str, str], nodes: Nodes | None) -> subprocess.Popen[bytes]:
        command = [
            *(sys.executable, "-m", "grader.cli", "grade", str(self.folder / "samples.jsonl")),
            *("--out", str(self.folder / "results.jsonl"), "--seed=1"),
            *("--store", str(self.folder / "store.sqlite"), f"--workers={WORKERS}"),
            *((f"--ray={nodes.address}",) if nodes else ()),
        ]
        return started(command, environ, self.folder / "driver.log")

    def compare(self, count: int) -> None:
        """Have pytest grade some of them too, evenly from all kinds."""
        results = told.results_of(self.folder)
        step = max(1, len(self.made) // max(count, 1))
        for one in self.made[::step] if count else []:
            if str(one.id) in self.account.pytest or one.id not in results:
                continue
            if time.monotonic() > self._ends:
                return
            row = results[one.id]
            environ = {**os.environ, "TMPDIR": str(self.temporary)}
            found = agreement.of_pytest(one.task_id, one.completion, row["seed"], environ)
            self.account.pytest[str(one.id)] = found
            self.save()


def main() -> int:
    """Grade, check, and print the account. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Grade many submissions, and kill who does it.")
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/grade-many"))
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--local", action="store_true", help="without Ray")
    parser.add_argument("--calm", action="store_true", help="kill nobody")
    parser.add_argument("--check", type=int, default=100, help="how many pytest grades too")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    made = mixture(options.count, options.words, options.folder)
    lines = "".join(f"{json.dumps(one.row())}\n" for one in made)
    (options.folder / "samples.jsonl").write_text(lines)
    run = Run(options, made)
    if run.judged < len(made):
        run.grade()
    run.compare(options.check)
    problems = told.problems(run.folder, made, run.account)
    told.show(run.folder, made, run.account, problems)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
