"""Collectives: the table of behaviours, operands of all kinds, options and plans.

The table has every element type and every call, also in place.
"""

import array as arrays
import contextlib
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import REPOSITORY

import symm

TABLE = REPOSITORY / "tests" / "bindings" / "behaviours" / "table.txt"
RUNNER = Path(__file__).parent / "behaviours.py"
needs_table = pytest.mark.skipif(not TABLE.exists(), reason="the table is in the repository only")


# ---- the table of behaviours


@needs_table
def test_three_ranks_behave_as_the_table_says(launch, monkeypatch):
    monkeypatch.setenv("SYMM_IPC_HOLD_MS", "60000")
    scenarios = TABLE.read_text().count("\nscenario ")
    first, second, third = launch(3, sys.executable, str(RUNNER), str(TABLE))
    assert first == (0, f"rank 0: {scenarios} scenarios\n")
    assert second == (0, f"rank 1: {scenarios} scenarios\n")
    assert third == (-signal.SIGKILL, ""), "rank 2 kills itself in the last scenario"


@needs_table
def test_a_wrong_line_of_a_table_fails_and_is_named(launch, tmp_path):
    wrong = tmp_path / "table.txt"
    wrong.write_text("scenario s\nall expect_group size=3\nall barrier channel=99\n")
    for status, output in launch(3, sys.executable, str(RUNNER), str(wrong)):
        assert status == 1
        assert "table.txt:3" in output


# ---- operands


class Foreign:
    """An array of a package that speaks DLPack and nothing else.

    An old package does not know max_version.
    """

    def __init__(self, inner, old=False):
        self.inner = inner
        self.old = old

    def __dlpack_device__(self):
        return self.inner.__dlpack_device__()

    def __dlpack__(self, *, stream=None, **options):
        assert stream is None, "this is host memory"
        if self.old and options:
            raise TypeError("max_version")
        return self.inner.__dlpack__(**options)


def tensor(inner):
    """A stand-in for a tensor of PyTorch, with the attributes that symm uses."""
    return SimpleNamespace(
        inner=inner,
        dtype=inner.dtype,
        device=SimpleNamespace(type="cpu", index=None),
        data_ptr=lambda: inner.ctypes.data,
        numel=lambda: inner.size,
        is_contiguous=lambda: inner.flags.c_contiguous,
    )


OPERANDS = {
    "numpy": lambda data: data,
    "numpy 2d": lambda data: data.reshape(2, -1),
    "bytearray memoryview": lambda data: memoryview(bytearray(data.tobytes())).cast("f"),
    "array.array": lambda data: arrays.array("f", data.tolist()),
    "DLPack": Foreign,
    "old DLPack": lambda data: Foreign(data, old=True),
    "tensor": tensor,
    "numpy with a unit axis": lambda data: data[:, None].transpose(1, 0),
}


@pytest.mark.parametrize("make", OPERANDS.values(), ids=OPERANDS)
def test_an_array_of_any_kind_is_an_operand(threads, make):
    def body(group):
        operand = make(np.arange(8, dtype=np.float32) + group.rank)
        out = np.zeros(8, np.float32)
        group.allreduce(operand, out)
        assert np.array_equal(out, 2 * np.arange(8) + 1)

        group.allreduce(out, operand, "max")
        seen = operand.inner if hasattr(operand, "inner") else np.asarray(operand)
        assert np.array_equal(seen.ravel(), 2 * np.arange(8) + 1)

    threads(2, body)


GOOD = np.ones(8, np.float32)
READ_ONLY = np.ones(8, np.float32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("named", "send", "recv"),
    [
        ("not contiguous", np.ones(16, np.float32)[::2], GOOD),
        ("read-only", GOOD, READ_ONLY),
        ("read-only", READ_ONLY, None),
        ("read-only", np.ones(2, np.float32), bytes(8)),
        ("recv: is of symm.f32, send of symm.f64", np.ones(8), GOOD),
        ("unknown dtype", np.ones(8, np.clongdouble), GOOD),
        ("read-only", np.float32(1), None),
        ("byte order", np.ones(8, ">f4"), GOOD),
        ("not aligned", np.frombuffer(bytearray(33), np.float32, 8, 1), GOOD),
        ("recv: has 7 elements; 8 are needed", GOOD, np.ones(7, np.float32)),
        ("overlaps", GOOD[:6], GOOD[2:]),
    ],
)
def test_what_cannot_be_an_operand_is_refused(alone, named, send, recv):
    with pytest.raises(symm.InvalidArgumentError, match=named):
        alone.allreduce(send, recv)


