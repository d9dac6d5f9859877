"""The library: its version, which one is loaded, its devices and its log."""

import contextlib
import copy
import dataclasses
import inspect
import logging
import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import symm


def test_the_package_and_the_library_have_one_version():
    assert symm.version() == symm.__version__
    assert symm.build_info()["version"] == symm.__version__


# ---- devices


def test_the_host_is_one_device():
    assert symm.device_count("host") == 1
    info = symm.device_info(backend="host")
    assert info.backend is symm.Backend.HOST
    assert info.memory_bytes > 0
    assert info.compute_units > 0
    assert not info.multicast
    assert info.multicast_reason


def test_a_device_that_does_not_exist_is_refused():
    with pytest.raises(symm.InvalidArgumentError, match="device"):
        symm.device_info(7, "host")


def test_the_host_has_a_topology_without_links():
    topology = symm.topology("host")
    assert topology.links == ((0,),)
    assert isinstance(topology.kind, symm.TopologyClass)


# ---- loading


def run_python(program, *arguments, **environment):
    """Run a program in a process whose environment names no library but that of `environment`."""
    clean = {key: value for key, value in os.environ.items() if key != "SYMM_LIB"}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
    )


# A program whose first argument says which of its two interpreters imports symm first.
TWO_INTERPRETERS = """
import sys
try:
    import _interpreters
    other = _interpreters.create("legacy")
    run = _interpreters.exec
    destroy = _interpreters.destroy
except ImportError:
    import _xxsubinterpreters
    other = _xxsubinterpreters.create(isolated=False)
    run = _xxsubinterpreters.run_string
    destroy = _xxsubinterpreters.destroy

refused = '''
try:
    import symm
except ImportError as error:
    print("refused:", error)
'''
if sys.argv[1] == "other":
    run(other, "import symm")
    destroy(other)
    exec(refused)
else:
    import symm
    run(other, refused)
    destroy(other)
    try:
        symm.Group.join(0, 1, "nonsense")
    except symm.InvalidArgumentError as error:
        print("error:", error)
"""


@pytest.mark.parametrize("first", ["main", "other"])
def test_a_second_interpreter_of_the_process_is_refused(first):
    done = run_python(TWO_INTERPRETERS, first)
    if "ModuleNotFoundError" in done.stderr:
        pytest.skip("this Python has no module for interpreters")
    assert done.returncode == 0, done.stderr
    assert "refused: symm serves one interpreter" in done.stdout
    assert ("error: bootstrap: is 'nonsense'" in done.stdout) == (first == "main")


# The interpreter sets the globals of modules to None at its end, in an order that depends on much.
FINALIZED_LATE = """
import os, sys, symm
group = symm.Group.join(0, 1, "thread://x", backend="host")
buffer = group.alloc(4096)
memory = group.rendezvous(buffer)
array = group.empty(8, "f32")
heap = group.heap(4096)
piece = heap.empty(8, "f32")
imported = symm.import_token(array.export_token())
sys.unraisablehook = lambda what: print(what.exc_value, what.object)
for name in [name for name in sys.modules if name.startswith("symm") and name != "symm._raw"]:
    for key in list(vars(sys.modules[name])):
        vars(sys.modules[name])[key] = None
del memory, buffer, array, heap, piece, imported, group
print("ended", flush=True)
os._exit(0)  # what atexit runs comes before that
"""


def test_finalizers_need_no_globals():
    done = run_python(FINALIZED_LATE)
    assert done.stdout == "ended\n", done.stdout + done.stderr
    assert done.stderr == ""


PRINT_LIBRARIES = """
import symm

with open("/proc/self/maps") as maps:
    files = {line.split(maxsplit=5)[5].strip() for line in maps if "/" in line}
print(*[file for file in files if "symm" in file or "another" in file], sep="\\n")
"""
BESIDE_THE_PACKAGE = Path(symm.__file__).with_name("lib") / "libsymm.so.0"


def loaded_libraries(**environment):
    files = run_python(PRINT_LIBRARIES, **environment).stdout.splitlines()
    return {file for file in files if "_raw" not in file}


def test_the_library_beside_the_package_is_loaded():
    assert loaded_libraries() == {str(BESIDE_THE_PACKAGE.resolve())}


def test_the_library_that_a_variable_names_is_loaded_instead(tmp_path):
    other = tmp_path / "another name.so"
    other.write_bytes(BESIDE_THE_PACKAGE.read_bytes())
    assert loaded_libraries(SYMM_LIB=str(other)) == {str(other)}


def test_a_missing_library_is_an_import_error():
    done = run_python("import symm", SYMM_LIB="/nowhere/libsymm.so")
    assert done.returncode == 1
    assert "/nowhere/libsymm.so" in done.stderr


# ---- the log


def eventually(condition):
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


@contextlib.contextmanager
def logged_to(logger, level):
    symm.log_to(logger, level)
    try:
        yield
    finally:
        symm.log_to(None)


LEVELS = {logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR}


def has_reader():
    return any(thread.name == "symm-log" for thread in threading.enumerate())


def test_messages_reach_the_logger_until_they_are_stopped(caplog, address):
    logger = logging.getLogger("symm.test")
    caplog.set_level(logging.DEBUG, "symm.test")
    with logged_to(logger, logging.DEBUG):
        symm.Group.join(0, 1, address, backend="host", name="log test").close()
        assert eventually(lambda: caplog.records)
        assert {record.name for record in caplog.records} == {"symm.test"}
        assert {record.levelno for record in caplog.records} <= LEVELS

    assert eventually(lambda: not has_reader())
    count = len(caplog.records)
    symm.Group.join(0, 1, address, backend="host").close()
    assert len(caplog.records) == count


