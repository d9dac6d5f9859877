"""Runs tests/bindings/behaviours/table.txt as one of three ranks:
behaviours.py <table>. Its README says how a line is read.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from array import array
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from conftest import numpy_type

import symm
from symm.dtypes import DType, dtype_of

RANKS = 3
BYTES = 262144  # of the memory and the array with which a scenario begins
COMBINE = {
    "SUM": sum,
    "AVG": lambda values: int(sum(values) / RANKS),
    "MIN": min,
    "MAX": max,
    "PROD": math.prod,
}


def encode(dtype: DType, values: list[int]) -> np.ndarray:
    """The elements' bits, as unsigned integers."""
    return np.array(values).astype(numpy_type(dtype)).view(f"u{dtype.itemsize}")


class Line:
    def __init__(self, text: str, rank: int):
        call, _, failure = text.partition(" -> ")
        head, _, words = failure.partition(": ")
        self.status, _, self.blamed = head.partition(" rank=")
        self.words = words.split(" & ") if words else []
        ranks, self.verb, *pairs = call.split()
        self.mine = ranks == "all" or str(rank) in ranks.split(",")
        self.values = dict(pair.split("=", 1) for pair in pairs)
        self.used: set[str] = set()


def create(name: str, timeout: float | None, **flags: bool) -> symm.Group:
    return symm.Group.from_env(
        backend="host", name=name, timeout=60, create_timeout=timeout, **flags
    )


