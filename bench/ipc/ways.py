"""Messages between two Python processes by tokens of symm and by what else there is; the ways take turns, in another order each round.
ways.py host|gpu [rounds]
Exit status 77 with a reason where a package or a GPU is missing."""
import ctypes
import json
import os
import statistics
import struct
import sys
import time
from multiprocessing import Pipe, resource_tracker, shared_memory
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from common import turned  # noqa: E402

HOST_SIZES = (4096, 1 << 20, 16 << 20)
GPU_SIZES = (4096, 1 << 20, 64 << 20)


def skip(reason):
    print(f"skipped: {reason}", file=sys.stderr)
    sys.exit(77)


try:
    import symm
    from symm import _raw as raw

    if "gpu" in sys.argv:
        import torch.multiprocessing
except ImportError as why:
    skip(why)


def by_turns(ways, rounds, value_of):
    """{way: median microseconds}: each is called once a round; five rounds more go first."""
    times = {name: [] for name in ways}
    for round_ in range(rounds + 5):
        for name in turned(ways, round_):
            way, value = ways[name], value_of(round_)
            start = time.perf_counter()
            way(value)
            if round_ >= 5:
                times[name].append((time.perf_counter() - start) * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}


def host_consumer(messages, answers):
    read = ctypes.create_string_buffer(max(HOST_SIZES))
    while message := messages.recv_bytes():
        what, size, rest = message[:1], struct.unpack("<Q", message[1:9])[0], message[9:]
        if what == b"s":
            handle = raw.symm_ipc_import(rest, None, 0)
            ctypes.memmove(read, raw.symm_ipc_pointer(handle), size)
            raw.symm_ipc_release(handle, 0)
        else:
            memory = shared_memory.SharedMemory(rest.decode())
            view = (ctypes.c_char * size).from_buffer(memory.buf)
            ctypes.memmove(read, view, size)
            del view
            memory.close()
        answers.send_bytes(read[0] + read[size - 1])


def host(rounds):
    """A message of some size from one process to another and an answer back, beside multiprocessing.shared_memory. All of the message is
    written and read. Names and tokens go through the same pipes."""
    (messages, to), (back, answers) = Pipe(duplex=False), Pipe(duplex=False)
    resource_tracker.ensure_running()
    pid = os.fork()
    if pid == 0:
        to.close()  # the end comes when its maker is gone
        host_consumer(messages, answers)
        sys.exit(0)
    group = symm.Group.join(0, 1, "thread://bench", backend="host")
    result = {}
    for size in HOST_SIZES:
        standing = group.alloc(size)
        old = shared_memory.SharedMemory(create=True, size=size)

        def exchange(kind, rest, value):
            to.send_bytes(kind + struct.pack("<Q", size) + rest)
            if back.recv_bytes() != value * 2:
                raise RuntimeError("wrong data")

        def write(buffer, value):
            ctypes.memset(buffer.pointer, value[0], size)
            exchange(b"s", raw.symm_ipc_export(buffer.pointer, size, (0, 0), 0), value)

        def by_piece(value):
            raw.symm_ipc_withdraw(standing.pointer, size, 0)
            write(standing, value)

        def by_buffer(value):
            write(group.alloc(size), value)

        def fill(memory, value):
            view = (ctypes.c_char * size).from_buffer(memory.buf)
            ctypes.memset(view, value[0], size)
            del view
            exchange(b"m", memory.name.encode(), value)

        def by_standing_shared_memory(value):
            fill(old, value)

        def by_new_shared_memory(value):
            memory = shared_memory.SharedMemory(create=True, size=size)
            fill(memory, value)
            memory.close()
            memory.unlink()

        ways = {"symm, standing buffer": by_piece, "shared_memory, standing": by_standing_shared_memory,
                "symm, buffer of its own": by_buffer, "shared_memory, of its own": by_new_shared_memory}
        row = by_turns(ways, rounds, lambda round_: bytes([round_ % 250 + 1]))
        old.close()
        old.unlink()
        row["ratio, standing"] = row["shared_memory, standing"] / row["symm, standing buffer"]
        row["ratio, of its own"] = row["shared_memory, of its own"] / row["symm, buffer of its own"]
        result[str(size)] = row
    to.send_bytes(b"")
    os.waitpid(pid, 0)
    return result


class Raw:
    """Memory at an address, as torch takes it."""

    def __init__(self, pointer, size):
        self.__cuda_array_interface__ = {"shape": (size // 4,), "typestr": "<f4", "data": (pointer, False), "version": 3,
                                         "strides": None, "stream": None}


def tensor_at(pointer, size):
    return torch.as_tensor(Raw(pointer, size), device="cuda:0")


def stream():
    return torch.cuda.current_stream().cuda_stream


def gpu_consumer(to, back):
    torch.cuda.set_device(0)
    while True:
        message = to.get()
        if message is None:
            return
        what, size, rest = message
        if what == "symm":
            handle = raw.symm_ipc_import(rest, None, stream())
            seen = tensor_at(raw.symm_ipc_pointer(handle), size)[0].item()
            raw.symm_ipc_release(handle, stream())
        else:
            seen = rest[0].item()
            del rest, message
        back.put(seen)


def gpu(rounds):
    """A tensor from one process to another on one GPU, beside torch.multiprocessing, which uses CUDA IPC. Each message is received, its
    first element read on the host, and answered."""
    if not torch.cuda.is_available():
        skip("torch sees no GPU")
    context = torch.multiprocessing.get_context("spawn")
    to, back = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=gpu_consumer, args=(to, back))
    process.start()
    torch.cuda.set_device(0)
    group = symm.Group.join(0, 1, "thread://bench", backend="cuda")
    result = {}
    for size in GPU_SIZES:
        standing = group.alloc(size)
        view = tensor_at(standing.pointer, size)
        kept = torch.empty(size // 4, device="cuda:0")

        def exchange(what, rest, value):
            to.put((what, size, rest))
            if back.get() != value:
                raise RuntimeError("wrong data")

        def by_piece(value):
            raw.symm_ipc_withdraw(standing.pointer, size, 0)
            view.fill_(value)
            exchange("symm", raw.symm_ipc_export(standing.pointer, size, (0, 0), stream()), value)

        def by_standing_tensor(value):
            kept.fill_(value)
            exchange("torch", kept, value)

        def by_new_tensor(value):
            exchange("torch", torch.full((size // 4,), value, device="cuda:0"), value)

        ways = {"symm, standing buffer": by_piece, "torch, standing tensor": by_standing_tensor, "torch, new tensor": by_new_tensor}
        row = by_turns(ways, rounds, float)
        row["ratio, standing"] = row["torch, standing tensor"] / row["symm, standing buffer"]
        row["ratio, new"] = row["torch, new tensor"] / row["symm, standing buffer"]
        result[str(size)] = row
    to.put(None)
    process.join()
    return result


if __name__ == "__main__":
    measure = {"host": host, "gpu": gpu}[sys.argv[1]]
    print(json.dumps(measure(int(sys.argv[2]) if len(sys.argv) > 2 else 300)))
