"""What to try where one of Python's numbers has no place in the dtype that it gets."""

from __future__ import annotations

_WHY = (
    "One of Python's numbers that meets an array takes the array's dtype, and int32 ends at "
    "2**31 - 1. "
)

#: A pattern in an exception's text, and what to try.
LITERALS: tuple[tuple[str, str], ...] = (
    (
        r"^OverflowError.*\bPython integer -\d+ out of bounds for uint",
        "An unsigned dtype has no negative numbers. To set all bits, write jnp.uint32(0xFFFFFFFF).",
    ),
    (
        r"^OverflowError.*(while parsing an argument to a jitted computation|"
        r"\bPython integer -?\d+ out of bounds for u?int)",
        _WHY + "For bits as numbers from 0 to 2**32 - 1, make uint32 of both sides: "
        "pltpu.bitcast(bits, jnp.uint32), and jnp.uint32(number), whose largest is 2**32 - 1. "
        "For other numbers, make both sides float32.",
    ),
)
