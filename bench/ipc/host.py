"""A message of some size from one Python process to another and an answer back: by tokens of symm, and by
multiprocessing.shared_memory. All of the message is written and read. Names and tokens go through the same pipes; the ways take
turns, in another order each round. host.py [rounds]"""
import ctypes
import os
import struct
import sys
from multiprocessing import Pipe, resource_tracker, shared_memory

from ways import by_turns, main, raw, symm

SIZES = (4096, 1 << 20, 16 << 20)


def consumer(messages, answers):
    read = ctypes.create_string_buffer(max(SIZES))
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


def measure(rounds):
    (messages, to), (back, answers) = Pipe(duplex=False), Pipe(duplex=False)
    resource_tracker.ensure_running()
    pid = os.fork()
    if pid == 0:
        to.close()  # the end comes when its maker is gone
        consumer(messages, answers)
        sys.exit(0)
    group = symm.Group.join(0, 1, "thread://bench", backend="host")
    result = {}
    for size in SIZES:
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


if __name__ == "__main__":
    main(measure)
