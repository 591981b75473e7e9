"""The text of a failed hidden case, for a learner and for pytest, and where it is explained."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from typing import Any

import pytest

from grader.exercise.catalog import Kata
from grader.verdict import Grade
from pallascope.model import Check, Finding, NotJudged
from pallascope.tools.text import encodable
from pallascope.tools.versions import site_address

_WORD = re.compile(r"[^\W\d]+")


def explanation(
    kata: Kata, grade: Grade, node: str, seed: int, *, opens: bool = True, links: bool = True
) -> str:
    """The finding, the whole case, and the command that repeats exactly this case.

    `node` is pytest's id of the case, `seed` the session's seed. `opens`: the first line is enough
    for a summary, and a line says where to fix it. `links`: the last line leads to the page of
    errors.
    """
    finding = grade.finding
    assert finding is not None
    view = f"  view   kata view {kata.name} --seed {seed} --case {grade.case}"
    can_be_viewed = (
        finding.check is Check.VALUES and kata.key.kernel and kata.key.target.uses_libtpu
    )
    # The paragraph `error` has an exception's whole text.
    repeated = finding.check is Check.RUNS and not opens
    phrase = finding.phrase
    if finding.message.startswith(phrase) or (
        repeated and _one_line(phrase) in _one_line(finding.message)
    ):
        phrase = ""
    lines = [
        f"{finding.check.title}: {phrase}\n{finding.message}"
        if phrase
        else f"{finding.check.title}: {finding.message}",
        *([f"  case   {grade.drawn}"] if grade.drawn else []),
        f'  again  pytest "{node}" --kata-seed {seed}',
        *([view] if can_be_viewed else []),
    ]
    if opens:
        file, line = kata.location()
        lines.append(f"  open   {file}:{line}      stuck?  kata hint {kata.name}")
    return "\n".join([*lines, *(explained_at(finding) if links else ())])


def _one_line(text: str) -> str:
    return " ".join(text.split())


#: The page that docs/errors.md becomes on the project's site.
PAGE = "errors.html"

#: For each check, patterns of a finding's phrase or message, and the anchors of their entries in
#: docs/errors.md. None stands for checks that could not be made.
EXPLAINED: dict[Check | None, tuple[tuple[str, str], ...]] = {
    Check.RUNS: (
        ("^no answer after|^calls the launch at least", "no-answer-in-time"),
        (
            r"^crashed \(|^killed|^left the process|^closed its connection|"
            "^gave no readable answer|^ended, and its parent|needs only a few megabytes",
            "the-process-crashed",
        ),
        (r"^still to do|^its file is gone|^too long \(", "the-file-is-not-graded"),
        ("This kata is broken|has changed since this session began", "this-kata-is-broken"),
        ("the grader failed|Kernels cannot be run here", "the-grader-failed"),
        (
            r"kata is isolated|^opens a debugger|^calls sys\.exit|^tries to skip itself|"
            "^cannot be judged|One thread traces a launch|without compile, exec, eval",
            "not-allowed-in-a-kata",
        ),
        (
            "hands over no launch function|Give the launch function its name back|"
            r"Put back the last lines|hidden_case\.grade|defines no function",
            "the-launch-function-is-missing",
        ),
        (
            "A Ref is a handle to memory|An accumulator is a Ref in registers",
            "a-ref-is-a-handle-to-memory",
        ),
        (
            "traced once for all grid steps|An index map is traced once|truth value of an array|"
            "jit traces the function once|have no values yet|"
            "size of a grid dimension may stay|NumPy needs numbers|"
            r"Use @pl\.when\(condition\)",
            "a-kernel-is-traced-once",
        ),
        (
            "shape cannot depend on a value|Choose a length that is always enough|"
            "total_repeat_length",
            "a-shape-depends-on-a-value",
        ),
        (
            "size of a slice is known while tracing|slice needs a size that is known|"
            r"A Ref cannot be read backwards|pl\.ds",
            "the-size-of-a-slice-is-not-known",
        ),
        (r"pl\.when is a decorator|function under @pl\.when", "a-condition-needs-a-function"),
        ("A store must have the Ref's dtype|dtype of the sum", "a-store-has-the-wrong-dtype"),
        (
            "A store must have the shape|Keep the axis: keepdims|"
            r"A vector \(n,\) isn't a row|single number is not broadcast",
            "a-store-has-the-wrong-shape",
        ),
        (
            "do not broadcast|cannot reshape array|incompatible shapes for broadcasting|"
            "A product sums over one dimension|contracting dimensions|"
            "dimension numbers of dot_general|inconsistent sizes",
            "shapes-do-not-fit",
        ),
        (
            "A kernel takes one Ref for each input|prefetched Refs after them|"
            r"\w\(\) (?:missing|takes) \d",
            "too-few-or-too-many-parameters",
        ),
        (
            "one block index for each dimension|An index map returns one block index|"
            "one entry for each dimension of the array|squeezes a dimension|"
            r"A block index is a whole number|A row \(1, N\) and a column|"
            r"Something is None where|a ds from the index_map|pl\.BoundedSlice|"
            "size of a block must be known",
            "a-block-shape-or-an-index-map-is-too-short",
        ),
        (
            "Custom VJP|defvjp|backward rule|gradient for each argument|"
            "forward rule returns|has no derivative|tuple of length",
            "the-rules-of-a-derivative",
        ),
        (
            r"PartitionSpec|jax\.shard_map|A spec names axes|names an axis of the mesh|"
            "A dimension is cut into equal parts|A spec has at most|check_vma|"
            "within a shard_map over all axes",
            "specs-that-do-not-fit-the-mesh",
        ),
        (
            "A launch looks like this|in_specs|out_specs and out_shape|out_shape|"
            r"scratch_shapes|dimension_semantics|pltpu\.CompilerParams\(|"
            "number of grid steps is a whole|A grid_spec holds|"
            r"pallas_call\(\.\.\.\) returns a function|A shape alone does not say|"
            "A pipeline has one spec|different lengths of tuple|number of a grid dimension|"
            "out of bounds for grid|which core of the mesh|does not divide|alias|"
            "ZeroDivisionError|got an unexpected keyword argument 'grid'|"
            "A lambda ends at the first comma",
            "the-launch-is-put-together-wrongly",
        ),
        ("next iteration's carry", "the-carry-of-a-loop-changes"),
        (
            "A loaded value isn't memory|Arrays do not change|assigns to is local|"
            "A kernel returns nothing|arrays through its Refs only|"
            "Python variable can't carry it out",
            "a-value-is-not-memory",
        ),
        (
            "An older spelling|Names for TPUs only|Names for all of Pallas|"
            r"That is PyTorch's|That function is in jax\.nn|In jax\.numpy it is axis|"
            "In a kernel, too, compute values with|does not import this name|"
            "takes the array's dtype|An unsigned dtype has no negative",
            "a-name-or-number-that-jax-does-not-take",
        ),
        (
            "The launch cannot be traced: (?!it fails)|Mosaic GPU (?:can't|implements)|"
            r"incompatible shapes\b",
            "a-gpu-refuses-the-launch",
        ),
        (
            "^(?:Syntax|Indentation|Tab)Error|A kata is one file|^ModuleNotFoundError|"
            "The file cannot be imported",
            "the-file-cannot-be-imported",
        ),
    ),
    Check.CONTRACT: (
        (
            "returns shape|arrays instead of|is that one device's part",
            "the-result-has-another-shape",
        ),
        ("returns dtype", "the-result-has-another-dtype"),
        ("breaks its annotation|not a tuple", "the-result-breaks-its-annotation"),
    ),
    Check.OWN_WORK: (
        ("it calls the spec|the kernel is not yours", "a-kernel-or-result-that-is-not-yours"),
        ("^a table of", "a-table-in-the-launch"),
        ("draws random bits|calls back to the host", "random-bits-or-calls-to-the-host"),
    ),
    Check.PALLAS_USED: (
        (
            "no pallas_call|does not come from the kernel|calls back to the host",
            "no-kernel-computes-the-result",
        ),
        ("outside the kernel|Let the grid be the loop", "work-outside-the-kernel"),
        ("of the solution's bytes|XLA sends parts", "xla-sends-the-data"),
    ),
    Check.PREDICTIONS: (
        ("by more than |is not a finite number", "a-number-is-too-large-or-too-small"),
    ),
    Check.PLANTED: (
        ("passes for a kernel that|never calls the launch", "the-test-misses-a-wrong-kernel"),
        (
            "rejects a right kernel|the launch raises|with a right kernel",
            "the-test-rejects-a-right-kernel",
        ),
    ),
    Check.VALUES: (
        ("^(?:perhaps )?your kernel |matches that mistake exactly", "a-known-mistake"),
        ("^no answer after|^calls the launch at least", "no-answer-in-time"),
        (
            r"^crashed \(|^killed|^left the process|^closed its connection|"
            "^gave no readable answer|^ended, and its parent|needs only a few megabytes",
            "the-process-crashed",
        ),
        (
            "never written|stores nothing there|body never stores to|"
            "index map never returns|is under a condition that is false|"
            r"store to \S+ is under a condition|grid has \d+ steps, the result|"
            r"pipeline's grid has too few steps|In \S+, elements",
            "never-written",
        ),
        (
            "before it was written|before they were written|used before|"
            "memory that nothing has written|read before anything was copied",
            "read-before-it-was-written",
        ),
        ("padding of .* was used|wrong without padding", "padding-was-used"),
        (
            "NaN from arithmetic|infinity from arithmetic|overflow to inf|NaN where numbers belong",
            "nan-from-arithmetic",
        ),
        ("NaN that comes from", "nan-that-comes-from-an-input"),
        (
            "rows to which nothing contributes|mask value within reach|masks with -1e9",
            "rows-to-which-nothing-contributes",
        ),
        (r"block index .*out of bounds|\w: block index", "block-index-out-of-bounds"),
        ("out of bounds|reaches outside of", "out-of-bounds-in-the-kernel"),
        (
            "contains the values of|values of block|blocks are transposed|in another order|"
            "index map of input|index map of output",
            "a-block-contains-the-values-of-another",
        ),
        (r"block of \S+ counts|still holds the sum", "only-one-block-counts"),
        ("block is revisited|comes back to a block", "an-output-block-is-revisited"),
        (
            "race between two cores|is not parallel|is marked parallel|"
            "nothing orders the accesses|mark the dimension arbitrary",
            "a-race-between-cores",
        ),
        ("off by the same", "off-by-the-same-factor"),
        ("off by its own factor", "each-row-is-off-by-its-own-factor"),
        (
            r"rounded too early|^\w+ sums$|average error of|"
            "Keep sums, maxima and loop carries",
            "rounded-too-early",
        ),
        ("nearly right|rounding explains|hi parts that are not rounded", "nearly-right"),
        ("float32 at the default precision", "float32-at-the-default-precision"),
        ("zeros where values belong", "zeros-where-values-belong"),
        (
            ", unchanged|never used by the launch|never read by the kernel",
            "an-input-does-not-count",
        ),
        ("^right, if|^as if", "right-with-one-change"),
        (
            r"right on the CPU only|pl\.multiple_of promises|promises a multiple",
            "right-on-the-cpu-only",
        ),
        ("does not keep the values of", "does-not-keep-the-values-of-an-input"),
        ("makes no steps", "makes-no-steps"),
        (
            r"only the last block is wrong|only the first block is right|^only \d+|"
            "(?:elements|blocks) (?:is|are) wrong",
            "some-elements-are-wrong",
        ),
        (r"at production size|^reads \d+%", "wrong-at-production-size"),
        ("A core can only compute on VMEM", "hbm-cannot-be-read-directly"),
        ("no copy was started", "no-copy-was-started"),
        ("never waited for|waits for more bytes|left non-zero", "a-copy-is-never-waited-for"),
        (
            "before its copy was waited for|nothing waits for its copy|"
            "before all copies on|after a wait for another slot|before it has arrived|"
            "counts more than one copy|before its copy has arrived|race between devices|"
            "memory is read while a copy",
            "used-before-its-copy-has-ended",
        ),
        (
            "is overwritten while it is being copied|overwritten before it is|"
            "is stored to while a copy|two copies into|same row|"
            "next copy into .* starts before",
            "overwritten-during-a-copy",
        ),
        ("has no device", "no-such-device"),
        ("known to have begun|barrier semaphore of device", "another-device-may-not-have-begun"),
        ("all devices wait", "all-devices-wait"),
        ("credit is missing|may still be sent", "a-credit-is-missing"),
        ("written by two copies", "written-by-two-copies"),
        (
            "copies of the result differ|differ along|is over another axis",
            "the-copies-of-the-result-differ",
        ),
        ("not committed", "a-store-is-not-committed"),
        (
            r"for ever|completes twice|of \d+ arrivals?|and thread \d|thread \d on|"
            r"plgpu\.barrier_wait",
            "a-barrier-that-does-not-fit-its-waits",
        ),
        (
            "while wgmma reads|while tcgen05_mma|while another warpgroup reads|"
            "tcgen05_mma begins in|being copied out|ends before (?:the|its last) copy out|"
            "under way while another is used",
            "memory-that-an-engine-still-uses",
        ),
        ("^race: |same elements are (?:written|read)", "a-race-between-threads"),
        (
            "raises an exception while it|begins with unseeded generators|has not seeded",
            "an-exception-while-the-kernel-runs",
        ),
        ("^on the GPU: ", "on-the-gpu-itself"),
    ),
    Check.RANDOM: (
        (
            "are neither|times their values if|as if the added bits were negative",
            "neither-of-two-outcomes",
        ),
        (
            r"instead of [\d.]+%|the odds|Compare like with like|elements are alike|"
            "likelier outcome|rounds to nearest|adds 15 random bits",
            "the-odds-are-wrong",
        ),
        (
            "same bits|seed alike|generator alike|draw alike|another seed changes|"
            "Do not add the seed|Keep all bits of the seed|seeds the generator",
            "the-same-bits-again",
        ),
        ("drawn with other bits|draws depend on the order", "draws-that-depend-on-other-draws"),
    ),
    Check.BLOCKS: (("a TPU refuses block|must be a multiple of", "a-tpu-refuses-a-block"),),
    Check.LOWERS: (
        ("jax does not lower it for|refuses it: ", "a-gpu-refuses-the-launch"),
        (r"automatically partitioned|jax\.shard_map", "a-kernel-outside-of-a-mesh"),
        (
            "Index a single element|Vectors belong in VMEM|store scalars to VMEM|"
            "A core computes on its own memories",
            "scalars-and-vectors-in-the-wrong-memory",
        ),
        (
            "which have no addresses|dynamic_slice|Slice the Ref|"
            "Loop over the rows of the Ref|takes its addresses",
            "a-value-is-sliced-or-indexed",
        ),
        (
            r"Mosaic (?:cannot lower|refuses) [^.]*\.|traced for a TPU\.|"
            "no kernel that could be lowered",
            "mosaic-refuses-an-operation",
        ),
    ),
    Check.COMPILES: (
        ("The compiler refuses it for", "a-gpu-refuses-the-launch"),
        ("of VMEM|more VMEM", "too-much-vmem"),
        (r"needs more|asks for \d+ TensorCores", "too-much-of-another-memory"),
        (
            "prove that |Offsets along tiled|aligned to til|Two rows of bfloat16",
            "not-aligned-to-tiles",
        ),
        (
            "compiler refuses the kernel|not compiled, although par was|"
            "Leave precision= out|Only numbers of 32 bits|in 32-bit",
            "the-compiler-refuses-an-operation",
        ),
        (
            "crashes the TPU's compiler|the TPU's compiler gave|^while compiling",
            "the-compiler-crashes-or-takes-too-long",
        ),
        ("spills registers|in the compiled code", "spilled-registers-or-a-missing-unit"),
    ),
    Check.COST: (
        ("over the links|busiest link", "too-many-bytes-over-the-links"),
        ("each chip works on", "each-chip-works-on-too-much"),
        ("multiplied while blocks are on their way", "copies-and-products-do-not-overlap"),
        ("holds all blocks at once", "all-blocks-at-once"),
        (
            r"operations; up to|Python loop repeats its body|\bunroll",
            "too-many-operations-in-the-body",
        ),
        ("^no verdict", "no-verdict"),
        ("TensorCores|share the work unevenly", "cores-without-work"),
        ("on the GPU", "slower-on-the-gpu"),
        ("par's HBM bytes", "too-many-bytes"),
        ("par's time", "too-much-time"),
    ),
    None: (("not judged|", "a-check-could-not-be-made"),),
}


def anchor_of(finding: Finding | NotJudged) -> str:
    """The anchor of a finding's entry in docs/errors.md: that of its check if it has no entry.

    Patterns are searched for in the phrase first, because a message may mention other causes.
    """
    check = finding.check if isinstance(finding, Finding) else None
    if isinstance(finding, Finding):
        texts = (_one_line(finding.phrase), _one_line(finding.message))
    else:
        texts = (str(finding),)
    for text in texts:
        for pattern, anchor in EXPLAINED[check]:
            if re.search(pattern, text):
                return anchor
    return section_of(check)


def section_of(check: Check | None) -> str:
    """The anchor of a check's section in docs/errors.md."""
    return (check.title if check else "not judged").replace(" ", "-")


