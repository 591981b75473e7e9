"""Parts of a file of samples: each belongs to one, whatever its place in the file is."""

from __future__ import annotations

import pytest

from grader.batch.batch_run import Shard, shard_of
from grader.batch.samples import Complaint, Sample

SAMPLES = [Sample(line, {}, "1_first/kata_01_double", f"x = {line}") for line in range(1, 101)]


def test_each_sample_belongs_to_one_shard() -> None:
    shards = [Shard(number, 4) for number in range(1, 5)]
    parts = [{one.line for one in SAMPLES if one in shard} for shard in shards]
    assert set.union(*parts) == set(range(1, 101))
    assert sum(map(len, parts)) == 100
    assert min(map(len, parts)) >= 10


def test_the_same_text_goes_to_the_same_shard() -> None:
    first = SAMPLES[0]
    again = Sample(77, {"id": 3}, first.kata, first.source)
    assert shard_of(first, 1000) == shard_of(again, 1000)
    assert shard_of(Sample(1, {}, first.kata, "\ud800"), 3).count == 3


def test_what_cannot_be_judged_is_told_by_the_first() -> None:
    for bad in (Complaint(9, "is no JSON"), Sample(9, {}, "1_first/kata_01_double", None, "empty")):
        assert [bad in Shard(number, 3) for number in (1, 2, 3)] == [True, False, False]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("3/2", "with 2, they are 1/2 to 2/2"),
        ("0/2", "with 2, they are 1/2 to 2/2"),
        ("0/0", "at least one"),
        ("1", "2/4"),
        ("-1/2", "2/4"),
        ("1/2/3", "2/4"),
        ("a/b", "2/4"),
        ("", "2/4"),
    ],
)
def test_what_is_no_shard_is_told(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Shard.of(text)


def test_a_shard_reads_as_it_is_written() -> None:
    assert str(Shard.of("2/4")) == "2/4"
