"""The extension, its stub and the golden layout of the header say the same."""

import re
from pathlib import Path

import pytest
from conftest import REPOSITORY

import symm
from symm import _raw as raw
from symm._generated import Failure

LAYOUT = REPOSITORY / "tests" / "abi" / "layout.txt"
STUB = Path(symm.__file__).with_name("_raw.pyi")
# Filled in C, where the structs are, see native/structs.i;
# and no Python runs on threads of the library.
NOT_NEEDED = re.compile(r"symm_\w+_init$|symm_log_add_listener$")
TEXT = LAYOUT.read_text() if LAYOUT.exists() else ""
golden = pytest.mark.skipif(
    not LAYOUT.exists(), reason="the golden layout is in the repository only"
)


def constants():
    return {
        name: int(value)
        for name, value in re.findall(r"^enumerator \w+ (SYMM_\w+) (-?\d+)$", TEXT, re.MULTILINE)
    }


def test_stub_and_extension_have_the_same_names():
    stubbed = re.findall(r"^(?:def )?([a-zA-Z]\w*)[(:]", STUB.read_text(), re.MULTILINE)
    assert set(stubbed) == {name for name in dir(raw) if not name.startswith(("_", "SWIG"))}


@golden
def test_every_function_and_constant_of_the_header_is_there():
    functions = set(re.findall(r"^function .*?\b(symm_\w+)\(", TEXT, re.MULTILINE))
    assert len(functions) > 40
    assert {name for name in functions if not NOT_NEEDED.match(name)} <= set(dir(raw))
    assert len(constants()) > 50
    assert {name: getattr(raw, name) for name in constants()} == constants()


@golden
def test_there_is_every_element_type():
    dtypes = {
        name.removeprefix("SYMM_DTYPE_").lower()
        for name in constants()
        if name.startswith("SYMM_DTYPE_")
    }
    assert dtypes == {dtype.name for dtype in symm.dtypes.ALL}


@pytest.mark.parametrize("dtype", symm.dtypes.ALL, ids=lambda dtype: dtype.name)
def test_element_types_have_the_size_that_the_library_says(dtype):
    assert raw.symm_dtype_size(dtype.value) == dtype.itemsize


def test_arguments_of_a_wrong_kind_are_errors():
    with pytest.raises(TypeError):
        raw.symm_group_rank("no handle")
    with pytest.raises(TypeError):
        raw.symm_group_create("no tuple")
    with pytest.raises(TypeError):
        raw.symm_group_create(())
    with pytest.raises(TypeError):
        raw.symm_barrier(None, 3, 0, None, None)
    with pytest.raises(symm.InvalidArgumentError, match="ranks: 1099511627776 is not in"):
        raw.symm_barrier(None, [2**40], 0, None, None)
    with pytest.raises(TypeError):
        raw.symm_ipc_import("text", None, None)
    with pytest.raises(ValueError, match="negative"):
        raw.symm_topology(symm.Backend.HOST, -1)


def test_every_status_has_its_exception():
    seen = set()
    for status in symm.Status:
        if status == symm.Status.OK:
            continue
        error = symm.errors.error_of(Failure(status, 3, 14, 5, 0, "words of rank 3"))
        assert error.status is status
        assert str(error) == "words of rank 3"
        assert (error.rank, error.pid, error.os_error, error.cuda_result) == (3, 14, 5, None)
        seen.add(type(error))
    assert len(seen) == len(symm.Status) - 1
    newer = symm.errors.error_of(Failure(symm.Status(-99), -1, 0, 0, 0, "words"))
    assert newer.status == -99
    assert "-99" in str(newer)
    assert (newer.rank, newer.pid) == (None, None)


def test_what_only_a_newer_library_knows_is_no_error():
    for kind in (
        symm.Status,
        symm.Op,
        symm.Backend,
        symm.Algorithm,
        symm.Collective,
        symm.TopologyClass,
    ):
        newer = kind(99)
        assert newer == 99
        assert isinstance(newer, kind)
        assert newer.name == "UNKNOWN_99"
        assert "UNKNOWN_99" in repr(newer)


def test_exceptions_are_those_of_python_too():
    assert issubclass(symm.DeadlineError, TimeoutError)
    assert issubclass(symm.OutOfMemoryError, MemoryError)
    assert issubclass(symm.InvalidArgumentError, ValueError)
    assert issubclass(symm.PeerFailedError, ConnectionError)
