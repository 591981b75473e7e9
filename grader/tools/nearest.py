"""Mistyped names: which known ones they may stand for."""

from __future__ import annotations

from collections.abc import Iterable

MOST = 3  # names that are offered


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question such as "did you mean hint?", the most similar names first; "" for none."""
    import difflib  # only needed once something is mistyped

    close = difflib.get_close_matches(word.lower(), list(dict.fromkeys(known)), MOST)
    if not close:
        return ""
    *others, last = close
    return f"did you mean {', '.join(others)} or {last}?" if others else f"did you mean {last}?"
