"""Runs tests/bindings/behaviours/table.txt as one of three ranks: behaviours.py <table>. Its README says how a line is read."""

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
COMBINE = {"SUM": sum, "AVG": lambda values: int(sum(values) / RANKS), "MIN": min, "MAX": max, "PROD": math.prod}


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
        self.rank = rank

    def text(self, key: str, otherwise: str | None = None) -> str:
        self.used.add(key)
        value = self.values.get(key, otherwise)
        assert value is not None, f"{self.verb} without {key}="
        return value

    def integer(self, key: str, otherwise: int | None = None) -> int:
        return self.parse(self.text(key, None if otherwise is None else str(otherwise)))

    def parse(self, value: str) -> int:
        by_rank = value.split(",")
        one = by_rank[0] if len(by_rank) == 1 else by_rank[self.rank]
        relative = {"self": 0, "left": -1, "right": 1}
        return (self.rank + relative[one]) % RANKS if one in relative else int(one, 0)

    def integers(self, *keys: str) -> list[int]:
        return [self.integer(key) for key in keys]

    def compare(self) -> symm.Compare:
        return symm.Compare[self.text("compare")]

    def formula(self, rank: int, i: int) -> int:
        a, b, m, c = (int(part) for part in self.text("f").split(":"))
        return (a * rank + b * i) % m + c

    def ranks(self, key: str) -> list[int]:
        return [int(rank) for rank in self.text(key, "").split(":") if rank]

    def timeout(self) -> float | None:
        return 0 if self.text("timeout_ms", "") == "now" else self.integer("timeout_ms", 0) / 1000 or None


def create(name: str, timeout: float | None, **flags: bool) -> symm.Group:
    return symm.Group.from_env(backend="host", name=name, timeout=60, create_timeout=timeout, **flags)


