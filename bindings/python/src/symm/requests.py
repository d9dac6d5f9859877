"""Calls that do not block on the host: `start()`, and the requests that it returns."""

from __future__ import annotations

import os
from _thread import get_ident  # threading itself takes long to import

from symm._generated import RequestInfo
from symm._library import Owned, raw
from symm._operand import kept_by_thread
from symm._streams import within
from symm.errors import InvalidArgumentError

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from collections.abc import Callable, Generator, Sequence
    from typing import Any


class _Descriptor:
    """A copy of a descriptor, which is closed with this object at the latest."""

    def __init__(self, fd: int) -> None:
        self._fd = os.dup(fd)

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        fd = self.__dict__.pop("_fd", None)
        if fd is not None:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class Request(Owned):
    """A call that the library makes while the program goes on; made by `start()`.

    It can be awaited in any number of tasks, by asyncio or another loop that has its
    ``add_reader()``::

        received = symm.start(group.recv, left, into)
        await symm.start(group.allreduce, x)
        nbytes = await received

    What a call reads or writes is kept until the call is over, whatever becomes of the request and
    of tasks that wait for it: to cancel a task leaves the call alone, and ``Group.abort()`` ends
    it. Until then leave these arrays alone, too.
    """

    def __init__(self, handle: int, returned: object) -> None:
        super().__init__(handle, raw.symm_request_release)
        self._returned = returned
        self._awaited: tuple[AbstractEventLoop, Future[None]] | None = None

    def info(self) -> RequestInfo:
        """Facts about the call. [local]"""
        return RequestInfo.read(raw.symm_request_info(self._handle))

    def done(self) -> bool:
        """Whether the call is over, however it ended. [local]"""
        over = self.info().done
        if over:
            raw.request_over(self._handle)
        return over

    def result(self, *, timeout: float | None = None) -> Any:
        """Wait until the call is over. [local] [blocking, timeout]

        Args:
            timeout: seconds; None: as long as it takes, since the call has a time-out of its own;
                0 looks once.

        Returns:
            What the call would have returned, but for ``Group.messages()`` the number of bytes
            that were received in all. So is what an atomic fetches: its `into` is left alone.

        Raises:
            symm.TimeoutError: the call is not over; it goes on. Or the call itself raised it.
            SymmError: what the call would have raised.
        """
        try:
            raw.symm_request_wait(self._handle, within(timeout))
        finally:
            self.done()
        # Numbers were not known when the function returned.
        if isinstance(self._returned, (int, list)):
            return self.info().value
        return self._returned

    def fileno(self) -> int:
        """A descriptor that becomes readable when the call is over, for event loops. [local]

        It is the library's, and closed with the request.
        """
        return raw.symm_request_fd(self._handle)

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait in a task of asyncio. The loop goes on meanwhile, and no thread waits."""
        if not self.done():
            import asyncio  # programs that await have it

            # A task that is cancelled must not end the wait of another one.
            yield from asyncio.shield(self._end_in(asyncio.get_running_loop())).__await__()
        return self.result()

    def _end_in(self, loop: AbstractEventLoop) -> Future[None]:
        """The future of `loop` that is done when the call is over."""
        if self._awaited is not None and self._awaited[0] is loop:
            return self._awaited[1]
        future: Future[None] = loop.create_future()
        # A loop knows a descriptor once, so each loop has its own. One that is closed before the
        # call is over drops it.
        fd = _Descriptor(self.fileno())

        def end() -> None:
            loop.remove_reader(fd.fileno())
            fd.close()
            if not future.done():
                future.set_result(None)

        loop.add_reader(fd.fileno(), end)
        self._awaited = loop, future
        return future


def start(call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Request:
    """Make a call of a host group without waiting for its end. [local]

    ::

        request = symm.start(group.allreduce, x)
        work_on_something_else()
        request.result()

    Collectives, barriers, messages, signals and waits for them, copies, words and exchanges of a
    group, its memories and arrays can be started. Arguments are read now, arrays are left alone
    until the call is over. symm.h has more in the chapter on requests: which calls keep their
    order, and that a deadline counts from a call's turn.

    Args:
        call: a method that makes one call of the library, with its arguments.

    Raises:
        UnsupportedError: the group works on GPUs, where calls are ordered on streams, or the call
            has no such form.
        InvalidArgumentError: an argument is wrong, or `call` makes no call.
        RuntimeError: `call` makes several calls, or starts one itself.
        OutOfMemoryError: 256 messages and waits are under way in the group.
    """
    thread = get_ident()
    if thread in kept_by_thread:
        raise RuntimeError("symm.start() is called within symm.start()")
    kept: list[object] = [call, args, kwargs]
    kept_by_thread[thread] = kept
    try:
        handle, returned = raw.request_call(call, args, kwargs, kept)
    finally:
        kept_by_thread.pop(thread, None)
    if not handle:
        raise InvalidArgumentError("call: makes no call that can be started")
    return Request(handle, returned)


def wait_any(requests: Sequence[Request], *, timeout: float | None = None) -> int:
    """Wait until the call of one of several requests is over. [local] [blocking, timeout]

    The calls may be of several groups. How the call ended, ``requests[i].result()`` tells.

    Args:
        requests: at least one.
        timeout: seconds; None: as long as it takes; 0 looks once.

    Returns:
        The place of the first one that is over.

    Raises:
        symm.TimeoutError: none is over.
    """
    handles = [request._handle for request in requests]
    found = raw.symm_request_wait_any(handles, within(timeout), True) or 0
    requests[found].done()
    return found
