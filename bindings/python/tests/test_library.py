"""Versions, devices, logs."""

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import symm


def test_version_and_build():
    assert symm.version() == symm.build_info()["version"] == symm.__version__


def test_devices():
    assert symm.device_count("host") == 1
    info = symm.device_info(backend="host")
    assert info.backend is symm.Backend.HOST
    assert info.memory_bytes > 0
    assert info.compute_units > 0
    assert not info.multicast
    assert info.multicast_reason
    with pytest.raises(symm.InvalidArgumentError, match="device"):
        symm.device_info(7, "host")
    topology = symm.topology("host")
    assert topology.links == ((0,),)
    assert isinstance(topology.kind, symm.TopologyClass)


def run_python(program, **environment):
    """A process of its own, with nothing but this said of the library."""
    clean = {key: value for key, value in os.environ.items() if key != "SYMM_LIB"}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_library_beside_the_package_is_used_unless_told_otherwise(tmp_path):
    here = Path(symm.__file__).with_name("lib") / "libsymm.so.0"
    other = tmp_path / "another name.so"
    other.write_bytes(here.read_bytes())
    program = """if True:
        import symm
        names = {line.split(maxsplit=5)[5].strip() for line in open("/proc/self/maps") if "/" in line}
        print(*[name for name in names if "symm" in name or "another" in name], sep="\\n")
    """
    for environment, expected in (({}, here.resolve()), ({"SYMM_LIB": str(other)}, other)):
        lines = run_python(program, **environment).stdout.splitlines()
        assert {line for line in lines if "_raw" not in line} == {str(expected)}


def test_a_missing_library_is_an_import_error():
    done = run_python("import symm", SYMM_LIB="/nowhere/libsymm.so")
    assert done.returncode == 1
    assert "/nowhere/libsymm.so" in done.stderr


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


def test_log_messages_reach_logging(caplog, address):
    logger = logging.getLogger("symm.test")
    caplog.set_level(logging.DEBUG, "symm.test")
    with logged_to(logger, logging.DEBUG):
        symm.Group.join(0, 1, address, backend="host", name="log test").close()
        assert eventually(lambda: caplog.records)
        assert {record.name for record in caplog.records} == {"symm.test"}
        assert {record.levelno for record in caplog.records} <= {
            logging.DEBUG,
            logging.INFO,
            logging.WARNING,
            logging.ERROR,
        }
    assert eventually(
        lambda: not any(thread.name == "symm-log" for thread in threading.enumerate())
    )
    count = len(caplog.records)
    symm.Group.join(0, 1, address, backend="host").close()
    assert len(caplog.records) == count


def test_log_levels(caplog, address):
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
