"""A test for every version of Python, with no package installed but the wheel.

any_version.py, with the wheel on PYTHONPATH
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import symm


def rank(number: int) -> None:
    with symm.Group.join(number, 2, "thread://any version", backend="host") as group:
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


with ThreadPoolExecutor(2) as ranks:
    list(ranks.map(rank, range(2)))
print(f"Python {sys.version.split()[0]}: {symm.Group.__name__} of libsymm {symm.version()} works")
