"""The instruction mix of a kernel, from nvdisasm's listing of what the GPU would execute.

The names are those of CUDA's binary utilities, "Instruction Set Reference" for Hopper and for
Blackwell. What is counted is instructions in the listing, not how often one is executed.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

#: What is counted as what; each instruction belongs to one family at most. A bulk copy says where
#: it goes in its first modifier: UBLKCP.S.G into shared memory, UBLKCP.G.S out of it.
FAMILIES: dict[str, tuple[str, ...]] = {
    "wgmma": ("HGMMA", "QGMMA", "IGMMA", "BGMMA"),
    "tcgen05": ("UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCOMMA", "UTCMXQMMA"),
    "mma": ("HMMA", "QMMA", "IMMA", "DMMA", "BMMA", "OMMA"),
    "tensor memory": ("LDTM", "LDT", "STTM", "STT", "UTCCP", "UTCSHIFT"),
    "TMA loads": ("UTMALDG", "UBLKCP.S"),
    "TMA stores": ("UTMASTG", "UTMAREDG", "UBLKCP.G", "UBLKRED"),
    "cp.async": ("LDGSTS",),
    "mbarrier": ("SYNCS", "UTCBAR"),
    "bar.sync": ("BAR", "UCGABAR_ARV", "UCGABAR_WAIT"),
    "global loads": ("LDG", "LD"),
    "global stores": ("STG", "ST", "RED", "REDG", "ATOMG", "ATOM"),
    "shared loads": ("LDS", "LDSM"),
    "shared stores": ("STS", "STSM", "STAS"),
    "local loads": ("LDL",),
    "local stores": ("STL",),
    "setmaxnreg": ("USETMAXREG",),
}
_FAMILY = {name: family for family, names in FAMILIES.items() for name in names}
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P[T\d]+\s+)?([A-Z][A-Z0-9_]*)(\.\w+)?")
#: They fill up the last line of the program.
_PADDING = ("NOP",)


@dataclass(frozen=True, slots=True)
class Mix:
    """How many instructions there are, and how many of each family, in the order of FAMILIES."""

    instructions: int
    families: tuple[tuple[str, int], ...]

    def count(self, family: str) -> int:
        """Raises KeyError for a family that is none of FAMILIES."""
        return {**dict.fromkeys(FAMILIES, 0), **dict(self.families)}[family]


def read_mix(listing: str) -> Mix | None:
    """None where the text lists no instruction."""
    found = [each.groups() for each in _INSTRUCTION.finditer(listing)]
    names = [(name, f"{name}{modifier or ''}") for name, modifier in found if name not in _PADDING]
    if not names:
        return None
    counted = Counter(_FAMILY.get(name) or _FAMILY.get(longer) for name, longer in names)
    return Mix(len(names), tuple((f, counted[f]) for f in FAMILIES if counted[f]))