def explained_at(finding: Finding | NotJudged) -> tuple[str, ...]:
    """A line with the address of a finding's entry; none if the package's metadata has no site."""
    site = site_address()
    return (f"  read   {site}/{PAGE}#{anchor_of(finding)}",) if site else ()


def broken_kata_message(error: object) -> str:
    """The message for a kata whose solution or key can't be used."""
    return f"This kata is broken, not your kernel.\n{error}"


def reason(grade: Grade) -> tuple[str, ...]:
    """The same for all cases that fail for one reason: kata, check, and the phrase's words.

    "block (0, 1) is wrong" and "blocks (0, 1) and (2, 1) are wrong" count as the same reason.
    """
    if grade.finding is None:
        return (grade.kata,)
    words = _WORD.findall(grade.finding.phrase)
    singular = [word.rstrip("s") for word in words if word not in ("and", "is", "are", "more")]
    return grade.kata, grade.finding.check.value, *singular


@dataclass(frozen=True, slots=True)
class Headline:
    """The message of a failure in pytest's summary, `--tb=line` and JUnit XML."""

    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class FailureText:
    """A failure's text, with the methods that pytest needs of a representation."""

    text: str

    @property
    def reprcrash(self) -> Headline:
        return Headline(self.text.partition("\n")[0])

    def toterminal(self, tw: Any) -> None:
        # pytest would escape the line ends, too, of a text that the terminal can't encode.
        encoding = getattr(getattr(tw, "_file", None), "encoding", None) or "ascii"
        tw.line(encodable(self.text, encoding))

    def __str__(self) -> str:
        return self.text


def joint_report(report: pytest.TestReport, title: str, text: str) -> pytest.TestReport:
    """A copy of a case's report that stands for all cases with its reason in the terminal."""
    joint = copy.copy(report)
    file, line, _ = joint.location
    joint.location = (file, line, title)  # pytest prints its last part above the text
    joint.longrepr = FailureText(text)  # type: ignore[assignment]
    return joint
