"""What to try where jax.shard_map, or an operation between devices in it, can't be traced."""

from __future__ import annotations

_SPECS = (
    "in_specs has one PartitionSpec for each array that is passed, in their order, as P(…), and "
    "out_specs one for each result. A single one stands for all."
)

#: A pattern in an exception's text, and what to try.
SHARD_MAP_ADVICE: tuple[tuple[str, str], ...] = (
    (
        r"check_vma=True",
        "Pass check_vma=False to jax.shard_map. jax would check that results which out_specs calls "
        "the same on all devices along an axis are so; a kernel doesn't say along which axes its "
        "results differ, so see to it yourself.",
    ),
    (
        r"all mesh axes are partitioned manually",
        "A kernel has to be within a shard_map that goes over all axes of the mesh: leave "
        "axis_names out.",
    ),
    (
        r"must refer to an axis marked as manual",
        "A spec names axes of the mesh, and these have the names in the braces. It has one entry "
        "for each dimension of the array: None, or nothing at the end, for one that isn't cut.",
    ),
    (
        r"unbound axis name",
        "An operation between devices goes over an axis of the mesh, by the mesh's own name for it "
        "(mesh.axis_names), and stands in the function that jax.shard_map calls. In a plgpu.kernel "
        "the axes have the names that its launch gives: grid_names and thread_name.",
    ),
    (
        r"not evenly divisible by the corresponding mesh axis sizes",
        "A dimension is cut into equal parts, as many as there are devices along the axis. Cut "
        "another dimension, or leave this one whole: None in its place in the spec.",
    ),
    (
        r"_specs entry which is too long",
        "A spec has at most as many entries as the array has dimensions. Count them, also those "
        "that None stands for.",
    ),
    (r"pytree structure error[\s\S]*shard_map", _SPECS),
    (r"argument must be a pytree of `jax.sharding.PartitionSpec`", _SPECS),
    (
        r"shard_map\(\) got an unexpected keyword argument 'check_rep'",
        "check_rep is called check_vma now: jax.shard_map(…, check_vma=False).",
    ),
)
