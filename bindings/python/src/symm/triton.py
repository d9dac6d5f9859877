"""Peers' blocks, signals and barriers in kernels of Triton.

``symm/device.cuh`` has the same for CUDA C++. ::

    import symm.triton as st

    @triton.jit
    def hand_on(view, trouble):
        right = (st.rank(view) + 1) % st.size(view)
        left = (st.rank(view) + st.size(view) - 1) % st.size(view)
        st.put(view, right, tl.arange(0, 1024), tl.full((1024,), 1.0, tl.float32))
        st.signal(view, right, 0)
        code = st.wait_signal(view, left, 0)
        if code != 0:  # a deadline passed: the data is not there
            tl.store(trouble, code)

    hand_on[(1,)](st.view(memory), trouble)

All functions except `view` are for kernels. They work on a whole program: what a program stored
before a signal is visible to the program that waited for the signal. Signals, channels and their
order are shared with host calls and with ``device.cuh``, in any mixture.

Waits always end. They return 0, or ``awaited rank << 8 | trouble``, where trouble is 1 if the
deadline passed and 2 if the stop word was set. All threads of a program wait, so kernels that
specialise warps cannot use waits. Meanwhile peers must be resident, or become resident.

In Triton's interpreter (``TRITON_INTERPRET=1``) kernels run on the processor, which cannot reach
the memory of a GPU: `view` says so. They run there with a CUDA driver whose memory is the host's,
such as the one that symm is tested with.
"""

import ctypes
import os
import struct
import time

import torch
import triton
import triton.language as tl

from symm.errors import UnsupportedError
from symm.memory import Memory

_ADD = tl.constexpr("add")
_GE = tl.constexpr("ge")


def view(memory: Memory, *, timeout: float | None = None, stop: int | None = None) -> torch.Tensor:
    """The description of a memory that kernels take: 8 words on its device. [local]

    The words are copied to the device. They are valid while the memory is open.

    Args:
        memory: a memory of a group on CUDA.
        timeout: seconds for each wait in a kernel; None: the group's; ``math.inf``: for ever.
        stop: device address of a 32-bit word that ends all waits when it becomes other than 0.

    Raises:
        UnsupportedError: the group is on the host, or the library has another layout; or this is
            Triton's interpreter, and the memory is a GPU's.
    """
    words = struct.unpack("<8q", memory.device_view(timeout=timeout, stop=stop))
    layout = words[1] & 0xFFFFFFFF
    if layout != 1:
        raise UnsupportedError(f"memory: its layout is {layout}, and symm.triton knows 1")
    if not _INTERPRETED:
        device = torch.device("cuda", memory.group.device)
        return torch.tensor(words, dtype=torch.int64, device=device)

    if not all(_is_readable(address) for address in (*words[3:6], memory.pointer())):
        raise UnsupportedError(
            "memory: TRITON_INTERPRET is set, and the processor, on which Triton's interpreter runs"
            " kernels, cannot reach this memory of a GPU"
        )
    return torch.tensor(words, dtype=torch.int64)


def _is_readable(address: int) -> bool:
    """Whether the processor can read at an address.

    write() fails where it cannot, and sends no signal.
    """
    reader, writer = os.pipe()
    try:
        return os.write(writer, (ctypes.c_char * 1).from_address(address)) == 1
    except OSError:
        return False
    finally:
        os.close(reader)
        os.close(writer)


@triton.jit
def rank(view):
    """This rank."""
    return (tl.load(view + 1) >> 32).to(tl.int32)


@triton.jit
def size(view):
    """The number of ranks."""
    return (tl.load(view + 2) & 0x7FFFFFFF).to(tl.int32)


@triton.jit
def pointer(view, peer, dtype: tl.constexpr):
    """A pointer to `peer`'s block, to elements of `dtype` and aligned to 16 bytes."""
    blocks = tl.load(view + 3).to(tl.pointer_type(tl.int64))
    return tl.multiple_of(tl.load(blocks + peer).to(tl.pointer_type(dtype)), 16)


@triton.jit
def put(view, peer, offsets, value, mask=None):
    """Store `value` at elements `offsets` of `peer`'s block.

    The stores are visible to `peer` after a signal or barrier.
    """
    tl.store(pointer(view, peer, value.dtype) + offsets, value, mask)


@triton.jit
def _signal_word(view, owner, channel, source):
    pads = tl.load(view + 4).to(tl.pointer_type(tl.int64))
    return tl.load(pads + owner).to(tl.pointer_type(tl.int64)) + channel * size(view) + source


@triton.jit
def _taken_word(view, channel, source):
    return tl.load(view + 5).to(tl.pointer_type(tl.int64)) + channel * size(view) + source


@triton.jit
def signal(view, peer, channel, value=1, op: tl.constexpr = _ADD):
    """Add to the word that `peer` sees of this rank, or set it if `op` is "set". Never waits.

    The signal comes after everything that this program stored.
    """
    word = _signal_word(view, peer, channel, rank(view))
    tl.debug_barrier()
    if op == "set":
        tl.atomic_xchg(word, value, sem="release", scope="sys")
    else:
        tl.static_assert(op == "add", "op: add or set")
        tl.atomic_add(word, value, sem="release", scope="sys")


