"""The kernels that bench/gpu/peer_kernels builds, on PyTorch's symmetric memory."""

import ctypes

import sizes
import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as torch_symm

WORLDS = (2, 4, 8)
NEGATIVE_ZERO = {"bf16": (torch.int16, -(1 << 15)), "f32": (torch.int32, -(1 << 31))}
FLAGS = 256  # words for each rank; neither library uses as many


class Fused(ctypes.Structure):
    """The struct `Fused` of bench/gpu/peer_kernels.cu."""

    _fields_ = [
        ("ranks", ctypes.c_int),
        ("rank", ctypes.c_int),
        ("count", ctypes.c_int),
        ("hidden", ctypes.c_int),
        ("workspace", ctypes.c_void_p),
        ("in_", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("one_shot", ctypes.c_int),
        ("residual", ctypes.c_void_p),
        ("weight", ctypes.c_void_p),
    ]


def symmetric(size):
    """(tensor of zeros, addresses of all ranks' tensors, handle that keeps them alive)"""
    tensor = torch_symm.empty(size, dtype=torch.uint8, device="cuda").zero_()
    handle = torch_symm.rendezvous(tensor, dist.group.WORLD.group_name)
    return tensor, list(handle.buffer_ptrs), handle


def pointer_of(tensor):
    return None if tensor is None else tensor.data_ptr()


class Kernels:
    """FlashInfer's kernels and vLLM's, with their operands, results and workspaces."""

    def __init__(
        self, path, rank, world, stream, dtypes, one=sizes.ONE_SHOT_LARGEST, two=sizes.PEER_LARGEST
    ):
        if world not in WORLDS:
            raise RuntimeError(f"made for {WORLDS} ranks")
        self.library = ctypes.CDLL(path)
        self.library.peer_vllm_signal_bytes.restype = ctypes.c_size_t
        self.rank = rank
        self.world = world
        self.stream = ctypes.c_void_p(stream)

        self.send, addresses, self.kept_send = symmetric(two)
        self.kept_signals = symmetric(self.library.peer_vllm_signal_bytes() + two)
        self.signals = (ctypes.c_void_p * world)(*self.kept_signals[1])
        self.pointers = torch.tensor(
            addresses + [0] * (8 - world), dtype=torch.int64, device="cuda"
        )
        self.out = torch.zeros(two, dtype=torch.uint8, device="cuda")
        self.workspaces = {
            dtype: self.workspace(dtype, one * world, two * world) for dtype in dtypes
        }

    def workspace(self, dtype, message, buffer):
        """A workspace of FlashInfer: a buffer, flags, and three times the messages of all ranks.

        The messages are filled with negative zeros, which mean that nothing has arrived.
        """
        messages = symmetric(3 * message)
        integer, nothing = NEGATIVE_ZERO[dtype]
        messages[0].view(integer).fill_(nothing)
        parts = [symmetric(buffer), symmetric(4 * FLAGS * self.world), messages]
        flags = torch.tensor([0, 0, 0, message, 0], dtype=torch.int32, device="cuda")
        pointers = [pointer for part in parts for pointer in part[1]] + [flags.data_ptr()]
        return torch.tensor(pointers, dtype=torch.int64, device="cuda"), parts, flags

    def flashinfer(
        self, count, dtype, one_shot, hidden=8192, operand=None, residual=None, weight=None
    ):
        """A function that issues one all-reduce, with RMSNorm if there is a residual.

        A message of up to `hidden` elements is one token; a longer one has several tokens of
        `hidden` elements.
        """
        operand = self.send if operand is None else operand
        arguments = Fused(
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
        function = self.library.peer_flashinfer
        is_f32 = ctypes.c_int(dtype == "f32")

        return self.checked(lambda: function(ctypes.byref(arguments), is_f32, self.stream))

    def vllm(self, count, dtype):
        """A function that issues one all-reduce."""
        arguments = [
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

        return self.checked(lambda: function(*arguments))

    @staticmethod
    def checked(function):
        """The function, which then raises for a CUDA error that it returns."""

        def call():
            error = function()
            if error:
                raise RuntimeError(f"CUDA error {error}")

        return call
