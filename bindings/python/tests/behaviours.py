"""Run tests/bindings/behaviours/table.txt as one of three ranks: behaviours.py <table>.

README.md beside the table says how a line is read, and what each verb does.
"""

from __future__ import annotations

import ctypes
import functools
import math
import operator
import os
import signal
import sys
import time
from array import array
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
from conftest import numpy_type

import symm
from symm import _raw as raw
from symm.dtypes import DType, dtype_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

RANKS = 3
BYTES = 262144  # of the memory and the private array with which a scenario begins
COMBINE = {
    "SUM": sum,
    "AVG": lambda values: int(sum(values) / RANKS),
    "MIN": min,
    "MAX": max,
    "PROD": math.prod,
    "BAND": lambda values: functools.reduce(operator.and_, values),
    "BOR": lambda values: functools.reduce(operator.or_, values),
    "BXOR": lambda values: functools.reduce(operator.xor, values),
    "MINLOC": min,
    "MAXLOC": max,
}


def encode(dtype: DType, values: list[int]) -> np.ndarray:
    """The elements' bits, as unsigned integers.

    Of two parts the second is the value with the other sign.
    """
    wide = np.array(values)
    if dtype.is_complex:
        return (wide.astype("f8") - 1j * wide).astype(numpy_type(dtype)).view(word_of(dtype))
    if dtype.is_pair:
        elements = np.empty(len(values), numpy_type(dtype))
        elements["value"] = wide
        elements["index"] = -wide
        return elements.view(word_of(dtype))
    return wide.astype(numpy_type(dtype)).view(word_of(dtype))


def words_of(dtype: DType) -> int:
    """The number of words of an element."""
    return 2 if dtype.itemsize == 16 else 1


def word_of(dtype: DType) -> str:
    """NumPy's unsigned integer for a word of an element, which has 8 bytes at most."""
    return f"u{dtype.itemsize // words_of(dtype)}"


class Line:
    """A command of the table, and the failure that it expects."""

    def __init__(self, text: str, rank: int):
        call, _, failure = text.partition(" -> ")
        head, _, words = failure.partition(": ")
        self.status, _, self.blamed = head.partition(" rank=")
        self.words = words.split(" & ") if words else []

        ranks, self.verb, *pairs = call.split()
        self.is_for_this_rank = ranks == "all" or str(rank) in ranks.split(",")
        self.values = dict(pair.split("=", 1) for pair in pairs)
        self.used: set[str] = set()


