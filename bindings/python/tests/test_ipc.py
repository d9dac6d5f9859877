"""Memory that is shared by tokens."""

import ctypes
import gc
import multiprocessing
import os
import uuid

import numpy as np
import pytest

import symm


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    place = tmp_path / "ipc"
    place.mkdir(mode=0o700)
    monkeypatch.setenv("SYMM_IPC_DIRECTORY", str(place))


def count_of_leases():
    symm.ipc_collect()
    return symm.ipc_stats().leases


@pytest.fixture
def counted(alone):
    """An array of the shape (4, 8) that has the numbers 0 to 31."""
    array = alone.empty((4, 8), "f32")
    array.numpy()[:] = np.arange(32).reshape(4, 8)
    return array


def test_an_import_sees_the_part_that_was_exported(counted):
    token = counted[1:3].export_token()
    assert isinstance(token, bytes)
    assert len(token) <= symm._raw.SYMM_IPC_TOKEN_MAX_BYTES
    with symm.import_token(token, (2, 8), "f32") as seen:
        assert np.array_equal(seen.numpy(), np.arange(8, 24).reshape(2, 8))
        seen[1].numpy()[0] = -1
        assert counted.numpy()[2, 0] == -1


def test_an_import_describes_its_place_and_its_exporter(counted):
    with symm.import_token(counted[1:3].export_token(), (2, 8), "f32") as seen:
        info = seen.info()
        assert (info.bytes, info.offset, info.block_bytes) == (64, 32, 128)
        assert info.backend == symm.Backend.HOST
        assert info.exporter_pid == os.getpid()
        assert info.exporter_alive


def test_an_import_is_a_lease_until_it_is_closed(counted):
    with symm.import_token(counted.export_token()):
        assert count_of_leases() == 1
    assert count_of_leases() == 0


@pytest.mark.parametrize(
    "use",
    [
        lambda seen, array: seen.info(),
        lambda seen, array: array.group.allreduce(seen),
        lambda seen, array: memoryview(seen),
        lambda seen, array: seen.__dlpack__(),
        lambda seen, array: array.put(0, seen),
        lambda seen, array: seen.export_token(),
        lambda seen, array: seen.withdraw(),
        lambda seen, array: seen.holders(),
        lambda seen, array: seen[:0],
        lambda seen, array: seen.reshape(0),
    ],
    ids=[
        "info",
        "operand",
        "memoryview",
        "dlpack",
        "source",
        "export",
        "withdraw",
        "holders",
        "part",
        "reshape",
    ],
)
def test_a_closed_import_is_refused_everywhere(alone, counted, use):
    with symm.import_token(counted.export_token()) as seen:
        pass
    with pytest.raises(symm.InvalidHandleError, match="closed"):
        use(seen, counted)


def test_a_view_of_an_import_keeps_its_lease(alone):
    array = alone.empty(16)
    seen = symm.import_token(array.export_token(), dtype="f32").numpy()
    gc.collect()
    assert count_of_leases() == 1
    seen[3] = 5
    assert array.numpy()[3] == 5
    del seen
    gc.collect()
    assert count_of_leases() == 0


def test_an_import_can_be_an_operand(alone):
    array = alone.empty(16)
    array.fill(2)
    seen = symm.import_token(array.export_token(), dtype="f32")
    out = np.zeros(16, np.float32)
    alone.allreduce(seen, out)
    assert out.sum() == 32


def test_an_import_of_more_than_the_token_names_is_refused(alone):
    array = alone.empty(16)
    with pytest.raises(symm.InvalidArgumentError):
        symm.import_token(array.export_token(), 17, "f32")


BAD_TOKENS = {
    "nothing": lambda token: b"",
    "text": lambda token: b"no token",
    "one byte less": lambda token: token[:-1],
    "one byte more": lambda token: token + b"x",
    "one bit changed": lambda token: bytes([token[0] ^ 1]) + token[1:],
}


@pytest.mark.parametrize("change", BAD_TOKENS.values(), ids=BAD_TOKENS)
def test_bytes_that_are_no_token_are_refused(alone, change):
    token = alone.empty(16).export_token()
    with pytest.raises(symm.InvalidArgumentError, match="token"):
        symm.import_token(change(token))


