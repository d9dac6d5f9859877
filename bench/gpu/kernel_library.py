"""The kernels that bench/gpu/peer_kernels builds, on symmetric memory of PyTorch."""

import ctypes

import sizes
import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as torch_symm

WORLDS = (2, 4, 8)
NEGATIVE_ZERO = {"bf16": (torch.int16, -(1 << 15)), "f32": (torch.int32, -(1 << 31))}
FLAGS = 256  # words a rank, more than either has


class Fused(ctypes.Structure):
    _fields_ = [
        ("ranks", ctypes.c_int),
        ("rank", ctypes.c_int),
        ("count", ctypes.c_int),
        ("hidden", ctypes.c_int),
        *((name, ctypes.c_void_p) for name in ("workspace", "in_", "out")),
        ("one_shot", ctypes.c_int),
        ("residual", ctypes.c_void_p),
        ("weight", ctypes.c_void_p),
    ]


def symmetric(size):
    """Zeros on every rank, the pointers of all of them, and what keeps them."""
    tensor = torch_symm.empty(size, dtype=torch.uint8, device="cuda").zero_()
    handle = torch_symm.rendezvous(tensor, dist.group.WORLD.group_name)
    return tensor, list(handle.buffer_ptrs), handle


def pointer_of(tensor):
    return None if tensor is None else tensor.data_ptr()


class Kernels:
    def __init__(
        self, path, rank, world, stream, dtypes, one=sizes.ONE_SHOT_LARGEST, two=sizes.PEER_LARGEST
    ):
        if world not in WORLDS:
            raise RuntimeError(f"made for {WORLDS} ranks")
        self.library = ctypes.CDLL(path)
        self.library.peer_vllm_signal_bytes.restype = ctypes.c_size_t
        self.rank, self.world, self.stream = rank, world, ctypes.c_void_p(stream)
        self.send, self.operands, self.kept_send = symmetric(two)
        signals = symmetric(self.library.peer_vllm_signal_bytes() + two)
        self.signals, self.kept_signals = (ctypes.c_void_p * world)(*signals[1]), signals
        self.pointers = torch.tensor(
            self.operands + [0] * (8 - world), dtype=torch.int64, device="cuda"
        )
        self.out = torch.zeros(two, dtype=torch.uint8, device="cuda")
        self.workspaces = {
            dtype: self.workspace(dtype, one * world, two * world) for dtype in dtypes
        }

    def workspace(self, dtype, message, buffer):
        """FlashInfer's: a buffer, flags, and three times the messages of all ranks, filled
        with what says that nothing has come.
        """
        parts = [symmetric(buffer), symmetric(4 * FLAGS * self.world), symmetric(3 * message)]
        integer, nothing = NEGATIVE_ZERO[dtype]
        parts[2][0].view(integer).fill_(nothing)
        flags = torch.tensor([0, 0, 0, message, 0], dtype=torch.int32, device="cuda")
        pointers = [pointer for part in parts for pointer in part[1]] + [flags.data_ptr()]
        return torch.tensor(pointers, dtype=torch.int64, device="cuda"), parts, flags

    def flashinfer(
        self, count, dtype, one_shot, hidden=8192, operand=None, residual=None, weight=None
    ):
        """A message of up to `hidden` elements is one token, a longer one has as many of
        these. With RMSNorm if there is a residual.
        """
        operand = self.send if operand is None else operand
        what = Fused(
            self.world,
            self.rank,
            count,
            min(count, hidden),
            self.workspaces[dtype][0].data_ptr(),
            operand.data_ptr(),
            self.out.data_ptr(),
            one_shot=one_shot,
            residual=pointer_of(residual),
            weight=pointer_of(weight),
        )
        function, how, stream = (
            self.library.peer_flashinfer,
            ctypes.c_int(dtype == "f32"),
            self.stream,
        )
        return self.call(lambda: function(ctypes.byref(what), how, stream))

    def vllm(self, count, dtype):
        what = [
            ctypes.c_int(self.world),
            ctypes.c_int(self.rank),
            ctypes.c_void_p(self.pointers.data_ptr()),
            self.signals,
            ctypes.c_void_p(self.out.data_ptr()),
            ctypes.c_int(count),
            ctypes.c_int(dtype == "f32"),
            self.stream,
        ]
        function = self.library.peer_vllm
        return self.call(lambda: function(*what))

    @staticmethod
    def call(function):
        def checked():
            if error := function():
                raise RuntimeError(f"CUDA error {error}")

        return checked
