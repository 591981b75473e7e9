"""The same content drawn wide or narrow."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult


class FirstThatFits:
    """Of several renderables, widest first, the first that fits uncut; else the last.

    `probes` are measured in place of what may take several lines.
    """

    def __init__(
        self, *choices: RenderableType, probes: Sequence[RenderableType] | None = None
    ) -> None:
        self._choices = choices
        self._probes = probes or choices

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.update(max_width=10_000)
        for choice, probe in zip(self._choices[:-1], self._probes, strict=False):
            if console.measure(probe, options=wide).maximum <= options.max_width:
                yield choice
                return
        yield self._choices[-1]