@pytest.mark.parametrize(
    "make",
    [lambda group: group.empty((0, 3)), lambda group: group.empty(16)[16:]],
    ids=["array", "part"],
)
def test_an_array_without_elements_is_shared_like_any_other(alone, make):
    array = make(alone)
    seen = symm.import_token(array.export_token(), (0, 3), "f32")
    assert seen.numpy().shape == (0, 3)
    assert symm.import_token(seen.export_token()).size == 0


def test_held_memory_can_be_imported_after_its_array_is_gone(alone, monkeypatch):
    monkeypatch.setenv("SYMM_IPC_HOLD_MS", "60000")
    array = alone.empty(16)
    array.fill(3)
    token = array.export_token(hold_imports=1)
    del array
    gc.collect()
    assert symm.import_token(token, dtype="f32").numpy().sum() == 48


@pytest.mark.parametrize("hold", [None, 0])
def test_a_program_decides_whether_memory_is_held(alone, monkeypatch, hold):
    monkeypatch.setenv("SYMM_IPC_HOLD_MS", "60000")
    array = alone.empty(16)
    token = array.export_token(hold=hold)
    del array
    gc.collect()
    if hold is None:
        assert symm.import_token(token).nbytes == 64
    else:
        with pytest.raises(symm.InvalidHandleError):
            symm.import_token(token)


PIECES = {
    "buffer": lambda buffer: buffer,
    "address": lambda buffer: (buffer.pointer, buffer.nbytes),
    "array": lambda buffer: np.ctypeslib.as_array(
        (ctypes.c_ubyte * buffer.nbytes).from_address(buffer.pointer)
    ),
    "view": lambda buffer: buffer.group.from_buffer(buffer),
}


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
def test_a_buffer_is_shared_without_a_rendezvous(alone, piece):
    buffer = alone.alloc(4096)
    memory = piece(buffer)
    token = symm.ipc_export(memory)
    with symm.import_token(token) as seen:
        assert seen.nbytes == 4096
        assert symm.ipc_holders(memory).leases == 1
        with pytest.raises(symm.TimeoutError):
            symm.ipc_withdraw(memory, timeout=0)
    symm.ipc_withdraw(memory, 20)
    with pytest.raises(symm.InvalidHandleError, match="withdrawn"):
        symm.import_token(token)


def test_a_piece_that_is_not_contiguous_is_refused(alone):
    with pytest.raises(symm.InvalidArgumentError, match="not contiguous"):
        symm.ipc_export(alone.empty(8).numpy()[::2])


def test_both_kinds_of_arrays_are_arrays(counted):
    def total(array: symm.Array) -> float:
        return float(array.numpy().sum())

    with symm.import_token(counted.export_token(), dtype="f32") as seen:
        assert isinstance(seen, symm.Array)
        assert isinstance(counted, symm.Array)
        assert total(seen) == total(counted) == 496
        for name in dir(symm.Array):
            assert hasattr(seen, name) or name == "__cuda_array_interface__"


def test_tokens_and_collections_are_counted(alone):
    before = symm.ipc_stats()
    token = alone.empty(16).export_token()
    assert symm.ipc_stats().tokens == before.tokens + 1
    assert isinstance(symm.ipc_collect(), symm.IpcCollectStats)
    assert token


# ---- imports for reading only


def test_an_import_for_reading_is_read_only_in_numpy(counted):
    with symm.import_token(counted.export_token(), (4, 8), "f32", read_only=True) as seen:
        assert not seen.writable
        assert seen.info().flags == symm._raw.SYMM_IPC_READ_ONLY
        assert np.array_equal(seen.numpy(), np.arange(32).reshape(4, 8))
        for view in (
            seen.numpy(),
            np.asarray(memoryview(seen)),
            seen[1:].numpy(),
            np.from_dlpack(seen),
        ):
            assert not view.flags.writeable
            with pytest.raises(ValueError, match="read-only"):
                view[0] = 1


def test_an_import_for_reading_is_no_place_for_a_result(counted, alone):
    with symm.import_token(counted.export_token(), (4, 8), "f32", read_only=True) as seen:
        result = alone.empty((4, 8), "f32")
        alone.allreduce(seen, result)
        assert np.array_equal(result.numpy(), seen.numpy())
        with pytest.raises(symm.InvalidArgumentError, match="recv: is read-only"):
            alone.allreduce(result, seen)
        with pytest.raises(symm.InvalidArgumentError, match="send: is read-only"):
            alone.allreduce(seen)


