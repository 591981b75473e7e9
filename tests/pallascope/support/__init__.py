"""What tests of pallascope share: kernels to look at, and the folder of the repository."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[3]
