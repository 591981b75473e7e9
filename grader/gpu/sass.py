"""The instruction mix of a kernel, from nvdisasm's listing of what the GPU would execute.

The names are those of CUDA's binary utilities, "Instruction Set Reference" for Hopper and for
Blackwell. What is counted is instructions in the listing, not how often one is executed.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

#: What is counted as what; each instruction belongs to one family at most.
FAMILIES: dict[str, tuple[str, ...]] = {
    "wgmma": ("HGMMA", "QGMMA", "IGMMA", "BGMMA"),
    "tcgen05": ("UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCOMMA", "UTCMXQMMA"),
    "mma": ("HMMA", "QMMA", "IMMA", "DMMA", "BMMA", "OMMA"),
    "tensor memory": ("LDTM", "LDT", "STTM", "STT", "UTCCP", "UTCSHIFT"),
    "TMA loads": ("UTMALDG", "UBLKCP"),
    "TMA stores": ("UTMASTG", "UTMAREDG", "UBLKRED"),
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
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P[T\d]+\s+)?([A-Z][A-Z0-9_]*)")
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
    names = Counter(found[1] for found in _INSTRUCTION.finditer(listing))
    for padding in _PADDING:
        names.pop(padding, None)
    if not names:
        return None
    counted: Counter[str] = Counter()
    for name, count in names.items():
        if family := _FAMILY.get(name):
            counted[family] += count
    return Mix(names.total(), tuple((f, counted[f]) for f in FAMILIES if counted[f]))