WITHOUT_STREAMS = """
import os

import symm

report = os.dup(1)
for stream in range(3):
    os.close(stream)
symm.log_to("symm", 10)
group = symm.Group.join(0, 1, "thread://x", backend="host")
array = group.empty(16)


def is_open(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


taken = [stream for stream in range(3) if is_open(stream)]
symm.log_to(None)
os.write(report, repr(taken).encode())
os._exit(0)
"""


def test_closed_standard_streams_stay_closed():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_STREAMS], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "[]")


def test_messages_below_the_level_are_left_out(caplog, address):
    caplog.set_level(logging.DEBUG, "symm")
    with logged_to("symm", logging.ERROR):
        symm.Group.join(0, 1, address, backend="host").close()
        time.sleep(0.1)
        assert not [record for record in caplog.records if record.levelno < logging.ERROR]


def test_a_forked_child_logs_nothing_to_its_parent(caplog, address):
    caplog.set_level(logging.DEBUG, "symm")
    with logged_to("symm", logging.DEBUG):
        pid = os.fork()
        if pid == 0:
            try:
                symm.Group.join(0, 1, address, backend="host", name="of the child").close()
            finally:
                os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        time.sleep(0.1)
        assert not [record for record in caplog.records if "of the child" in record.getMessage()]


def test_import_stays_small():
    """What `import symm` imports decides how long it takes, so it is counted, not timed."""
    program = """
import sys
import atexit, collections, contextlib, enum, math, struct
before = set(sys.modules)
import symm
print(*sorted(name for name in set(sys.modules) - before if name.partition(".")[0] != "symm"))
"""
    path = f"import sys; sys.path[:0] = {sys.path!r}\n"
    new = subprocess.run(
        [sys.executable, "-I", "-S", "-c", path + program],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    slow = {"ctypes", "dataclasses", "inspect", "json", "logging", "numbers", "re", "tempfile"}
    assert not (slow | {"threading", "typing"}) & set(new)
    assert len(new) <= 4, new


def test_records_are_frozen_values():
    one = symm.Failure(symm.Status.OK, -1, 0, 0, 0, "")
    named = symm.Failure(
        message="", cuda_result=0, os_error=0, pid=0, rank=-1, status=symm.Status.OK
    )
    assert one == named
    assert hash(one) == hash(named)
    assert one != symm.Failure(symm.Status.OK, 1, 0, 0, 0, "")
    assert repr(one).startswith("Failure(status=<Status.OK: 0>, rank=-1")
    with pytest.raises(AttributeError):
        one.rank = 3
    with pytest.raises(AttributeError):
        del one.rank
    for wrong in ((), (symm.Status.OK,), (symm.Status.OK, -1, 0, 0, 0, "", 5)):
        with pytest.raises(TypeError, match="cuda_result"):
            symm.Failure(*wrong)
    with pytest.raises(TypeError, match="cuda_result"):
        symm.Failure(symm.Status.OK, -1, 0, 0, 0, "", status=symm.Status.OK)
    for copied in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert copied == one

    # The package dataclasses takes them for its own.
    assert dataclasses.is_dataclass(one)
    assert [field.name for field in dataclasses.fields(one)] == list(one.__match_args__)
    assert dataclasses.asdict(one)["rank"] == -1
    assert dataclasses.replace(one, rank=2).rank == 2
    assert list(inspect.signature(symm.Plan).parameters) == list(symm.Plan.__match_args__)


# ---- what a program does to its process

RANK_WITHOUT_STREAMS = """
import os, sys
closed = [int(stream) for stream in sys.argv[1]]
for stream in closed:
    os.close(stream)

import symm


def is_open(stream):
    try:
        os.fstat(stream)
    except OSError:
        return False
    return True


with symm.Group.from_env(backend="host", timeout=20, create_timeout=20) as group:
    array = group.empty(1024, "f32")
    group.allreduce(array)
    symm.log_to("symm")
    symm.log_to(None)
    with group.split(0) as pair:
        pair.barrier()
    token = symm.ipc_export(array)
    taken = [stream for stream in closed if is_open(stream)]
os._exit(10 + taken[0] if taken else 0)
"""


@pytest.mark.parametrize("closed", ["0", "1", "2", "01", "02", "12", "012"])
def test_a_program_needs_no_standard_streams(closed, launch):
    for status, output in launch(2, sys.executable, "-c", RANK_WITHOUT_STREAMS, closed):
        assert status == 0, output


ROUNDING = """
import ctypes, platform, sys
import numpy
import symm

UPWARD = {"x86_64": 0x800, "aarch64": 0x400000}[platform.machine()]
libm = ctypes.CDLL("libm.so.6")

with symm.Group.from_env(backend="host", timeout=20, create_timeout=20) as group:
    operand = (numpy.arange(4096) + group.rank).astype("f4") / 7

    def results():
        for scale in (0.1, 1 / 3, 1e-40):
            for position in ("before", "after"):
                result = numpy.empty_like(operand)
                group.allreduce(operand, result, scale=scale, scale_position=position)
                yield result.tobytes()

    right = list(results())
    if group.rank == 1:
        assert libm.fesetround(UPWARD) == 0
    assert list(results()) == right, "other bits"
    assert libm.fegetround() == (UPWARD if group.rank == 1 else 0)
    libm.fesetround(0)
"""


def test_the_rounding_of_a_rank_changes_no_bits(launch):
    for status, output in launch(2, sys.executable, "-c", ROUNDING):
        assert status == 0, output
