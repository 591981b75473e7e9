"""How much a trace may hold. A solution's takes up to 100 KB, 10,000 nodes and 200 levels."""

from __future__ import annotations

MOST_BYTES = 64 << 20
MOST_ARRAY_BYTES = 16 << 20  # of one constant
MOST_LEVELS = 2_000  # objects in objects; each jaxpr in another takes about six
#: Nodes, each counted as often as an object holds it: what hashing or printing all may come to.
MOST_NODES_UNFOLDED = 50_000_000
MOST_RANK = 64  # NumPy's own limit
MOST_GRID_DIMENSIONS = 64
MOST_FRAMES = 10  # of a traceback; MLIR's locations keep as many
