"""What must work on every version of Python with nothing installed but the wheel: any_version.py, with it on the path."""

import gc
import sys
import threading

import symm


def body(group: symm.Group, failures: list) -> None:
    try:
        array = group.empty((2, 4), "i32")
        view = memoryview(array)
        assert (view.shape, view.strides, view.format) == ((2, 4), (16, 4), "i")
        view[1, 3] = group.rank + 1
        group.allreduce(array)
        assert view.tolist() == [[0] * 4, [0, 0, 0, 3]]
        group.barrier()
        assert memoryview(array.peer(1 - group.rank)).tolist() == view.tolist()
        for version in (None, (1, 0)):
            found = symm._raw.dlpack_read(array.__dlpack__(max_version=version))
            assert found == (array.pointer, 8, symm.i32.value, 1, 0, True, True, (2, 4))
        out = bytearray(32)
        array.get(1 - group.rank, out)
        assert out == bytes(view)
        array.signal(1 - group.rank)
        array.wait_signal(1 - group.rank)
        try:
            array.signal(7)
        except symm.InvalidArgumentError as error:
            assert "rank: 7" in str(error)
        else:
            raise AssertionError("rank 7 was accepted")
        del view, array
        gc.collect()
        group.finalize()
    except BaseException as error:
        failures.append(error)
        group.abort(repr(error))


failures: list = []
place = "thread://any version"


def rank(number: int) -> None:
    body(symm.Group.join(number, 2, place, backend="host"), failures)


workers = [threading.Thread(target=rank, args=(number,)) for number in range(2)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
if failures:
    raise failures[0]
print(f"Python {sys.version.split()[0]}: {symm.Group.__name__} of libsymm {symm.version()} works")
