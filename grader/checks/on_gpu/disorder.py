"""What is said of a kernel whose trace shows that a unit may come too early, or nothing come."""

from __future__ import annotations

from grader.checks.prose import at, listed, paragraph
from grader.model import Check, Disorder, Finding, GpuFault

#: A phrase, what happens, why that is wrong, and what to try.
Words = tuple[str, str, str, str]


def disorder_finding(fault: GpuFault, file: str) -> Finding:
    """Explain a fault. `file` is the learner's, relative to the root."""
    phrase, happens, why, advice = _words(fault)
    parts = [happens]
    if fault.line:
        parts.append(paragraph("line", at(file, fault.line)))
    if fault.since:
        parts.append(paragraph("since", at(file, fault.since)))
    if fault.others:
        parts.append(paragraph("also", f"So wait {listed(fault.others)}."))
    parts += [paragraph("why", why), paragraph("try", advice)]
    return Finding(Check.VALUES, phrase, "\n".join(parts))


def _words(fault: GpuFault) -> Words:
    match fault.disorder:
        case Disorder.NO_COMMIT:
            return (
                f"{fault.ref} is stored to, and not committed before {fault.reader}",
                f"{fault.ref} is stored to, and {fault.reader} reads it without a commit between.",
                "TMA and the tensor cores read shared memory past the threads' own view of it: "
                "what threads have stored may not be there yet.",
                f"plgpu.commit_smem() after the last store to {fault.ref}, before {fault.reader}.",
            )
        case Disorder.READ_BY_WGMMA:
            return (
                f"{fault.ref} is overwritten while wgmma reads it",
                f"Something is written to {fault.ref}, and the wgmma that reads it may still be "
                "under way.",
                "plgpu.wgmma only starts the product: the tensor cores read their operands from "
                "shared memory beside the kernel. An interpreter carries it out at once, so the "
                "values are right there.",
                f"plgpu.wgmma_wait(0) before {fault.ref} is written again, or before the barrier "
                "that lets another warpgroup do so; wgmma_wait(1) leaves the last one under way.",
            )
        case Disorder.READ_BY_MMA:
            return (
                f"{fault.ref} is overwritten while tcgen05_mma reads it",
                f"Something is written to {fault.ref}, and the tcgen05_mma that reads it may still "
                "be under way.",
                "plgpu.tcgen05_mma only starts the product: the tensor cores read their operands "
                "from shared memory beside the kernel, and arrive at the product's barrier when "
                "they have. An interpreter may carry it out at once, so the values can be right "
                "there.",
                f"plgpu.barrier_wait on the barrier that this product arrives at, before "
                f"{fault.ref} is written again.",
            )
        case Disorder.NOT_MULTIPLIED:
            return (
                f"{fault.ref} is loaded while tcgen05_mma adds to it",
                f"{fault.ref} is loaded, and a tcgen05_mma that adds to it may still be under way.",
                "plgpu.tcgen05_mma only starts a product. An interpreter may carry it out at "
                "once, so the values can be right there.",
                "plgpu.tcgen05_commit_arrive(barrier) after the last product: the barrier "
                "completes when all before it have ended. plgpu.barrier_wait(barrier) before the "
                "load. A product for later sums has begun too early: it waits for a barrier at "
                "which the warpgroup that loads arrives, after plgpu.wait_load_tmem().",
            )
        case Disorder.STILL_LOADED:
            return (
                f"tcgen05_mma begins in {fault.ref} while it is loaded",
                f"A tcgen05_mma begins in {fault.ref}, and a load from there may not have ended.",
                "async_load_tmem returns values that can be used at once; that tensor memory may "
                "be overwritten, only wait_load_tmem says.",
                "plgpu.wait_load_tmem() after the last load, before the barrier that lets the next "
                "product begin.",
            )
        case Disorder.LEAVING:
            return (
                f"{fault.ref} is overwritten while it is being copied out",
                f"Something is written to {fault.ref}, and the copy_smem_to_gmem that reads it may "
                "still be under way.",
                "copy_smem_to_gmem only starts a copy: TMA reads its source beside the kernel.",
                "plgpu.wait_smem_to_gmem(n) returns when at most n copies out are left. With two "
                "slots, wait_smem_to_gmem(1) before a slot is stored to again.",
            )
        case Disorder.NOT_DRAINED:
            return (
                f"the kernel ends before the copy out of {fault.ref} has",
                f"The kernel ends, and the copy out of {fault.ref} may still be under way.",
                "A block's shared memory goes to the next block when it ends, and TMA would copy "
                "what that one writes there.",
                "End with plgpu.wait_smem_to_gmem(0).",
            )
        case Disorder.LAPPED:
            return (
                f"{fault.ref} completes twice before a wait on it",
                f"When the kernel comes to wait on {fault.ref}, the phase that it waits for may be "
                "over, and the next one as well.",
                "A wait tells one phase from the next by a single bit. Two phases later the bit is "
                "as before, and the wait goes on until a third: it returns late or never, and what "
                "came with the first has been overwritten.",
                "Count what arrives between two waits: with two copies on one barrier, "
                "plgpu.Barrier(num_arrivals=2). And let nothing arrive a second time before this "
                "wait: no more copies ahead than there are slots, less the one in use, and between "
                "warpgroups a second barrier that says when a slot is free.",
            )
        case Disorder.NEVER_ARRIVES:
            return _hang(fault)


def _hang(fault: GpuFault) -> Words:
    needed = "arrival" if fault.needed == 1 else "arrivals"
    had = f"{fault.arrived} of {fault.needed} {needed}"
    return (
        f"waits on {fault.ref} for ever: {had}",
        f"The kernel waits on {fault.ref} for ever. It has had {had} since it last completed, and "
        "no thread is left that could arrive.",
        "A barrier completes when as many have arrived as its num_arrivals says: each "
        "copy_gmem_to_smem or tcgen05_mma that names it arrives once, and so does each "
        "plgpu.barrier_arrive or plgpu.tcgen05_commit_arrive. A wait that finds the phase "
        "completed returns, and the next one waits for the next phase.",
        _arrivals(fault),
    )


def _arrivals(fault: GpuFault) -> str:
    """What to try, by whether some have arrived."""
    if fault.arrived:
        return (
            f"Let {fault.needed} arrive: is a copy that should name {fault.ref} missing, or on "
            "another barrier? With one copy, or one warpgroup that arrives, num_arrivals is 1."
        )
    return (
        f"Start what arrives at {fault.ref} before this wait, in whichever warpgroup, and wait "
        "once for each phase: what one wait has waited for, the next doesn't find. Of several "
        "slots, the copy, or the product, and the wait name the same one."
    )
