"""Key-value stores by which ranks find each other."""

from __future__ import annotations

import contextlib
import tempfile
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


class Store(Protocol):
    """What `Group.from_store()` needs. It is called only during creation, only on the
    thread that creates. A key is set once.

    A store that serves several creations must keep their keys apart itself (by a prefix).
    """

    def set(self, key: str, value: bytes, timeout: float) -> None:
        """Store `value` under `key` within `timeout` seconds."""

    def get(self, key: str, timeout: float) -> bytes:
        """The value of `key`; wait for it for at most `timeout` seconds, then raise TimeoutError."""


class TorchStore:
    """A ``torch.distributed.Store`` as a `Store`. Its keys
    are ``symm/<name>/<number of the creation>/...``.
    """

    _longest = timedelta(days=365)

    def __init__(self, store: Any, rank: int, name: str = "") -> None:
        self._store = store
        # Each rank counts its creations in the store; because
        # creation is collective, all come to the same number.
        self._prefix = f"symm/{name}/{store.add(f'symm/{name}/rank {rank}', 1)}/"

    def set(self, key: str, value: bytes, timeout: float) -> None:  # noqa: ARG002 - PyTorch's has none
        """See `Store`."""
        self._store.set(self._prefix + key, value)

    def get(self, key: str, timeout: float) -> bytes:
        """See `Store`."""
        limit = (
            self._longest if timeout > self._longest.total_seconds() else timedelta(seconds=timeout)
        )
        try:
            self._store.wait([self._prefix + key], limit)
        except Exception as error:
            # There is no type for it in all versions:
            # DistStoreError, RuntimeError, LookupError.
            if "timeout" in str(error).lower() or "timed out" in str(error).lower():
                raise TimeoutError(f"{key} did not appear within {timeout} s") from error
            raise
        return bytes(self._store.get(self._prefix + key))


@contextlib.contextmanager
def directory_of_communicator(communicator: Any) -> Iterator[str]:
    """A private directory of rank 0's, as an address for all ranks of an mpi4py
    communicator. Removed when all have left.
    """
    first = communicator.Get_rank() == 0
    own = (
        tempfile.TemporaryDirectory(prefix="symm-mpi-", ignore_cleanup_errors=True)
        if first
        else contextlib.nullcontext()
    )
    with own as directory:
        yield f"dir://{communicator.bcast(directory, root=0)}"
        # not where it failed: all ranks fail alike, but perhaps not in time to meet again
        communicator.Barrier()
