"""A tensor from one process to another on one GPU: by tokens of symm, and by torch.multiprocessing, which uses CUDA IPC. Each
message is received, its first element read on the host, and answered; the ways take turns. gpu.py [rounds]
Exit status 77 with a reason where torch or a GPU is missing."""
import sys

from ways import by_turns, main, raw, skip, symm

SIZES = (4096, 1 << 20, 64 << 20)


try:
    import torch
    import torch.multiprocessing as multiprocessing
except ImportError:
    skip("no torch")


class Raw:
    """Memory at an address, as torch takes it."""

    def __init__(self, pointer, size):
        self.__cuda_array_interface__ = {"shape": (size // 4,), "typestr": "<f4", "data": (pointer, False), "version": 3,
                                         "strides": None, "stream": None}


def tensor_at(pointer, size):
    return torch.as_tensor(Raw(pointer, size), device="cuda:0")


def stream():
    return torch.cuda.current_stream().cuda_stream


def consumer(to, back):
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


def measure(rounds):
    context = multiprocessing.get_context("spawn")
    to, back = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=consumer, args=(to, back))
    process.start()
    torch.cuda.set_device(0)
    group = symm.Group.join(0, 1, "thread://bench", backend="cuda")
    result = {}
    for size in SIZES:
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
    if not torch.cuda.is_available():
        skip("torch sees no GPU")
    main(measure)