# All threads of a program must leave a loop together. So they must decide by values that are the
# same in all of them. The result of an atomic on one element is such a value, since one thread
# does the atomic and passes the result on. A plain load is not.
@triton.jit
def _holds(word, value, compare: tl.constexpr):
    now = word.to(tl.uint64)
    than = value.to(tl.uint64)
    if compare == "eq":
        return now == than
    elif compare == "ne":
        return now != than
    elif compare == "lt":
        return now < than
    elif compare == "le":
        return now <= than
    elif compare == "gt":
        return now > than
    else:
        tl.static_assert(compare == "ge", "compare: eq, ne, lt, le, gt or ge")
        return now >= than


# The clock and the stop word are read by every thread. A reduction over the threads makes one
# value of what they read, which is the same in all of them.
@triton.jit
def _nanoseconds():
    zero_by_thread = tl.zeros((tl.extra.cuda.num_threads(),), tl.int64)
    clock: tl.constexpr = "mov.u64 $0, %globaltimer; // $1"
    now_by_thread = tl.inline_asm_elementwise(
        clock, "=l,l", [zero_by_thread], dtype=tl.int64, is_pure=False, pack=1
    )
    return tl.max(now_by_thread, 0)


@triton.jit
def _is_set(word):
    zero_by_thread = tl.zeros((tl.extra.cuda.num_threads(),), tl.int32)
    is_set_by_thread = tl.load(word + zero_by_thread, volatile=True) != 0
    return tl.max(is_set_by_thread, 0) != 0


# Triton's interpreter has one thread, and neither the assembler's clock nor a number of threads.
_INTERPRETED = not isinstance(_is_set, triton.JITFunction)
if _INTERPRETED:

    def _nanoseconds():
        return tl.full((), time.monotonic_ns(), tl.int64)

    @triton.jit
    def _is_set(word):
        return tl.load(word, volatile=True) != 0


@triton.jit
def _trouble(view, waited):
    code = (waited.to(tl.uint64) >= tl.load(view + 6).to(tl.uint64)).to(tl.int32)
    stop = tl.load(view + 7)
    # Not `and`: a kernel would evaluate both sides, and there is no word at 0.
    if stop != 0:
        is_set = _is_set(stop.to(tl.pointer_type(tl.int32)))
        if is_set:
            code = tl.full((), 2, tl.int32)
    return code


# Wait until the word compares with `value`. If `compare` is "take", wait until the word is above
# the number of signals that were taken, and take one: raise that number by a compare-and-swap.
# Then `value` is that number as this program last saw it. If it is out of date, the
# compare-and-swap fails and returns the present number.
@triton.jit
def _await(view, peer, word, value, compare: tl.constexpr, taken):
    since = tl.full((), 0, tl.int64)
    code = tl.full((), 0, tl.int32)
    looks = tl.full((), 0, tl.int32)
    there = tl.full((), 0, tl.int1)

    while (there == 0) & (code == 0):
        now = tl.atomic_add(word, 0, sem="acquire", scope="sys")
        if compare == "take":
            there = now - value > 0
            if there:
                seen = value
                value = tl.atomic_cas(taken, seen, seen + 1, sem="relaxed", scope="gpu")
                there = value == seen
        else:
            there = _holds(now, value, compare)
        looks += 1
        if looks % 1024 == 0:
            clock = _nanoseconds()
            since = tl.where(since == 0, clock, since)
            code = _trouble(view, clock - since)

    return tl.where(there, 0, peer << 8 | code)


@triton.jit
def wait_signal(view, peer, channel):
    """Wait for one signal from `peer` and take it, so that no other wait gets it.

    If the wait fails, nothing was taken.
    """
    word = _signal_word(view, rank(view), channel, peer)
    return _await(
        view, peer, word, tl.full((), 0, tl.int64), "take", _taken_word(view, channel, peer)
    )


@triton.jit
def wait_signal_value(view, peer, channel, value, compare: tl.constexpr = _GE):
    """Wait until the word from `peer` compares with `value`; both are unsigned.

    `compare` is "eq", "ne", "lt", "le", "gt" or "ge". No signal is taken.
    """
    word = _signal_word(view, rank(view), channel, peer)
    return _await(view, peer, word, tl.full((), 0, tl.int64) + value, compare, word)


@triton.jit
def barrier(view, channel):
    """Wait until one program of every rank is here.

    What these programs stored before is visible to all of them afterwards. Several programs at
    a time need a channel each. After a failure, do not use the channel again.
    """
    me = rank(view)
    for peer in range(size(view)):
        if peer != me:
            signal(view, peer, channel)

    outcome = tl.full((), 0, tl.int32)
    for peer in range(size(view)):
        if peer != me:
            taken = _taken_word(view, channel, peer)
            target = tl.atomic_add(taken, 1, sem="relaxed", scope="gpu") + 1
            code = _await(view, peer, _signal_word(view, me, channel, peer), target, "ge", taken)
            outcome = tl.where(outcome == 0, code, outcome)

    return outcome
