"""The table of behaviours, which has every type and call, also in place; and the
collectives with operands of all kinds.
"""

import array as arrays
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


@needs_table
def test_table(launch):
    scenarios = TABLE.read_text().count("\nscenario ")
    first, second, third = launch(3, sys.executable, str(RUNNER), str(TABLE))
    assert first == (0, f"rank 0: {scenarios} scenarios\n")
    assert second == (0, f"rank 1: {scenarios} scenarios\n")
    assert third == (-signal.SIGKILL, ""), "rank 2 kills itself in the last scenario"


@needs_table
def test_a_wrong_table_fails(launch, tmp_path):
    wrong = tmp_path / "table.txt"
    wrong.write_text("scenario s\nall expect_group size=3\nall barrier channel=99\n")
    for status, output in launch(3, sys.executable, str(RUNNER), str(wrong)):
        assert status == 1
        assert "table.txt:3" in output


class Foreign:
    """Speaks DLPack and nothing else, like an array of
    another package; an old one does not know max_version.
    """

    def __init__(self, inner, old=False):
        self.inner, self.old = inner, old

    def __dlpack_device__(self):
        return self.inner.__dlpack_device__()

    def __dlpack__(self, *, stream=None, **options):
        assert stream is None, "this is host memory"
        if self.old and options:
            raise TypeError("max_version")
        return self.inner.__dlpack__(**options)


def tensor(inner):
    """What PyTorch's tensors have, as far as it is used."""
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
def test_operands_of_all_kinds(threads, make):
    def body(group):
        data = np.arange(8, dtype=np.float32) + group.rank
        given = make(data)
        out = np.zeros(8, np.float32)
        group.allreduce(given, out)
        assert np.array_equal(out, 2 * np.arange(8) + 1)
        group.allreduce(out, given, "max")
        seen = given.inner if hasattr(given, "inner") else np.asarray(given)
        assert np.array_equal(seen.ravel(), 2 * np.arange(8) + 1)

    threads(2, body)


def test_what_cannot_be_an_operand(alone):
    good = np.ones(8, np.float32)
    locked = np.ones(8, np.float32)
    locked.flags.writeable = False
    swapped = np.ones(8, ">f4")
    for name, send, recv in (
        ("not contiguous", np.ones(16, np.float32)[::2], good),
        ("read-only", good, locked),
        ("read-only", locked, None),
        ("read-only", np.ones(2, np.float32), bytes(8)),
        ("elements", np.ones(8), good),
        ("unknown dtype", np.ones(8, np.complex64), good),
        ("read-only", np.float32(1), None),
        ("byte order", swapped, good),
        ("not aligned", np.frombuffer(bytearray(33), np.float32, 8, 1), good),
        ("elements", good, np.ones(7, np.float32)),
        ("overlaps", good[:6], good[2:]),
    ):
        with pytest.raises(symm.InvalidArgumentError) as caught:
            alone.allreduce(send, recv)
        assert name in str(caught.value) or name == "elements", name
    for nothing in (None, 3, [1.0, 2.0]):
        with pytest.raises(TypeError, match="DLPack"):
            alone.allreduce(nothing, good)
    out = np.zeros(8, np.float32)
    alone.allreduce(locked, out)
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


def test_sizes_that_do_not_divide(threads):
    def body(group):
        for call in (group.reduce_scatter, group.alltoall, lambda a: group.allgather(None, a)):
            with pytest.raises(symm.InvalidArgumentError, match="divided"):
                call(np.ones(3, np.float32))
        with pytest.raises(symm.InvalidArgumentError, match="recv: has 5 elements; 6 are needed"):
            group.allgather(np.ones(3, np.float32), np.ones(5, np.float32))
        short, counts, blocks = (
            np.ones(200),
            np.array([200, 200], np.uint8),
            np.full(400, group.rank),
        )
        with pytest.raises(
            symm.InvalidArgumentError, match="recv: has 200 elements; 400 are needed"
        ):
            group.allgatherv(short, short.copy(), counts)
        with pytest.raises(symm.InvalidArgumentError, match="; 4294901762 symm"):
            group.allgather_rows(np.ones(2**16), short, np.int32(2**16), np.int32(2**16))
        group.allgatherv(None, blocks, counts)
        assert blocks.sum() == 200
        group.barrier()

    threads(2, body)


def test_options_and_plans(threads):
    def body(group):
        a = group.empty(1000)
        for algorithm in ("one_shot", "two-shot", symm.Algorithm.TWO_SHOT_STAGED):
            a.fill(1)
            group.barrier()
            group.allreduce(a, algorithm=algorithm, timeout=10)
            assert a.numpy().sum() == 2000
            plan = group.plan("allreduce", a, algorithm=algorithm)
            assert plan.algorithm == symm.enums.member(symm.Algorithm, algorithm)
            assert plan.reason
        # which have counts
        for collective in [one for one in symm.Collective if not one.name.endswith("V")]:
            assert isinstance(group.plan(collective, a, algorithm=None).algorithm, symm.Algorithm)
        b = np.empty(1000, np.float32)
        assert group.plan(
            "allgatherv", b[:300], a, recv_counts=[300, 300], recv_displacements=[0, 500]
        ).algorithm.name
        assert group.plan("reduce_scatterv", a, b[:300], "max", send_counts=[300, 300]).reason
        assert (
            group.plan("alltoallv", a, b, send_counts=[1, 2], recv_counts=[1, 2]).chunk_bytes == 0
        )
        assert group.plan("allgather_rows", b[:30], a, rows=3, recv_stride=100).reason
        assert group.plan("allreduce", a, scale=0.5).reason.startswith("f32: ")
        with pytest.raises(symm.InvalidArgumentError, match="recv_counts"):
            group.plan("allgatherv", b, a)
        with pytest.raises(symm.InvalidArgumentError, match="algorithm"):
            group.allreduce(a, algorithm="ll")
        with pytest.raises(
            symm.InvalidArgumentError, match="unknown op 'mean'; expected one of sum, avg"
        ):
            group.allreduce(a, op="mean")
        group.allreduce(np.empty(0, np.float32))

    threads(2, body)


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


def test_a_stream_is_refused_on_the_host(alone):
    a = alone.empty(4)
    for stream in (5, SimpleNamespace(cuda_stream=5)):
        with pytest.raises(symm.InvalidArgumentError, match="stream"):
            alone.allreduce(a, stream=stream)
    with pytest.raises(TypeError, match="stream"):
        alone.allreduce(a, stream="no")
