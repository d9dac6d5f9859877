"""libsymm.so and libnccl.so by ctypes. Not by symm's Python package, which is not on every machine that is measured, and whose own
cost would be. Arguments are made once for each call, so that what Python adds to it is small."""
import contextlib
import ctypes
import os
import shutil
import tempfile

DTYPES = {"bf16": 0x0410, "f32": 0x0220}
CUDA = 2
TYPES = {"bf16": 9, "f32": 7}  # NCCL's
SYMMETRIC = 1  # of its windows
SUM = 0  # of both


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


def operands(collective, send, recv, count, dtype, root):
    """Both libraries take them in this order."""
    what = [ctypes.c_void_p(send), ctypes.c_void_p(recv), ctypes.c_size_t(count), ctypes.c_int32(dtype)]
    if collective in ("allreduce", "reduce_scatter", "reduce"):
        what.append(ctypes.c_int32(SUM))
    if collective in ("broadcast", "reduce"):
        what.append(ctypes.c_int32(root))
    return what


def issued(function, check, *what):
    """A function without arguments that issues one call."""

    def call():
        if result := function(*what):
            check(result)

    return call


class Config(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("rank", ctypes.c_int32), ("size", ctypes.c_int32), ("backend", ctypes.c_int32),
                ("device", ctypes.c_int32), ("flags", ctypes.c_uint64), ("bootstrap", ctypes.c_char_p), ("store", ctypes.c_void_p),
                ("create_timeout_ms", ctypes.c_uint64), ("timeout_ms", ctypes.c_uint64), ("name", ctypes.c_char_p),
                ("scratch_bytes", ctypes.c_uint64), ("channels", ctypes.c_uint32), ("failure", ctypes.c_void_p)]


class RmsNorm(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), *((name, ctypes.c_void_p) for name in ("residual_in", "residual_out", "norm_out", "weight")),
                ("weight_dtype", ctypes.c_int32), ("epsilon", ctypes.c_double), ("weight_offset", ctypes.c_double),
                ("scale_kind", ctypes.c_int32), *((name, ctypes.c_void_p) for name in ("quant_out", "scale_in", "scale_out"))]


class Symm:
    """A group of all ranks with one block of symmetric memory, tuned as `tune` says (SYMM_CUDA_TUNE)."""

    def __init__(self, path, size, tune, name, device, stream):
        self.library = ctypes.CDLL(path)
        self.library.symm_last_error.restype = ctypes.c_char_p
        self.library.symm_build_info.restype = ctypes.c_char_p
        self.stream = ctypes.c_void_p(stream)
        self.group = ctypes.c_void_p()
        config = Config(ctypes.sizeof(Config), 0, 0, CUDA, device, 0, None, None, 60000, 10000, name.encode())
        with variables({"SYMM_CUDA_TUNE": tune} if tune else {}):
            self.check(self.library.symm_group_create(ctypes.byref(config), ctypes.byref(self.group)))
        buffer, self.memory, pointer = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.library.symm_alloc(self.group, ctypes.c_size_t(size), None, ctypes.byref(buffer)))
        self.check(self.library.symm_rendezvous(self.group, buffer, None, ctypes.byref(self.memory)))
        self.check(self.library.symm_buffer_pointer(buffer, ctypes.byref(pointer)))
        self.pointer, self.size = pointer.value, size

    def check(self, status):
        if status:
            raise RuntimeError(self.library.symm_last_error().decode())

    def build_info(self):
        return self.library.symm_build_info().decode()

    def prepared(self, name, *arguments):
        return issued(getattr(self.library, name), self.check, self.group, *arguments, self.stream)

    def collective(self, collective, send, recv, count, dtype, root):
        """A function without arguments that issues one call."""
        return self.prepared("symm_" + collective, *operands(collective, send, recv, count, DTYPES[dtype], root), None)

    def rmsnorm(self, send, tokens, hidden, dtype, residual, weight, out):
        """The sum of send and residual takes the residual's place; `out` is that normalised."""
        norm = RmsNorm(ctypes.sizeof(RmsNorm), residual, residual, out, weight, 0, 1e-5)
        return self.prepared("symm_allreduce_rmsnorm", ctypes.c_void_p(send), ctypes.c_size_t(tokens), ctypes.c_size_t(hidden),
                             ctypes.c_int32(DTYPES[dtype]), ctypes.byref(norm), None)

    def barrier(self):
        return self.prepared("symm_barrier", None, ctypes.c_size_t(0), ctypes.c_int32(0), None)


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
    """A communicator of all ranks, and `size` bytes that are registered with it as a window. `spec`: [PATH][,NAME=VALUE]...; what is
    set is read by this copy alone, since each reads its environment when it is first used."""

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
        ctypes.memmove(ctypes.byref(identity), clock.decided(bytes(identity)), ctypes.sizeof(identity))
        self.communicator, self.pointer, window = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.library.ncclCommInitRank(ctypes.byref(self.communicator), world, identity, rank))
        self.check(self.library.ncclMemAlloc(ctypes.byref(self.pointer), ctypes.c_size_t(size)))
        self.check(self.library.ncclCommWindowRegister(self.communicator, self.pointer, ctypes.c_size_t(size), ctypes.byref(window), SYMMETRIC))
        part = 4096 // world
        self.collective("allgather", self.pointer.value + 8192, self.pointer.value, part, "f32", 0)()  # reads its settings

    def check(self, result):
        if result:
            raise RuntimeError(f"NCCL: {self.library.ncclGetErrorString(result).decode()}")

    def collective(self, collective, send, recv, count, dtype, root):
        """A function without arguments that issues one call."""
        functions = {"allreduce": "ncclAllReduce", "allgather": "ncclAllGather", "reduce_scatter": "ncclReduceScatter",
                     "broadcast": "ncclBroadcast", "reduce": "ncclReduce", "alltoall": "ncclAlltoAll"}
        what = operands(collective, send, recv, count, TYPES[dtype], root)
        return issued(getattr(self.library, functions[collective]), self.check, *what, self.communicator, self.stream)
