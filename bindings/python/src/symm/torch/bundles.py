"""Tensors that go to other processes by a token, such as the weights of a module."""

from __future__ import annotations

import torch

import symm
from symm.errors import InvalidArgumentError

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from collections.abc import Mapping


def share(
    tensors: Mapping[str, torch.Tensor], *, hold: float | None = None, hold_imports: int = 0
) -> bytes:
    """One token for tensors by their names, as ``module.state_dict()`` has them. [local] [stream]

    Nothing is copied: `load()` maps the memory that the tensors have here, so they lie in memory
    of symm's, such as that of a heap's pool, or on CUDA in any memory that the driver can export
    (``PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True``). On CUDA, `load()` sees the results of
    what the current stream has been given.

    Args:
        tensors: contiguous tensors of one device, by their names.
        hold: seconds for which the memory is kept for this token, as in `symm.ipc_export()`.
        hold_imports: the number of imports after which it is not kept any longer.

    Raises:
        InvalidArgumentError: a tensor is not contiguous, or lies in memory that cannot be shared.
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
    read_only: bool = True,
) -> dict[str, torch.Tensor]:
    """Map the tensors that `share()` has named, by their names. [local] [blocking] [stream]

    ``module.load_state_dict(load(token), assign=True)`` has a module use them in place, and
    without `assign` copies them. PyTorch knows no tensors for reading only: a store into one that
    was mapped so ends the process, or fails on the GPU. The lease ends with the last of the
    tensors and their views.

    Args:
        token: the bytes that `share()` returned.
        timeout: seconds for the exporter's answer, as in `symm.import_bundle()`.
        directory: the path in this process of the exporter's $SYMM_IPC_DIRECTORY.
        device: the CUDA ordinal for which to map the memory; None: the GPU that has it.
        read_only: map the memory so that it cannot be written.
    """
    bundle = symm.import_bundle(
        token, timeout=timeout, directory=directory, device=device, read_only=read_only
    )
    return {name: array.torch() for name, array in bundle.items()}


def _stream_on(device: torch.device) -> torch.cuda.Stream | None:
    return torch.cuda.current_stream(device) if device.type == "cuda" else None
