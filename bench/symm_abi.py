"""What the benchmarks that call libsymm.so by ctypes have in common. They do not use the Python package, which is not on every
machine that they run on, and whose own cost they would measure."""
import ctypes


class Config(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("rank", ctypes.c_int32), ("size", ctypes.c_int32), ("backend", ctypes.c_int32),
                ("device", ctypes.c_int32), ("flags", ctypes.c_uint64), ("bootstrap", ctypes.c_char_p), ("store", ctypes.c_void_p),
                ("create_timeout_ms", ctypes.c_uint64), ("timeout_ms", ctypes.c_uint64), ("name", ctypes.c_char_p),
                ("scratch_bytes", ctypes.c_uint64), ("channels", ctypes.c_uint32), ("failure", ctypes.c_void_p)]


class Library:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.symm_last_error.restype = ctypes.c_char_p

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.library.symm_last_error().decode())
