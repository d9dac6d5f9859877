"""The constants of ``symm.h``, under their names without the prefix."""

from symm._generated import (
    Advice,
    Algorithm,
    AtomicOp,
    Backend,
    BufferFlag,
    Collective,
    Compare,
    GroupFlag,
    Locality,
    Op,
    Order,
    Scale,
    SignalOp,
    Status,
    TopologyClass,
)
from symm._values import member

__all__ = [
    "Advice",
    "Algorithm",
    "AtomicOp",
    "Backend",
    "BufferFlag",
    "Collective",
    "Compare",
    "GroupFlag",
    "Locality",
    "Op",
    "Order",
    "Scale",
    "SignalOp",
    "Status",
    "TopologyClass",
    "member",
]