class Runner:
    def __init__(self, rank: int):
        self.rank = rank
        self.things: dict[str, object] = {}
        self.line = Line("all nothing", rank)

    def has(self, key: str) -> bool:
        return key in self.line.values

    def text(self, key: str, otherwise: str | None = None) -> str:
        self.line.used.add(key)
        value = self.line.values.get(key, otherwise)
        assert value is not None, f"{self.line.verb} without {key}="
        return value

    def integer(self, key: str, otherwise: int | None = None) -> int:
        return self.parse(self.text(key, None if otherwise is None else str(otherwise)))

    def parse(self, value: str) -> int:
        by_rank = value.split(",")
        one = by_rank[0] if len(by_rank) == 1 else by_rank[self.rank]
        relative = {"self": 0, "left": -1, "right": 1}
        return (self.rank + relative[one]) % RANKS if one in relative else int(one, 0)

    def dtype(self, key: str = "dtype") -> DType:
        return dtype_of(self.text(key).lower())

    def integers(self, *keys: str) -> list[int]:
        return [self.integer(key) for key in keys]

    def compare(self) -> symm.Compare:
        return symm.Compare[self.text("compare")]

    def formula(self, rank: int, i: int) -> int:
        a, b, m, c = (int(part) for part in self.text("f").split(":"))
        return (a * rank + b * i) % m + c

    def numbers(self, key: str) -> list[int]:
        return [int(one) for one in self.text(key, "").split(":") if one]

    def timeout(self) -> float | None:
        return (
            0
            if self.text("timeout_ms", "") == "now"
            else self.integer("timeout_ms", 0) / 1000 or None
        )

    def begin(self, scenario: str) -> None:
        self.things = {}
        group = create(scenario, 60)
        buffer = group.alloc(BYTES)
        self.things = {
            "group": group,
            "b": buffer,
            "m": group.rendezvous(buffer),
            "p": bytearray(BYTES),
        }

    def run(self, line: Line) -> None:
        self.line = line
        verb = VERBS.get(line.verb)
        made = verb(self) if verb else getattr(self, "do_" + line.verb)()
        if self.has("as"):
            self.things[self.text("as")] = made
        unused = set(line.values) - line.used
        assert not unused, f"{line.verb} has no keys {unused}"

    def group(self) -> symm.Group:
        return self.things[self.text("group", "group")]

    def thing(self, key: str) -> object:
        return self.things[self.text(key)]

    def memory(self) -> symm.Memory:
        thing = self.thing("memory")
        return thing.memory if isinstance(thing, symm.Heap) else thing

    def far(self) -> bool:
        """On another machine: its memory is not mapped here, and a copy stands for it.
        Only in the group of the scenario.
        """
        return not self.things["group"].peer_info(self.integer("rank", self.rank)).mapped

    def operand(self, key: str, count: int, dtype: DType) -> object:
        """The array at name+offset: symmetric, or a NumPy view of a private one."""
        name, _, offset = self.text(key).partition("+")
        at, thing = self.parse(offset), self.things[name]
        thing = thing.memory if isinstance(thing, symm.Heap) else thing
        if isinstance(thing, symm.Memory):
            rank = self.integer("rank", thing.rank) if key == "at" else thing.rank
            if rank != thing.rank and self.far():
                copy = np.zeros(count, f"u{dtype.itemsize}")
                thing.get(rank, at, copy)
                return copy
            return thing.array(count, dtype, rank=rank, offset=at)
        return np.frombuffer(thing, numpy_type(dtype), count, at)

    def piece(self, key: str = "at", count: int | None = None) -> object:
        return self.operand(key, count or self.integer("bytes"), dtype_of("u8"))

    def address(self) -> int:
        where = self.piece(count=1)
        return where.ctypes.data if isinstance(where, np.ndarray) else where.pointer

    def words_at(self, key: str, dtype: DType) -> np.ndarray:
        """The elements there as unsigned integers."""
        array = self.operand(key, self.integer("count"), dtype)
        return np.asarray(array).view(f"u{dtype.itemsize}")

    def expect_fields(self, found: object, *keys: str) -> None:
        for key in keys:
            if self.has(key):
                assert getattr(found, key) == self.integer(key), f"{key} is {getattr(found, key)}"

    def do_expect_status(self) -> None:
        expected, deadline = symm.Status[self.text("status")], time.monotonic() + 20
        while (status := self.group().status()).status != expected and time.monotonic() < deadline:
            time.sleep(0.001)
        assert status.status == expected, f"the status is {status}"
        self.expect_fields(status, "failed_rank")

    def do_split(self) -> symm.Group | None:
        color = self.integer("color")
        part = self.group().split(color, self.integer("key"))
        assert (part is None) == (color < 0)
        return part

    def do_rendezvous(self) -> symm.Memory:
        tag, channels = self.integer("tag", 0), self.integer("channels", 0)
        made = self.group().rendezvous(self.thing("buffer"), tag, channels=channels)
        assert not self.has("memory") or made.id == self.memory().id
        return made

    def do_expect_piece(self) -> None:
        heap = self.thing("heap")
        address, nbytes = heap.find(self.address()) or (heap.memory.pointer(), 0)
        self.expect_fields(
            SimpleNamespace(offset=address - heap.memory.pointer(), bytes=nbytes), "offset", "bytes"
        )

    def do_find(self) -> None:
        if self.far():
            self.line.used.update(self.line.values)  # and found by no address
            return
        address = self.address()
        if not self.text("memory", ""):
            assert (self.group().find(address), symm.find_buffer(address)) == (None, None)
            return
        memory, rank, offset = self.memory(), self.integer("rank"), self.integer("offset")
        assert self.group().find(address) == (memory.id, rank, offset)
        if rank == self.rank:
            buffer, at = symm.find_buffer(address)
            assert (at, self.group().memory_of(buffer).id) == (offset, memory.id)

    def do_write(self, key: str = "at") -> None:
        dtype = self.dtype()
        words = self.words_at(key, dtype)
        words[:] = encode(dtype, [self.formula(self.rank, i) for i in range(len(words))])
        if self.far():
            name, _, offset = self.text("at").partition("+")
            self.things[name].put(self.integer("rank"), self.parse(offset), words)

    def do_expect(self, key: str = "at") -> None:
        if self.far() and not self.group().status().ok:
            self.line.used.update(self.line.values)  # what a dead machine had is gone
            return
        dtype = self.dtype("result" if self.has("result") else "dtype")
        words, shift = self.words_at(key, dtype), self.integer("shift", 0)
        op, rank = self.text("op", ""), self.integer("from", self.rank)
        ranks, times = range(RANKS) if op else [rank], self.integer("times", 1)
        operands = ([self.formula(r, i + shift) for r in ranks] for i in range(len(words)))
        values = [COMBINE[op or "SUM"](of_all) * times for of_all in operands]
        for i, (seen, right) in enumerate(
            zip(words.tolist(), encode(dtype, values).tolist(), strict=True)
        ):
            assert seen == right, (
                f"element {i} has the bits {seen:#x}, not {right:#x}, those of {values[i]}"
            )

    def expect_count(self, seen: int | None) -> None:
        if self.has("expected"):
            assert seen == self.integer("expected"), f"{seen} was seen"

    def do_wait_signal_value(self) -> None:
        rank, value, channel = self.integers("rank", "value", "channel")
        seen = self.memory().wait_signal_value(
            rank, self.compare(), value, channel, timeout=self.timeout()
        )
        self.expect_count(seen)

    def do_wait_signals(self) -> None:
        channel, value = self.integers("channel", "value")
        waits = [
            symm.SignalWait(rank, channel, self.compare(), value) for rank in self.numbers("among")
        ]
        if self.integer("any"):
            self.expect_count(self.memory().wait_any_signal(waits, timeout=self.timeout()))
        else:
            self.memory().wait_all_signals(waits, timeout=self.timeout())

    def do_wait_value(self) -> None:
        wait = getattr(self.memory(), self.line.verb)
        wait(self.integer("offset"), self.compare(), self.integer("value"), timeout=self.timeout())

    do_wait_value32 = do_wait_value64 = do_wait_value

    # ---- collectives

    def do_blocks(self) -> None:
        group, dtype = self.group(), self.dtype()

        def operand(key: str) -> tuple[object, list[int], list[int] | None]:
            counts, at = self.numbers(f"{key}_counts"), self.numbers(f"{key}_displacements")
            other = self.numbers("recv_counts" if key == "send" else "send_counts")
            places = at or [sum(counts[:r]) for r in range(RANKS)]
            ends = (
                [p + n for p, n in zip(places, counts, strict=True) if n]
                if counts
                else [other[group.rank]]
            )
            return self.operand(key, max(ends, default=0), dtype), counts, at or None

        (send, send_counts, send_at), (recv, recv_counts, recv_at) = (
            operand("send"),
            operand("recv"),
        )
        if self.line.verb == "allgatherv":
            group.allgatherv(send, recv, recv_counts, recv_at)
        elif self.line.verb == "reduce_scatterv":
            group.reduce_scatterv(send, send_counts, recv, self.text("op"), send_at)
        elif self.line.verb == "alltoallv":
            group.alltoallv(send, send_counts, recv, recv_counts, send_at, recv_at)
        else:
            send, recv = (
                self.operand(key, self.integer(f"{key}_capacity"), dtype)
                for key in ("send", "recv")
            )
            lists = (
                array("q", one) if one else None
                for one in (send_counts, recv_counts, send_at, recv_at)
            )
            send_numbers, recv_numbers, *places = lists
            group.alltoallv_device(send, send_numbers, recv, recv_numbers, *places)

    do_allgatherv = do_reduce_scatterv = do_alltoallv = do_alltoallv_device = do_blocks

    def do_allgather_rows(self) -> None:
        dtype, rows, count, stride = self.dtype(), *self.integers("rows", "count", "recv_stride")
        send, recv = (
            self.operand("send", rows * count, dtype),
            self.operand("recv", rows * stride, dtype),
        )
        self.group().allgather_rows(send, recv, rows, stride)

    def do_allreduce_rmsnorm(self) -> None:
        dtype, tokens, hidden = self.dtype(), self.integer("tokens"), self.integer("hidden")
        of_group = self.text("quant_scale", "TENSOR") == "GROUP"
        kinds = {
            "weight": (hidden, dtype),
            "quant_out": (tokens * hidden, symm.f8e4m3),
            "scale_in": (1, symm.f32),
        }
        kinds["scale_out"] = tokens * hidden // 128 if of_group else tokens, symm.f32
        names = (
            "weight",
            "residual_in",
            "residual_out",
            "norm_out",
            "quant_out",
            "scale_in",
            "scale_out",
        )
        operands = {
            name: self.operand(name, *kinds.get(name, (tokens * hidden, dtype)))
            for name in names
            if self.has(name)
        }
        offset = self.integer("weight_offset", 0)
        send = self.operand("send", tokens * hidden, dtype)
        self.group().allreduce_rmsnorm(send, epsilon=0, weight_offset=offset, **operands)

    def do_collective(self) -> None:
        count = self.integer("count")
        group, dtype = self.group(), self.dtype()
        factor = {
            "reduce_scatter": (group.size, 1),
            "allgather": (1, group.size),
            "alltoall": (group.size, group.size),
        }
        factor |= {"gather": factor["allgather"], "scatter": factor["reduce_scatter"]}
        of_send, of_recv = factor.get(self.line.verb, (1, 1))
        send = self.operand("send", of_send * count, dtype)
        recv = self.operand(
            "recv", of_recv * count, self.dtype("result") if self.has("result") else dtype
        )
        options = {key: self.text(key) for key in ("op", "algorithm") if self.has(key)}
        if self.has("root"):
            options["root"] = self.integer("root")
        if self.has("position"):
            options["scale_position"] = self.text("position")
            at = self.has("scale_at")
            options["scale"] = (
                self.operand("scale_at", 1, symm.f32) if at else self.integer("scale")
            )
        if self.integer("in_place", 0) and (
            self.line.verb not in ("gather", "scatter") or options["root"] == group.rank
        ):
            send, recv = (None, recv) if self.line.verb in ("allgather", "gather") else (send, None)
        if self.has("f"):
            self.do_write("send")
        getattr(group, self.line.verb)(send, recv, **options)
        if self.has("f"):
            self.do_expect("recv")

    do_allreduce = do_reduce_scatter = do_allgather = do_broadcast = do_reduce = do_alltoall = (
        do_collective
    )
    do_gather = do_scatter = do_collective


