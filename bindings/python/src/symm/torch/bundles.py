"""Tensors that go to other processes by a token, such as the weights of a module."""

from __future__ import annotations

import torch

import symm
from symm.errors import InvalidArgumentError, UnsupportedError

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from collections.abc import Mapping

    from symm import ImportInfo


def share(
    tensors: Mapping[str, torch.Tensor], *, hold: float | None = None, hold_imports: int = 0
) -> bytes:
    """One token for tensors by their names, as ``module.state_dict()`` has them. [local] [stream]

    Nothing is copied: `load()` maps the memory that the tensors have here. It is memory of symm's,
    such as that of a heap's pool, or on CUDA that of PyTorch's allocator. symm keeps the memory
    for those who have loaded it, even when this process is gone, unless it is of cudaMalloc, as
    PyTorch's is without ``PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True``: then the tensors have
    to stay here for as long as others use them. On CUDA, `load()` sees the results of what the
    current stream has been given.

    Args:
        tensors: contiguous tensors of one device, by their names.
        hold: seconds for which the memory is kept for this token, as in `symm.ipc_export()`. Memory
            of cudaMalloc cannot be kept so.
        hold_imports: the number of imports after which it is not kept any longer.

    Raises:
        InvalidArgumentError: a tensor is not contiguous, or lies in memory that cannot be shared,
            such as a pool of cudaMallocAsync.
    """
    found = {name: tensor.detach() for name, tensor in tensors.items()}
    devices = {tensor.device for tensor in found.values() if tensor.numel()}
    if len(devices) != 1:
        raise InvalidArgumentError(
            f"tensors: must have memory of one device, and it is of {sorted(map(str, devices))}"
        )
    stream = _stream_on(devices.pop())
    return symm.ipc_export_bundle(found, hold=hold, hold_imports=hold_imports, stream=stream)


def load(
    token: bytes,
    *,
    timeout: float | None = None,
    directory: str | None = None,
    device: int | None = None,
    read_only: bool | None = None,
) -> Tensors:
    """Map the tensors that `share()` has named, by their names. [local] [blocking] [stream]

    ``module.load_state_dict(load(token), assign=True)`` has a module use them in place, and
    without `assign` copies them. PyTorch knows no tensors for reading only: a store into one that
    was mapped so ends the process, or fails on the GPU. The lease ends with the dictionary and the
    last of the tensors and their views.

    Args:
        token: the bytes that `share()` returned.
        timeout: seconds for the exporter's answer, as in `symm.import_bundle()`.
        directory: the path in this process of the exporter's $SYMM_IPC_DIRECTORY.
        device: the CUDA ordinal for which to map the memory; None: the GPU that has it.
        read_only: map the memory so that it cannot be written. None: unless some of it is of
            cudaMalloc, which the driver maps for writing only.

    Raises:
        UnsupportedError: with `read_only`, some of the memory is of cudaMalloc.
    """

    def import_it(for_reading: bool) -> symm.Bundle:
        return symm.import_bundle(
            token, timeout=timeout, directory=directory, device=device, read_only=for_reading
        )

    try:
        return Tensors(import_it(read_only is not False))
    except UnsupportedError:
        if read_only is not None:
            raise
    return Tensors(import_it(False))


class Tensors(dict[str, torch.Tensor]):
    """The tensors of a bundle by their names, as `load()` maps them.

    An engine that sleeps gives their memory up by `suspend()`, and they keep their addresses.
    `resume()` maps the same or the next version there, so that modules that use the tensors and
    graphs that were captured with them are right again.
    """

    def __init__(self, bundle: symm.Bundle) -> None:
        super().__init__((name, array.torch()) for name, array in bundle.items())
        self._bundle = bundle

    def _stream(self) -> torch.cuda.Stream | None:
        devices = [tensor.device for tensor in self.values() if tensor.numel()]
        return _stream_on(devices[0]) if devices else None

    def info(self) -> ImportInfo:
        """Describe the import. [local]"""
        return self._bundle.info()

    def suspend(self) -> None:
        """Give the memory up, and keep the addresses. [local] [stream]

        What was issued on the current stream is over when the memory goes. Until `resume()`, an
        access ends the process, or fails on the GPU.

        Raises:
            InvalidArgumentError: they are suspended, or another import, a token or a group of
                this process uses the memory.
            UnsupportedError: some of the memory is of cudaMalloc.
        """
        self._bundle.suspend(self._stream())

    def resume(
        self,
        token: bytes | None = None,
        *,
        timeout: float | None = None,
        directory: str | None = None,
    ) -> None:
        """Map memory at the addresses again. [local] [blocking] [stream]

        Args:
            token: that of another version, made by `share()` of tensors with the same names, sizes
                and places in their blocks; None: the version that was there.
            timeout: seconds for the exporter's answer, as in `load()`, and so is `directory`.

        Raises:
            InvalidArgumentError: they are not suspended, or the version lies otherwise.
            InvalidHandleError: the memory was released or withdrawn.
            PeerFailedError: its maker is gone.
        """
        self._bundle.resume(token, timeout=timeout, directory=directory, stream=self._stream())


def _stream_on(device: torch.device) -> torch.cuda.Stream | None:
    return torch.cuda.current_stream(device) if device.type == "cuda" else None
