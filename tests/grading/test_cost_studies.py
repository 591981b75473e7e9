"""Cases at sizes of one's own, and what keeps a launch from the chip, made ready to be shown."""

from __future__ import annotations

import dataclasses

import pytest

from grader.exercise.cases import draw
from grader.exercise.catalog import Kata, katas
from grader.exercise.key_tables import KataKind
from grader.exercise.repository import new_kata
from grader.grading.cost_studies import (
    NoStudy,
    any_case_of,
    case_of,
    common,
    names_of,
    side_of,
)
from pallascope.model import (
    Accident,
    Problem,
    Role,
    SourceLine,
    Stage,
)
from pallascope.tpu import OnChip
from tests.pallascope.support.calls import call, operand
from tests.pallascope.support.sample_predictions import prediction, refused, schedule
from tests.support.factories import FILE
from tests.support.repositories import ROOT, Repository

# ---- the case ----


def test_a_case_is_the_drawn_one_unless_told_otherwise(repository: Repository) -> None:
    kata = repository.add("double")
    assert case_of(kata, 1, 7, {}) == draw(kata.id, kata.key, 7)[1]


def test_where_no_case_is_named_it_is_that_of_production_size(repository: Repository) -> None:
    kata = repository.add("double")
    assert case_of(kata, None, 7, {}) == draw(kata.id, kata.key, 7)[0]
    table = "\n[production]\nM = 8192\n"
    kata.key_path.write_text(kata.key_path.read_text() + table)
    large = Kata(kata.root, kata.track, kata.stem)
    assert case_of(large, None, 7, {}) == draw(large.id, large.key, 7)[-1]
    assert case_of(large, None, 7, {}).sizes["M"] == 8192
    assert case_of(large, None, 7, {"bm": "64"}).sizes["bm"] == 64
    assert not case_of(large, 0, 7, {}).production


def test_sizes_follow_those_that_are_given(repository: Repository) -> None:
    kata = repository.add("double")
    drawn = draw(kata.id, kata.key, 0)[0]
    case = case_of(kata, 0, 0, {"bm": "64", "dtype": "bfloat16"})
    times = drawn.sizes["M"] // drawn.sizes["bm"]
    assert case.sizes == {**drawn.sizes, "bm": 64, "M": times * 64}
    assert case.dtype == "bfloat16"
    assert case.seed == drawn.seed


def test_a_size_that_is_given_stands(repository: Repository) -> None:
    kata = repository.add("double")
    case = case_of(kata, 0, 0, {"bm": "64", "M": "4096"})
    assert (case.sizes["bm"], case.sizes["M"]) == (64, 4096)


def test_a_number_that_may_be_0_can_be_given() -> None:
    (splash,) = (kata for kata in katas(ROOT, "solutions") if kata.name == "splash_attention")
    assert case_of(splash, None, 0, {"pattern": "0"}).sizes["pattern"] == 0
    with pytest.raises(ValueError, match="bq=0: a size is"):
        case_of(splash, None, 0, {"bq": "0"})


@pytest.mark.parametrize(
    ("given", "index", "words"),
    [
        ({"K": "8"}, 0, "double has no size 'K', only bm, M, N, dtype"),
        ({"bm": "eight"}, 0, "bm=eight: a size is a whole number above 0"),
        ({"bm": "0"}, 0, "bm=0: a size is a whole number above 0"),
        ({"dtype": "float"}, 0, "no dtype 'float': choose from float32, bfloat16"),
        ({}, 3, "double has cases 0 to 2, not 3"),
        ({}, -1, "double has cases 0 to 2, not -1"),
    ],
    ids=str,
)
def test_what_is_no_case_is_told(
    repository: Repository, given: dict[str, str], index: int, words: str
) -> None:
    with pytest.raises(ValueError, match="^" + words.replace("'", ".")):
        case_of(repository.add("double"), index, 0, given)


def test_there_is_nothing_to_study_without_a_kernel(repository: Repository) -> None:
    plain = repository.add(
        "double", key=Repository.KEY.replace("[cases]", "kernel = false\n[cases]")
    )
    with pytest.raises(NoStudy, match=r"double is plain jax\.numpy, without a kernel"):
        case_of(plain, 0, 0, {})


def test_the_names_that_may_be_given(repository: Repository) -> None:
    assert names_of(repository.add("double")) == "bm, M, N, dtype"


@pytest.mark.parametrize(
    ("sizes", "expected"), [((128, 256, 512), 512), ((96, 128), 384), ((97, 101, 103), 103)]
)
def test_what_is_computed_from_several_sizes_suits_all(
    sizes: tuple[int, ...], expected: int
) -> None:
    assert common(sizes) == expected


