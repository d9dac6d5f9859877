"""How a time is taken. Ways take turns, each turn begins with the ranks lined up, and what
is kept are the times of every turn.

A graph of several calls is replayed; two events around it tell what the device took.
"""

import statistics

import torch
import torch.distributed as dist


class Clock:
    """Everything runs on the stream that is current when this
    is made; a graph cannot be captured on the default one.
    """

    def __init__(self, gloo):
        self.gloo, self.world = gloo, dist.get_world_size()
        self.begin, self.end = (
            torch.cuda.Event(enable_timing=True),
            torch.cuda.Event(enable_timing=True),
        )

    def everyone(self, mine):
        """What every rank passes, in their order."""
        found = [None] * self.world
        dist.all_gather_object(found, mine, group=self.gloo)
        return found

    def decided(self, value):
        """What rank 0 passes."""
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self.gloo)
        return box[0]

    @staticmethod
    def line_up():
        torch.cuda.synchronize()
        dist.barrier()

    def check(self, ways):
        """One call of each with a known result; {way: what is wrong}, the same on all ranks."""
        wrong = {}
        for way in ways:
            try:
                way.write()
                self.line_up()
                way.call()
                torch.cuda.synchronize()
                if not way.right():
                    wrong[way.name] = "wrong result"
                way.clear()
            except Exception as error:  # of whichever library; the others are still to be measured
                wrong[way.name] = str(error)
        together = {}
        for rank, found in enumerate(self.everyone(wrong)):
            for name, reason in found.items():
                together.setdefault(name, f"rank {rank}: {reason}")
        return together

    def capture(self, way, calls):
        way.call()
        self.line_up()
        graph = torch.cuda.CUDAGraph()
        # Not torch.cuda.graph(), which collects garbage
        # and empties the cache of memory each time.
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            for _ in range(calls):
                way.call()
        finally:
            graph.capture_end()
        return graph

    def measure(self, ways, calls, repeats):
        """A part of a row of results: medians of the turns on the slowest rank, and the
        times themselves by way and rank.
        """
        graphs = {way.name: self.capture(way, calls) for way in ways}
        times = {way.name: [] for way in ways}
        for name in turns([way.name for way in ways], repeats):
            graph = graphs[name]
            self.line_up()
            graph.replay()  # the ranks leave it together
            self.begin.record()
            graph.replay()
            self.end.record()
            self.end.synchronize()
            times[name].append(self.begin.elapsed_time(self.end) * 1e3 / calls)
        self.line_up()
        everyone = self.everyone(times)
        row = {"calls": calls, "repeats": repeats}
        row["times"] = {
            name: [[round(value, 4) for value in rank[name]] for rank in everyone] for name in times
        }
        row["us"] = {
            name: max(map(statistics.median, ranks)) for name, ranks in row["times"].items()
        }
        return row


def turns(items, rounds):
    """All of them once a round, each round beginning with another one."""
    for i in range(rounds):
        first = i % len(items) if items else 0
        yield from items[first:] + items[:first]
