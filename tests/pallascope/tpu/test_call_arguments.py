"""What a command line says of sizes and of a function's arguments."""

from __future__ import annotations

import jax.numpy as jnp
import pytest

from pallascope.model import ArrayType
from pallascope.tpu.call_arguments import (
    DTYPES,
    assignments,
    call_of,
    choices,
    combinations,
)


def test_sizes_by_name() -> None:
    assert assignments(["bm=512", "M=4096"]) == {"bm": "512", "M": "4096"}


@pytest.mark.parametrize("word", ["bm", "bm=", "=8", "b m=8", "8=bm"])
def test_another_form_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match=r"is not of the form NAME=VALUE"):
        assignments([word])


def test_a_name_may_be_given_once() -> None:
    with pytest.raises(ValueError, match="bm is given twice: 8 and 16"):
        assignments(["bm=8", "bm=16"])


def test_sizes_to_choose_from() -> None:
    assert choices(["bm=128,256", "bn=64"]) == {"bm": (128, 256), "bn": (64,)}


@pytest.mark.parametrize("text", ["0", "-8", "eight", "1.5", "8,"])
def test_a_size_is_a_whole_number(text: str) -> None:
    with pytest.raises(ValueError, match="a size is a whole number above 0"):
        choices([f"bm={text}"])


def test_every_choice_meets_every_other() -> None:
    assert combinations({"a": (1, 2), "b": (3, 4)}) == [
        {"a": 1, "b": 3},
        {"a": 1, "b": 4},
        {"a": 2, "b": 3},
        {"a": 2, "b": 4},
    ]


def test_a_call_has_arrays_and_keywords() -> None:
    call = call_of("bf16[512,256] i32[4]=3,1,0,2 f32[] bm=128 causal=True shape=(8,128) how=fast")
    assert call.types == (
        ArrayType("bfloat16", (512, 256)),
        ArrayType("int32", (4,)),
        ArrayType("float32", ()),
    )
    assert call.contents == (None, (3, 1, 0, 2), None)
    assert call.keywords == {"bm": 128, "causal": True, "shape": (8, 128), "how": "fast"}


@pytest.mark.parametrize(
    ("short", "name"),
    [
        ("f32", "float32"),
        ("bf16", "bfloat16"),
        ("s8", "int8"),
        ("i8", "int8"),
        ("u16", "uint16"),
        ("pred", "bool"),
        ("int32", "int32"),
        ("float8_e4m3fn", "float8_e4m3fn"),
    ],
)
def test_dtypes_have_the_names_of_jax_and_of_xla(short: str, name: str) -> None:
    assert call_of(f"{short}[8]").types == (ArrayType(name, (8,)),)


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_that_is_accepted_is_one_of_jax(name: str) -> None:
    [array] = call_of(f"{name}[8]").arrays()
    assert array.shape == (8,)
    assert jnp.dtype(name).name == name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bf16[8", "can't parse 'bf16.8': expected an array such as bf16.512,256., or NAME=VALUE"),
        ("q16[8]", "'q16' isn't a dtype: bf16, f32, i32, u8, bool and the like"),
        ("bf17[8]", "'bf17' isn't a dtype: bf16, f32"),
        ("f12[8]", "'f12' isn't a dtype"),
        ("i3[8]", "'i3' isn't a dtype"),
        ("f8[8]", "'f8' isn't a dtype: give its format, float8_e4m3fn, float8_e5m2"),
        ("f8_e4m3fn[8]", "'f8_e4m3fn' isn't a dtype: give its format, float8_e4m3fn"),
        ("f4[8]", "'f4' isn't a dtype: give its format, float4_e2m1fn"),
        ("i32[4]=1,2", "2 values for 4 elements"),
        ("f32[8] bm=8 bm=9", "bm is given twice"),
    ],
)
def test_what_is_no_call_is_told(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call_of(text)


def test_keywords_may_be_put_in_place_of_others() -> None:
    call = call_of("f32[8] bm=8 bn=9").with_keywords({"bm": 16})
    assert call.keywords == {"bm": 16, "bn": 9}
    assert call.types == call_of("f32[8]").types


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("f32[8,,8]", "has a size missing"),
        ("f32[,8]", "has a size missing"),
        ("f32[8 8]", "expected an array such as"),
        ("f32[-1,8]", "expected an array such as"),
        ("i32[4]=", "contents are whole numbers"),
        ("i32[2]=a,b", "contents are whole numbers"),
        ("i32[2]=1,2,", "contents are whole numbers"),
        ("f32[2]=1.5,2", "contents are whole numbers"),
        ("f32[8] '", "an unclosed quotation mark"),
    ],
)
def test_malformed_arrays_are_refused_in_our_words(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call_of(text)