class Runner:
    def __init__(self, rank: int):
        self.rank = rank
        self.things: dict[str, object] = {}

    def begin(self, scenario: str) -> None:
        self.things = {}
        self.things = {"group": create(scenario, 60)}

    def run(self, line: Line) -> None:
        verb = VERBS.get(line.verb)
        made = verb(self, line) if verb else getattr(self, "do_" + line.verb)(line)
        if "as" in line.values:
            self.things[line.text("as")] = made
        unused = set(line.values) - line.used
        assert not unused, f"{line.verb} has no keys {unused}"

    def group(self, line: Line) -> symm.Group:
        return self.things[line.text("group", "group")]

    def thing(self, line: Line, key: str) -> object:
        return self.things[line.text(key)]

    def memory(self, line: Line) -> symm.Memory:
        thing = self.thing(line, "memory")
        return thing.memory if isinstance(thing, symm.Heap) else thing

    def far(self, line: Line) -> bool:
        """On another machine: its memory is not mapped here, and a copy stands for it. Only in the group of the scenario."""
        return not self.things["group"].peer_info(line.integer("rank", self.rank)).mapped

    def operand(self, line: Line, key: str, count: int, dtype: DType) -> object:
        """The array at name+offset: symmetric, or a NumPy view of a private one."""
        name, _, offset = line.text(key).partition("+")
        at, thing = line.parse(offset), self.things[name]
        thing = thing.memory if isinstance(thing, symm.Heap) else thing
        if isinstance(thing, symm.Memory):
            rank = line.integer("rank", thing.rank) if key == "at" else thing.rank
            if rank != thing.rank and self.far(line):
                copy = np.zeros(count, f"u{dtype.itemsize}")
                thing.get(rank, at, copy)
                return copy
            return thing.array(count, dtype, rank=rank, offset=at)
        return np.frombuffer(thing, numpy_type(dtype), count, at)

    def piece(self, line: Line, key: str = "at", count: int | None = None) -> object:
        return self.operand(line, key, count or line.integer("bytes"), dtype_of("u8"))

    def address(self, line: Line) -> int:
        where = self.piece(line, count=1)
        return where.ctypes.data if isinstance(where, np.ndarray) else where.pointer

    def words_at(self, line: Line, dtype: DType) -> np.ndarray:
        """The elements at `at` as unsigned integers."""
        array = self.operand(line, "at", line.integer("count"), dtype)
        return np.asarray(array).view(f"u{dtype.itemsize}")

    def compare(self, line: Line, found: object, *keys: str) -> None:
        for key in keys:
            if key in line.values:
                assert getattr(found, key) == line.integer(key), f"{key} is {getattr(found, key)}"

    def do_expect_status(self, line: Line) -> None:
        status = self.group(line).status()
        assert status.status == symm.Status[line.text("status")], f"the status is {status}"
        self.compare(line, status, "failed_rank")

    def do_await(self, line: Line) -> None:
        deadline = time.monotonic() + 20
        while self.group(line).status().ok and time.monotonic() < deadline:
            time.sleep(0.001)
        self.do_expect_status(line)

    def do_split(self, line: Line) -> symm.Group | None:
        color = line.integer("color")
        part = self.group(line).split(color, line.integer("key"))
        assert (part is None) == (color < 0)
        return part

    def do_rendezvous_again(self, line: Line) -> symm.Memory:
        again = self.group(line).rendezvous(self.thing(line, "buffer"))
        assert again.id == self.memory(line).id
        return again

    def do_expect_piece(self, line: Line) -> None:
        heap = self.thing(line, "heap")
        address, nbytes = heap.find(self.address(line)) or (heap.memory.pointer(), 0)
        seen = {"offset": address - heap.memory.pointer(), "bytes": nbytes}
        assert all(line.integer(key) == seen[key] for key in seen if key in line.values), f"the piece is {seen}"

    def do_find(self, line: Line) -> None:
        if self.far(line):
            line.used.update(line.values)  # and found by no address
            return
        address = self.address(line)
        if not line.text("memory", ""):
            assert (self.group(line).find(address), symm.find_buffer(address)) == (None, None)
            return
        memory, rank, offset = self.memory(line), line.integer("rank"), line.integer("offset")
        assert self.group(line).find(address) == (memory.id, rank, offset)
        own = symm.find_buffer(address)
        if rank == self.rank:
            assert own is not None
            assert own[1] == offset
            found = self.group(line).memory_of(own[0])
            assert found is not None
            assert found.id == memory.id

    def do_write(self, line: Line) -> None:
        dtype = dtype_of(line.text("dtype").lower())
        words = self.words_at(line, dtype)
        words[:] = encode(dtype, [line.formula(self.rank, i) for i in range(len(words))])
        if self.far(line):
            name, _, offset = line.text("at").partition("+")
            self.things[name].put(line.integer("rank"), line.parse(offset), words)

    def do_expect(self, line: Line) -> None:
        if self.far(line) and not self.group(line).status().ok:
            line.used.update(line.values)  # what a dead machine had is gone
            return
        dtype = dtype_of(line.text("dtype").lower())
        words, shift = self.words_at(line, dtype), line.integer("shift", 0)
        op, rank = line.text("op", ""), line.integer("from", self.rank)
        ranks, times = range(RANKS) if op else [rank], line.integer("times", 1)
        operands = ([line.formula(r, i + shift) for r in ranks] for i in range(len(words)))
        values = [COMBINE[op or "SUM"](of_all) * times for of_all in operands]
        for i, (seen, right) in enumerate(zip(words.tolist(), encode(dtype, values).tolist(), strict=True)):
            assert seen == right, f"element {i} has the bits {seen:#x}, not {right:#x}, those of {values[i]}"

    def expect_count(self, line: Line, seen: int | None) -> None:
        if "expected" in line.values:
            assert seen == line.integer("expected"), f"{seen} was seen"

    def do_wait_signal_value(self, line: Line) -> None:
        rank, value, channel = line.integers("rank", "value", "channel")
        seen = self.memory(line).wait_signal_value(rank, line.compare(), value, channel, timeout=line.timeout())
        self.expect_count(line, seen)

    def do_wait_signals(self, line: Line) -> None:
        channel, value = line.integers("channel", "value")
        waits = [symm.SignalWait(rank, channel, line.compare(), value) for rank in line.ranks("among")]
        if line.integer("any"):
            self.expect_count(line, self.memory(line).wait_any_signal(waits, timeout=line.timeout()))
        else:
            self.memory(line).wait_all_signals(waits, timeout=line.timeout())

    def do_wait_value(self, line: Line) -> None:
        wait = getattr(self.memory(line), line.verb)
        wait(line.integer("offset"), line.compare(), line.integer("value"), timeout=line.timeout())

    do_wait_value32 = do_wait_value64 = do_wait_value

    # ---- collectives

    def do_blocks(self, line: Line) -> None:
        group, dtype = self.group(line), dtype_of(line.text("dtype").lower())

        def numbers(key: str) -> list[int] | None:
            return [int(one) for one in line.text(key).split(":")] if key in line.values else None

        def operand(key: str) -> tuple[object, list[int] | None, list[int] | None]:
            counts, at = numbers(f"{key}_counts"), numbers(f"{key}_displacements")
            other = numbers("recv_counts" if key == "send" else "send_counts")
            places = at or [sum((counts or [])[:r]) for r in range(RANKS)]
            ends = [p + n for p, n in zip(places, counts, strict=True) if n] if counts else [(other or [])[group.rank]]
            return self.operand(line, key, max(ends, default=0), dtype), counts, at

        (send, send_counts, send_at), (recv, recv_counts, recv_at) = operand("send"), operand("recv")
        if line.verb == "allgatherv":
            group.allgatherv(send, recv, recv_counts, recv_at)
        elif line.verb == "reduce_scatterv":
            group.reduce_scatterv(send, send_counts, recv, line.text("op"), send_at)
        elif line.verb == "alltoallv":
            group.alltoallv(send, send_counts, recv, recv_counts, send_at, recv_at)
        else:
            send, recv = (self.operand(line, key, line.integer(f"{key}_capacity"), dtype) for key in ("send", "recv"))
            lists = (array("q", one) if one else None for one in (send_counts, recv_counts, send_at, recv_at))
            send_numbers, recv_numbers, *places = lists
            group.alltoallv_device(send, send_numbers, recv, recv_numbers, *places)

    do_allgatherv = do_reduce_scatterv = do_alltoallv = do_alltoallv_device = do_blocks

    def do_allgather_rows(self, line: Line) -> None:
        dtype, rows, count, stride = dtype_of(line.text("dtype").lower()), *map(line.integer, ("rows", "count", "recv_stride"))
        send, recv = self.operand(line, "send", rows * count, dtype), self.operand(line, "recv", rows * stride, dtype)
        self.group(line).allgather_rows(send, recv, rows, stride)

    def do_allreduce_rmsnorm(self, line: Line) -> None:
        dtype, tokens, hidden = dtype_of(line.text("dtype").lower()), line.integer("tokens"), line.integer("hidden")
        of_group = line.text("quant_scale", "TENSOR") == "GROUP"
        kinds = {"weight": (hidden, dtype), "quant_out": (tokens * hidden, symm.f8e4m3), "scale_in": (1, symm.f32)}
        kinds["scale_out"] = tokens * hidden // 128 if of_group else tokens, symm.f32
        names = ("weight", "residual_in", "residual_out", "norm_out", "quant_out", "scale_in", "scale_out")
        operands = {
            name: self.operand(line, name, *kinds.get(name, (tokens * hidden, dtype))) for name in names if name in line.values
        }
        offset = line.integer("weight_offset", 0)
        send = self.operand(line, "send", tokens * hidden, dtype)
        self.group(line).allreduce_rmsnorm(send, epsilon=0, weight_offset=offset, **operands)

    def do_collective(self, line: Line) -> None:
        count = line.integer("count")
        group, dtype = self.group(line), dtype_of(line.text("dtype").lower())
        factor = {"reduce_scatter": (group.size, 1), "allgather": (1, group.size), "alltoall": (group.size, group.size)}
        factor |= {"gather": factor["allgather"], "scatter": factor["reduce_scatter"]}
        of_send, of_recv = factor.get(line.verb, (1, 1))
        send = self.operand(line, "send", of_send * count, dtype)
        recv = self.operand(
            line, "recv", of_recv * count, dtype_of(line.text("result").lower()) if "result" in line.values else dtype
        )
        options = {key: line.text(key) for key in ("op", "algorithm") if key in line.values}
        if "root" in line.values:
            options["root"] = line.integer("root")
        if "position" in line.values:
            options["scale_position"] = line.text("position")
            at = "scale_at" in line.values
            options["scale"] = self.operand(line, "scale_at", 1, symm.f32) if at else line.integer("scale")
        if line.integer("in_place", 0) and (line.verb not in ("gather", "scatter") or options["root"] == group.rank):
            send, recv = (None, recv) if line.verb in ("allgather", "gather") else (send, None)
        getattr(group, line.verb)(send, recv, **options)

    do_allreduce = do_reduce_scatter = do_allgather = do_broadcast = do_reduce = do_alltoall = do_collective
    do_gather = do_scatter = do_collective


