"""What `kata cost`, `kata trace` and `kata view` share: which launch is meant."""

from __future__ import annotations

import argparse

from grader.tpu.chips import CHIPS, DEFAULT

_SIZES = (
    "sizes and dtype in place of the drawn ones, such as M=2048 bm=512 dtype=bfloat16; sizes that "
    "the answer key computes from them follow"
)


def launch_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what names one launch: kata, sizes, case, seed and chip."""
    parser.add_argument("name", help="one kata, as for pytest -k")
    parser.add_argument("sizes", nargs="*", metavar="SIZE=VALUE", help=_SIZES)
    parser.add_argument(
        "--case", type=int, default=0, metavar="N", help="which hidden case (default: %(default)s)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="S",
        help="the session's seed that hidden cases are drawn with (default: %(default)s)",
    )
    parser.add_argument(
        "--chip", choices=list(CHIPS), default=DEFAULT, help="the TPU (default: %(default)s)"
    )