def test_pieces_count_from_the_start_of_the_part_of_an_import(alone):
    array = alone.empty(64, "u8")
    array.numpy()[:] = 0
    token = array[16:].export_token(channels=1, fence_bytes=16)
    with symm.import_token(token) as there:
        there[8:].put_pieces(b"abcd", [symm.Rows(0, 2, 4)], epoch=1, signal=0)
        assert symm.ipc_wait_value(token, symm.Compare.EQ, 1) == 1
        assert bytes(array.numpy()[26:30]) == b"abcd"
        seen = np.zeros(4, "u1")
        there[8:].get_pages(seen, 2, from_table=[1, 2], signal=0, op=symm.SignalOp.SET, value=9)
        assert bytes(seen) == b"abcd"
        assert symm.ipc_wait_value(token, symm.Compare.GE, 9) == 9

        symm.ipc_fence(array[16:32], 2)
        with pytest.raises(symm.AbortedError, match="epoch: 1 is late"):
            there.put_pieces(b"abcd", [symm.Rows(0, 0, 4)], epoch=1)
        there[16:].put_pieces(b"abcd", [symm.Rows(0, 0, 4)], epoch=1)
        with pytest.raises(symm.InvalidArgumentError, match="channel"):
            there.signal_value(1, channel=1)
    bundle = symm.import_bundle(symm.ipc_export_bundle({"a": array}), read_only=False)
    with pytest.raises(symm.InvalidArgumentError, match="bundle"):
        bundle["a"].put_pieces(b"abcd", [symm.Rows(0, 0, 4)])
    bundle.close()


def test_an_import_that_sleeps_has_its_address_and_no_lease(counted):
    suspended = symm._raw.SYMM_IPC_SUSPENDED
    with symm.import_token(counted.export_token(), (4, 8), "f32") as seen:
        address = seen.pointer
        seen.suspend()
        assert count_of_leases() == 0
        assert seen.info().flags == suspended
        with pytest.raises(symm.InvalidArgumentError, match="ipc: is suspended"):
            seen.suspend()
        with pytest.raises(symm.InvalidArgumentError, match="token: names 32 bytes at 32"):
            seen.resume(counted[1:2].export_token())
        assert seen.info().flags == suspended
        seen.resume(counted.export_token(), timeout=5)
        assert count_of_leases() == 1
        assert (seen.pointer, seen.info().flags) == (address, 0)
        assert seen.numpy()[3, 7] == 31
        with pytest.raises(symm.InvalidArgumentError, match="not suspended"):
            seen.resume()


# ---- bundles


@pytest.fixture
def model(alone):
    """Arrays of several types, in two buffers, by their names."""
    weight = alone.empty((4, 8), "f32")
    weight.numpy()[:] = np.arange(32).reshape(4, 8)
    rest = alone.empty((64,), "u8")
    rest.numpy()[:] = 0
    return {
        "layer.weight": weight,
        "layer.bias": weight[1],
        "steps": rest[8:16].view("i64").reshape(),
        "half": rest[16:32].view("bf16"),
        "nothing": np.empty((0, 3), np.float64),
    }


def test_a_bundle_has_arrays_with_their_names_types_and_shapes(model):
    model["steps"].numpy()[...] = 7
    token = symm.ipc_export_bundle(model)
    assert len(token) <= symm._raw.SYMM_IPC_TOKEN_MAX_BYTES
    with symm.import_bundle(token) as bundle:
        assert len(bundle) == 5
        assert bundle.keys() == list(model)
        assert "layer.bias" in bundle
        assert "layer.bia" not in bundle
        assert 3 not in bundle
        assert np.array_equal(bundle["layer.weight"].numpy(), model["layer.weight"].numpy())
        assert bundle["layer.bias"].shape == (8,)
        assert bundle["steps"].shape == ()
        assert int(bundle["steps"].numpy()) == 7
        assert (bundle["half"].dtype, bundle["half"].shape) == (symm.bf16, (8,))
        assert bundle["nothing"].shape == (0, 3)
        assert [array.nbytes for _, array in bundle.items()] == [128, 32, 8, 16, 0]
        with pytest.raises(KeyError):
            bundle["layer"]
        with pytest.raises(symm.InvalidArgumentError, match="index"):
            bundle.at(5)


