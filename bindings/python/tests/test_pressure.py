"""Memory that is given back when an allocation is short of it."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import symm
import symm.cupy

TOO_MUCH = 1 << 50  # bytes; no machine has so many


def test_a_callback_is_asked_before_an_allocation_fails(alone):
    asked = []

    def give_back(*wanted):
        asked.append(wanted)

    with symm.on_memory_pressure(give_back):
        with pytest.raises(symm.OutOfMemoryError):
            alone.alloc(TOO_MUCH)
        assert asked == [(symm.Backend.HOST, 0, TOO_MUCH)]
        alone.alloc(64)
        assert len(asked) == 1
    with pytest.raises(symm.OutOfMemoryError):
        alone.alloc(TOO_MUCH)
    assert len(asked) == 1


def test_callbacks_may_use_symm_and_close_themselves(alone):
    order = []
    kept = [alone.alloc(4096)]

    def first(*_):
        order.append(1)
        kept.clear()
        symm.ipc_collect()
        return 4096

    def second(*_):
        order.append(2)
        listener.close()

    with symm.on_memory_pressure(first):
        listener = symm.on_memory_pressure(second)
        for _ in range(2):
            with pytest.raises(symm.OutOfMemoryError):
                alone.alloc(TOO_MUCH)
    assert order == [1, 2, 1]
    listener.close()  # a second time


def test_an_exception_of_a_callback_is_printed_and_counts_as_nothing(alone, monkeypatch):
    printed = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: printed.append(what.exc_value))

    def fail(*_):
        raise ValueError("no cache")

    with symm.on_memory_pressure(fail), pytest.raises(symm.OutOfMemoryError):
        alone.alloc(TOO_MUCH)
    assert [str(exception) for exception in printed] == ["no cache"]


class Driver:
    """A device that has room once symm has collected."""

    def __init__(self, error):
        self.error = error
        self.collected = 0
        self.attempts = 0

    def collect(self):
        self.collected += 1

    def allocate(self, nbytes):
        self.attempts += 1
        if not self.collected:
            raise self.error("out of memory")
        return nbytes


def test_an_allocator_of_cupy_fails_first_and_succeeds_then(monkeypatch):
    class OutOfMemoryError(MemoryError):
        pass

    driver = Driver(OutOfMemoryError)
    pool = SimpleNamespace(malloc=driver.allocate)
    cupy = ModuleType("cupy")
    cupy.cuda = SimpleNamespace(memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError))
    cupy.get_default_memory_pool = lambda: pool
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(symm.cupy, "ipc_collect", driver.collect)

    assert symm.cupy.collecting()(64) == 64
    assert (driver.attempts, driver.collected) == (2, 1)
    assert symm.cupy.collecting(driver.allocate)(32) == 32
    assert driver.collected == 1  # there was room

    def never(_):
        raise OutOfMemoryError("still")

    with pytest.raises(OutOfMemoryError, match="still"):
        symm.cupy.collecting(never)(1)


@pytest.fixture
def torch_memory(monkeypatch):
    """The module symm.torch.memory over a PyTorch that a test directs."""

    class OutOfMemoryError(RuntimeError):
        pass

    torch = ModuleType("torch")
    torch.OutOfMemoryError = OutOfMemoryError
    torch._C = SimpleNamespace()
    torch.cuda = SimpleNamespace(reserved=100, is_available=lambda: False)
    torch.cuda.memory_reserved = lambda _device: torch.cuda.reserved
    torch.cuda.empty_cache = lambda: setattr(torch.cuda, "reserved", 30)
    monkeypatch.setitem(sys.modules, "torch", torch)

    source = Path(symm.__file__).parent / "torch" / "memory.py"
    spec = importlib.util.spec_from_file_location("torch_memory", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pytorch_tells_symm_of_short_memory_once(torch_memory, monkeypatch):
    with pytest.raises(symm.UnavailableError, match="without CUDA"):
        torch_memory.collect_on_oom()

    driver = Driver(torch_memory.torch.OutOfMemoryError)
    observers = []
    torch_memory.torch._C._cuda_attach_out_of_memory_observer = observers.append
    with pytest.raises(symm.UnavailableError, match="finds no GPU"):
        torch_memory.collect_on_oom()

    torch_memory.torch.cuda.is_available = lambda: True
    monkeypatch.setattr(torch_memory, "ipc_collect", driver.collect)
    torch_memory.collect_on_oom()
    torch_memory.collect_on_oom()
    assert len(observers) == 1

    def allocate():
        """As PyTorch does it: the observers are told, and the allocation fails all the same."""
        try:
            return driver.allocate(64)
        except RuntimeError:
            observers[0](0, 64, 0, 0)
            raise

    with pytest.raises(RuntimeError, match="out of memory"):
        allocate()
    assert allocate() == 64


def test_a_function_of_pytorch_fails_first_and_succeeds_then(torch_memory, monkeypatch):
    driver = Driver(torch_memory.torch.OutOfMemoryError)
    monkeypatch.setattr(torch_memory, "ipc_collect", driver.collect)
    assert torch_memory.retry_on_oom(driver.allocate, 64) == 64
    assert (driver.attempts, driver.collected) == (2, 1)
    assert torch_memory.torch.cuda.reserved == 30

    with pytest.raises(ValueError, match="invalid literal"):  # other failures are not repeated
        torch_memory.retry_on_oom(int, "x")
    assert driver.collected == 1


def test_the_cache_of_pytorch_is_lent_to_symm(torch_memory, alone):
    with torch_memory.lend_cache() as listener:
        assert listener._callable(symm.Backend.CUDA, 0, 64) == 70
        assert listener._callable(symm.Backend.CUDA, 0, 64) == 0
        assert listener._callable(symm.Backend.HOST, 0, 64) == 0
        with pytest.raises(symm.OutOfMemoryError):
            alone.alloc(TOO_MUCH)