def test_no_study_is_misuse() -> None:
    assert issubclass(NoStudy, ValueError)


# ---- what keeps a launch from the chip ----


def problem(kind: str, message: str, stage: Stage = Stage.LOWER, **more: object) -> OnChip:
    return OnChip(dataclasses.replace(Problem(stage, kind, message), **more))  # type: ignore[arg-type]


def trouble(found: OnChip | Accident) -> list[str]:
    side = side_of("yours", found, "v5e", FILE)
    assert not side.kernels
    return side.trouble.splitlines()


def test_blocks_are_told_by_their_rules() -> None:
    block = operand("x_ref", (32, 256), (8, 100), Role.INPUT)
    text = trouble(problem("NotLowered", "ValueError: The Pallas TPU …", call=call(block)))
    assert text[0] == "A TPU refuses block (8, 100) of x_ref."
    assert any(line.startswith("  legal  nearest: (8, 128)") for line in text)


def test_what_mosaic_refuses_is_told_by_its_rung() -> None:
    text = trouble(problem("NotLowered", "NotImplementedError: no sort", call=call()))
    assert text[0] == "Mosaic refuses the launch."
    assert text[1].startswith("  error  NotImplementedError: no sort")


@pytest.mark.parametrize(
    ("stage", "head"),
    [
        (Stage.IMPORT, "The file cannot be imported."),
        (Stage.LOWER, "The launch cannot be traced: it fails before a kernel runs."),
    ],
    ids=["import", "lower"],
)
def test_what_the_launch_raises_is_told_by_its_stage(stage: Stage, head: str) -> None:
    text = trouble(problem("TypeError", "no", stage, place=SourceLine(3, "x +")))
    assert text == [head, "  error  TypeError: no", f"  line   {FILE}:3", "             x +"]


def test_an_accident_is_told_with_its_line() -> None:
    text = trouble(Accident("no answer", "No answer after 3 s.", SourceLine(3, "while True:")))
    assert text == ["No answer after 3 s.", f"  line   {FILE}:3", "             while True:"]


def test_nothing_claims_that_values_are_right() -> None:
    block = operand("x_ref", (32, 256), (8, 100), Role.INPUT)
    found = [
        problem("NotLowered", "ValueError: …", call=call(block)),
        problem("NotLowered", "NotImplementedError: no sort"),
        OnChip(None, (refused(),)),
    ]
    for one in found:
        side = side_of("yours", one, "v5e", FILE)
        assert "values are right" not in f"{side.trouble}{side.refusals}"


def test_a_stub_is_no_fault() -> None:
    side = side_of("yours", problem("NotImplementedError", "…", todo=True), "v5e", FILE)
    assert side.todo
    assert side.trouble.startswith("Still to do.")


def test_a_launch_without_a_kernel_is_told() -> None:
    assert trouble(OnChip()) == ["The launch has no pallas_call, so it has no kernel."]


def test_kernels_come_with_what_the_compiler_says_of_each() -> None:
    good = prediction(schedule())
    side = side_of("yours", OnChip(None, (good, refused())), "v5e", FILE)
    assert side.kernels == (good, refused())
    first, second = side.refusals
    assert first == ""
    assert second.startswith("Needs 36 MiB of VMEM; the limit on v5e is 16 MiB.\n  vmem ")


def test_kernels_on_other_chips_are_left_out() -> None:
    other = dataclasses.replace(prediction(schedule()), chip="v6e")
    assert trouble(OnChip(None, (other,))) == trouble(OnChip())


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (KataKind.TABLES, "plain jax.numpy, without a kernel"),
        (
            KataKind.PREDICTIONS,
            "asks for numbers, without a kernel: kata cost shows XLA's programs",
        ),
        (KataKind.TEST, "asks for a test, without a kernel of yours"),
    ],
    ids=["tables", "predictions", "test"],
)
def test_there_is_no_launch_without_a_kernel(
    kind: KataKind, says: str, repository: Repository
) -> None:
    kata = new_kata(repository.root, "2_fusion/row_softmax", kind)
    with pytest.raises(NoStudy, match=says):
        case_of(kata, 0, 0, {})


def test_the_case_of_predictions_takes_sizes(repository: Repository) -> None:
    kata = new_kata(repository.root, "2_fusion/row_softmax", KataKind.PREDICTIONS)
    case = any_case_of(kata, None, 0, {"M": "64"})
    assert (case.sizes["M"], case.production) == (64, True)
    with pytest.raises(NoStudy, match="has no size 'bm'"):
        any_case_of(kata, None, 0, {"bm": "8"})
