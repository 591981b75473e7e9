"""The rungs of the ladder, one module each: `check(evidence) -> Finding | None`.

A check asks one question of what was observed. It raises nothing, prints nothing, runs nothing.
"""
