"""The account as a table, and what is wrong with it."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.benchmarks.many.mixture import Made

if TYPE_CHECKING:
    from tools.benchmarks.grade_many import Account

EVALUATION, CORES = 10_000, 64
# A Ray node has no folder of katas, so what reaches for one finds none: denied all the same.
DENIED = {"PermissionError": ("PermissionError", "FileNotFoundError")}


def results_of(folder: Path) -> dict[int, dict[str, Any]]:
    """The rows of the results by the id of their sample."""
    file = folder / "results.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return {row["id"]: row for row in map(json.loads, lines)}


def problems(folder: Path, made: list[Made], account: Account) -> list[str]:
    """In words; none where all is as it has to be."""
    found = [*account.leftovers]
    results = results_of(folder)
    lines = (folder / "results.jsonl").read_text().splitlines()
    if len(lines) != len(results):
        found.append(f"{len(lines)} results for {len(results)} ids")
    missing = [one.id for one in made if one.id not in results]
    if missing:
        found.append(f"{len(missing)} submissions have no verdict, such as {missing[:5]}")
    stored = _stored(folder)
    if stored != len(made):
        found.append(f"{stored} verdicts in the store, for {len(made)} submissions")
    for one in made:
        row = results.get(one.id)
        if row and (wrong := _unexpected(one, row)):
            found.append(f"submission {one.id}, a {one.kind} for {one.task_id}: {wrong}")
    for id, (state, stars) in account.pytest.items():
        row = results[int(id)]
        if (row["state"], row["stars"]) != (state, stars):
            ours = f"{row['state']} {row['stars']}"
            found.append(f"submission {id}: {ours}, and pytest says {state} {stars}")
    return found


def _unexpected(one: Made, row: dict[str, Any]) -> str:
    right = (row["state"], row["stars"]) == ("passed", 3)
    if one.kind == "solution" and not right:
        return f"{row['state']}, {row['stars']} stars, {row['finding']}"
    if one.kind in ("mistake", "crash", "hang") and right:
        return "three stars"
    finding = row["finding"] or {"phrase": "", "message": ""}
    told = f"{finding['phrase']}\n{finding['message']}"
    if not any(says in told for says in DENIED.get(one.says, (one.says,))):
        return f"{finding['phrase']!r}, where {one.says!r} has to be said"
    return ""


def _stored(folder: Path) -> int:
    database = sqlite3.connect(f"file:{folder / 'store.sqlite'}?mode=ro", uri=True)
    try:
        return database.execute("select count(*) from verdicts").fetchone()[0]
    finally:
        database.close()


def show(folder: Path, made: list[Made], account: Account, wrong: list[str]) -> None:
    """Print all of it."""
    results = results_of(folder)
    judged = max(len(results), 1)
    kinds = Counter(one.kind for one in made)
    print(f"{len(made)} submissions: {', '.join(f'{n} {kind}' for kind, n in kinds.items())}")
    print(f"judged {len(results)}, killed: {', '.join(account.events) or 'nobody'}")
    print(f"wall-clock {account.wall:.0f} s, {3600 * judged / max(account.wall, 1):.0f} an hour")
    grader = account.cpu.get("grader", 0.0)
    for role in ("grader", "driver", "ray"):
        spent = account.cpu.get(role, 0.0)
        share = 100 * spent / max(grader, 1e-9)
        print(f"  {role:8}{spent:10.1f} CPU s {spent / judged:8.3f} each {share:7.1f} %")
    _show_calm(account)
    _show_memory(account)
    agreed = sum(
        (results[int(id)]["state"], results[int(id)]["stars"]) == tuple(found)
        for id, found in account.pytest.items()
    )
    print(f"pytest agrees on {agreed} of {len(account.pytest)}")
    each = sum(account.cpu.values()) / judged
    hours = each * EVALUATION / 3600
    print(
        f"{EVALUATION:,} of these: {each:.2f} CPU s x {EVALUATION:,} = {hours:.1f} CPU h, "
        f"/ {CORES} cores = {60 * hours / CORES:.0f} min"
    )
    for each_problem in wrong:
        print(f"WRONG: {each_problem}")
    print("all checks hold" if not wrong else f"{len(wrong)} problems")


def _show_calm(account: Account) -> None:
    """What Ray takes where no node starts and none dies: its overhead."""
    if len(account.calm) < 2:
        return
    first, last = account.calm
    spent = {name: last[name] - first[name] for name in last}
    if not spent["judged"]:
        return
    more = spent["ray"] + spent["driver"]
    each, share = more / spent["judged"], more / max(spent["grader"], 1e-9)
    print(
        f"  from the first verdict to the first kill, {spent['judged']:.0f} submissions: "
        f"driver and Ray {each:.3f} CPU s each, {share:.1%}, "
        f"{more / max(spent['wall'], 1e-9):.3f} a second"
    )


def _show_memory(account: Account) -> None:
    """In four parts of the time: the largest of each."""
    print("  MiB, most of each quarter: judged, grader, driver, ray")
    size = -(-len(account.memory) // 4)
    for at in range(0, len(account.memory), max(size, 1)):
        part = account.memory[at : at + size]
        most = [max(row[column] for row in part) for column in range(4)]
        print(f"  {most[0]:10.0f}{most[1]:10.0f}{most[2]:10.0f}{most[3]:10.0f}")