def test_a_bundle_is_for_reading_unless_asked_for(model):
    token = symm.ipc_export_bundle(model)
    assert not symm.import_bundle(token)["layer.bias"].numpy().flags.writeable
    symm.import_bundle(token, read_only=False)["layer.bias"].numpy()[0] = -1
    assert model["layer.weight"].numpy()[1, 0] == -1


def test_a_bundle_is_a_lease_until_its_last_view_is_gone(model):
    bundle = symm.import_bundle(symm.ipc_export_bundle(model))
    array = bundle["layer.bias"]
    bundle.close()
    assert count_of_leases() == 1
    assert model["layer.weight"].holders().leases == 1
    assert array.numpy()[0] == 8
    array.close()
    assert count_of_leases() == 0
    with pytest.raises(symm.InvalidHandleError):
        bundle["layer.bias"]


def test_a_bundle_that_sleeps_comes_back_as_it_was(model):
    with symm.import_bundle(symm.ipc_export_bundle(model), read_only=False) as bundle:
        bundle.suspend()
        assert count_of_leases() == 0
        with pytest.raises(symm.InvalidArgumentError, match=r"'nothing', and was 'layer\.weight'"):
            bundle.resume(symm.ipc_export_bundle(dict(reversed(model.items()))))
        bundle.resume()
        assert count_of_leases() == 1
        assert bundle["layer.bias"].numpy()[0] == 8
    assert count_of_leases() == 0


def test_what_cannot_be_in_a_bundle_is_named(model):
    with pytest.raises(symm.InvalidArgumentError, match=r"pieces\[1\].pointer"):
        symm.ipc_export_bundle({"a": model["layer.weight"], "b": np.zeros(4)})
    with pytest.raises(symm.InvalidArgumentError, match=r"arrays\['b'\]: is not contiguous"):
        symm.ipc_export_bundle({"b": np.zeros((4, 4))[:, 1]})
    with pytest.raises(symm.InvalidArgumentError, match="no bundle"):
        symm.import_bundle(model["layer.weight"].export_token())


def test_pieces_that_say_something_else_are_bytes(model):
    weight = model["layer.weight"]
    pieces = [(weight.pointer, 128, "a", b"f32[4,9]", 8), (weight.pointer, 4, None, b"", 0)]
    with symm.import_bundle(symm._raw.symm_ipc_export_bundle(pieces, None, 0)) as bundle:
        assert (bundle["a"].dtype, bundle["a"].shape) == (symm.u8, (128,))
        assert bundle.keys() == ["a"]
        assert bundle.at(1).nbytes == 4


# ---- versions


def versions():
    """Publishes and looks up, in a process whose first token this makes."""
    with symm.Group.join(0, 1, f"thread://{uuid.uuid4()}", backend="host") as group:
        weights = group.empty((4, 8), "f32")
        first = symm.ipc_export_bundle({"w": weights})
        second = symm.ipc_export_bundle({"w": weights[1:2]})

        def newest(version=0, compare=symm.Compare.GE):
            return symm.ipc_lookup("weights", version, compare=compare, timeout=0)

        symm.ipc_publish("weights", 3, first)
        assert newest() == (3, first)
        symm.ipc_publish("weights", 4, second, keep=1)
        assert newest(3, symm.Compare.GT) == (4, second)
        with pytest.raises(symm.InvalidHandleError):
            symm.import_bundle(first)
        with pytest.raises(symm.TimeoutError, match="the versions there are 4"):
            newest(4, symm.Compare.GT)

        held = symm.import_bundle(second)
        with pytest.raises(symm.TimeoutError, match="this process"):
            symm.ipc_withdraw_version("weights", 4, timeout=0)
        held.close()
        symm.ipc_withdraw_version("weights", 4)
        with pytest.raises(symm.TimeoutError, match="no version of it"):
            newest()


def test_versions_are_published_and_looked_up():
    # The tokens of a process stay in the directory in which it has made the first.
    process = multiprocessing.get_context("spawn").Process(target=versions)
    process.start()
    process.join(60)
    assert process.exitcode == 0
