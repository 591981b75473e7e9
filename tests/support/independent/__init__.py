"""The same results by independent code, one module for each field. All are registered here."""

from tests.support.independent import (
    attention_and_groups,
    batches,
    fusion,
    gpu,
    many_cores,
    numerics,
    pipelines,
    serving,
)
from tests.support.independent.registry import INDEPENDENT

__all__ = [
    "INDEPENDENT",
    "attention_and_groups",
    "batches",
    "fusion",
    "gpu",
    "many_cores",
    "numerics",
    "pipelines",
    "serving",
]
