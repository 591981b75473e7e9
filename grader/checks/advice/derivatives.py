"""What to try where the rules of a custom derivative are not as JAX wants them."""

from __future__ import annotations

#: A pattern in an exception's text, and what to try.
DERIVATIVES: tuple[tuple[str, str], ...] = (
    (
        r"(fwd|bwd|forward|backward|rule)\w{0,100}\(\) (missing|takes) \d+",
        "Rules are passed as f.defvjp(forward, backward). The forward rule takes what f takes and "
        "returns its result and the residuals; the backward rule takes first the arguments that "
        "nondiff_argnums names, then the residuals, then the cotangent.",
    ),
    (
        r"Custom VJP bwd rule\b[^\n]* must produce",
        "The backward rule returns one gradient for each argument, in the arguments' order and of "
        "their shapes and dtypes: None where there is none, and nothing for nondiff_argnums.",
    ),
    (
        r"Custom VJP fwd rule .* must produce a pair",
        "The forward rule returns two things: the result, and a tuple of the residuals that the "
        "backward rule needs.",
    ),
    (
        r"^AssertionError: *\n.*\bpallas_call\(",
        "Pallas stops here without a word, as it does where a launch is differentiated: a "
        "pallas_call has no derivative. Give the function that launches it rules of its own, with "
        "jax.custom_vjp and defvjp(forward, backward).",
    ),
)
