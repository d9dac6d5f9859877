"""The constants of ``symm.h``, by their names there without the prefix."""

from symm._generated import (
    Algorithm,
    Backend,
    Collective,
    Compare,
    GroupFlag,
    Op,
    Scale,
    SignalOp,
    Status,
    TopologyClass,
)
from symm._values import member

__all__ = [
    "Algorithm",
    "Backend",
    "Collective",
    "Compare",
    "GroupFlag",
    "Op",
    "Scale",
    "SignalOp",
    "Status",
    "TopologyClass",
    "member",
]