def expect(found: object, expected: object) -> None:
    assert found == expected, f"{found} is not {expected}"


# What the verb makes is called as the line says.
VERBS = {
    "expect_group": lambda r, line: r.compare(line, r.group(line).info(), "rank", "size", "channels"),
    "create": lambda r, line: create(
        line.text("as"), line.timeout(), **{flag: line.integer(flag, 0) != 0 for flag in ("shared_scratch", "check")}
    ),
    "local": lambda r, line: r.group(line).local(),
    "create_from_ranks": lambda r, line: r.group(line).create_from_ranks(line.ranks("ranks")),
    "shrink": lambda r, line: r.group(line).shrink(),
    "expect_failed": lambda r, line: expect(r.group(line).failed_ranks(), line.ranks("ranks")),
    "finalize": lambda r, line: r.group(line).finalize(),
    "abort": lambda r, line: r.group(line).abort(line.text("reason")),
    "synchronize": lambda r, line: r.group(line).synchronize(timeout=line.timeout()),
    "stream_wait": lambda r, line: r.group(line).stream_wait(),
    "expect_stream_done": lambda r, line: expect(r.group(line).stream_done(), True),
    "record_use": lambda r, line: r.thing(line, "name").record_use(0),
    "die": lambda r, line: os.kill(os.getpid(), signal.SIGKILL),
    "barrier": lambda r, line: r.group(line).barrier(
        line.ranks("among") or None, channel=line.integer("channel", 0), timeout=line.timeout()
    ),
    "private": lambda r, line: bytearray(line.integer("bytes")),
    "alloc": lambda r, line: r.group(line).alloc(line.integer("bytes"), alignment=line.integer("alignment", 0)),
    "rendezvous": lambda r, line: r.group(line).rendezvous(
        r.thing(line, "buffer"), line.integer("tag", 0), channels=line.integer("channels", 0)
    ),
    "heap": lambda r, line: r.group(line).heap(line.integer("bytes")),
    "take": lambda r, line: r.compare(
        line, r.thing(line, "heap").empty(line.integer("bytes"), "u8", alignment=line.integer("alignment", 0)), "offset"
    ),
    "give": lambda r, line: r.thing(line, "heap").free(SimpleNamespace(pointer=r.address(line), nbytes=1)),
    "expect_heap": lambda r, line: r.compare(
        line, r.thing(line, "heap").info(), "used_bytes", "free_bytes", "largest_free", "pieces", "fragmentation"
    ),
    "release": lambda r, line: r.thing(line, "name").close(),
    "export": lambda r, line: r.piece(line).export_token(hold=line.integer("hold_ms", 0) / 1000 or None),
    "import": lambda r, line: symm.import_token(r.thing(line, "token")),
    "expect_import": lambda r, line: r.compare(line, r.thing(line, "import").info(), "bytes", "offset", "host_memory"),
    "expect_holders": lambda r, line: r.compare(line, r.piece(line).holders(), "leases", "processes", "quarantined"),
    "withdraw": lambda r, line: r.piece(line).withdraw(line.timeout()),
    "expect_memory": lambda r, line: r.compare(line, r.memory(line).info(), "rank", "size", "bytes", "channels"),
    "put": lambda r, line: r.memory(line).put(*line.integers("rank", "offset"), r.piece(line, "source")),
    "put_signal": lambda r, line: r.memory(line).put(
        *line.integers("rank", "offset"), r.piece(line, "source"), signal=line.integer("channel", 0)
    ),
    "get": lambda r, line: r.memory(line).get(*line.integers("rank", "offset"), r.piece(line, "destination")),
    "fill32": lambda r, line: r.memory(line).fill32(*line.integers("rank", "offset", "value", "count")),
    "write_value32": lambda r, line: r.memory(line).write_value32(*line.integers("rank", "offset", "value")),
    "write_value64": lambda r, line: r.memory(line).write_value64(*line.integers("rank", "offset", "value")),
    "signal": lambda r, line: r.memory(line).signal(line.integer("rank"), line.integer("channel", 0)),
    "wait_signal": lambda r, line: r.memory(line).wait_signal(
        line.integer("rank"), line.integer("channel", 0), timeout=line.timeout()
    ),
    "signal_value": lambda r, line: r.memory(line).signal_value(
        *line.integers("rank", "value", "channel"), op=symm.SignalOp[line.text("signal")]
    ),
    "test_signal": lambda r, line: r.expect_count(line, r.memory(line).test_signal(*line.integers("rank", "channel"))),
    "test_signal_value": lambda r, line: r.expect_count(
        line, r.memory(line).test_signal_value(*line.integers("rank", "channel"))
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
            assert blamed == line.parse(line.blamed), f"the rank to blame is {error.rank}: {error}"
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