@pytest.mark.parametrize("nothing", [None, 3, [1.0, 2.0]])
def test_what_is_no_array_is_a_type_error(alone, nothing):
    with pytest.raises(TypeError, match="DLPack"):
        alone.allreduce(nothing, GOOD)


def test_read_only_memory_is_an_operand_that_is_read(alone):
    out = np.zeros(8, np.float32)
    alone.allreduce(READ_ONLY, out)
    assert out.sum() == 8

    text = np.zeros(3, np.uint8)
    alone.allreduce(b"abc", text)
    assert text.tobytes() == b"abc"


def test_an_operand_on_another_device_is_refused(alone):
    class OnGpu(Foreign):
        def __dlpack_device__(self):
            return (2, 0)

        def __dlpack__(self, **_):
            array = self.inner
            return symm._raw.dlpack_make(
                array, array.ctypes.data, symm.f32.value, array.shape, 2, 0, 1
            )

    with pytest.raises(symm.InvalidArgumentError, match="lies on a device"):
        alone.allreduce(OnGpu(np.ones(4, np.float32)), np.ones(4, np.float32))


@pytest.mark.parametrize(
    "call",
    [
        lambda group, x: group.reduce_scatter(x),
        lambda group, x: group.alltoall(x),
        lambda group, x: group.allgather(None, x),
    ],
    ids=["reduce_scatter", "alltoall", "allgather in place"],
)
def test_elements_that_ranks_cannot_divide_are_refused(threads, call):
    def body(group):
        with pytest.raises(symm.InvalidArgumentError, match="divided"):
            call(group, np.ones(3, np.float32))
        group.barrier()

    threads(2, body)


def test_a_recv_that_is_too_small_is_refused(threads):
    def body(group):
        with pytest.raises(symm.InvalidArgumentError, match="recv: has 5 elements; 6 are needed"):
            group.allgather(np.ones(3, np.float32), np.ones(5, np.float32))
        group.barrier()

    threads(2, body)


def test_counts_of_numpy_do_not_overflow(threads):
    def body(group):
        short = np.ones(200)
        counts = np.array([200, 200], np.uint8)
        needed = "recv: has 200 elements; 400 are needed"
        with pytest.raises(symm.InvalidArgumentError, match=needed):
            group.allgatherv(short, short.copy(), counts)
        with pytest.raises(symm.InvalidArgumentError, match="; 4294901762 symm"):
            group.allgather_rows(np.ones(2**16), short, np.int32(2**16), np.int32(2**16))
        rows = np.int32(2**16)
        with pytest.raises(symm.InvalidArgumentError, match=r"send: has 200 symm.*; 4294901762"):
            group.reduce_scatter_rows(short, np.ones(2**16), rows, "sum", rows)

        blocks = np.full(400, group.rank)
        group.allgatherv(None, blocks, counts)
        assert blocks.sum() == 200

        if group.rank == 0:
            with pytest.raises(symm.InvalidArgumentError, match=needed):
                group.gatherv(short, short.copy(), counts)
            with pytest.raises(symm.InvalidArgumentError, match="send_counts: has 0 numbers"):
                group.scatterv(short, None, short.copy())
        blocks[200 * group.rank :][:200] = group.rank + 3
        own = blocks[200 * group.rank :][:200].copy()
        group.gatherv(None if group.rank == 0 else own, blocks, counts)
        group.scatterv(blocks, counts, None if group.rank == 0 else own)
        assert own.sum() == 200 * (group.rank + 3)
        assert group.rank == 1 or blocks.sum() == 200 * (3 + 4)

    threads(2, body)


# ---- options and plans


@pytest.mark.parametrize("algorithm", ["one_shot", "two-shot", symm.Algorithm.TWO_SHOT_STAGED])
def test_an_algorithm_is_named_as_a_text_or_a_constant(threads, algorithm):
    def body(group):
        array = group.empty(1000)
        array.fill(1)
        group.barrier()
        group.allreduce(array, algorithm=algorithm, timeout=10)
        assert array.numpy().sum() == 2000

        plan = group.plan("allreduce", array, algorithm=algorithm)
        assert plan.algorithm == symm.enums.member(symm.Algorithm, algorithm)
        assert plan.reason

    threads(2, body)


WITHOUT_COUNTS = [one for one in symm.Collective if not one.name.endswith("V")]


@pytest.mark.parametrize("collective", WITHOUT_COUNTS, ids=lambda one: one.name)
def test_a_collective_without_counts_has_a_plan(threads, collective):
    def body(group):
        plan = group.plan(collective, group.empty(1000), algorithm=None)
        assert isinstance(plan.algorithm, symm.Algorithm)

    threads(2, body)


