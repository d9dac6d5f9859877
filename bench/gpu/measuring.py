"""How times are taken.

Ways take turns. Each turn begins with a barrier of the ranks, and replays a graph of several
calls between two events. The times of all turns are kept.
"""

import statistics

import torch
import torch.distributed as dist


class Clock:
    """Takes times on the current stream, which must not be the default stream.

    Graphs cannot be captured on the default stream.
    """

    def __init__(self, gloo):
        self.gloo = gloo  # a process group, for objects
        self.world = dist.get_world_size()
        self.begin = torch.cuda.Event(enable_timing=True)
        self.end = torch.cuda.Event(enable_timing=True)

    def everyone(self, mine):
        """The objects that all ranks pass, in the order of the ranks."""
        objects = [None] * self.world
        dist.all_gather_object(objects, mine, group=self.gloo)
        return objects

    def decided(self, value):
        """The object that rank 0 passes."""
        objects = [value]
        dist.broadcast_object_list(objects, src=0, group=self.gloo)
        return objects[0]

    @staticmethod
    def line_up():
        """Wait until all ranks are here, with no work on their devices."""
        torch.cuda.synchronize()
        dist.barrier()

    def check(self, ways):
        """Make one call of each way, whose result is known.

        Returns:
            {name of a way: what is wrong with it}, the same on all ranks.
        """
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
            except Exception as error:  # any library's; the other ways are still measured
                wrong[way.name] = str(error)

        wrong_on_any = {}
        for rank, wrong_on_rank in enumerate(self.everyone(wrong)):
            for name, reason in wrong_on_rank.items():
                wrong_on_any.setdefault(name, f"rank {rank}: {reason}")
        return wrong_on_any

    def capture(self, way, calls):
        """A graph of so many calls of a way."""
        way.call()
        self.line_up()
        graph = torch.cuda.CUDAGraph()
        # torch.cuda.graph() would collect garbage and empty the memory cache each time.
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            for _ in range(calls):
                way.call()
        finally:
            graph.capture_end()
        return graph

    def measure(self, ways, calls, repeats):
        """The measured part of a row of results.

        Its "times" are microseconds of one call, by way, rank and turn. Its "us" are the medians
        of the turns on the slowest rank.
        """
        graphs = {way.name: self.capture(way, calls) for way in ways}
        times = {way.name: [] for way in ways}
        for name in turns([way.name for way in ways], repeats):
            graph = graphs[name]
            self.line_up()
            graph.replay()  # this replay makes the ranks begin the measured one together
            self.begin.record()
            graph.replay()
            self.end.record()
            self.end.synchronize()
            times[name].append(self.begin.elapsed_time(self.end) * 1e3 / calls)
        self.line_up()

        by_rank = self.everyone(times)
        rounded = {
            name: [[round(time, 4) for time in rank[name]] for rank in by_rank] for name in times
        }
        slowest = {name: max(map(statistics.median, ranks)) for name, ranks in rounded.items()}
        return {"calls": calls, "repeats": repeats, "times": rounded, "us": slowest}


def turns(items, rounds):
    """All items once in each round. Each round begins with another item."""
    for i in range(rounds):
        first = i % len(items) if items else 0
        yield from items[first:] + items[:first]
