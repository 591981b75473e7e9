"""Who judges for `kata grade`: processes of this machine, or a Ray cluster."""

from __future__ import annotations

import argparse
import functools
import sys
from contextlib import AbstractContextManager

from grader.batch.crew import Crew, Hire
from grader.batch.local_crew import LocalCrew, cores
from grader.batch.orders import Setup


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workers",
        type=positive,
        metavar="N",
        help="how many samples to grade at a time (default: one for each core, of this machine or "
        "of the cluster)",
    )
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="grade on the nodes of the Ray cluster at HOST:PORT; auto: the one that this machine "
        "belongs to",
    )


def positive(text: str) -> int:
    """Raises ArgumentTypeError, ValueError where a text is no number above 0."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("has to be at least 1")
    return number


def demand_sense(options: argparse.Namespace) -> None:
    """Raises ValueError where --ray is given with what it replaces, or there is no cluster."""
    if options.ray is None:
        return
    if options.shard:
        raise ValueError("--ray and --shard: a cluster shares the samples out itself; give one")
    if options.merge:
        raise ValueError("--ray judges and --merge doesn't: give one of them")
    from grader.batch import ray_cluster

    ray_cluster.demand(options.ray)


def hire(options: argparse.Namespace) -> Hire:
    """Starts the crew that the options ask for."""
    if options.ray is None:
        return functools.partial(LocalCrew, count=options.workers or cores())
    return functools.partial(_on_ray, options.ray, options.workers)


def _on_ray(address: str, count: int | None, setup: Setup) -> AbstractContextManager[Crew]:
    from grader.batch.ray_cluster import ray_crew

    return ray_crew(setup, address, count, _tell)


def _tell(text: str) -> None:
    print(f"kata: {text}", file=sys.stderr)
