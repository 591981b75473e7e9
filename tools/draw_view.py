"""Take the screenshots of `kata view` for the docs, in a browser without a window.

    python tools/draw_view.py        writes docs/view-*.png

In a copy of the repository, some katas are solved or wrong, and two are still to do. Needs Chromium
or Chrome, and the extra `dev`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import Page, ViewportSize, sync_playwright

ROOT = Path(__file__).parents[1]
SEED = 3
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True, slots=True)
class Picture:
    """A kata's page at a step or another position, from 1, in a file docs/view-FILE.png.

    `attempt` is a text of the solution and what replaces it; without it the kata is still to do.
    """

    file: str
    kata: str
    step: int
    attempt: tuple[str, str] | None = None
    scheme: Literal["light", "dark"] = "light"
    case: int = 0
    width: int = 1280
    height: int = 940


MATMUL = "1_basics/kata_10_tiled_matmul"
BUFFER = "5_pipelines/kata_03_double_buffer"
PERMUTE = "9_many_cores/kata_05_right_permute"
SPLASH = "3_attention/kata_09_splash_attention"
RAGGED = "4_grouped_matmul/kata_11_ragged_grouped_matmul"
#: Each copy of a double buffer is waited for at once.
AT_ONCE = (
    """
        @pl.when(i + 1 < steps)
        def _():
            bring(i + 1, 1 - slot).start()

        bring(i, slot).wait()

        @pl.when(i >= 2)
        def _():
            send(i - 2, slot).wait()

        x = x_ref[slot].astype(jnp.float32)
        o_ref[slot] = jnp.maximum(x * w_ref[...], 0).astype(o_ref.dtype)
        send(i, slot).start()

    for i in (steps - 2, steps - 1):
        send(i, i % 2).wait()
""",
    """
        @pl.when(i > 0)
        def _():
            bring(i, slot).start()

        bring(i, slot).wait()
        x = x_ref[slot].astype(jnp.float32)
        o_ref[slot] = jnp.maximum(x * w_ref[...], 0).astype(o_ref.dtype)
        send(i, slot).start()
        send(i, slot).wait()
""",
)
PICTURES = (
    Picture("solved", MATMUL, 5, ("", "")),
    Picture("failed", MATMUL, 5, ("pl.program_id(2) == 0", "pl.program_id(0) == 0")),
    Picture("double-buffer", BUFFER, 3, ("", ""), case=1),
    Picture("taking-turns", BUFFER, 3, AT_ONCE, case=1),
    Picture("chips", PERMUTE, 2, ("", ""), height=620),
    Picture("splash", SPLASH, 6, case=2, height=1960),
    Picture("ragged", RAGGED, 10),
    Picture("dark", RAGGED, 10, scheme="dark"),
    Picture("narrow", RAGGED, 10, width=390, height=1400),
)


def main() -> None:
    """Write each page with `kata view`, open it at its step, take a screenshot."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        sys.exit(f"docs/view-*.png need a browser: {', '.join(BROWSERS)}")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        copy = Path(scratch)
        for name in ("katas", "solutions"):
            shutil.copytree(ROOT / name, copy / name)
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for picture in PICTURES:
            page = written(copy, picture)
            size = ViewportSize(width=picture.width, height=picture.height)
            tab = browser.new_page(viewport=size, color_scheme=picture.scheme)
            take(tab, page, picture)
        browser.close()


def written(copy: Path, picture: Picture) -> Path:
    """The page of a picture's kata, as the learner has it."""
    kata = copy / "katas" / f"{picture.kata}.py"
    if picture.attempt:
        solution = (copy / "solutions" / f"{picture.kata}.py").read_text(encoding="utf-8")
        kata.write_text(solution.replace(*picture.attempt), encoding="utf-8")
    page = copy / f"{picture.file}.html"
    drawn = ["--seed", str(SEED), "--case", str(picture.case)]
    command = [sys.executable, "-m", "grader.cli", "view", kata.stem, *drawn, "--no-open"]
    subprocess.run([*command, "-o", str(page)], cwd=copy, check=True)
    return page


def take(tab: Page, page: Path, picture: Picture) -> None:
    """Keep what the page shows at the picture's step."""
    tab.goto(f"{page.as_uri()}#step={picture.step}")
    tab.screenshot(path=ROOT / "docs" / f"view-{picture.file}.png")


if __name__ == "__main__":
    main()