def expect(found: object, expected: object) -> None:
    assert found == expected, f"{found} is not {expected}"


# What the verb makes is called as the line says.
VERBS = {
    "expect_group": lambda r: r.expect_fields(r.group().info(), "rank", "size", "channels"),
    "create": lambda r: create(
        r.text("as"),
        r.timeout(),
        **{flag: r.integer(flag, 0) != 0 for flag in ("shared_scratch", "check")},
    ),
    "local": lambda r: r.group().local(),
    "create_from_ranks": lambda r: r.group().create_from_ranks(r.numbers("ranks")),
    "shrink": lambda r: r.group().shrink(),
    "expect_failed": lambda r: expect(r.group().failed_ranks(), r.numbers("ranks")),
    "finalize": lambda r: r.group().finalize(),
    "abort": lambda r: r.group().abort(r.text("reason")),
    "synchronize": lambda r: r.group().synchronize(timeout=r.timeout()),
    "stream_wait": lambda r: r.group().stream_wait(),
    "expect_stream_done": lambda r: expect(r.group().stream_done(), True),
    "record_use": lambda r: r.thing("name").record_use(0),
    "die": lambda r: os.kill(os.getpid(), signal.SIGKILL),
    "barrier": lambda r: r.group().barrier(
        r.numbers("among") or None, channel=r.integer("channel", 0), timeout=r.timeout()
    ),
    "alloc": lambda r: r.group().alloc(r.integer("bytes"), alignment=r.integer("alignment", 0)),
    "heap": lambda r: r.group().heap(r.integer("bytes")),
    "take": lambda r: r.expect_fields(
        r.thing("heap").empty(r.integer("bytes"), "u8", alignment=r.integer("alignment", 0)),
        "offset",
    ),
    "give": lambda r: r.thing("heap").free(SimpleNamespace(pointer=r.address(), nbytes=1)),
    "expect_heap": lambda r: r.expect_fields(
        r.thing("heap").info(),
        "used_bytes",
        "free_bytes",
        "largest_free",
        "pieces",
        "fragmentation",
    ),
    "release": lambda r: r.thing("name").close(),
    "export": lambda r: r.piece().export_token(hold=r.integer("hold_ms", 0) / 1000 or None),
    "import": lambda r: symm.import_token(r.thing("token")),
    "expect_import": lambda r: r.expect_fields(
        r.thing("import").info(), "bytes", "offset", "host_memory"
    ),
    "expect_holders": lambda r: r.expect_fields(
        r.piece().holders(), "leases", "processes", "quarantined"
    ),
    "withdraw": lambda r: r.piece().withdraw(r.timeout()),
    "expect_memory": lambda r: r.expect_fields(
        r.memory().info(), "rank", "size", "bytes", "channels"
    ),
    "put": lambda r: r.memory().put(*r.integers("rank", "offset"), r.piece("source")),
    "put_signal": lambda r: r.memory().put(
        *r.integers("rank", "offset"), r.piece("source"), signal=r.integer("channel", 0)
    ),
    "get": lambda r: r.memory().get(*r.integers("rank", "offset"), r.piece("destination")),
    "fill32": lambda r: r.memory().fill32(*r.integers("rank", "offset", "value", "count")),
    "write_value32": lambda r: r.memory().write_value32(*r.integers("rank", "offset", "value")),
    "write_value64": lambda r: r.memory().write_value64(*r.integers("rank", "offset", "value")),
    "signal": lambda r: r.memory().signal(r.integer("rank"), r.integer("channel", 0)),
    "wait_signal": lambda r: r.memory().wait_signal(
        r.integer("rank"), r.integer("channel", 0), timeout=r.timeout()
    ),
    "signal_value": lambda r: r.memory().signal_value(
        *r.integers("rank", "value", "channel"), op=symm.SignalOp[r.text("signal")]
    ),
    "test_signal": lambda r: r.expect_count(r.memory().test_signal(*r.integers("rank", "channel"))),
    "test_signal_value": lambda r: r.expect_count(
        r.memory().test_signal_value(*r.integers("rank", "channel"))
    ),
}


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
            assert blamed == runner.parse(line.blamed), (
                f"the rank to blame is {error.rank}: {error}"
            )
    else:
        assert not line.status, "it succeeded"


def main() -> int:
    rank = int(os.environ["SYMM_RANK"])
    runner, scenarios = Runner(rank), 0
    for number, text in enumerate(Path(sys.argv[1]).read_text().splitlines(), 1):
        try:
            if text.startswith("scenario "):
                runner.begin(text.split()[1])
                scenarios += 1
            elif text and not text.startswith("#"):
                line = Line(text, rank)
                if line.mine:
                    run_line(runner, line)
        except Exception as error:
            print(f"table.txt:{number}: rank {rank}: {type(error).__name__}: {error}", flush=True)
            return 1
    print(f"rank {rank}: {scenarios} scenarios")
    return 0 if scenarios else 1


if __name__ == "__main__":
    sys.exit(main())
