"""Kernels of test_gpu.py for two ranks.

They have a file of their own because Triton reads their source.
"""

import triton
import triton.language as tl

import symm.triton as st


@triton.jit
def hand_on(view, rounds, got, trouble):
    at = tl.arange(0, 1024)
    peer = 1 - st.rank(view)
    done = tl.load(rounds)
    st.put(view, peer, at, (at + done + st.rank(view)).to(tl.float32))
    st.signal(view, peer, 0)
    code = st.wait_signal(view, peer, 0)
    if code == 0:
        tl.store(got + at, tl.load(st.pointer(view, st.rank(view), tl.float32) + at))

    code = code | st.barrier(view, 1)
    if code != 0:
        tl.store(trouble, code)

    tl.store(rounds, done + 1)


@triton.jit
def take(view, channel, trouble):
    tl.store(trouble + tl.program_id(0), st.wait_signal(view, 1 - st.rank(view), channel))


@triton.jit
def send(view, channel):
    st.signal(view, 1 - st.rank(view), channel)


@triton.jit
def meet(view, sums, trouble):
    program = tl.program_id(0)
    me = st.rank(view)
    st.put(view, 1 - me, 2048 + program, (10 * me + program).to(tl.float32))
    code = st.barrier(view, 8 + program)
    theirs = tl.load(st.pointer(view, me, tl.float32) + 2048 + program)
    tl.store(sums + program, tl.load(sums + program) + theirs)
    code = code | st.barrier(view, 8 + program)
    if code != 0:
        tl.store(trouble + program, code)


@triton.jit
def compare(view, trouble):
    peer = 1 - st.rank(view)
    st.signal(view, peer, 20, 7, "set")
    tl.store(trouble, st.wait_signal_value(view, peer, 20, 7, "eq"))
    tl.store(trouble + 1, st.wait_signal_value(view, peer, 20, 7))
    tl.store(trouble + 2, st.wait_signal_value(view, peer, 20, 6, "gt"))
    tl.store(trouble + 3, st.wait_signal_value(view, peer, 20, 7, "le"))
    tl.store(trouble + 4, st.wait_signal_value(view, peer, 20, 8, "lt"))
    tl.store(trouble + 5, st.wait_signal_value(view, peer, 20, 6, "ne"))
    tl.store(trouble + 6, st.barrier(view, 21))
    st.signal(view, peer, 20, -1, "set")
    tl.store(trouble + 7, st.wait_signal_value(view, peer, 20, 8, "gt"))  # unsigned
