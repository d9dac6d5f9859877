"""Descriptions of the library and of the devices of this machine.

All calls are [local]. Calls that take a back end raise `UnavailableError` if it cannot be used
here; the message says why.
"""

from __future__ import annotations

from symm._generated import DeviceInfo
from symm._library import raw
from symm._values import Record
from symm.enums import Backend, TopologyClass, member

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from typing import Any


class Topology(Record):
    """The links between the devices of a back end, or of the ranks of a group.

    Attributes:
        kind: the class of the topology.
        links: the number of direct links from each device to each; the diagonal is 0. Of a group,
            -1 where one of two ranks is on another machine than this one.
    """

    kind: TopologyClass
    links: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, kind: int, links: list[int], count: int) -> Topology:
        """Make one of what the library has written."""
        rows = tuple(tuple(links[row * count : (row + 1) * count]) for row in range(count))
        return cls(TopologyClass(kind), rows)


def build_info() -> dict[str, Any]:
    """The source revision, compilers and options that the loaded library was built with."""
    import json

    return dict(json.loads(raw.symm_build_info()))


def device_count(backend: Backend | str = Backend.AUTO) -> int:
    """The number of devices of a back end."""
    return raw.symm_device_count(member(Backend, backend))


def device_info(device: int = 0, backend: Backend | str = Backend.AUTO) -> DeviceInfo:
    """Describe device `device` of a back end.

    Raises:
        InvalidArgumentError: there is no such device.
    """
    return DeviceInfo.read(raw.symm_device_info(member(Backend, backend), device))


def topology(backend: Backend | str = Backend.AUTO) -> Topology:
    """The links between the devices of a back end."""
    count = device_count(backend)
    kind, links = raw.symm_topology(member(Backend, backend), count * count)
    return Topology.of(kind, links, count)
