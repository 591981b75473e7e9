"""Right kernels of mxfp4_matmul in other styles: see docs/authoring.md."""

# ---- by_128_rows ----

"""Decodes and multiplies four groups at a time; e8m0 is cast, and 2**14 is multiplied into it.

Stars: 3
"""


def mxfp4_matmul_kernel(x_ref, packed_ref, scale_ref, o_ref):
    powers = pltpu.bitcast(scale_ref[...], jnp.float8_e8m0fnu).astype(jnp.float32) * 2.0**14
    total = jnp.where(pl.program_id(1) == 0, 0.0, o_ref[...])
    for first in range(0, scale_ref.shape[0], 4):
        count = min(4, scale_ref.shape[0] - first)
        bytes_of = packed_ref[first * 16 : (first + count) * 16, :]
        words = pltpu.bitcast(bytes_of, jnp.int32)
        sign, rest = jnp.int32(0x08080808), jnp.int32(0x07070707)
        parts = []
        for word in (words, words >> 4):
            moved = (word & sign) << 4 | (word & rest) << 1
            parts.append(pltpu.bitcast(moved, jnp.float8_e5m2).astype(jnp.float32))
        groups = [
            parts[g % 2][g // 2 * 32 : g // 2 * 32 + 32] * powers[first + g][None]
            for g in range(count)
        ]
        w = jnp.concatenate(groups, axis=0).astype(jnp.bfloat16)
        x = x_ref[:, first * 32 : (first + count) * 32]
        total += jnp.dot(x, w, preferred_element_type=jnp.float32)
    o_ref[...] = total


# ---- spread_scales ----

"""Repeats each scale 32 times, and takes two products: one for each half of the bits.

x's columns are put in the same order.

Stars: 3
"""


def mxfp4_matmul_kernel(x_ref, packed_ref, scale_ref, o_ref):
    @pl.when(pl.program_id(1) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    words = pltpu.bitcast(packed_ref[...], jnp.uint32)
    sign, rest = jnp.uint32(0x80808080), jnp.uint32(0x0E0E0E0E)
    exponents = scale_ref[...].astype(jnp.int32) + 14
    powers = jax.lax.bitcast_convert_type(exponents << 23, jnp.float32)
    pairs = range(scale_ref.shape[0] // 2)
    for half in range(2):
        moved = (
            (words << 4) & sign | (words << 1) & rest
            if half == 0
            else words & sign | (words >> 3) & rest
        )
        numbers = pltpu.bitcast(moved, jnp.float8_e5m2).astype(jnp.float32)
        own = jnp.concatenate([powers[2 * p + half][None] for p in pairs], axis=0)
        w = (numbers * jnp.repeat(own, 32, axis=0)).astype(jnp.bfloat16)
        x = jnp.concatenate(
            [x_ref[:, (2 * p + half) * 32 : (2 * p + half + 1) * 32] for p in pairs], axis=1
        )
        o_ref[...] += jnp.dot(x, w, preferred_element_type=jnp.float32)


# ---- selects ----

"""Chooses each number's magnitude in a word of 32 bits: right, and slow.

Stars: 2
"""


def mxfp4_matmul_kernel(x_ref, packed_ref, scale_ref, o_ref):
    @pl.when(pl.program_id(1) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    byte = packed_ref[...].astype(jnp.int32)
    powers = jax.lax.bitcast_convert_type(scale_ref[...].astype(jnp.int32) << 23, jnp.float32)
    groups = []
    for g in range(scale_ref.shape[0]):
        rows = byte[g // 2 * 32 : g // 2 * 32 + 32]
        code = rows >> 4 if g % 2 else rows & 15
        magnitude = code & 7
        bits = (magnitude + 2 * 126) << 22
        normal = jax.lax.bitcast_convert_type(bits, jnp.float32)
        number = jnp.where(magnitude < 2, 0.5 * magnitude.astype(jnp.float32), normal)
        number = jnp.where(code >= 8, -number, number)
        groups.append((number * powers[g : g + 1]).astype(jnp.bfloat16))
    o_ref[...] += jnp.dot(x_ref[...], jnp.concatenate(groups), preferred_element_type=jnp.float32)