class Runner:
    """The things of a scenario, and a method do_<verb>() for each verb.

    The value that a verb returns is the thing that the line names by `as`.
    """

    def __init__(self, rank: int):
        self.rank = rank
        self.things: dict[str, object] = {}
        self.line = Line("all nothing", rank)
        # The lines that wait for the batch that they name, and the batch that is being collected.
        self.waiting: dict[str, list[Line]] = {}
        self.collecting: symm.Batch | None = None
        # Whether the last line with pieces had them as an array.
        self.as_array = False

    def begin(self, scenario: str) -> None:
        self.things = {}
        self.waiting = {}
        group = self.new_group(scenario, 60)
        buffer = group.alloc(BYTES)
        self.things = {
            "group": group,
            "b": buffer,
            "m": group.rendezvous(buffer),
            "p": bytearray(BYTES),
        }

    def run(self, line: Line) -> None:
        if "into" in line.values and self.collecting is None:
            self.waiting.setdefault(line.values["into"], []).append(line)
            return
        self.line = line
        thing = getattr(self, f"do_{line.verb}")()
        if self.has("as"):
            self.things[self.text("as")] = thing
        unused = set(line.values) - line.used
        assert not unused, f"{line.verb} has no keys {unused}"

    # ---- values of the line

    def has(self, key: str) -> bool:
        return key in self.line.values

    def use_all(self) -> None:
        """Take all values of a line that does nothing here as used."""
        self.line.used.update(self.line.values)

    def text(self, key: str, default: str | None = None) -> str:
        self.line.used.add(key)
        value = self.line.values.get(key, default)
        assert value is not None, f"{self.line.verb} without {key}="
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        return self.parse(self.text(key, None if default is None else str(default)))

    def integers(self, *keys: str) -> list[int]:
        return [self.integer(key) for key in keys]

    def numbers(self, key: str) -> list[int]:
        """A list of integers, such as 4:0:3; empty if there is none."""
        return [int(one) for one in self.text(key, "").split(":") if one]

    def names(self, key: str) -> list[str]:
        """A list of names, such as CHECK:RANK_ORDER; empty if there is none."""
        return [name for name in self.text(key, "").split(":") if name]

    def parse(self, value: str) -> int:
        """An integer, which may be a list by rank, or named relative to this rank."""
        by_rank = value.split(",")
        own = by_rank[0] if len(by_rank) == 1 else by_rank[self.rank]
        relative = {"self": 0, "left": -1, "right": 1}
        if own in relative:
            return (self.rank + relative[own]) % RANKS
        return int(own, 0)

    def dtype(self, key: str = "dtype") -> DType:
        return dtype_of(self.text(key).lower())

    def result_dtype(self) -> DType:
        operand = self.dtype("dtype")
        return self.dtype("result") if self.has("result") else operand

    def compare(self) -> symm.Compare:
        return symm.Compare[self.text("compare")]

    def formula(self, rank: int, i: int) -> int:
        a, b, m, c = (int(part) for part in self.text("f").split(":"))
        return (a * rank + b * i) % m + c

    def timeout(self, key: str = "timeout_ms") -> float | None:
        if not self.has(key):
            return None
        named = {"now": 0, "infinite": math.inf}
        value = self.text(key)
        return named[value] if value in named else self.parse(value) / 1000

    def flags(self) -> dict[str, bool]:
        """The flags that the line asks for, or forbids."""
        names = ("shared_scratch", "check", "any_order", "multicast")
        return {name: self.integer(name) != 0 for name in names if self.has(name)}

    def part_options(self) -> dict[str, object]:
        """The options of a call that makes a group of another."""
        return self.flags() | {
            "timeout": self.timeout(),
            "name": self.text("name") if self.has("name") else None,
            "channels": self.integer("channels", 0),
            "create_timeout": self.timeout("create_timeout_ms"),
            "group_timeout": self.timeout("group_timeout_ms"),
        }

    # ---- things

    def thing(self, key: str) -> object:
        return self.things[self.text(key)]

    def group(self) -> symm.Group | symm.Batch:
        if self.collecting is not None:
            return self.collecting
        return self.things[self.text("group", "group")]

    def memory(self) -> symm.Memory:
        thing = self.thing("memory")
        return thing.memory if isinstance(thing, symm.Heap) else thing

    def is_far(self) -> bool:
        """Whether `rank=` is on another machine, in the group of the scenario.

        Its memory is not mapped here, so a copy stands for it.
        """
        rank = self.integer("rank", self.rank)
        return not self.things["group"].peer_info(rank).mapped

    def operand(self, key: str, count: int, dtype: DType) -> object:
        """The array at name+offset: symmetric, or a NumPy view of a private one."""
        name, _, offset = self.text(key).partition("+")
        at = self.parse(offset)
        thing = self.things[name]
        if isinstance(thing, symm.Heap):
            thing = thing.memory
        if not isinstance(thing, symm.Memory):
            return np.frombuffer(thing, numpy_type(dtype), count, at)

        rank = self.integer("rank", thing.rank) if key == "at" else thing.rank
        if rank != thing.rank and self.is_far():
            copy = np.zeros(count * words_of(dtype), word_of(dtype))
            thing.get(rank, at, copy)
            return copy
        return thing.array(count, dtype, rank=rank, offset=at)

    def bytes_at(self, key: str = "at", count: int | None = None) -> object:
        if count is None:
            count = self.integer("bytes")
        return self.operand(key, count, symm.u8)

    def address(self) -> int:
        place = self.bytes_at(count=1)
        return place.ctypes.data if isinstance(place, np.ndarray) else place.pointer

    def words_at(self, key: str, dtype: DType) -> np.ndarray:
        """The elements at a place as unsigned integers."""
        elements = self.operand(key, self.integer("count"), dtype)
        return np.asarray(elements).view(word_of(dtype))

    def new_group(self, name: str, create_timeout: float | None, **options: object) -> symm.Group:
        given = {"backend": "host", "timeout": 60, "create_timeout": create_timeout, **options}
        return symm.Group.from_env(name=name, **given)

    # ---- expectations

    def expect_fields(self, found: object, *keys: str) -> None:
        for key in keys:
            if self.has(key):
                assert getattr(found, key) == self.integer(key), f"{key} is {getattr(found, key)}"

    def expect_expected(self, seen: int | None) -> None:
        if self.has("expected"):
            assert seen == self.integer("expected"), f"{seen} was seen"

    # ---- groups

    def do_expect_group(self) -> None:
        info = self.group().info()
        self.expect_fields(info, "rank", "size", "channels", "spares")
        for key in ("timeout_ms", "create_timeout_ms"):
            if self.has(key):
                seen = getattr(info, key.removesuffix("_ms"))
                assert seen == self.timeout(key), f"{key} is {seen} s"
        flags = {flag.name for flag in symm.GroupFlag if flag in info.flags}
        missing = set(self.names("flags")) - flags
        assert not missing, f"the flags are {flags}"
        assert not flags & set(self.names("without")), f"the flags are {flags}"

    def do_expect_calls(self) -> None:
        stats = self.group().collective_stats(self.text("collective"))
        self.expect_fields(stats, "calls", "bytes")

    def do_expect_cuda(self) -> None:
        statuses = set()
        for name, backend in (("auto", symm.Backend.AUTO), ("cuda", symm.Backend.CUDA)):
            try:
                self.new_group(name, 20, backend=backend, device=self.integer("device"))
            except symm.SymmError as error:
                statuses.add(error.status)
            else:
                raise AssertionError(f"there is such a device: {name}")
        assert len(statuses) == 1, f"the statuses are {statuses}"

    def expect_of(self, group: symm.Group | None) -> None:
        """Expect that a thing knows the group that the line names by `of`, if it does."""
        if self.has("of"):
            assert group is not None
            assert group.info().id == self.thing("of").info().id, "it is another group"

    def do_expect_status(self) -> None:
        expected = symm.Status[self.text("status")]
        deadline = time.monotonic() + 20
        status = self.group().status()
        while status.status != expected and time.monotonic() < deadline:
            time.sleep(0.001)
            status = self.group().status()
        assert status.status == expected, f"the status is {status}"
        failed_rank = self.integer("failed_rank", status.rank)
        assert status.rank == failed_rank, f"the rank to blame is {status.rank}"

    def do_expect_failed(self) -> None:
        failed = self.group().failed_ranks()
        assert failed == self.numbers("ranks"), f"the failed ranks are {failed}"

    def do_create(self) -> symm.Group:
        options = self.flags()
        if self.has("group_timeout_ms"):
            options["timeout"] = self.timeout("group_timeout_ms")
        return self.new_group(self.text("as"), self.timeout(), **options)

    def do_expect_peer(self) -> None:
        group = self.group()
        rank, links = self.integers("rank", "links")
        peer = group.peer_info(rank)
        assert peer.locality == symm.Locality[self.text("locality")], peer.locality
        assert peer.links == links, peer.links
        assert group.topology().links[group.rank][rank] == links

    def do_expect_advice(self) -> None:
        array = np.zeros(8, np.float32)
        plan = self.group().plan("allreduce", array, array)
        assert plan.advice == symm.Advice[self.text("advice")], plan.advice
        is_measured = plan.advice != symm.Advice.UNMEASURED
        assert (plan.symm_ns > 0) == is_measured
        assert (plan.nccl_ns > 0) == is_measured
        assert plan.advice_reason

    def do_make_id(self) -> None:
        made = symm.unique_id().ljust(128, b"\0")
        self.bytes_at("at", 128)[:] = np.frombuffer(made, np.uint8)

    def do_create_by_id(self) -> symm.Group:
        group = self.group()
        given = self.bytes_at().tobytes()
        return symm.Group.join(group.rank, group.size, id=given, backend="host", timeout=60)

    def do_split(self) -> symm.Group | None:
        color = self.integer("color")
        part = self.group().split(color, self.integer("key"), **self.part_options())
        assert (part is None) == (color < 0)
        return part

    def do_create_from_ranks(self) -> symm.Group:
        return self.group().create_from_ranks(self.numbers("ranks"), **self.part_options())

    def do_local(self) -> symm.Group:
        return self.group().local(**self.part_options())

    def do_shrink(self) -> symm.Group:
        return self.group().shrink(**self.part_options())

    def do_invite(self) -> None:
        ticket = self.group().invite()
        self.bytes_at("at", len(ticket))[:] = np.frombuffer(ticket, np.uint8)

    def do_join(self) -> symm.Group:
        return symm.Group.join_by_ticket(self.bytes_at().tobytes(), timeout=self.timeout())

    def do_grow(self) -> symm.Group:
        return self.group().grow(self.integer("append", 0), timeout=self.timeout())

    def do_keep_spares(self) -> None:
        self.group().keep_spares(self.integer("count"), timeout=self.timeout())

    def do_finalize(self) -> None:
        self.group().finalize()

    def do_abort(self) -> None:
        self.group().abort(self.text("reason"))

    def do_die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def do_barrier(self) -> None:
        ranks = self.numbers("among") or None
        self.group().barrier(ranks, channel=self.integer("channel", 0), timeout=self.timeout())

    # ---- messages

    def do_send(self) -> None:
        self.group().send(
            self.integer("rank"),
            self.bytes_at("source"),
            channel=self.integer("channel", 0),
            timeout=self.timeout(),
        )

    def do_recv(self) -> None:
        came = self.group().recv(
            self.integer("rank"),
            self.bytes_at("destination"),
            channel=self.integer("channel", 0),
            timeout=self.timeout(),
        )
        assert came == self.integer("expected", came), f"{came} bytes came"

    def do_start_recv(self) -> symm.Request:
        return symm.start(
            self.group().recv,
            self.integer("rank"),
            self.bytes_at("destination"),
            channel=self.integer("channel", 0),
            timeout=self.timeout(),
        )

    def do_wait_request(self) -> None:
        came = self.thing("request").result(timeout=self.timeout())
        assert came == self.integer("expected", came), f"{came} bytes came"

    def do_messages(self) -> None:
        """Send block i to the i-th rank of `to`, and receive it from the i-th of `from`."""
        nbytes, channel = self.integer("bytes"), self.integer("channel", 0)
        to, from_ = self.numbers("to"), self.numbers("from")
        source = self.bytes_at("source", nbytes * len(to))
        destination = self.bytes_at("destination", nbytes * len(from_))
        sends = [
            symm.Send(rank, source[i * nbytes :][:nbytes], channel) for i, rank in enumerate(to)
        ]
        receives = [
            symm.Recv(rank, destination[i * nbytes :][:nbytes], channel)
            for i, rank in enumerate(from_)
        ]
        first = self.integer("receives_first", 0)
        sides = receives + sends if first else sends + receives
        for came in self.group().messages(sides, timeout=self.timeout()):
            assert came == self.integer("expected", came), f"{came} bytes came"

    # ---- streams

    def do_synchronize(self) -> None:
        self.group().synchronize(timeout=self.timeout())

    def do_stream_wait(self) -> None:
        self.group().stream_wait()

    def do_expect_stream_done(self) -> None:
        assert self.group().stream_done(), "work is pending"

    def do_record_use(self) -> None:
        self.thing("name").record_use(0)

    # ---- buffers, memories and heaps

    def bytes_of(self, buffer: symm.Buffer) -> np.ndarray:
        place = (ctypes.c_ubyte * buffer.nbytes).from_address(buffer.pointer)
        return np.frombuffer(place, "u1")

    def do_suspend(self) -> None:
        self.thing("name").suspend(keep=self.integer("keep", 0) != 0)

    def do_resume(self) -> None:
        self.thing("name").resume()

    def do_expect_suspended(self) -> None:
        is_suspended = (self.thing("name").info().flags & raw.SYMM_BUFFER_SUSPENDED) != 0
        assert is_suspended == (self.integer("suspended") != 0)

    def do_write_buffer(self) -> None:
        self.bytes_of(self.thing("name"))[:] = self.integer("value")

    def do_expect_buffer_bytes(self) -> None:
        assert (self.bytes_of(self.thing("name")) == self.integer("value")).all()

    def do_alloc(self) -> symm.Buffer:
        return self.group().alloc(self.integer("bytes"), alignment=self.integer("alignment", 0))

    def do_expect_node(self) -> None:
        """The kernel may refuse to bind memory to nodes, as in containers, but only if asked."""
        node = self.integer("node") if self.has("node") else None
        size = self.integer("bytes")
        try:
            seen = self.group().alloc(size, node=node).info().numa_node
        except symm.UnavailableError as error:
            assert node is not None, error
            assert f"NUMA node {node} " in str(error), error
        else:
            assert seen == (-1 if node is None else node)

    def do_rendezvous(self) -> symm.Memory:
        tag = self.integer("tag", 0)
        channels = self.integer("channels", 0)
        memory = self.group().rendezvous(
            self.thing("buffer"), tag, channels=channels, timeout=self.timeout()
        )
        assert not self.has("memory") or memory.id == self.memory().id
        return memory

    def do_move_memory(self) -> symm.Memory:
        memory = self.memory() if self.has("memory") else None
        return self.group().move_memory(memory, timeout=self.timeout())

    def do_move_heap(self) -> symm.Heap:
        heap = self.thing("heap") if self.has("heap") else None
        return self.group().move_heap(heap, timeout=self.timeout())

    def do_expect_memory(self) -> None:
        memory = self.memory()
        self.expect_fields(memory.info(), "rank", "size", "bytes", "channels")
        self.expect_of(memory.group)
        assert memory.buffer.pointer == memory.pointer()

    def do_expect_buffer(self) -> None:
        buffer = self.thing("buffer")
        assert buffer.nbytes == self.integer("bytes")
        self.expect_of(buffer.group)

    def do_release(self) -> None:
        self.thing("name").close()

    def do_find(self) -> None:
        if self.is_far():
            self.use_all()  # memory that is not mapped has no address
            return
        address = self.address()
        if not self.text("memory", ""):
            assert self.group().find(address) is None
            assert symm.find_buffer(address) is None
            return

        memory = self.memory()
        rank, offset = self.integers("rank", "offset")
        assert self.group().find(address) == (memory.id, rank, offset)
        if rank == self.rank:
            buffer, offset_in_buffer = symm.find_buffer(address)
            assert offset_in_buffer == offset
            assert self.group().memory_of(buffer).id == memory.id

    def do_heap(self) -> symm.Heap:
        return self.group().heap(self.integer("bytes"))

    def do_expect_heap(self) -> None:
        self.expect_fields(
            self.thing("heap").info(),
            "used_bytes",
            "free_bytes",
            "largest_free_bytes",
            "pieces",
            "fragmentation_permille",
        )
        self.expect_of(self.thing("heap").group)

    def do_take(self) -> None:
        alignment = self.integer("alignment", 0)
        piece = self.thing("heap").empty(self.integer("bytes"), "u8", alignment=alignment)
        self.expect_fields(piece, "offset")

    def do_give(self) -> None:
        self.thing("heap").free(SimpleNamespace(pointer=self.address(), nbytes=1))

    def do_expect_piece(self) -> None:
        heap = self.thing("heap")
        base = heap.memory.pointer()
        address, nbytes = heap.find(self.address()) or (base, 0)
        found = SimpleNamespace(offset=address - base, bytes=nbytes)
        self.expect_fields(found, "offset", "bytes")

    # ---- elements

    def do_write(self, key: str = "at") -> None:
        dtype = self.dtype()
        words = self.words_at(key, dtype)
        count = len(words) // words_of(dtype)
        words[:] = encode(dtype, [self.formula(self.rank, i) for i in range(count)])
        if self.is_far():
            name, _, offset = self.text("at").partition("+")
            self.things[name].put(self.integer("rank"), self.parse(offset), words)

    def do_expect(self, key: str = "at") -> None:
        if self.is_far() and not self.group().status().ok:
            self.use_all()  # the memory of a dead machine is gone
            return
        dtype = self.result_dtype()
        words = self.words_at(key, dtype)
        shift = self.integer("shift", 0)
        op = self.text("op", "")
        rank = self.integer("from", self.rank)
        times = self.integer("times", 1)

        ranks = range(RANKS) if op else [rank]
        combine = COMBINE[op or "SUM"]
        values = [
            combine([self.formula(r, i + shift) for r in ranks]) * times
            for i in range(len(words) // words_of(dtype))
        ]
        bits = encode(dtype, values).tolist()
        for at, (seen, right) in enumerate(zip(words.tolist(), bits, strict=True)):
            i = at // words_of(dtype)
            assert seen == right, (
                f"element {i} has the bits {seen:#x}, not {right:#x}, those of {values[i]}"
            )

    # ---- copies, words and signals

    def do_put(self) -> None:
        rank, offset = self.integers("rank", "offset")
        self.memory().put(rank, offset, self.bytes_at("source"), timeout=self.timeout())

    def do_put_signal(self) -> None:
        rank, offset = self.integers("rank", "offset")
        channel = self.integer("channel", 0)
        source = self.bytes_at("source")
        self.memory().put(rank, offset, source, signal=channel, timeout=self.timeout())

    def do_put_signal_value(self) -> None:
        rank, offset, channel, value = self.integers("rank", "offset", "channel", "value")
        op = symm.SignalOp[self.text("signal")]
        self.memory().put(
            rank,
            offset,
            self.bytes_at("source"),
            signal=channel,
            op=op,
            value=value,
            timeout=self.timeout(),
        )

    def do_get(self) -> None:
        rank, offset = self.integers("rank", "offset")
        self.memory().get(rank, offset, self.bytes_at("destination"), timeout=self.timeout())

    def do_put_pieces(self) -> None:
        self.copy_pieces("put", "source")

    def do_get_pieces(self) -> None:
        self.copy_pieces("get", "destination")

    def do_put_import(self) -> None:
        self.copy_by_import("put", "source", epoch=self.integer("epoch"))

    def do_get_import(self) -> None:
        self.copy_by_import("get", "destination")

    def copy_by_import(self, verb: str, key: str, **options: object) -> None:
        what, given, behind = self.given_pieces()
        call = getattr(self.thing("import"), f"{verb}_{what}")
        call(self.bytes_at(key), given, offset=self.integer("offset"), **options, **behind)

    def copy_pieces(self, verb: str, key: str) -> None:
        what, given, options = self.given_pieces()
        call = getattr(self.memory(), f"{verb}_{what}")
        rank, offset = self.integers("rank", "offset")
        call(rank, offset, self.bytes_at(key), given, timeout=self.timeout(), **options)

    def given_pieces(self) -> tuple[str, object, dict[str, object]]:
        """Whether they are pieces or pages, the list or the size, and what else the call gets."""
        options: dict[str, object] = {}
        if self.has("signal"):
            options["op"] = symm.SignalOp[self.text("signal")]
            options["signal"] = self.integer("channel", 0)
            options["value"] = self.integer("value")
        if self.has("page_bytes"):
            for table in ("from_table", "to_table"):
                options[table] = np.array(self.numbers(table)) if self.has(table) else None
            return "pages", self.integer("page_bytes"), options
        # One line has its pieces as tuples, the next as the rows of an array.
        numbers = self.numbers("pieces") if self.has("pieces") else []
        pieces = [symm.Rows(*numbers[i : i + 6]) for i in range(0, len(numbers), 6)]
        self.as_array = not self.as_array
        given = np.array(pieces, np.uint64).reshape(-1, 6) if self.as_array else pieces
        return "pieces", given, options

    def do_exchange(self) -> symm.Exchange:
        source = self.bytes_at("source")
        numbers = self.numbers("pieces")
        pieces = [symm.Rows(*numbers[i : i + 6]) for i in range(0, len(numbers), 6)]
        ranks, expected = self.numbers("to"), self.numbers("expects")
        memory = self.memory()
        neighbors = [
            symm.Neighbor(rank, memory, 0, source, [piece], expected_nbytes=nbytes)
            for rank, piece, nbytes in zip(ranks, pieces, expected, strict=True)
        ]
        return self.group().exchange(neighbors, timeout=self.timeout())

    def do_start_round(self) -> None:
        self.thing("exchange").start(timeout=self.timeout())

    def do_finish_round(self) -> None:
        self.thing("exchange").finish(timeout=self.timeout())

    def do_neighbor_alltoallv(self) -> None:
        sent, received = self.numbers("to_counts"), self.numbers("from_counts")
        places = self.numbers("from_displacements") if self.has("from_displacements") else None
        self.group().neighbor_alltoallv(
            self.numbers("to"),
            self.operand("source", sum(sent), symm.i32),
            sent,
            self.numbers("from"),
            self.operand("destination", sum(received), symm.i32),
            received,
            None,
            places,
            channel=self.integer("channel", 0),
            timeout=self.timeout(),
        )

    def do_fill32(self) -> None:
        self.memory().fill32(*self.integers("rank", "offset", "value", "count"))

    def do_fill8(self) -> None:
        self.memory().fill8(*self.integers("rank", "offset", "value", "count"))

    def do_fill16(self) -> None:
        self.memory().fill16(*self.integers("rank", "offset", "value", "count"))

    def do_fill64(self) -> None:
        self.memory().fill64(*self.integers("rank", "offset", "value", "count"))

    def do_read_value32(self) -> None:
        self.expect_expected(self.memory().read_value32(*self.integers("rank", "offset")))

    def do_read_value64(self) -> None:
        self.expect_expected(self.memory().read_value64(*self.integers("rank", "offset")))

    def do_atomic32(self) -> None:
        self._atomic(self.memory().atomic32)

    def do_atomic64(self) -> None:
        self._atomic(self.memory().atomic64)

    def _atomic(self, change: Callable[..., int | None]) -> None:
        rank, offset = self.integers("rank", "offset")
        op = symm.AtomicOp[self.text("atomic")]
        value, compare = self.integer("value", 0), self.integer("compared", 0)
        seen = change(rank, offset, op, value, compare=compare, timeout=self.timeout())
        self.expect_expected(seen)

    def do_write_value32(self) -> None:
        self.memory().write_value32(*self.integers("rank", "offset", "value"))

    def do_write_value64(self) -> None:
        self.memory().write_value64(*self.integers("rank", "offset", "value"))

    def do_wait_value32(self) -> None:
        offset, value = self.integers("offset", "value")
        self.memory().wait_value32(offset, self.compare(), value, timeout=self.timeout())

    def do_wait_value64(self) -> None:
        offset, value = self.integers("offset", "value")
        self.memory().wait_value64(offset, self.compare(), value, timeout=self.timeout())

    def do_signal(self) -> None:
        channel = self.integer("channel", 0)
        self.memory().signal(self.integer("rank"), channel, timeout=self.timeout())

    def do_wait_signal(self) -> None:
        channel = self.integer("channel", 0)
        self.memory().wait_signal(self.integer("rank"), channel, timeout=self.timeout())

    def do_signal_value(self) -> None:
        op = symm.SignalOp[self.text("signal")]
        self.memory().signal_value(*self.integers("rank", "value", "channel"), op=op)

    def do_wait_signal_value(self) -> None:
        rank, value, channel = self.integers("rank", "value", "channel")
        seen = self.memory().wait_signal_value(
            rank, self.compare(), value, channel, timeout=self.timeout()
        )
        self.expect_expected(seen)

    def do_wait_signals(self) -> None:
        channel, value = self.integers("channel", "value")
        ranks = self.numbers("among")
        waits = [symm.SignalWait(rank, channel, self.compare(), value) for rank in ranks]
        if self.integer("any"):
            self.expect_expected(self.memory().wait_any_signal(waits, timeout=self.timeout()))
        else:
            self.memory().wait_all_signals(waits, timeout=self.timeout())

    def do_test_signal(self) -> None:
        self.expect_expected(self.memory().test_signal(*self.integers("rank", "channel")))

    def do_test_signal_value(self) -> None:
        self.expect_expected(self.memory().test_signal_value(*self.integers("rank", "channel")))

    # ---- tokens

    def do_export(self) -> bytes:
        hold = self.integer("hold_ms") / 1000 if self.has("hold_ms") else None
        words = {
            "channels": self.integer("channels", 0),
            "fence_bytes": self.integer("fence_bytes", 0),
        }
        return self.bytes_at().export_token(hold=hold, **words)

    def do_import(self) -> symm.ImportedArray:
        return symm.import_token(self.thing("token"))

    def do_signal_import(self) -> None:
        op = symm.SignalOp[self.text("signal")]
        self.thing("import").signal_value(*self.integers("value", "channel"), op=op)

    def do_wait_token(self) -> None:
        value, channel = self.integers("value", "channel")
        seen = symm.ipc_wait_value(
            self.thing("token"), self.compare(), value, channel, timeout=self.timeout()
        )
        self.expect_expected(seen)

    def do_fence(self) -> None:
        symm.ipc_fence(self.bytes_at(), self.integer("epoch"), self.timeout())

    def do_suspend_import(self) -> None:
        self.thing("import").suspend()

    def do_resume_import(self) -> None:
        self.thing("import").resume(self.thing("token") if self.has("token") else None)

    def do_expect_asleep(self) -> None:
        is_asleep = (self.thing("import").info().flags & raw.SYMM_IPC_SUSPENDED) != 0
        assert is_asleep == (self.integer("asleep") != 0)

    def do_expect_import(self) -> None:
        self.expect_fields(self.thing("import").info(), "bytes", "offset", "host_memory")

    def do_expect_holders(self) -> None:
        self.expect_fields(self.bytes_at().holders(), "leases", "processes", "quarantined")

    def do_withdraw(self) -> None:
        self.bytes_at().withdraw(self.timeout())

    def do_export_bundle(self) -> bytes:
        hold = self.integer("hold_ms") / 1000 if self.has("hold_ms") else None
        place, _, offset = self.text("at").partition("+")
        nbytes = self.integer("bytes")
        arrays = {
            name: self.things[place].array(nbytes, symm.u8, offset=int(offset) + i * nbytes)
            for i, name in enumerate(self.names("names"))
        }
        return symm.ipc_export_bundle(arrays, hold=hold)

    def do_import_bundle(self) -> symm.Bundle:
        return symm.import_bundle(self.thing("token"))

    def do_expect_bundle(self) -> None:
        bundle = self.thing("import")
        assert len(bundle) == self.integer("pieces", len(bundle))
        assert bundle.info().bytes == self.integer("bytes", bundle.info().bytes)
        if not self.has("name"):
            return
        name, count = self.text("name"), self.integer("count")
        if count == 0:
            assert name not in bundle
            return
        seen = np.asarray(bundle[name]).view("i4")[:count].tolist()
        rank = self.integer("from")
        assert seen == [self.formula(rank, i) for i in range(count)]

    def do_publish(self) -> None:
        token, name = self.thing("token"), self.text("name")
        symm.ipc_publish(name, self.integer("version"), token, keep=self.integer("keep", 0))

    def do_lookup(self) -> bytes:
        found, token = symm.ipc_lookup(
            self.text("name"),
            self.integer("version"),
            compare=self.compare(),
            timeout=self.timeout(),
        )
        self.expect_expected(found)
        return token

    def do_withdraw_version(self) -> None:
        symm.ipc_withdraw_version(self.text("name"), self.integer("version"), self.timeout())

    # ---- collectives of equal counts

    def do_collective(self) -> None:
        verb = self.line.verb
        group = self.group()
        count = self.integer("count")
        send_count = count
        recv_count = count
        if verb in ("reduce_scatter", "scatter", "alltoall"):
            send_count *= group.size
        if verb in ("allgather", "gather", "alltoall"):
            recv_count *= group.size
        send = self.operand("send", send_count, self.dtype())
        recv = self.operand("recv", recv_count, self.result_dtype())

        options = {key: self.text(key) for key in ("op", "algorithm", "order") if self.has(key)}
        if self.has("root"):
            options["root"] = self.integer("root")
        if self.has("position"):
            options["scale_position"] = self.text("position")
        if self.has("scale_at"):
            options["scale"] = self.operand("scale_at", 1, symm.f32)
        elif self.has("scale"):
            options["scale"] = self.integer("scale")

        if self.has("tag"):
            options["tag"] = self.text("tag")
        if self.has("max_blocks"):
            options["max_blocks"] = self.integer("max_blocks")
        if self.has("wire"):
            options["wire_dtype"] = self.text("wire").lower()
        if self.has("wire_group"):
            options["wire_group"] = self.integer("wire_group")
        options.update(self.chunks(group, send_count, count))

        in_place = self.integer("in_place", 0)
        if verb in ("gather", "scatter") and options["root"] != group.rank:
            in_place = 0  # only the root has an operand that is in place
        if in_place and verb in ("allgather", "gather"):
            send = None
        elif in_place:
            recv = None

        if self.has("f"):
            self.do_write("send")
        getattr(group, verb)(send, recv, **options)
        if self.has("f"):
            self.do_expect("recv")

    def chunks(self, group: Any, send_count: int, count: int) -> dict[str, Any]:
        """The options that say in which chunks a call is made, with its words."""
        if not self.has("chunk_bytes"):
            return {}
        options: dict[str, Any] = {"chunk_bytes": self.integer("chunk_bytes")}
        block = count * self.dtype().itemsize
        chunks = -(-block // options["chunk_bytes"]) if options["chunk_bytes"] else 1
        if self.has("progress"):
            options["progress"] = self.operand("progress", group.size * chunks, symm.u32)
        if self.has("ready"):
            options["ready"] = self.operand("ready", send_count // count * chunks, symm.u32)
        if self.has("word_at"):
            options["word_value"] = self.operand("word_at", 1, symm.u32)
        else:
            options["word_value"] = self.integer("word_value", 0)
        return options

    def do_batch(self) -> None:
        line = self.line
        lines = self.waiting.pop(self.text("calls"))
        tag = self.text("tag") if self.has("tag") else None
        try:
            with self.group().batch(timeout=self.timeout(), tag=tag) as self.collecting:
                for one in lines:
                    one.used.add("into")
                    self.run(one)
        finally:
            self.collecting = None
            self.line = line

    do_allreduce = do_collective
    do_reduce_scatter = do_collective
    do_allgather = do_collective
    do_broadcast = do_collective
    do_reduce = do_collective
    do_scan = do_collective
    do_exscan = do_collective
    do_alltoall = do_collective
    do_gather = do_collective
    do_scatter = do_collective

    def do_allgather_rows(self) -> None:
        dtype = self.dtype()
        rows, count, stride = self.integers("rows", "count", "recv_stride")
        send = self.operand("send", rows * count, dtype)
        recv = self.operand("recv", rows * stride, dtype)
        self.group().allgather_rows(send, recv, rows, stride)

    def do_reduce_scatter_rows(self) -> None:
        dtype = self.dtype()
        rows, count, stride = self.integers("rows", "count", "send_stride")
        send = self.operand("send", rows * stride, dtype)
        recv = self.operand("recv", rows * count, dtype)
        self.group().reduce_scatter_rows(send, recv, rows, self.text("op"), stride)

    def do_allreduce_rmsnorm(self) -> None:
        dtype = self.dtype()
        tokens, hidden = self.integers("tokens", "hidden")
        is_by_group = self.text("quant_scale", "TENSOR") == "GROUP"
        elements = tokens * hidden
        kinds = {
            "weight": (hidden, dtype),
            "residual_in": (elements, dtype),
            "residual_out": (elements, dtype),
            "norm_out": (elements, dtype),
            "quant_out": (elements, symm.f8e4m3),
            "scale_in": (1, symm.f32),
            "scale_out": (elements // 128 if is_by_group else tokens, symm.f32),
        }

        operands = {
            name: self.operand(name, *kind) for name, kind in kinds.items() if self.has(name)
        }
        self.group().allreduce_rmsnorm(
            self.operand("send", elements, dtype),
            epsilon=0,
            weight_offset=self.integer("weight_offset", 0),
            **operands,
        )

    # ---- collectives of counts by rank

    def displacements(self, key: str) -> list[int] | None:
        return self.numbers(f"{key}_displacements") or None

    def blocks(self, key: str) -> object:
        """The operand `send` or `recv`, which ends with its last block.

        If it has no counts, it is the block of this rank, whose count the other operand has.
        """
        counts = self.numbers(f"{key}_counts")
        if counts:
            starts = self.displacements(key) or [sum(counts[:rank]) for rank in range(RANKS)]
            ends = [start + n for start, n in zip(starts, counts, strict=True) if n]
            count = max(ends, default=0)
        else:
            other = "recv_counts" if key == "send" else "send_counts"
            count = self.numbers(other)[self.group().rank]
        return self.operand(key, count, self.dtype())

    def do_allgatherv(self) -> None:
        counts = self.numbers("recv_counts")
        self.group().allgatherv(
            self.blocks("send"), self.blocks("recv"), counts, self.displacements("recv")
        )

    def do_reduce_scatterv(self) -> None:
        self.group().reduce_scatterv(
            self.blocks("send"),
            self.numbers("send_counts"),
            self.blocks("recv"),
            self.text("op"),
            self.displacements("send"),
        )

    def do_broadcast_bytes(self) -> None:
        count, capacity, root = self.integers("count", "capacity", "root")
        send = self.operand("send", count, self.dtype())
        recv = self.operand("recv", capacity, self.dtype())
        came = self.group().broadcast_bytes(send, recv, root)
        assert came == self.integer("expected", came), f"{came} bytes came"

    def do_reduce_by(self) -> None:
        group, dtype, count = self.group(), self.dtype(), self.integer("count")
        which = self.text("collective").lower()
        parts = group.size if which == "reduce_scatter" else 1

        def last(into: memoryview, other: memoryview) -> None:
            into[:] = other

        send = self.operand("send", parts * count, dtype)
        recv = self.operand("recv", count, dtype)
        group.reduce_by(last, send, recv, collective=which, root=self.integer("root", 0))

    def do_gatherv(self) -> None:
        group, dtype, count = self.group(), self.dtype(), self.integer("count")
        root = self.integer("root", 0)
        send = self.operand("send", count, dtype)
        counts, displacements = self.numbers("recv_counts"), self.displacements("recv")
        recv = self.blocks("recv")
        if group.rank == root:
            group.gatherv(send, recv, counts, root, displacements)
        else:
            group.gatherv(send, root=root)

    def do_scatterv(self) -> None:
        group, dtype, count = self.group(), self.dtype(), self.integer("count")
        root = self.integer("root", 0)
        recv = self.operand("recv", count, dtype)
        counts, displacements = self.numbers("send_counts"), self.displacements("send")
        send = self.blocks("send")
        if group.rank == root:
            group.scatterv(send, counts, recv, root, displacements)
        else:
            group.scatterv(None, None, recv, root)

    def do_alltoallv(self) -> None:
        self.group().alltoallv(
            self.blocks("send"),
            self.numbers("send_counts"),
            self.blocks("recv"),
            self.numbers("recv_counts"),
            self.displacements("send"),
            self.displacements("recv"),
        )

    def do_alltoallv_device(self) -> None:
        def in_memory(key: str) -> array | None:
            numbers = self.numbers(key)
            return array("q", numbers) if numbers else None

        dtype = self.dtype()
        self.group().alltoallv_device(
            self.operand("send", self.integer("send_capacity"), dtype),
            in_memory("send_counts"),
            self.operand("recv", self.integer("recv_capacity"), dtype),
            in_memory("recv_counts"),
            in_memory("send_displacements"),
            in_memory("recv_displacements"),
        )


def run_line(runner: Runner, line: Line) -> None:
    try:
        runner.run(line)
    except symm.SymmError as error:
        if not line.status:
            raise
        assert error.status == symm.Status[line.status], f"the status is {error.status!r}: {error}"
        for words in line.words:
            assert words in str(error), f"{words!r} is not in {str(error)!r}"
        if line.blamed:
            blamed = -1 if error.rank is None else error.rank
            expected = runner.parse(line.blamed)
            assert blamed == expected, f"the rank to blame is {error.rank}: {error}"
    else:
        assert not line.status, "it succeeded"


def main() -> int:
    rank = int(os.environ["SYMM_RANK"])
    runner = Runner(rank)
    scenarios = 0
    for number, text in enumerate(Path(sys.argv[1]).read_text().splitlines(), 1):
        try:
            if text.startswith("scenario "):
                runner.begin(text.split()[1])
                scenarios += 1
            elif text and not text.startswith("#"):
                line = Line(text, rank)
                if line.is_for_this_rank:
                    run_line(runner, line)
        except Exception as error:
            print(f"table.txt:{number}: rank {rank}: {type(error).__name__}: {error}", flush=True)
            return 1

    print(f"rank {rank}: {scenarios} scenarios")
    return 0 if scenarios else 1


if __name__ == "__main__":
    sys.exit(main())
