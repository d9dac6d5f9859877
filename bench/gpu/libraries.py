"""libnccl.so by ctypes: another copy than PyTorch's, or on registered windows."""

import contextlib
import ctypes
import os
import shutil
import tempfile

DTYPES = {"bf16": 9, "f32": 7}
SYMMETRIC_WINDOW = 1  # NCCL_WIN_COLL_SYMMETRIC
SUM = 0  # ncclSum


@contextlib.contextmanager
def variables(settings):
    """Set environment variables for the time of a with block."""
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


def loaded_path():
    """The path of the copy that this process has loaded."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            if "/libnccl.so" in line:
                return line.split(maxsplit=5)[5].strip()
    raise RuntimeError("PyTorch has loaded no libnccl.so")


class Nccl:
    """A communicator of all ranks, and `size` bytes that are registered with it as a window.

    `spec` is [PATH][,NAME=VALUE]... Only this copy of the library reads the variables, since each
    copy reads its environment when it is first used.
    """

    def __init__(self, spec, size, rank, world, clock, stream):
        path, *settings = spec.split(",")
        self.stream = ctypes.c_void_p(stream)
        path = path or loaded_path()
        with tempfile.TemporaryDirectory() as folder:
            if settings:
                # The dynamic linker loads a file once, so another copy needs another file.
                path = shutil.copy(os.path.realpath(path), folder)
            self.library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND)
        self.library.ncclGetErrorString.restype = ctypes.c_char_p
        version = ctypes.c_int()
        self.check(self.library.ncclGetVersion(ctypes.byref(version)))

        self.name = "nccl"
        if spec:
            major, rest = divmod(version.value, 10000)
            minor, patch = divmod(rest, 100)
            self.name = " ".join(["nccl", f"{major}.{minor}.{patch}", *settings])
        with variables(dict(setting.split("=", 1) for setting in settings)):
            self.connect(size, rank, world, clock)

    def connect(self, size, rank, world, clock):
        library = self.library
        identity = UniqueId()
        if rank == 0:
            self.check(library.ncclGetUniqueId(ctypes.byref(identity)))
        identity = UniqueId.from_buffer_copy(clock.decided(bytes(identity)))

        self.communicator = ctypes.c_void_p()
        self.pointer = ctypes.c_void_p()
        window = ctypes.c_void_p()
        self.check(library.ncclCommInitRank(ctypes.byref(self.communicator), world, identity, rank))
        self.check(library.ncclMemAlloc(ctypes.byref(self.pointer), ctypes.c_size_t(size)))
        self.check(
            library.ncclCommWindowRegister(
                self.communicator,
                self.pointer,
                ctypes.c_size_t(size),
                ctypes.byref(window),
                SYMMETRIC_WINDOW,
            )
        )

        # NCCL reads some of its variables in the first call only.
        recv = self.pointer.value
        self.collective("allgather", recv + 8192, recv, 4096 // world, "f32", 0)()

    def check(self, result):
        if result:
            raise RuntimeError(f"NCCL: {self.library.ncclGetErrorString(result).decode()}")

    def ring(self, send, to, recv, source, count, dtype):
        """A function without parameters that sends to one rank and receives from another."""
        library = self.library
        rest = ctypes.c_size_t(count), ctypes.c_int32(DTYPES[dtype])
        place = self.communicator, self.stream

        def call():
            self.check(library.ncclGroupStart())
            self.check(library.ncclSend(ctypes.c_void_p(send), *rest, ctypes.c_int(to), *place))
            self.check(library.ncclRecv(ctypes.c_void_p(recv), *rest, ctypes.c_int(source), *place))
            self.check(library.ncclGroupEnd())

        return call

    def collective(self, collective, send, recv, count, dtype, root):
        """A function without parameters that issues one call."""
        functions = {
            "allreduce": "ncclAllReduce",
            "allgather": "ncclAllGather",
            "reduce_scatter": "ncclReduceScatter",
            "broadcast": "ncclBroadcast",
            "reduce": "ncclReduce",
            "alltoall": "ncclAlltoAll",
        }
        function = getattr(self.library, functions[collective])
        arguments = [
            ctypes.c_void_p(send),
            ctypes.c_void_p(recv),
            ctypes.c_size_t(count),
            ctypes.c_int32(DTYPES[dtype]),
        ]
        if collective in ("allreduce", "reduce_scatter", "reduce"):
            arguments.append(ctypes.c_int32(SUM))

        if collective in ("broadcast", "reduce"):
            arguments.append(ctypes.c_int32(root))
        arguments += [self.communicator, self.stream]
        return lambda: self.check(function(*arguments))
