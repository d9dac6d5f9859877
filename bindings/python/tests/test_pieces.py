"""Puts and gets of many pieces: by slices, by indices of rows, and by lists of one's own."""

import itertools
import re
from array import array as plain_array

import ml_dtypes
import numpy as np
import pytest

import symm

SHAPE = (6, 7, 8)
KEYS = [
    (),
    ...,
    0,
    -1,
    slice(None),
    slice(1, 5),
    slice(None, None, 2),
    slice(4, 0, -2),
    slice(3, 3),
    (slice(None), 0),
    (slice(None), slice(None), 0),
    (slice(1, -1), slice(1, -1), -1),
    (slice(1, 3), slice(None), slice(2, 4)),
    (..., slice(None, None, -1)),
    (2, ..., 3),
    (2, 3, 4),
    (slice(None), slice(None, None, 3), slice(1, None, 2)),
]


def counted(shape, dtype="f8"):
    return np.arange(1, 1 + np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("turned", [False, True])
def test_a_part_goes_where_numpy_would_put_it(alone, key, turned):
    array = alone.empty(SHAPE, "f64")
    expected = np.zeros(SHAPE)
    source = counted(expected[key].shape)
    if turned:  # no axis of the source lies where it does in the array
        source = np.asfortranarray(source)[..., ::-1] if source.ndim else source
    expected[key] = source
    array.put_part(0, key, source, signal=3)
    np.testing.assert_array_equal(array.numpy(), expected)
    array.wait_signal(0, 3)

    seen = np.zeros_like(source)
    array.get_part(0, key, seen)
    np.testing.assert_array_equal(seen, source)


def test_parts_at_random_go_where_numpy_would_put_them(alone):
    random = np.random.default_rng(1)
    array = alone.empty(SHAPE, "i32")
    expected = np.zeros(SHAPE, "i4")
    for _ in range(300):
        key = tuple(
            slice(*sorted(random.integers(0, extent + 1, 2)), random.integers(1, 4))
            for extent in SHAPE
        )
        wide = random.integers(0, 1000, (13, 15, 17), "i4")
        source = wide[tuple(slice(1, 1 + 2 * extent, 2) for extent in expected[key].shape)]
        expected[key] = source
        array.put_part(0, key, source)
        np.testing.assert_array_equal(array.numpy(), expected)


def test_a_part_may_be_of_any_element_type_and_an_array_of_symms(alone):
    for dtype, kind in (("bf16", ml_dtypes.bfloat16), ("u8", "u1"), ("bool", "?")):
        array = alone.empty((4, 5), dtype)
        array.put_part(0, (slice(None), 2), np.ones(4, kind))
        assert array.numpy()[:, 2].astype("f4").tolist() == [1] * 4
    array = alone.empty((4, 5), "f32")
    other = alone.empty((5,), "f32")
    other.fill(3)
    array.put_part(0, 1, other)
    assert array.numpy().sum() == 15


def test_a_part_that_does_not_fit_is_refused(alone):
    array = alone.empty((4, 5), "f32")
    with pytest.raises(symm.InvalidArgumentError, match=r"shape \(4,\), not \(5,\)"):
        array.put_part(0, 1, np.zeros(4, "f4"))
    with pytest.raises(symm.InvalidArgumentError, match="f64"):
        array.put_part(0, 1, np.zeros(5))
    with pytest.raises(symm.InvalidArgumentError, match="read-only"):
        array.get_part(0, 1, np.broadcast_to(np.float32(0), (5,)))
    with pytest.raises(TypeError, match="source: a list is not an array"):
        array.put_part(0, 1, [0.0] * 5)
    with pytest.raises(IndexError, match="2 axes"):
        array.put_part(0, (1, 2, 3), np.float32(0))
    for beyond in (4, -5):
        with pytest.raises(IndexError, match=f"key: {beyond} is not an index of an axis of 4"):
            array.put_part(0, beyond, np.zeros(5, "f4"))
    with pytest.raises(IndexError, match=r"key: has several \.\.\."):
        array.put_part(0, (..., ...), np.zeros((4, 5), "f4"))
    for key in ([1, 2], np.array([1, 2]), None, 1.0):
        kind = type(key).__name__
        with pytest.raises(TypeError, match=f"key: a {kind} is neither an integer nor a slice"):
            array.put_part(0, key, np.zeros((2, 5), "f4"))
    with pytest.raises(symm.InvalidArgumentError, match="signal is None"):
        array.put_part(0, 1, np.zeros(5, "f4"), value=3)
    assert not array.numpy().any()


@pytest.mark.parametrize("kind", [list, np.array, lambda rows: plain_array("q", rows)])
def test_rows_go_by_their_indices(alone, kind):
    cache = alone.empty((10, 3, 4), "f32")
    pages = counted((5, 3, 4), "f4")
    cache.put_rows(0, kind([7, 0, 4]), pages, from_rows=kind([4, 1, 0]), signal=1)
    cache.wait_signal(0, 1)
    expected = np.zeros((10, 3, 4), "f4")
    expected[[7, 0, 4]] = pages[[4, 1, 0]]
    np.testing.assert_array_equal(cache.numpy(), expected)

    cache.put_rows(0, kind([9, 8]), pages)
    expected[[9, 8]] = pages[:2]
    cache.put_rows(0, None, pages, from_rows=kind([3]))
    expected[0] = pages[3]
    np.testing.assert_array_equal(cache.numpy(), expected)

    seen = np.zeros((4, 3, 4), "f4")
    cache.get_rows(0, kind([9, 4, 0]), seen)
    np.testing.assert_array_equal(seen[:3], expected[[9, 4, 0]])
    cache.get_rows(0, None, seen, to_rows=kind([3]))
    np.testing.assert_array_equal(seen[3], expected[0])
    # A part of an array counts its rows from its own start.
    cache[2:6].put_rows(0, kind([3]), pages)
    np.testing.assert_array_equal(cache.numpy()[5], pages[0])


def test_rows_go_by_tensors_of_indices(alone):
    torch = pytest.importorskip("torch")
    cache = alone.empty((10, 4), "f32")
    pages = torch.arange(20, dtype=torch.float32).reshape(5, 4)
    cache.put_rows(0, torch.tensor([6, 2]), pages, from_rows=torch.tensor([1, 3]))
    assert cache.numpy()[6].tolist() == [4, 5, 6, 7]
    assert cache.numpy()[2].tolist() == [12, 13, 14, 15]


def test_rows_that_are_not_there_are_refused(alone):
    cache = alone.empty((10, 4), "f32")
    pages = counted((5, 4), "f4")
    # The memory has such a row, but not the array.
    with pytest.raises(symm.InvalidArgumentError, match="to_rows: 4 is not a row of 4"):
        cache[:4].put_rows(0, [0, 4], pages)
    with pytest.raises(symm.InvalidArgumentError, match="from_rows: 5 is not a row of 5"):
        cache.put_rows(0, [0, 1], pages, from_rows=[0, 5])
    for kind in (list, np.array):
        with pytest.raises(symm.InvalidArgumentError, match="to_rows: -1 is not a row of 10"):
            cache.put_rows(0, kind([-1]), pages)
        with pytest.raises(symm.InvalidArgumentError, match="to_rows: -2 is not a row of 5"):
            cache.get_rows(0, [0], pages, to_rows=kind([-2]))
    with pytest.raises(symm.InvalidArgumentError, match="to_rows, from_rows: differ in length"):
        cache.put_rows(0, [0, 1], pages, from_rows=[0])
    with pytest.raises(symm.InvalidArgumentError, match="to_rows, from_rows: are both None"):
        cache.put_rows(0, None, pages)
    with pytest.raises(symm.InvalidArgumentError, match="from_rows: 5 is not a row of 5"):
        cache.put_rows(0, range(6), pages)
    for key in (5, slice(2)):
        with pytest.raises(TypeError, match=r"to_rows: a .* is no sequence of indices"):
            cache.put_rows(0, key, pages)
    with pytest.raises(symm.InvalidArgumentError, match="to_rows: 4 is not a row of 4"):
        cache[:4].put_rows(0, None, pages, from_rows=[0, 1, 2, 3, 4])
    with pytest.raises(symm.InvalidArgumentError, match="not i64 or u64"):
        cache.put_rows(0, np.array([1], "i4"), pages)
    assert not cache.numpy().any()


OTHER_ROWS = [
    (np.ones((2, 4)), "has elements of symm.f64, not symm.f32"),
    (np.ones((2, 4), "i4"), "has elements of symm.i32, not symm.f32"),
    (np.ones((2, 3), "f4"), "has rows of the shape (3,), not (4,)"),
    (np.ones((8, 2), "f4"), "has rows of the shape (2,), not (4,)"),
    (np.ones((2, 4, 1), "f4"), "has rows of the shape (4, 1), not (4,)"),
    (np.ones(8, "f4"), "has rows of the shape (), not (4,)"),
    (np.array(1, "f4"), "has no rows"),
    (np.ones((2, 8), "f4")[:, ::2], "is not contiguous"),
]


@pytest.mark.parametrize(("array", "why"), OTHER_ROWS)
def test_rows_of_another_shape_or_type_are_refused(alone, array, why):
    cache = alone.zeros((10, 4), "f32")
    before = array.copy()
    with pytest.raises(symm.InvalidArgumentError, match=re.escape(f"source: {why}")):
        cache.put_rows(0, [0, 1], array)
    with pytest.raises(symm.InvalidArgumentError, match=re.escape(f"destination: {why}")):
        cache.get_rows(0, [0, 1], array)
    with pytest.raises(symm.InvalidArgumentError, match=re.escape(f"source: {why}")):
        cache.neighbor_rows(0, [0, 1], array)
    assert not cache.numpy().any()
    assert (array == before).all()


def test_rows_of_single_elements_are_of_their_type(alone):
    numbers = alone.zeros(4, "i64")
    with pytest.raises(symm.InvalidArgumentError, match=r"source: has elements of symm\.f64"):
        numbers.put_rows(0, [0], np.array([1.5]))
    numbers.put_rows(0, [2], np.array([7]))
    assert numbers.numpy().tolist() == [0, 0, 7, 0]


def test_pieces_of_ones_own_as_tuples_and_as_an_array(alone):
    memory = alone.rendezvous(alone.alloc(4096))
    source = counted(64, "u1")
    pieces = [symm.Rows(0, 5, 3), symm.Rows(10, 100, 2, rows=3, from_stride=4, to_stride=10)]
    expected = np.zeros(4096, "u1")
    expected[17:20] = source[:3]
    for row, byte in itertools.product(range(3), range(2)):
        expected[112 + 10 * row + byte] = source[10 + 4 * row + byte]
    as_array = np.array([(*piece,) for piece in pieces], "i8")
    for given in (pieces, [tuple(piece) for piece in pieces], as_array):
        memory.fill8(0, 0, 0, 4096)
        memory.put_pieces(0, 12, source, given)
        np.testing.assert_array_equal(memory.array(4096, "u8").numpy(), expected)

    with pytest.raises(
        symm.InvalidArgumentError, match=r"^pieces\[1\]\.from: 8 bytes from byte 60"
    ):
        memory.put_pieces(0, 0, source, [symm.Rows(0, 0, 8), symm.Rows(60, 0, 8)])
    with pytest.raises(symm.InvalidArgumentError, match="not 6 for each piece"):
        memory.put_pieces(0, 0, source, np.zeros(7, "u8"))
    with pytest.raises(symm.InvalidArgumentError, match="pieces: "):
        memory.put_pieces(0, 0, source, [symm.Rows(-1, 0, 8)])
    with pytest.raises(symm.InvalidArgumentError, match="page_bytes: 0"):
        memory.put_pages(0, 0, source, 0, to_table=[0])
