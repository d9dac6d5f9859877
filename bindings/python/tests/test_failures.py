"""Nothing hangs, and the exception names the rank."""

import select

import numpy as np
import pytest
from conftest import on_threads

import symm


def test_messages_belong_to_their_thread(threads):
    def body(group):
        array = group.empty(16)
        for i in range(200):
            with pytest.raises(symm.InvalidArgumentError, match=f"rank: {100 * (group.rank + 1) + i} "):
                array.signal(100 * (group.rank + 1) + i)

    threads(4, body)


def test_many_threads_on_one_group(alone):
    array = alone.empty(1024)

    def work(number):
        for _ in range(50):
            part = array[number * 8 : number * 8 + 8]
            part.put(np.full(8, number, np.float32), 0, signal=number)
            part.wait_signal(0, number)
            assert (part.numpy() == number).all()
            alone.empty(4)

    on_threads(8, work)


def test_survivors_go_on(threads):
    def body(group):
        readable = lambda: select.select([group.failure_fd()], [], [], 0)[0]  # noqa: E731
        assert not readable()
        group.barrier()
        if group.rank == 1:
            group.abort("enough")
        else:
            select.select([group.failure_fd()], [], [], 20)
        with pytest.raises(symm.AbortedError):
            group.barrier(channel=1)
        assert readable()
        assert group.failed_ranks() == []
        with group.shrink(name="rest") as rest:
            assert (rest.rank, rest.size, rest.info().name) == (group.rank, 3, "rest")
            ones = np.ones(4, np.float32)
            rest.allreduce(ones)
            assert ones.tolist() == [3] * 4
            assert rest.stats().collective_calls[symm.Collective.ALLREDUCE] == 1
            part = rest.create_from_ranks([2, 0]) if rest.rank != 1 else None
            if part is not None:
                assert [rest.translate_rank(part, rank) for rank in range(2)] == [2, 0]
                assert part.translate_rank(rest, 1) is None
                part.close()
            peer = rest.peer_info(1)
            assert peer.alive
            assert peer.backend is symm.Backend.HOST
        group.close()
        return peer.machine

    assert len(set(threads(3, body))) == 1
