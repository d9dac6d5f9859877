"""libsymm.so by ctypes, and not by the Python package, which is not on every machine that is measured, and whose own cost would be.
Arguments are made once for each call, so that what Python adds to it is small."""
import ctypes
import os

DTYPES = {"bf16": 0x0410, "f32": 0x0220}
COLLECTIVES = {"allreduce": 0, "reduce_scatter": 1, "allgather": 2, "broadcast": 3, "reduce": 4, "alltoall": 5}
CUDA = 2
SUM = 0


class Config(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("rank", ctypes.c_int32), ("size", ctypes.c_int32), ("backend", ctypes.c_int32),
                ("device", ctypes.c_int32), ("flags", ctypes.c_uint64), ("bootstrap", ctypes.c_char_p), ("store", ctypes.c_void_p),
                ("create_timeout_ms", ctypes.c_uint64), ("timeout_ms", ctypes.c_uint64), ("name", ctypes.c_char_p),
                ("scratch_bytes", ctypes.c_uint64), ("channels", ctypes.c_uint32), ("failure", ctypes.c_void_p)]


class Call(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("collective", ctypes.c_int32), ("send", ctypes.c_void_p), ("recv", ctypes.c_void_p),
                ("count", ctypes.c_size_t), ("dtype", ctypes.c_int32), ("op", ctypes.c_int32), ("root", ctypes.c_int32),
                ("counts", ctypes.c_void_p * 4), ("rows", ctypes.c_size_t), ("recv_stride", ctypes.c_size_t)]


class RmsNorm(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), *((name, ctypes.c_void_p) for name in ("residual_in", "residual_out", "norm_out", "weight")),
                ("weight_dtype", ctypes.c_int32), ("epsilon", ctypes.c_double), ("weight_offset", ctypes.c_double),
                ("scale_kind", ctypes.c_int32), *((name, ctypes.c_void_p) for name in ("quant_out", "scale_in", "scale_out"))]


class PlanInfo(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("algorithm", ctypes.c_int32), ("slices", ctypes.c_int32),
                ("chunk_bytes", ctypes.c_uint64), ("nontemporal", ctypes.c_int32), ("reason", ctypes.c_char * 192)]


class Symm:
    """A group of all ranks with one block of symmetric memory, tuned as `tune` says (SYMM_CUDA_TUNE)."""

    def __init__(self, path, size, tune, name, device, stream):
        self.library = ctypes.CDLL(path)
        self.library.symm_last_error.restype = ctypes.c_char_p
        self.library.symm_build_info.restype = ctypes.c_char_p
        self.stream = ctypes.c_void_p(stream)
        before = os.environ.pop("SYMM_CUDA_TUNE", None)
        if tune or before:
            os.environ["SYMM_CUDA_TUNE"] = tune or before
        try:
            self.group = ctypes.c_void_p()
            config = Config(ctypes.sizeof(Config), 0, 0, CUDA, device, 0, None, None, 60000, 10000, name.encode())
            self.check(self.library.symm_group_create(ctypes.byref(config), ctypes.byref(self.group)))
        finally:
            os.environ.pop("SYMM_CUDA_TUNE", None)
            if before:
                os.environ["SYMM_CUDA_TUNE"] = before
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
        function, check, group, stream = getattr(self.library, name), self.check, self.group, self.stream

        def call():
            status = function(group, *arguments, stream)
            if status:
                check(status)

        return call

    def collective(self, collective, send, recv, count, dtype, root):
        """A function without arguments that issues one call."""
        what = [ctypes.c_void_p(send), ctypes.c_void_p(recv), ctypes.c_size_t(count), ctypes.c_int32(DTYPES[dtype])]
        if collective in ("allreduce", "reduce_scatter", "reduce"):
            what.append(ctypes.c_int32(SUM))
        if collective in ("broadcast", "reduce"):
            what.append(ctypes.c_int32(root))
        return self.prepared("symm_" + collective, *what, None)

    def rmsnorm(self, send, tokens, hidden, dtype, residual, weight, out):
        """The sum of send and residual takes the residual's place; `out` is that normalised."""
        norm = RmsNorm(ctypes.sizeof(RmsNorm), residual, residual, out, weight, 0, 1e-5)
        return self.prepared("symm_allreduce_rmsnorm", ctypes.c_void_p(send), ctypes.c_size_t(tokens), ctypes.c_size_t(hidden),
                             ctypes.c_int32(DTYPES[dtype]), ctypes.byref(norm), None)

    def barrier(self):
        return self.prepared("symm_barrier", None, ctypes.c_size_t(0), ctypes.c_int32(0), None)

    def plan(self, collective, send, recv, count, dtype):
        info = PlanInfo(ctypes.sizeof(PlanInfo))
        call = Call(ctypes.sizeof(Call), COLLECTIVES[collective], send, recv, count, DTYPES[dtype], SUM, 0)
        self.check(self.library.symm_collective_plan(self.group, ctypes.byref(call), None, ctypes.byref(info)))
        return info.reason.decode()