def test_a_collective_with_counts_has_a_plan(threads):
    def body(group):
        a = group.empty(1000)
        b = np.empty(1000, np.float32)
        gathered = {"recv_counts": [300, 300], "recv_displacements": [0, 500]}
        exchanged = {"send_counts": [1, 2], "recv_counts": [1, 2]}
        assert group.plan("allgatherv", b[:300], a, **gathered).algorithm.name
        assert group.plan("reduce_scatterv", a, b[:300], "max", send_counts=[300, 300]).reason
        assert group.plan("alltoallv", a, b, **exchanged).chunk_bytes == 0
        assert group.plan("allgather_rows", b[:30], a, rows=3, recv_stride=100).reason
        assert group.plan("reduce_scatter_rows", a, b[:30], rows=3, send_stride=100).reason
        assert group.plan("gatherv", b[:300], a, recv_counts=[300, 300]).algorithm.name
        assert group.plan("scatterv", a, b[:300], send_counts=[300, 300]).algorithm.name
        with pytest.raises(symm.InvalidArgumentError, match="send_stride: 19 is less than the 20"):
            group.plan("reduce_scatter_rows", a, b[:30], rows=3, send_stride=19)
        with pytest.raises(symm.InvalidArgumentError, match="recv_counts"):
            group.plan("allgatherv", b, a)

    threads(2, body)


def test_the_plan_of_a_scaled_reduction_begins_with_the_type_of_its_sums(threads):
    def body(group):
        plan = group.plan("allreduce", group.empty(1000), scale=0.5)
        assert plan.reason.startswith("f32: ")

    threads(2, body)


@pytest.mark.parametrize(
    ("named", "options"),
    [
        ("algorithm", {"algorithm": "ll"}),
        ("unknown op 'mean'; expected one of sum, avg", {"op": "mean"}),
    ],
)
def test_unknown_names_are_refused(threads, named, options):
    def body(group):
        with pytest.raises(symm.InvalidArgumentError, match=named):
            group.allreduce(group.empty(1000), **options)
        group.barrier()

    threads(2, body)


def test_nothing_can_be_reduced(threads):
    threads(2, lambda group: group.allreduce(np.empty(0, np.float32)))


def test_rmsnorm_divides_by_a_scale_without_axes(alone):
    scale = alone.empty((), "f32")
    scale.fill(2)
    quantised = alone.empty(128, "f8e4m3")
    alone.allreduce_rmsnorm(
        np.full(128, 3, np.float32),
        np.ones(128, np.float32),
        quant_out=quantised,
        scale_in=scale,
        epsilon=0,
    )

    # Equal elements are normalised to 1, and a half is 0x30 in f8e4m3.
    assert set(quantised.view("u8").numpy().tolist()) == {0x30}


@pytest.mark.parametrize(
    ("stream", "error"),
    [
        (5, symm.InvalidArgumentError),
        (SimpleNamespace(cuda_stream=5), symm.InvalidArgumentError),
        ("no", TypeError),
    ],
)
def test_a_stream_is_refused_on_the_host(alone, stream, error):
    with pytest.raises(error, match="stream"):
        alone.allreduce(alone.empty(4), stream=stream)


def test_a_batch_gives_the_results_of_its_calls(threads):
    def body(group):
        rank, size = group.rank, group.size
        x = np.full(5, rank + 1.0, np.float32)
        parts = np.zeros(3 * size, np.int32)
        with group.batch(timeout=20, tag="a batch") as batch:
            batch.allreduce(x, scale=2.0)
            for i in range(3):
                one = np.full(1, 10 * rank + i, np.int32)
                batch.allgather(one, parts[i * size : (i + 1) * size])
            assert (x == rank + 1).all(), "nothing is done before the end"
        assert (x == 2.0 * sum(range(1, size + 1))).all()
        assert parts.tolist() == [10 * r + i for i in range(3) for r in range(size)]

        whole = np.arange(2 * size, dtype=np.float64)
        part = np.zeros(2)
        swapped = np.full(size, rank)
        told = np.full(4, rank)
        least = np.full(4, rank)
        with group.batch() as batch:
            batch.reduce_scatter(whole, part, "max")
            batch.alltoall(swapped)
            batch.broadcast(told, root=1)
            batch.reduce(least, op="min", root=0)
        assert part.tolist() == [2 * rank, 2 * rank + 1]
        assert swapped.tolist() == list(range(size))
        assert told.tolist() == [1] * 4
        if rank == 0:
            assert least.tolist() == [0] * 4

    threads(3, body)


