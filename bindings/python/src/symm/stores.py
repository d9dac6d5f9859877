"""Key-value stores, by which ranks find each other."""

from __future__ import annotations

import contextlib
import time

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Protocol
else:
    Protocol = object


class Store(Protocol):
    """The store that `Group.from_store()` needs.

    It is called during creation only, on the thread that creates the group. Each key is set
    once. A store that serves several creations must keep their keys apart, for instance by a
    prefix.
    """

    def set(self, key: str, value: bytes, timeout: float) -> None:
        """Store `value` under `key` within `timeout` seconds."""

    def get(self, key: str, timeout: float) -> bytes:
        """Wait for the value of `key`; raise TimeoutError after `timeout` seconds without it."""


class TorchStore:
    """A ``torch.distributed.Store`` as a `Store`.

    Its keys are ``symm/<name>/<number of the creation>/...``.
    """

    _shortest_pause = 0.0005  # seconds
    _longest_pause = 0.05

    def __init__(self, store: Any, rank: int, name: str = "") -> None:
        self._store = store
        # Each rank counts its creations in the store. Creation is collective, so all ranks get
        # the same number.
        creation = store.add(f"symm/{name}/rank {rank}", 1)
        self._prefix = f"symm/{name}/{creation}/"

    def set(self, key: str, value: bytes, timeout: float) -> None:  # noqa: ARG002 - PyTorch has none
        """See `Store`."""
        self._store.set(self._prefix + key, value)

    def get(self, key: str, timeout: float) -> bytes:
        """See `Store`."""
        # The store is asked, since PyTorch logs a warning for each wait() that times out, and
        # the library waits in short pieces.
        end = time.monotonic() + timeout
        pause = self._shortest_pause
        while not self._store.check([self._prefix + key]):
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{key} did not appear within {timeout} s")
            time.sleep(min(pause, left))
            pause = min(2 * pause, self._longest_pause)
        return bytes(self._store.get(self._prefix + key))


@contextlib.contextmanager
def directory_of_communicator(communicator: Any) -> Iterator[str]:
    """A bootstrap address for all ranks of an mpi4py communicator.

    It is a private directory of rank 0, which is removed when all ranks have left.
    """
    import tempfile

    own: contextlib.AbstractContextManager[str | None] = contextlib.nullcontext()
    if communicator.Get_rank() == 0:
        own = tempfile.TemporaryDirectory(prefix="symm-mpi-", ignore_cleanup_errors=True)
    with own as directory:
        yield f"dir://{communicator.bcast(directory, root=0)}"
        # This barrier is skipped if creation failed. It failed on all ranks, but they might not
        # come to a barrier in time.
        communicator.Barrier()
