"""Write the tables of docs/cost-of-operations.md: the cycles of operations inside a kernel.

    python tools/cost_of_operations.py            predicts all rows, in about three minutes
    python tools/cost_of_operations.py --check    predicts the rows in CHECKED for one chip, and
                                                   compares them; exits with 1 if one differs, or
                                                   rows are missing

Nothing is run: libtpu compiles kernels that differ in how often they repeat an operation and in how
many elements they have. An operation's cost is the number of bundles that one more repetition adds
for each further element. So the common parts of all these kernels, such as their copies, don't
count.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pallascope.tpu import predictions  # noqa: E402

PAGE = ROOT / "docs/cost-of-operations.md"
SCRIPT = "cost_of_operations"
REGISTER = 1024  # float32 elements
CHUNK = 64  # rows that one piece of a kernel works on
#: The chips, and the dtypes of a value in registers and of the array that it comes from.
COLUMNS = (
    ("v5e", "float32", "float32"),
    ("v5e", "bfloat16", "bfloat16"),
    ("v6e", "float32", "float32"),
    ("v6e", "bfloat16", "bfloat16"),
    ("v6e", "bfloat16", "float32"),
)
FLOATS_HEAD = """\
| | v5e float32 | v5e bfloat16 | v6e float32 | v6e bfloat16 | v6e bfloat16, packed |
|---|---:|---:|---:|---:|---:|"""
CHIPS = ("v5e", "v6e")
NAMES = ("FLOATS", "INTEGERS", "LOADED")
TOLERANCE = 0.13  # cycles: half of the step to which numbers from 1 on are rounded
#: Rows that --check predicts.
CHECKED = ("`jnp.exp(x)`", "bfloat16 → float32")


@dataclass(frozen=True)
class Repeated:
    """An operation of x and a row y. Kernels repeat it `often` enough to take longer than their
    loads and stores."""

    shown: str
    apply: Callable[[jax.Array, jax.Array], jax.Array]
    often: tuple[int, int] = (2, 4)
    rows: tuple[int, int] = (256, 1024)

    def cycles(self, chip: str, dtype: str, stored: str) -> float:
        """Cycles for 1024 elements; NaN if the chip refuses the operation."""

        def issue(rows: int, times: int) -> float:
            def kernel(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
                y = y_ref[...]
                for start in range(0, rows, CHUNK):
                    x = x_ref[start : start + CHUNK].astype(dtype)
                    for _ in range(times):
                        x = self.apply(x, y)
                    o_ref[start : start + CHUNK] = x.astype(stored)

            x = jax.ShapeDtypeStruct((rows, 128), stored)
            return issued(kernel, x, [x, jax.ShapeDtypeStruct((1, 128), dtype)], chip)

        few, many = ([issue(rows, times) for times in self.often] for rows in self.rows)
        elements = (self.rows[1] - self.rows[0]) * 128 * (self.often[1] - self.often[0])
        return ((many[1] - many[0]) - (few[1] - few[0])) / elements * REGISTER


@dataclass(frozen=True)
class Summed:
    """Pieces of an array in VMEM are loaded, converted or summed by `apply`, and added up."""

    shown: str
    dtype: str
    apply: Callable[[jax.Array], jax.Array]

    def cycles(self, chip: str) -> float:
        """Cycles for 1024 elements; NaN if the chip refuses the operation."""

        def issue(rows: int) -> float:
            def kernel(x_ref: Any, o_ref: Any) -> None:
                total = self.apply(x_ref[:CHUNK])
                for start in range(CHUNK, rows, CHUNK):
                    total += self.apply(x_ref[start : start + CHUNK])
                o_ref[...] = total

            piece, x = (jax.ShapeDtypeStruct((n, 128), self.dtype) for n in (CHUNK, rows))
            return issued(kernel, jax.eval_shape(self.apply, piece), [x], chip)

        few, many = 512, 1024
        return (issue(many) - issue(few)) / ((many - few) * 128) * REGISTER


def issued(kernel: Any, out: Any, args: list[jax.ShapeDtypeStruct], chip: str) -> float:
    """The number of bundles that a kernel issues; NaN if the chip refuses it."""
    launch = pl.pallas_call(kernel, out_shape=out)
    try:
        (predicted,) = predictions(launch, *args, chip=chip)
    except Exception:  # Mosaic refuses the operation
        return math.nan
    return predicted.schedule.issue if predicted.schedule else math.nan


FLOATS = (
    Repeated("`x + y`, `x * y`", lambda x, y: x + y, (16, 32)),
    Repeated("`jnp.maximum(x, y)`", jnp.maximum, (16, 32)),
    Repeated("`jnp.where(x > y, x, x + y)`", lambda x, y: jnp.where(x > y, x, x + y), (8, 16)),
    Repeated("`jnp.exp(x)`", lambda x, y: jnp.exp(x)),
    Repeated("`jnp.log(x)`", lambda x, y: jnp.log(x)),
    Repeated("`jnp.tanh(x)`", lambda x, y: jnp.tanh(x)),
    Repeated("`lax.erf(x)`", lambda x, y: lax.erf(x)),
    Repeated("`jax.nn.sigmoid(x)`", lambda x, y: jax.nn.sigmoid(x)),
    Repeated("`jax.nn.gelu(x)`", lambda x, y: jax.nn.gelu(x)),
    Repeated("`lax.rsqrt(x)`", lambda x, y: lax.rsqrt(x)),
    Repeated("`jnp.sqrt(x)`", lambda x, y: jnp.sqrt(x)),
    Repeated("`y / x`", lambda x, y: y / x),
    Repeated("`x**y`", lambda x, y: x**y, (1, 2), (256, 512)),
    Repeated("`jnp.sin(x)`", lambda x, y: jnp.sin(x), (1, 2), (256, 512)),
    Repeated("`jnp.cos(x)`", lambda x, y: jnp.cos(x), (1, 2), (256, 512)),
)
INTEGERS = (
    Repeated("int32: `x + y`", lambda x, y: x + y, (8, 16)),
    Repeated("int32: `x * y`", lambda x, y: x * y, (8, 16)),
    Repeated("int32: `x // y`", lambda x, y: x // y, (1, 2), (256, 512)),
    Repeated("int32: `x % y`", lambda x, y: x % y, (1, 2), (256, 512)),
    Repeated("int32: `x // 7`", lambda x, y: x // 7),
    Repeated("int32: `x // 8`", lambda x, y: x // 8),
    Repeated("int32: `(x >> 3) + y`", lambda x, y: (x >> 3) + y, (8, 16)),
)
LOADED = (
    Summed("float32, not converted", "float32", lambda x: x),
    Summed("bfloat16 → float32", "bfloat16", lambda x: x.astype(jnp.float32)),
    Summed("float32 → bfloat16", "float32", lambda x: x.astype(jnp.bfloat16)),
    Summed("int8 → int32", "int8", lambda x: x.astype(jnp.int32)),
    Summed("int8 → bfloat16", "int8", lambda x: x.astype(jnp.bfloat16)),
    Summed("int4 → int32", "int4", lambda x: x.astype(jnp.int32)),
    Summed("int4 → float32", "int4", lambda x: x.astype(jnp.float32)),
    Summed("int4 → bfloat16", "int4", lambda x: x.astype(jnp.bfloat16)),
    Summed("float8_e4m3fn → bfloat16", "float8_e4m3fn", lambda x: x.astype(jnp.bfloat16)),
    Summed("float32, sum of each column", "float32", lambda x: x.sum(0, keepdims=True)),
    Summed("float32, sum of each row", "float32", lambda x: x.sum(1, keepdims=True)),
    Summed("int32, sum of each column", "int32", lambda x: x.sum(0, keepdims=True)),
    Summed("int32, sum of each row", "int32", lambda x: x.sum(1, keepdims=True)),
    Summed("float32, transposed", "float32", lambda x: x.T),
)


def number(cycles: float) -> str:
    """A number of cycles, rounded: below 1 to eighths, below 10 to quarters, else to whole ones."""
    if math.isnan(cycles):
        return "refused"
    step = 0.125 if cycles < 1 else 0.25 if cycles < 10 else 1
    return f"{round(cycles / step) * step:g}"


def row(operation: Repeated | Summed, cycles: Iterable[float]) -> str:
    """A row of a table."""
    return f"| {operation.shown} | {' | '.join(map(number, cycles))} |"


def tables() -> dict[str, str]:
    """Name of a table in the page -> its text."""
    floats = [row(one, (one.cycles(*column) for column in COLUMNS)) for one in FLOATS]
    integers = [
        row(one, (one.cycles(chip, "int32", "int32") for chip in CHIPS)) for one in INTEGERS
    ]
    loaded = [row(one, map(one.cycles, CHIPS)) for one in LOADED]
    head = "| | v5e | v6e |\n|---|---:|---:|"
    return {
        "FLOATS": "\n".join([FLOATS_HEAD, *floats]),
        "INTEGERS": "\n".join([head, *integers]),
        "LOADED": "\n".join([head, *loaded]),
    }


def marks(name: str, script: str) -> tuple[str, str]:
    """The comments around a table."""
    begin = f"<!-- BEGIN {name}: written by python tools/{script}.py -->\n\n"
    return begin, f"\n\n<!-- END {name} -->"


def shown(text: str, name: str, script: str = SCRIPT) -> str:
    """The table that the page has now."""
    begin, end = marks(name, script)
    return text[text.index(begin) + len(begin) : text.index(end)]


def written(text: str, of: Mapping[str, str], script: str = SCRIPT) -> str:
    """The page's text with these tables, by name."""
    for name, table in of.items():
        begin, end = marks(name, script)
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}{table}{end}{rest[rest.index(end) + len(end) :]}"
    return text


def differs(text: str) -> str:
    """A difference between the page and this script or its predictions, or nothing."""
    lines = (line for name in NAMES for line in shown(text, name).splitlines()[2:])
    rows = {line.split(" | ")[0][2:]: line for line in lines}
    wanted = [one.shown for one in (*FLOATS, *INTEGERS, *LOADED)]
    if list(rows) != wanted:
        return "its rows are not those of this script"
    for one in (*FLOATS, *LOADED):
        if one.shown in CHECKED:
            said = float(rows[one.shown].split(" | ")[1])
            now = one.cycles(*COLUMNS[0]) if isinstance(one, Repeated) else one.cycles(CHIPS[0])
            if abs(now - said) > TOLERANCE:
                return f"{one.shown} takes {now:.2f} cycles, and the page says {said}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 if any differs")
    text = PAGE.read_text(encoding="utf-8")
    if parser.parse_args().check:
        said = differs(text)
        print(said or "as predicted")
        return 1 if said else 0
    PAGE.write_text(written(text, tables()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
