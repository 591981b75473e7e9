"""Reads functions, sizes and array arguments from a command line."""

from __future__ import annotations

import ast
import inspect
import itertools
import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pallascope.model import ArrayType
from pallascope.tools.files import Function, function_at
from pallascope.tpu.chips import named

T = TypeVar("T")


def assignments(words: Iterable[str]) -> dict[str, str]:
    """ "bm=512" and the like, by name. Raises ValueError for another form and a repeated name."""
    values: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not (name.isidentifier() and sign and value):
            raise ValueError(f"{word!r} is not of the form NAME=VALUE")
        if name in values:
            raise ValueError(f"{name} is given twice: {values[name]} and {value}")
        values[name] = value
    return values


def size(name: str, text: str) -> int:
    """A size: a whole number above 0. Raises ValueError."""
    if not (text.isdecimal() and int(text) > 0):
        raise ValueError(f"{name}={text}: a size is a whole number above 0")
    return int(text)


def choices(words: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """ "bm=128,256" and the like: the sizes to try, by name. Raises ValueError."""
    listed = assignments(words).items()
    return {name: tuple(size(name, text) for text in texts.split(",")) for name, texts in listed}


def combinations(choices: Mapping[str, Sequence[T]]) -> list[dict[str, T]]:
    """Every choice with every other; the last name changes fastest."""
    return [
        dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())
    ]


# ---- a call of a function ----

_SHORT = {"f": "float", "bf": "bfloat", "i": "int", "s": "int", "u": "uint"}
_NAMED_BY_FORMAT = ("f8", "f4")
#: The dtypes of a call's arrays.
DTYPES = (
    "bool",
    "bfloat16",
    *(f"float{bits}" for bits in (16, 32, 64)),
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64)),
    *("complex64", "complex128"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz"),
    *("float8_e3m4", "float8_e4m3", "float8_e8m0fnu", "float4_e2m1fn"),
)
_ARRAY = re.compile(r"([a-z][a-z0-9_]*)\[([\d,\s]*)\](?:=(.*))?")


@dataclass(frozen=True, slots=True)
class CallArguments:
    """The arguments of a call: arrays by dtype and shape, some with contents; and keywords."""

    types: tuple[ArrayType, ...]
    contents: tuple[tuple[int, ...] | None, ...]
    keywords: Mapping[str, Any]

    def arrays(self) -> list[Any]:
        """numpy arrays where the contents are given, else jax.ShapeDtypeStructs."""
        import jax
        import numpy as np

        return [
            jax.ShapeDtypeStruct(kind.shape, jax.numpy.dtype(kind.dtype))
            if values is None
            else np.array(values, kind.dtype).reshape(kind.shape)
            for kind, values in zip(self.types, self.contents, strict=True)
        ]

    def with_keywords(self, others: Mapping[str, Any]) -> CallArguments:
        """The same call with these keywords, which replace its keywords of the same name."""
        return CallArguments(self.types, self.contents, {**self.keywords, **others})


def call_of(text: str) -> CallArguments:
    """ "bf16[512,256] i32[4]=3,1,0,2 bm=128 causal=True" as a call. Raises ValueError."""
    types: list[ArrayType] = []
    contents: list[tuple[int, ...] | None] = []
    words: list[str] = []
    for word in _words(text):
        if not (match := _ARRAY.fullmatch(word)):
            words.append(word)
            continue
        kind = ArrayType(_dtype(match[1]), _shape(word, match[2]))
        values = None if match[3] is None else _contents(word, match[3])
        if values is not None and len(values) != math.prod(kind.shape):
            raise ValueError(f"{word}: {len(values)} values for {math.prod(kind.shape)} elements")
        types.append(kind)
        contents.append(values)
    if unparsed := [word for word in words if "=" not in word]:
        raise ValueError(
            f"can't parse {unparsed[0]!r}: expected an array such as bf16[512,256], or NAME=VALUE"
        )
    keywords = {name: _value(value) for name, value in assignments(words).items()}
    return CallArguments(tuple(types), tuple(contents), keywords)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{text!r} has an unclosed quotation mark") from error


def _shape(word: str, sizes: str) -> tuple[int, ...]:
    """ "512,256" as a shape, with an optional comma at the end. Raises ValueError."""
    texts = [text.strip() for text in sizes.split(",")]
    if not texts[-1]:
        texts.pop()
    if not all(text.isdecimal() for text in texts):
        raise ValueError(f"{word!r} has a size missing: write a shape as [512,256]")
    return tuple(map(int, texts))


def _contents(word: str, values: str) -> tuple[int, ...]:
    """ "3,-1,0" as numbers. Raises ValueError."""
    try:
        return tuple(int(value) for value in values.split(","))
    except ValueError:
        example = "i32[4]=3,1,0,2"
        raise ValueError(f"{word!r}: contents are whole numbers, as in {example}") from None


def _dtype(given: str) -> str:
    """JAX's name for a dtype: "bfloat16" for "bf16". Raises ValueError."""
    name = given
    if short := re.fullmatch(r"(bf|f|i|s|u)(\d+)", name):
        name = f"{_SHORT[short[1]]}{short[2]}"
    if name == "pred":
        name = "bool"
    if name not in DTYPES:
        wide = next((width for width in _NAMED_BY_FORMAT if given.startswith(width)), "")
        several = [known for known in DTYPES if wide and known.startswith(f"float{wide[1:]}_")]
        known = ", ".join(several) or "bf16, f32, i32, u8, bool and the like, or JAX's full name"
        hint = f"give its format, {known}" if several else known
        raise ValueError(f"{given!r} isn't a dtype: {hint}")
    return name


def _value(text: str) -> Any:
    """A Python literal if possible, otherwise the text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def function_for(place: str, chip: str) -> Function:
    """Import the function as if on the chip: its module may read `jax.devices()`."""
    from pallascope.kernels import for_chip

    target = named(chip)
    with for_chip(target.kind, target.cores):
        return function_at(place)


def accepted_keywords(function: Function, case: CallArguments) -> dict[str, Any]:
    """The keywords of a case that a function takes; the function to compare with may take fewer."""
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return dict(case.keywords)
    return {name: value for name, value in case.keywords.items() if name in parameters}


def require_known_keywords(function: Function, case: CallArguments) -> None:
    """Raises ValueError for a keyword that the function doesn't have."""
    unknown = [name for name in case.keywords if name not in accepted_keywords(function, case)]
    if unknown:
        takes = ", ".join(inspect.signature(function).parameters)
        name = getattr(function, "__name__", "the function")
        raise ValueError(f"{name} has no argument {unknown[0]}: it takes {takes or 'none'}")
