"""Write the table of docs/cost-of-a-batch.md: five parts of a decode step at three batch sizes.

    python tools/cost_of_a_batch.py            computes all rows
    python tools/cost_of_a_batch.py --check    compares; exits with 1 if the page differs

Bytes and operations are counted from the programs, times are those of the roofline, and XLA's bytes
are those of the programs that libtpu compiles. Nothing is run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pallascope.tpu import chips, compiler  # noqa: E402

PAGE = ROOT / "docs/cost-of-a-batch.md"
BEGIN = "<!-- BEGIN PARTS: written by python tools/cost_of_a_batch.py -->\n\n"
END = "\n\n<!-- END PARTS -->"
CHIP = "v5e"
BATCHES = (1, 16, 256)
#: A model: width and hidden width; heads of keys, queries for each, their length; drafted tokens.
D, F, K, G, H, DRAFTS = 4096, 12288, 8, 4, 128, 8
#: Rows in a sequence's cache; its pages, and their rows and width; heads and length of a latent.
S, PAGES, PAGE_ROWS, W, R, L = 4096, 32, 128, 1024, 64, 512
HEAD = """\
| | B | bytes | operations a byte | shortest time | XLA's bytes | largest speedup |
|---|---:|---:|---:|---:|---:|---:|"""


def dense_layer(x: jax.Array, w: jax.Array) -> jax.Array:
    """A layer of weights, for one new token of each sequence."""
    return x @ w


def decode_attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Attention of new tokens: the queries of a head of keys stand along axis 2."""
    s = jnp.einsum("bkgh,bksh->bkgs", q, k, preferred_element_type=jnp.float32)
    return jnp.einsum("bkgs,bksh->bkgh", jax.nn.softmax(s).astype(v.dtype), v)


def paged_values(table: jax.Array, p: jax.Array, v: jax.Array) -> jax.Array:
    """The end of paged attention: sums, weighted by p, of the rows of a sequence's pages."""
    rows = v[table].reshape(p.shape[0], p.shape[2], v.shape[2])
    return jnp.einsum("brs,bsw->brw", p, rows)


def latent_attention(q: jax.Array, rows: jax.Array) -> jax.Array:
    """Attention of all heads to one array of rows, which are both keys and values."""
    s = jnp.einsum("brl,bsl->brs", q, rows, preferred_element_type=jnp.float32)
    return jnp.einsum("brs,bsl->brl", jax.nn.softmax(s).astype(rows.dtype), rows)


def shape(*sizes: int, dtype: str = "bfloat16") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, jnp.dtype(dtype))


def programs(batch: int) -> list[tuple[str, Any, tuple[Any, ...]]]:
    """The name, the function and the arguments of each part."""
    cache = shape(batch, K, S, H)
    pages, weights = shape(batch, PAGES, dtype="int32"), shape(batch, R, S)
    values = shape(batch * PAGES, PAGE_ROWS, W)
    return [
        ("a layer of weights", dense_layer, (shape(batch, D), shape(D, F))),
        ("attention", decode_attention, (shape(batch, K, G, H), cache, cache)),
        (f"{DRAFTS} drafts", decode_attention, (shape(batch, K, G * DRAFTS, H), cache, cache)),
        ("values in pages", paged_values, (pages, weights, values)),
        ("latent attention", latent_attention, (shape(batch, R, L), shape(batch, S, L))),
    ]


def table() -> str:
    rows = [HEAD]
    parts = zip(*map(programs, BATCHES), strict=True)
    for sizes in parts:
        for batch, (name, function, args) in zip(BATCHES, sizes, strict=True):
            one = compiler.program_of(name, function, args, chips.named(CHIP), ask_xla=True)
            assert one.baseline
            assert not one.baseline.missing, one.baseline.missing
            cells = [
                name if batch == BATCHES[0] else "",
                str(batch),
                _bytes(one.bytes),
                f"{one.flops / one.bytes:.3g}",
                f"{one.best * 1e6:,.0f} µs",
                _bytes(one.baseline.bytes),
                f"{one.speedup:.2f}",
            ]
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _bytes(count: int) -> str:
    return f"{count / 2**20:.3g} MiB" if count < 1000 * 2**20 else f"{count / 2**30:.3g} GiB"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 if it differs")
    check = parser.parse_args().check
    text = PAGE.read_text(encoding="utf-8")
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    now = table()
    if check:
        print("as computed" if text[start:end] == now else f"the page differs from\n{now}")
        return int(text[start:end] != now)
    PAGE.write_text(text[:start] + now + text[end:], encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
