"""libnccl.so by ctypes: another copy than PyTorch's, or with windows."""

import contextlib
import ctypes
import os
import shutil
import tempfile

DTYPES = {"bf16": 9, "f32": 7}
SYMMETRIC = 1  # of its windows
SUM = 0


@contextlib.contextmanager
def variables(settings):
    """The environment has them meanwhile."""
    before = {name: os.environ.pop(name, None) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name in settings:
            os.environ.pop(name)
        os.environ.update({name: value for name, value in before.items() if value is not None})


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_byte * 128)]


def loaded():
    """The path of the copy that this process has."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            if "/libnccl.so" in line:
                return line.split(maxsplit=5)[5].strip()
    raise RuntimeError("PyTorch has loaded no libnccl.so")


class Nccl:
    """A communicator of all ranks, and `size` bytes that are registered with it as a
    window. `spec`: [PATH][,NAME=VALUE]...; what is set is read by this copy alone,
    since each reads its environment when it is first used.
    """

    def __init__(self, spec, size, rank, world, clock, stream):
        path, *settings = spec.split(",")
        self.stream = ctypes.c_void_p(stream)
        path = path or loaded()
        with tempfile.TemporaryDirectory() as folder:
            if settings:  # a file of its own, since the linker knows files and not names
                path = shutil.copy(os.path.realpath(path), folder)
            self.library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND)
        self.library.ncclGetErrorString.restype = ctypes.c_char_p
        version = ctypes.c_int()
        self.check(self.library.ncclGetVersion(ctypes.byref(version)))
        number = f"{version.value // 10000}.{version.value // 100 % 100}.{version.value % 100}"
        self.name = " ".join(["nccl", *([number] if spec else []), *settings])
        with variables(dict(setting.split("=", 1) for setting in settings)):
            self.connect(size, rank, world, clock)

    def connect(self, size, rank, world, clock):
        identity = UniqueId()
        if rank == 0:
            self.check(self.library.ncclGetUniqueId(ctypes.byref(identity)))
        ctypes.memmove(
            ctypes.byref(identity), clock.decided(bytes(identity)), ctypes.sizeof(identity)
        )
        self.communicator, self.pointer, window = (
            ctypes.c_void_p(),
            ctypes.c_void_p(),
            ctypes.c_void_p(),
        )
        self.check(
            self.library.ncclCommInitRank(ctypes.byref(self.communicator), world, identity, rank)
        )
        self.check(self.library.ncclMemAlloc(ctypes.byref(self.pointer), ctypes.c_size_t(size)))
        self.check(
            self.library.ncclCommWindowRegister(
                self.communicator,
                self.pointer,
                ctypes.c_size_t(size),
                ctypes.byref(window),
                SYMMETRIC,
            )
        )
        part = 4096 // world
        # reads its settings
        self.collective(
            "allgather", self.pointer.value + 8192, self.pointer.value, part, "f32", 0
        )()

    def check(self, result):
        if result:
            raise RuntimeError(f"NCCL: {self.library.ncclGetErrorString(result).decode()}")

    def collective(self, collective, send, recv, count, dtype, root):
        """A function without arguments that issues one call."""
        functions = {
            "allreduce": "ncclAllReduce",
            "allgather": "ncclAllGather",
            "reduce_scatter": "ncclReduceScatter",
            "broadcast": "ncclBroadcast",
            "reduce": "ncclReduce",
            "alltoall": "ncclAlltoAll",
        }
        function = getattr(self.library, functions[collective])
        what = [
            ctypes.c_void_p(send),
            ctypes.c_void_p(recv),
            ctypes.c_size_t(count),
            ctypes.c_int32(DTYPES[dtype]),
        ]
        if collective in ("allreduce", "reduce_scatter", "reduce"):
            what.append(ctypes.c_int32(SUM))
        if collective in ("broadcast", "reduce"):
            what.append(ctypes.c_int32(root))
        return lambda: self.check(function(*what, self.communicator, self.stream))