def test_a_batch_that_is_wrong_does_nothing(threads):
    def body(group):
        x = np.ones(4, np.float32)

        def overlaps():
            with group.batch() as batch:
                batch.allreduce(x)
                batch.allreduce(x)

        def raises():
            with group.batch() as batch:
                batch.allreduce(x)
                raise KeyError("stop")

        def has_a_timeout():
            with group.batch() as batch:
                batch.allreduce(x, timeout=1)

        with pytest.raises(symm.InvalidArgumentError, match=r"calls\[1\]: send: overlaps recv"):
            overlaps()
        with pytest.raises(KeyError):
            raises()
        with pytest.raises(TypeError, match="timeout"):
            has_a_timeout()
        with group.batch():
            pass
        assert x.tolist() == [1] * 4

    threads(2, body)


# ---- operations of the program's


def compose(into, other):
    """Apply a x + b and then the next one: elements of two numbers, whose order matters."""
    first, then = np.asarray(into).reshape(-1, 2), np.asarray(other).reshape(-1, 2)
    first *= then[:, :1]
    first[:, 1] += then[:, 1]


def maps_of(rank, count=1001):
    return 3 + np.arange(2 * count, dtype=np.int64) % 7 + rank


def composed(ranks):
    everything = maps_of(0)
    for rank in range(1, ranks):
        compose(everything, maps_of(rank))
    return everything


def test_a_function_combines_in_the_order_of_the_ranks(threads):
    def body(group):
        recv = np.zeros(2002, np.int64)
        group.reduce_by(compose, maps_of(group.rank), recv, width=2)
        assert (recv == composed(3)).all()

        own = maps_of(group.rank)
        group.reduce_by(compose, own, collective="scan", width=2)
        assert (own == composed(group.rank + 1)).all()

        several = np.concatenate([maps_of(group.rank)] * 3)
        group.reduce_by(compose, several, collective="reduce_scatter", width=2)
        part = several[2002 * group.rank :][:2002]
        assert (part == composed(3)).all()
        with pytest.raises(symm.InvalidArgumentError, match="width: 5"):
            group.reduce_by(compose, own, width=5)
        with pytest.raises(symm.InvalidArgumentError, match="collective"):
            group.reduce_by(compose, own, collective="alltoall", width=2)
        group.barrier()

    threads(3, body)


def test_what_ranks_cannot_share_is_refused_before_anything_is_combined(threads):
    def body(group):
        sent = np.arange(6.0) + group.rank
        recv = np.full(3, -1.0)
        with pytest.raises(symm.InvalidArgumentError, match="send: has 3 elements, which 2 ranks"):
            group.reduce_by(compose, sent, recv, collective="reduce_scatter", width=2)
        odd = np.arange(7.0)
        for into in (None, recv):
            with pytest.raises(symm.InvalidArgumentError, match="send: has 7 elements"):
                group.reduce_by(compose, odd, into, collective="reduce_scatter")
        with pytest.raises(symm.InvalidArgumentError, match="recv: has 3 numbers, 2 are"):
            group.reduce_by(compose, sent[:4], recv, collective="reduce_scatter", width=2)
        with pytest.raises(TypeError, match="function: a NoneType cannot be called"):
            group.reduce_by(None, sent)
        assert recv.tolist() == [-1] * 3
        assert odd.tolist() == list(range(7))
        group.barrier()  # the group goes on

        maps = np.concatenate([maps_of(group.rank)] * 2)
        part = np.zeros(2002, np.int64)
        group.reduce_by(compose, maps, part, collective="reduce_scatter", width=2)
        assert (part == composed(2)).all()

    threads(2, body)


def hears_of_the_abort(group):
    """A rank whose part does not need that of the failed one learns of it after its call."""
    with pytest.raises(symm.AbortedError):
        group.barrier()
    group.close()


def test_an_exception_of_a_function_is_that_of_the_call(threads):
    def fails(into, other):
        raise KeyError("not here")

    def body(group):
        if group.rank == 1:
            with pytest.raises(KeyError, match="not here"):
                group.reduce_by(fails, maps_of(group.rank), width=2)
        else:
            with contextlib.suppress(symm.AbortedError):
                group.reduce_by(compose, maps_of(group.rank), width=2)
        hears_of_the_abort(group)

    threads(3, body)


def test_a_function_must_not_keep_what_it_is_given(threads):
    kept = []

    def body(group):
        result = np.zeros(2002, np.int64)
        if group.rank == 0:
            with pytest.raises(BufferError):
                group.reduce_by(
                    lambda into, _: kept.append(np.asarray(into)), maps_of(group.rank), result
                )
        else:
            with contextlib.suppress(symm.AbortedError):
                group.reduce_by(lambda *_: None, maps_of(group.rank), result)
        hears_of_the_abort(group)

    threads(2, body)


