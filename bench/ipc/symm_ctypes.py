"""Sharing by tokens through ctypes, as little of it as the benchmarks need. What is measured includes what ctypes costs."""
import ctypes
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from symm_abi import Config, Library

TOKEN = 512


class Symm(Library):
    """One process's use of the library; made after a fork, not before."""

    HOST, CUDA = 1, 2

    def __init__(self, library, backend):
        super().__init__(library)
        self.token_bytes = ctypes.create_string_buffer(TOKEN)
        self.token_size = ctypes.c_size_t()
        self.config = Config(ctypes.sizeof(Config), 0, 1, backend, 0, 0, b"thread://bench", None, 0, 0, None)
        self.group = None

    def alloc(self, size):
        if self.group is None:
            self.group = ctypes.c_void_p()
            self.check(self.library.symm_group_create(ctypes.byref(self.config), ctypes.byref(self.group)))
        buffer, pointer = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.library.symm_alloc(self.group, ctypes.c_size_t(size), None, ctypes.byref(buffer)))
        self.check(self.library.symm_buffer_pointer(buffer, ctypes.byref(pointer)))
        return buffer, pointer.value

    def free(self, buffer):
        self.library.symm_buffer_release(buffer)

    def export(self, pointer, size, stream=None):
        self.check(self.library.symm_ipc_export(ctypes.c_void_p(pointer), ctypes.c_size_t(size), None, self.token_bytes,
                                                ctypes.c_size_t(TOKEN), ctypes.byref(self.token_size), ctypes.c_void_p(stream)))
        return self.token_bytes.raw[:self.token_size.value]

    def import_(self, token, stream=None):
        ipc, pointer = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.library.symm_ipc_import(token, ctypes.c_size_t(len(token)), None, ctypes.byref(ipc),
                                                ctypes.c_void_p(stream)))
        self.check(self.library.symm_ipc_pointer(ipc, ctypes.byref(pointer)))
        return ipc, pointer.value

    def release(self, ipc, stream=None):
        self.library.symm_ipc_release(ipc, ctypes.c_void_p(stream))

    def withdraw(self, pointer, size):
        self.check(self.library.symm_ipc_withdraw(ctypes.c_void_p(pointer), ctypes.c_size_t(size), ctypes.c_uint64(0)))


def by_turns(ways, rounds, value_of):
    """{way: median microseconds}: each is called once a round, in another order each round; five rounds more go first."""
    times = {name: [] for name in ways}
    names = list(ways)
    for round_ in range(rounds + 5):
        first = round_ % len(names)
        for name in names[first:] + names[:first]:
            way, value = ways[name], value_of(round_)
            start = time.perf_counter()
            way(value)
            if round_ >= 5:
                times[name].append((time.perf_counter() - start) * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}


def main(measure):
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 300)))
