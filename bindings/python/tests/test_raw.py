"""The extension, its stub, the golden layouts of the headers, and exceptions of its statuses."""

import re
from pathlib import Path

import pytest
from conftest import REPOSITORY

import symm
from symm import _raw as raw
from symm._generated import Failure

LAYOUTS = [REPOSITORY / "tests" / "abi" / name for name in ("layout.txt", "fused.txt")]
STUB = Path(symm.__file__).with_name("_raw.pyi")
# No Python code runs on threads of the library, so the extension has no log callback. That of an
# interruption is called in C (native/interrupt.c), and so are those of short memory
# (native/pressure.c).
# What takes a function has a wrapper of its own.
NOT_NEEDED = re.compile(
    r"symm_log_add_listener$|symm_thread_interrupt$|symm_memory_pressure_\w+$|symm_reduce_by$"
)
TEXT = "".join(layout.read_text() for layout in LAYOUTS if layout.exists())
golden = pytest.mark.skipif(not TEXT, reason="the golden layouts are in the repository only")


def constants():
    return {
        name: int(value)
        for name, value in re.findall(r"^enumerator \w+ (SYMM_\w+) (-?\d+)$", TEXT, re.MULTILINE)
    }


def macros():
    """The values of macros. The extension has no names for the two largest numbers of 64 bits."""
    found = re.findall(r"^macro (SYMM_\w+) 0x([0-9a-f]+)$", TEXT, re.MULTILINE)
    values = {name: int(value, 16) for name, value in found}
    return {name: value for name, value in values.items() if value < 2**64 - 2}


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
    assert len(macros()) > 15
    assert {name: getattr(raw, name) for name in macros()} == macros()


@golden
@pytest.mark.parametrize("flags", [symm.GroupFlag, symm.BufferFlag])
def test_flags_that_the_library_answers_are_those_of_the_header(flags):
    prefix = f"SYMM_{flags.__name__.removesuffix('Flag').upper()}_"
    of_header = {name: value for name, value in macros().items() if name.startswith(prefix)}
    assert {f"{prefix}{flag.name}": flag.value for flag in flags} == of_header


@golden
def test_every_element_type_of_the_header_is_there():
    prefix = "SYMM_DTYPE_"
    names = [name for name in constants() if name.startswith(prefix)]
    dtypes = {name.removeprefix(prefix).lower() for name in names}
    assert dtypes == {dtype.name for dtype in symm.dtypes.ALL}


@pytest.mark.parametrize("dtype", symm.dtypes.ALL, ids=lambda dtype: dtype.name)
def test_element_types_have_the_size_that_the_library_says(dtype):
    assert raw.symm_dtype_bytes(dtype.value) == dtype.itemsize


# ---- arguments


@pytest.mark.parametrize(
    "call",
    [
        lambda: raw.symm_group_rank("no handle"),
        lambda: raw.symm_group_create("no tuple"),
        lambda: raw.symm_group_create(()),
        lambda: raw.symm_barrier(None, 3, 0, None, None),
        lambda: raw.symm_ipc_import("text", None, None),
    ],
    ids=["handle", "struct", "empty struct", "sequence", "bytes"],
)
def test_an_argument_of_a_wrong_kind_is_a_type_error(call):
    with pytest.raises(TypeError):
        call()


def test_a_rank_of_more_than_32_bits_is_refused():
    with pytest.raises(symm.InvalidArgumentError, match="ranks: 1099511627776 is not in"):
        raw.symm_barrier(None, [2**40], 0, None, None)


def test_a_negative_capacity_is_a_value_error():
    with pytest.raises(ValueError, match="negative"):
        raw.symm_topology(symm.Backend.HOST, -1)


# ---- statuses and other enums

FAILURES = [status for status in symm.Status if status != symm.Status.OK]


@pytest.mark.parametrize("status", FAILURES, ids=lambda status: status.name)
def test_the_exception_of_a_status_has_the_fields_of_the_failure(status):
    error = symm.errors.error_of(Failure(status, 3, 14, 5, 0, "words of rank 3"))
    assert error.status is status
    assert str(error) == "words of rank 3"
    assert (error.rank, error.pid, error.os_error, error.cuda_result) == (3, 14, 5, None)


@pytest.mark.parametrize(
    ("status", "of_c", "of_python"),
    [
        (
            symm.Status.INVALID_ARGUMENT,
            "finalize: options.timeout_ms: SYMM_TIMEOUT_NOW, but this call cannot look once",
            "finalize: timeout: 0, but this call cannot look once",
        ),
        (
            symm.Status.INVALID_ARGUMENT,
            "config.create_timeout_ms: too long",
            "create_timeout: too long",
        ),
        (
            symm.Status.INVALID_ARGUMENT,
            "options.hold_imports: needs hold_ms",
            "hold_imports: needs hold",
        ),
        (symm.Status.INVALID_HANDLE, "group: is NULL", "group: it was closed"),
        (symm.Status.ABORTED, "rank 0 aborted: see options.txt", "rank 0 aborted: see options.txt"),
    ],
)
def test_a_message_has_the_names_of_python(status, of_c, of_python):
    assert str(symm.errors.error_of(Failure(status, -1, 0, 0, 0, of_c))) == of_python


def test_every_status_has_an_exception_of_its_own():
    classes = {type(symm.errors.error_of(Failure(s, 3, 14, 5, 0, ""))) for s in FAILURES}
    assert len(classes) == len(symm.Status) - 1


def test_a_status_of_a_newer_library_is_an_exception_with_its_number():
    newer = symm.errors.error_of(Failure(symm.Status(-99), -1, 0, 0, 0, "words"))
    assert newer.status == -99
    assert "-99" in str(newer)
    assert (newer.rank, newer.pid) == (None, None)


@pytest.mark.parametrize(
    "kind",
    [
        symm.Status,
        symm.Op,
        symm.Backend,
        symm.Algorithm,
        symm.Collective,
        symm.TopologyClass,
    ],
)
def test_a_number_that_only_a_newer_library_knows_is_a_member(kind):
    newer = kind(99)
    assert newer == 99
    assert isinstance(newer, kind)
    assert newer.name == "UNKNOWN_99"
    assert "UNKNOWN_99" in repr(newer)


@pytest.mark.parametrize(
    ("own", "of_python"),
    [
        (symm.TimeoutError, TimeoutError),
        (symm.OutOfMemoryError, MemoryError),
        (symm.InvalidArgumentError, ValueError),
        (symm.PeerFailedError, ConnectionError),
    ],
)
def test_an_exception_is_one_of_python_too(own, of_python):
    assert issubclass(own, of_python)
