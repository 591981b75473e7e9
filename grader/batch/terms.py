"""What a run judges by: its verdicts can be put beside another's only if all of it is the same."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Terms:
    """Seed, chips, and versions by package; `shard` ("2/4") is the part of the samples judged."""

    seed: int
    chips: tuple[str, ...]
    versions: dict[str, str | None]
    shard: str = ""

    def differs(self, other: Terms) -> str:
        """In what they are not the same, in words; "" where they are. Shards may differ."""
        if self.seed != other.seed:
            return f"seed {self.seed}, and seed {other.seed}"
        if self.chips != other.chips:
            return f"for {', '.join(self.chips)}, and for {', '.join(other.chips)}"
        for name in sorted({*self.versions, *other.versions}):
            one, two = self.versions.get(name), other.versions.get(name)
            if one != two:
                return f"with {name} {one or 'not installed'}, and with {two or 'none'}"
        return ""
