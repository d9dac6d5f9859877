"""Exchanges of neighbours, and blocks that neighbours pass as messages."""

import types

import numpy as np
import pytest

import symm
from symm._pieces import side_of


def halos(group):
    """A ring of ranks whose grids have a line of halo at both ends."""
    left = (group.rank - 1) % group.size
    right = (group.rank + 1) % group.size
    array = group.empty((6, 5), "f64")
    grid = array.numpy()
    grid[:] = -1
    exchange = group.exchange(
        [
            array.neighbor_part(left, np.s_[-1], grid[1]),
            array.neighbor_part(right, np.s_[0], grid[-2]),
        ]
    )
    with exchange:
        for round_ in range(20):
            grid[1:-1] = 100 * group.rank + round_
            with pytest.raises(symm.InvalidArgumentError, match="stream: must be NULL"):
                exchange.start(stream=64)
            exchange.start()
            exchange.finish()
            assert (grid[0] == 100 * left + round_).all()
            assert (grid[-1] == 100 * right + round_).all()
            assert (grid[1:-1] == 100 * group.rank + round_).all()
    group.barrier()


@pytest.mark.parametrize("size", [1, 2, 3])
def test_halos_of_a_ring(threads, size):
    threads(size, halos)


def columns_and_rows(group):
    """A column goes to one array, rows by their indices to another one, to the same neighbour."""
    peer = 1 - group.rank
    column = group.empty((4, 3), "i32")
    rows = group.empty((4, 2), "i64")
    mine = np.arange(12, dtype=np.int32).reshape(4, 3) + 100 * group.rank
    pages = np.arange(8, dtype=np.int64).reshape(4, 2) + 1000 * group.rank
    column.numpy()[:] = 0
    rows.numpy()[:] = 0
    group.barrier()
    exchange = group.exchange(
        [
            column.neighbor_part(peer, np.s_[:, 2], mine[:, 0]),
            rows.neighbor_rows(peer, np.array([3, 0]), pages, from_rows=[1, 2]),
        ]
    )
    exchange.start()
    exchange.finish()
    assert column.numpy()[:, 2].tolist() == [100 * peer + i for i in (0, 3, 6, 9)]
    assert not column.numpy()[:, :2].any()
    assert rows.numpy().tolist() == [
        [1000 * peer + 4, 1000 * peer + 5],
        [0, 0],
        [0, 0],
        [1000 * peer + 2, 1000 * peer + 3],
    ]
    group.barrier()


def test_columns_and_rows(threads):
    threads(2, columns_and_rows)


def one_way(group):
    """Rank 0 puts and rank 1 only receives, by an array of numbers."""
    memory = group.empty(4, "u64").memory
    if group.rank == 0:
        pieces = np.array([[8, 16, 8, 1, 0, 0]], dtype=np.uint64)
        source = np.array([3, 4], dtype=np.uint64)
        with pytest.raises(symm.InvalidArgumentError, match="expected_nbytes: is None"):
            symm.Neighbor(1, memory, 0, source, pieces)
        neighbor = symm.Neighbor(1, memory, 0, source, pieces, expected_nbytes=0)
    else:
        neighbor = symm.Neighbor(0, expected_nbytes=8)
    exchange = group.exchange([neighbor])
    exchange.start()
    exchange.finish()
    if group.rank == 1:
        assert memory.array(4, "u64").numpy().tolist() == [0, 0, 4, 0]
    group.barrier()


def test_one_way(threads):
    threads(2, one_way)


class OfGpu:
    """What PyTorch shows of the transpose of a tensor of 4 x 6 f64 on GPU 1."""

    shape = (6, 4)
    device = types.SimpleNamespace(type="cuda", index=1)
    dtype = "f64"

    def data_ptr(self):
        return 1 << 40

    def numel(self):
        return 24

    def is_contiguous(self):
        return False

    def stride(self):
        return (1, 6)


def test_sources_on_a_gpu_keep_their_strides():
    group = types.SimpleNamespace(_on_host=False, device=1)
    side, seen = side_of(OfGpu(), "source", group, written=False)
    assert (side.pointer, side.nbytes) == (1 << 40, 24 * 8)
    assert (side.shape, side.strides, side.itemsize) == ((6, 4), (8, 48), 8)
    assert (seen.shape, seen.dtype.name) == ((6, 4), "f64")

    group.device = 0
    with pytest.raises(symm.InvalidArgumentError, match="source: lies on CUDA device 1"):
        side_of(OfGpu(), "source", group, written=False)
    with pytest.raises(symm.InvalidArgumentError, match="source: lies in host memory"):
        side_of(np.zeros(2), "source", group, written=False)


def refusals(group):
    array = group.empty((2, 2), "f32")
    with pytest.raises(symm.InvalidArgumentError, match="source: lies on a device"):
        array.neighbor_part(1 - group.rank, 0, OfGpu())
    source = np.zeros(2, dtype=np.float32)
    peer = 1 - group.rank
    neighbor = array.neighbor_part(peer, 0, source, expected_nbytes=8 + group.rank)
    with pytest.raises(symm.MismatchError, match="rank 0 puts 8 bytes to rank 1, which expects 9"):
        group.exchange([neighbor])
    with pytest.raises(symm.InvalidArgumentError, match="shape"):
        array.neighbor_part(peer, 0, np.zeros(3, dtype=np.float32))
    with pytest.raises(symm.InvalidArgumentError, match="to_rows: 2 is not a row"):
        array.neighbor_rows(peer, [2], source.reshape(1, 2))
    with pytest.raises(symm.InvalidArgumentError, match="memory: is None"):
        symm.Neighbor(peer, None, 0, source, [])

    exchange = group.exchange([array.neighbor_part(peer, 0, source)])
    with pytest.raises(symm.InvalidArgumentError, match="no round was started"):
        exchange.finish()
    if group.rank == 0:
        exchange.start()
        with pytest.raises(symm.TimeoutError, match="rank 1") as late:
            exchange.finish(timeout=0.02)
        assert late.value.rank == 1
    group.barrier()
    if group.rank == 1:
        exchange.start()
    exchange.finish()
    group.barrier()


def test_refusals(threads):
    threads(2, refusals)


def blocks(group):
    left = (group.rank - 1) % group.size
    right = (group.rank + 1) % group.size
    send = np.arange(5, dtype=np.int32) + 10 * group.rank
    recv = np.zeros(8, dtype=np.int32)
    group.neighbor_alltoallv([left, right], send, [2, 3], [right, left], recv, [2, 3], None, [6, 1])
    assert recv[1:4].tolist() == [10 * left + 2, 10 * left + 3, 10 * left + 4]
    assert recv[6:].tolist() == [10 * right, 10 * right + 1]
    assert recv[0] == recv[4] == recv[5] == 0
    with pytest.raises(symm.InvalidArgumentError, match="recv_counts: has 1 numbers for 2 ranks"):
        group.neighbor_alltoallv([left, right], send, [2, 3], [right, left], recv, [2])
    group.barrier()


def test_blocks_of_neighbours(threads):
    threads(3, blocks)
