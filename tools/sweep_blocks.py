"""Write the table of predicted times that 5_pipelines/README.md shows for tune_blocks.

python tools/sweep_blocks.py            predicts each row and writes the table, in a minute or two
python tools/sweep_blocks.py --check    predicts the first row alone, and compares it; exits with 1
                                         if its time is off by over 3 %, or rows are missing
"""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path

BEGIN = "<!-- BEGIN SWEEP: written by python tools/sweep_blocks.py -->"
END = "<!-- END SWEEP -->"
ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "katas/5_pipelines/README.md"
SOLUTION = ROOT / "solutions/5_pipelines/kata_12_tune_blocks.py"
CHIP = "v5e"
#: None of the sizes that the kata is graded on.
M, N, K = 6144, 4608, 3840
#: bm, bn, bk
ROWS = (
    (256, 256, 256),
    (512, 256, 3840),
    (512, 768, 256),
    (512, 768, 1280),
    (768, 768, 1280),
    (1024, 1536, 256),
    (1024, 1536, 1280),
)


def line(bm: int, bn: int, bk: int) -> str:
    """One row: the blocks, what they read and write, and the time, or the VMEM that they need."""
    import jax
    import jax.numpy as jnp

    from pallascope.tools.files import load_module
    from pallascope.tpu import predictions

    launch = functools.partial(load_module(SOLUTION).tune_blocks, bm=bm, bn=bn, bk=bk)
    x, y = jax.ShapeDtypeStruct((M, K), jnp.bfloat16), jax.ShapeDtypeStruct((K, N), jnp.bfloat16)
    (kernel,) = predictions(launch, x, y, chip=CHIP)
    needed = 2 * 2 * (bm * bk + bk * bn + bm * bn) + 4 * bm * bn
    vmem = f"{needed / 2**20:.1f} MiB"
    hbm = f"{kernel.bytes / 819e9 * 1e6:,.0f} µs"
    time = f"{kernel.seconds * 1e6:,.0f} µs" if kernel.seconds else "does not fit"
    return f"| {bm} | {bn} | {bk} | {vmem} | {kernel.bytes / 2**20:,.0f} MiB | {hbm} | {time} |"


def table() -> str:
    """All rows, with their heading and markers."""
    heading = "| bm | bn | bk | blocks and sums | HBM bytes | these alone | predicted |"
    rows = [heading, "|" + "---:|" * 7, *(line(*row) for row in ROWS)]
    return "\n".join([BEGIN, "", *rows, "", END])


def differs(text: str) -> str:
    """What is not as it should be in the README, or nothing."""
    shown = [one for one in _table(text).splitlines() if one.startswith("| ")][1:]
    cut = [tuple(int(cell) for cell in one.split("|")[1:4]) for one in shown]
    if cut != list(ROWS):
        return "its rows are not those of ROWS"
    now, then = (_microseconds(one) for one in (line(*ROWS[0]), shown[0]))
    return "" if abs(now - then) <= 0.03 * now else f"{ROWS[0]} takes {now} µs, and it says {then}"


def _microseconds(row: str) -> float:
    return float(row.split("|")[7].replace("µs", "").replace(",", ""))


def _table(text: str) -> str:
    return text[text.index(BEGIN) : text.index(END) + len(END)]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    text = README.read_text(encoding="utf-8")
    if parser.parse_args().check:
        said = differs(text)
        print(said or "as predicted")
        return 1 if said else 0
    README.write_text(text.replace(_table(text), table()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    raise SystemExit(main())
