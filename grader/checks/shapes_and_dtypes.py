"""★ Does the launch return the annotated number, order, shapes and dtypes of results?"""

from __future__ import annotations

import re

from grader.checks.evidence import Evidence
from pallascope.checks.phrasing import paragraph
from pallascope.model import ArrayType, Check, Finding

#: jaxtyping's word for a result in a list or a dict, if it should be in a tuple.
_CONTAINER = re.compile(r"checking the return value[\s\S]*^ *Actual value: ([\[{])", re.MULTILINE)


def check(evidence: Evidence) -> Finding | None:
    """Compare the traced results with the spec's, and report jaxtyping's complaints."""
    observed, reference = evidence.observed, evidence.reference
    if observed.trace is not None:
        results = observed.trace.results
        if len(results) != len(reference.results):
            return _finding(
                f"returns {len(results)} arrays instead of {len(reference.results)}",
                f"It returns {_types(results)}; the spec returns {_types(reference.results)}.",
                evidence,
            )
        for position, (got, wanted) in enumerate(zip(results, reference.results, strict=True)):
            if got != wanted:
                told = f"{evidence.name_of(position)} is {got}, not {wanted}."
                if evidence.observed.devices > 1:
                    advice = _of_parts(got.shape, wanted.shape)
                else:
                    advice = _of_ones(got.shape, wanted.shape)
                return _finding(_difference(got, wanted), told, evidence, advice)
    if observed.broken_annotation:
        found = _CONTAINER.search(observed.broken_annotation)
        if found and len(reference.results) > 1:
            kind = "list" if found[1] == "[" else "dict"
            return _finding(
                f"returns a {kind}, not a tuple",
                f"The arrays have the right shapes and dtypes, and are in a {kind}.",
                evidence,
                "Return the arrays as a tuple: return a, b.",
            )
        return _finding(
            "breaks its annotation",
            "jaxtyping and beartype reject an argument or result of the launch function:\n"
            + "\n".join(f"  {line}" for line in observed.broken_annotation.splitlines()[:12]),
            evidence,
        )
    return None


def _difference(got: ArrayType, wanted: ArrayType) -> str:
    if got.shape != wanted.shape:
        return f"returns shape {got.shape}, not {wanted.shape}"
    return f"returns dtype {got.dtype}, not {wanted.dtype}"


def _types(results: tuple[ArrayType, ...]) -> str:
    return ", ".join(map(str, results)) or "nothing"


def _of_parts(got: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """Advice if the parts of a result, one on each device, are put together wrongly."""
    if len(got) != len(wanted):
        return ""
    for dimension, (size, right) in enumerate(zip(got, wanted, strict=True)):
        here = f"Dimension {dimension} has {size} elements instead of {right}"
        if size < right and right % size == 0:
            return (
                f"{here}: that is one device's part. Name in out_specs the axis of the mesh that "
                "cuts this dimension, and the parts are put side by side."
            )
        if size > right and size % right == 0:
            return (
                f"{here}. If out_specs names an axis of the mesh, the results of the devices along "
                "it are put side by side. If each has all of the dimension, in_specs doesn't cut "
                "it along that axis: let both name it, or neither."
            )
    return ""


def _of_ones(got: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """Advice if only dimensions of size 1 are missing or too many: (N,) in place of (1, N)."""
    if len(got) == len(wanted) or [n for n in got if n != 1] != [n for n in wanted if n != 1]:
        return ""
    differs = "lacks a dimension" if len(got) < len(wanted) else "has another dimension"
    return (
        f"{got} {differs} of size 1. Write out_shape=jax.ShapeDtypeStruct({wanted}, …), with "
        "blocks and block indices of as many dimensions."
    )


def _finding(phrase: str, difference: str, evidence: Evidence, advice: str = "") -> Finding:
    reference = evidence.reference
    inputs = zip(reference.names, reference.inputs, strict=True)
    parts = [
        difference,
        paragraph("inputs", ", ".join(f"{name}: {array}" for name, array in inputs)),
        paragraph("says", "-> " + ", ".join(reference.annotations)),
    ]
    if evidence.observed.trace and not evidence.observed.trace.results:
        advice = "Is the word return missing in front of the last call, pl.pallas_call(…)(…)?"
        if not evidence.key.kernel:
            advice = "Is the word return missing in front of the result?"
        parts.append(paragraph("try", advice))
    elif evidence.key.kernel:
        advice = advice or "Look at out_shape in the pallas_call: it decides shape and dtype."
        parts.append(paragraph("try", advice))
    return Finding(Check.CONTRACT, phrase, "\n".join(parts))
