"""Memory by tokens."""

import gc
import os

import numpy as np
import pytest

import symm


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    place = tmp_path / "ipc"
    place.mkdir(mode=0o700)
    monkeypatch.setenv("SYMM_IPC_DIRECTORY", str(place))


def leased():
    symm.ipc_collect()
    return symm.ipc_stats().leased


def test_within_one_process(alone):
    array = alone.empty((4, 8), "f32")
    array.numpy()[:] = np.arange(32).reshape(4, 8)
    token = array[1:3].export_token()
    assert isinstance(token, bytes)
    assert len(token) <= symm._raw.SYMM_IPC_TOKEN_MAX_SIZE
    with symm.import_token(token, (2, 8), "f32") as seen:
        assert np.array_equal(seen.numpy(), np.arange(8, 24).reshape(2, 8))
        seen[1].numpy()[0] = -1
        assert array.numpy()[2, 0] == -1
        info = seen.info()
        assert (info.bytes, info.offset, info.block_bytes, info.backend) == (
            64,
            32,
            128,
            symm.Backend.HOST,
        )
        assert info.exporter_pid == os.getpid()
        assert info.exporter_alive
        assert leased() == 1
    assert leased() == 0
    uses = (
        seen.info,
        lambda: alone.allreduce(seen),
        lambda: memoryview(seen),
        seen.__dlpack__,
        lambda: array.put(seen, 0),
    )
    for use in (
        *uses,
        seen.export_token,
        seen.withdraw,
        seen.holders,
        lambda: seen[:0],
        lambda: seen.reshape(0),
    ):
        with pytest.raises((symm.InvalidHandleError, symm.InvalidArgumentError)):
            use()
    for use in uses:
        with pytest.raises(symm.InvalidHandleError, match="closed"):
            use()


def test_views_of_an_import_keep_its_lease(alone):
    array = alone.empty(16)
    seen = symm.import_token(array.export_token(), dtype="f32").numpy()
    gc.collect()
    assert leased() == 1
    seen[3] = 5
    assert array.numpy()[3] == 5
    del seen
    gc.collect()
    assert leased() == 0


def test_imports_can_be_operands(alone):
    array = alone.empty(16)
    array.fill(2)
    seen = symm.import_token(array.export_token(), dtype="f32")
    out = np.zeros(16, np.float32)
    alone.allreduce(seen, out)
    assert out.sum() == 32
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


def test_an_empty_array_is_like_any_other(alone):
    for array in (alone.empty((0, 3)), alone.empty(16)[16:]):
        seen = symm.import_token(array.export_token(), (0, 3), "f32")
        assert seen.numpy().shape == (0, 3)
        assert symm.import_token(seen.export_token()).size == 0


def test_what_is_sent_and_let_go_at_once(alone, monkeypatch):
    monkeypatch.setenv("SYMM_IPC_HOLD_MS", "60000")
    array = alone.empty(16)
    array.fill(3)
    token = array.export_token(hold_imports=1)
    del array
    gc.collect()
    assert symm.import_token(token, dtype="f32").numpy().sum() == 48


def test_tokens_and_collections_are_counted(alone):
    before = symm.ipc_stats()
    token = alone.empty(16).export_token()
    assert symm.ipc_stats().tokens == before.tokens + 1
    assert isinstance(symm.ipc_collect(), symm.IpcReport)
    assert token