# ---- complex numbers, and pairs of a value and an index


@pytest.mark.parametrize("name", ["complex64", "complex128"])
def test_complex_numbers_have_sums_means_and_products(threads, name):
    def body(group):
        mine = np.array([1j, group.rank + 2j], name)
        results = {}
        for op in ("sum", "avg", "prod"):
            results[op] = np.empty_like(mine)
            group.allreduce(mine, results[op], op=op)
        assert results["sum"].tolist() == [3j, 3 + 6j]
        assert results["avg"].tolist() == [1j, 1 + 2j]
        assert results["prod"].tolist() == [-1j, (0 + 2j) * (1 + 2j) * (2 + 2j)]
        for op in ("min", "max", "bor", "minloc"):
            with pytest.raises(symm.InvalidArgumentError, match=f"op: {op} of c"):
                group.allreduce(mine, op=op)
        with pytest.raises(symm.InvalidArgumentError, match="is not a float"):
            group.allreduce(mine, scale=2)

        shared = group.empty(3, name)
        shared.fill(1 - 2j)
        assert shared.numpy().dtype == name
        assert np.asarray(shared).tolist() == [1 - 2j] * 3
        group.allreduce(shared)
        assert shared.numpy().tolist() == [3 - 6j] * 3

    threads(3, body)


@pytest.mark.parametrize("fields", [("f4", "i4"), ("f8", "i8"), ("i4", "i4"), ("i8", "i8")])
def test_pairs_have_a_least_and_a_greatest_with_the_lowest_index(threads, fields):
    kind = np.dtype([("loss", fields[0]), ("at", fields[1])])

    def body(group):
        mine = np.array([(5, 10 - group.rank), (group.rank, group.rank)], kind)
        best = np.zeros(2, kind)
        group.allreduce(mine, best, op="maxloc")
        assert best.tolist() == [(5, 8), (2, 2)]
        group.allreduce(mine, best, op="minloc")
        assert best.tolist() == [(5, 8), (0, 0)]
        for op in ("sum", "min"):
            with pytest.raises(symm.InvalidArgumentError, match=f"op: {op} of "):
                group.allreduce(mine, op=op)

        shared = group.empty(2, kind)
        shared.fill((7, -3))
        assert np.asarray(shared).tolist() == [(7, -3)] * 2
        assert shared.numpy().dtype.names == ("value", "index")
        assert memoryview(shared).itemsize == kind.itemsize
        interface = np.array(SimpleNamespace(__array_interface__=shared.__array_interface__))
        assert interface["index"].tolist() == [-3, -3]
        shared.numpy()[0] = (9, group.rank)
        group.allreduce(shared, op="maxloc")
        assert shared.numpy().tolist() == [(9, 0), (7, -3)]
        with pytest.raises(BufferError, match="DLPack has no type"):
            shared.__dlpack__()
        with pytest.raises(symm.InvalidArgumentError, match="value"):
            shared.fill(3)

    threads(3, body)


@pytest.mark.parametrize(
    "kind",
    [
        [("value", "f4"), ("index", "i8")],
        [("value", "f8"), ("index", "i4")],
        [("value", "f4"), ("index", "u4")],
        [("value", ">f4"), ("index", "i4")],
        [("value", "f4"), ("index", "i4"), ("more", "i4")],
        [("value", "f4", 2), ("index", "i8")],
        {"names": ["value", "index"], "formats": ["f4", "i4"], "offsets": [4, 0]},
        {"names": ["value", "index"], "formats": ["f4", "i4"], "itemsize": 12},
    ],
)
def test_other_structured_types_are_no_pairs(alone, kind):
    with pytest.raises(symm.InvalidArgumentError, match=r"dtype|byte order"):
        alone.allreduce(np.zeros(4, kind), op="minloc")


@pytest.mark.parametrize("name", ["complex64", "complex128"])
def test_complex_tensors_of_pytorch_are_operands(alone, name):
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([1 + 2j, 3 - 1j], dtype=getattr(torch, name))
    result = torch.zeros_like(tensor)
    alone.allreduce(tensor, result, op="prod")
    assert result.tolist() == [1 + 2j, 3 - 1j]
    shared = alone.empty(2, name)
    assert shared.torch().dtype == tensor.dtype
    alone.allreduce(tensor, shared)
    assert shared.torch().tolist() == tensor.tolist()
    with pytest.raises(symm.InvalidArgumentError, match="no order"):
        alone.allreduce(tensor, op="max")
