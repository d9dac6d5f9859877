#!/usr/bin/env python3
"""Measures lists of pages between two processes on one GPU by NIXL, as bench/gpu/pieces does symm.

NIXL (`pip install nixl`) writes by its UCX back end, and notifies the other process with the last
page. Times are from the call until the notification is seen there, medians of the turns in
microseconds, with the first and the last decile, and beside them the part in which the call posts
the pages.
"""

import argparse
import importlib
import logging
import multiprocessing
import os
import statistics
import sys
import time

SHAPES = ["10000x8192", "100000x46080", "100000x256", "32x8192", "10000x65536", "1000x1048576"]
LOOKED_AT = 3  # words of each page
DEADLINE_S = 60


def nixl_module():
    for name in ("nixl_cu13", "nixl_cu12", "nixl"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise SystemExit("NIXL is not installed")


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=21)
    parser.add_argument("--memory", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument(
        "--seconds", type=float, default=60, help="no shape takes turns for longer than this"
    )
    parser.add_argument("shapes", nargs="*", default=SHAPES, help="pages x bytes of each")
    return parser.parse_args()


class Side:
    """An agent of NIXL, with memory of words that are numbers and a place to write to."""

    def __init__(self, name, memory, words):
        import torch

        nixl = nixl_module()
        logging.disable(logging.INFO)
        self.torch = torch
        self.kind = "VRAM" if memory == "cuda" else "DRAM"
        self.agent = nixl.nixl_agent(name, nixl.nixl_agent_config(backends=["UCX"]))
        self.words = torch.arange(words, dtype=torch.int64, device=memory)
        if name == "receiver":
            self.words.fill_(-1)
        if memory == "cuda":
            torch.cuda.synchronize()
        self.agent.register_memory([self.words])

    def places(self, base, pages, length):
        """The descriptors of pages that lie one behind the other."""
        import numpy

        rows = numpy.empty((pages, 3), dtype=numpy.uint64)
        rows[:, 0] = base + numpy.arange(pages, dtype=numpy.uint64) * length
        rows[:, 1] = length
        rows[:, 2] = 0
        return rows


def shuffled(pages, seed):
    import numpy

    return numpy.random.default_rng(seed).permutation(pages).astype(numpy.int32)


def receive(memory, words, pipe):
    """Answer each command: wait for a notification, look at the pages that came, or end."""
    side = Side("receiver", memory, words)
    pipe.send((side.agent.get_agent_metadata(), side.words.data_ptr()))
    side.agent.add_remote_agent(pipe.recv())
    pipe.send("ready")

    for command, *what in iter(pipe.recv, ("end",)):
        if command == "wait":
            notes = []
            until = time.monotonic() + DEADLINE_S
            while not notes and time.monotonic() < until:
                notes = side.agent.get_new_notifs().get("sender", [])
            pipe.send((time.monotonic_ns(), notes))
        else:
            pages, length, from_seed, to_seed = what
            pipe.send(wrong_words(side, pages, length // 8, from_seed, to_seed))
    pipe.send("ended")
    os._exit(0)  # some versions of NIXL crash while Python takes their modules down


def wrong_words(side, pages, words, from_seed, to_seed):
    torch = side.torch
    device = side.words.device
    of_page = side.words[: pages * words].view(pages, words)
    columns = torch.tensor([0, words // 2, words - 1][:LOOKED_AT], device=device)
    to = torch.from_numpy(shuffled(pages, to_seed)).long().to(device)
    source = torch.from_numpy(shuffled(pages, from_seed)).long().to(device)
    expected = source[:, None] * words + columns[None, :]
    wrong = int((of_page[to][:, columns] != expected).sum())
    side.words.fill_(-1)
    if device.type == "cuda":
        torch.cuda.synchronize()
    return wrong


class Sender:
    def __init__(self, memory, words, pipe):
        self.side = Side("sender", memory, words)
        self.pipe = pipe
        metadata, self.there = pipe.recv()
        self.peer = self.side.agent.add_remote_agent(metadata)
        pipe.send(self.side.agent.get_agent_metadata())
        assert pipe.recv() == "ready"

    def ways(self, pages, length):
        """{name: function that returns a request}"""
        side, agent = self.side, self.side.agent
        here = side.places(side.words.data_ptr(), pages, length)
        there = side.places(self.there, pages, length)
        sources, targets = shuffled(pages, 1), shuffled(pages, 2)
        own = agent.prep_xfer_dlist("NIXL_INIT_AGENT", here, side.kind)
        others = agent.prep_xfer_dlist(self.peer, there, side.kind)

        def by_indices():
            return agent.make_prepped_xfer(
                "WRITE", own, sources, others, targets, b"here", skip_desc_merge=True
            )

        def anew():
            return agent.initialize_xfer(
                "WRITE",
                agent.get_xfer_descs(here[sources], side.kind),
                agent.get_xfer_descs(there[targets], side.kind),
                self.peer,
                b"here",
            )

        kept = by_indices()
        return {
            "descriptors made in the call": anew,
            "indices into prepared lists": by_indices,
            "one prepared request again": lambda: kept,
        }

    def write(self, way):
        """(ns until the notification was seen, ns until all was posted)"""
        agent = self.side.agent
        self.pipe.send(("wait",))
        time.sleep(0.002)
        begin = time.monotonic_ns()
        request = way()
        state = agent.transfer(request)
        posted = time.monotonic_ns()
        until = time.monotonic() + DEADLINE_S
        while state == "PROC" and time.monotonic() < until:
            state = agent.check_xfer_state(request)
        if state != "DONE":
            raise SystemExit(f"NIXL: the transfer is {state}")
        seen, notes = self.pipe.recv()
        if notes != [b"here"]:
            raise SystemExit(f"NIXL: the notifications are {notes}")
        return seen - begin, posted - begin

    def measure(self, pages, length, turns, seconds):
        print(f"{pages} x {length} bytes")
        for name, way in self.ways(pages, length).items():
            times = []
            until = time.monotonic() + seconds / 3
            while len(times) <= turns and (len(times) < 3 or time.monotonic() < until):
                times.append(self.write(way))
                if len(times) > 1:
                    continue
                self.pipe.send(("look", pages, length, 1, 2))
                wrong = self.pipe.recv()
                if wrong:
                    raise SystemExit(f"NIXL: {wrong} wrong words")
            del times[0]  # connects
            print(line(name, times, pages * length), flush=True)


def line(name, times, size):
    whole = sorted(seen / 1000 for seen, _ in times)
    median = statistics.median(whole)
    posted = statistics.median(posted for _, posted in times) / 1000
    low, high = whole[len(whole) // 10], whole[-1 - len(whole) // 10]
    return (
        f"  {name:<28} {median:10.1f} us ({low:.1f} .. {high:.1f}), {size / median / 1000:7.1f} "
        f"GB/s, posted after {posted:.1f}, {len(whole)} turns"
    )


def main():
    chosen = options()
    nixl_module()
    shapes = [tuple(map(int, shape.split("x"))) for shape in chosen.shapes]
    words = max(pages * length for pages, length in shapes) // 8
    context = multiprocessing.get_context("spawn")
    mine, others = context.Pipe()
    receiver = context.Process(target=receive, args=(chosen.memory, words, others), daemon=True)
    receiver.start()
    others.close()

    sender = Sender(chosen.memory, words, mine)
    for pages, length in shapes:
        sender.measure(pages, length, chosen.turns, chosen.seconds)
    mine.send(("end",))
    mine.recv()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
