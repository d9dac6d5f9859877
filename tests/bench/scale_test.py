"""bench/scale: its network against closed forms and figures of SimGrid, its schedules against
their rules and a measurement.
"""

import itertools
import math
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "bench" / "scale"))
import model


def slices(machines, size):
    """The time of an all-reduce by slices.

    Each machine owns a slice. Slices of the operands of 8 ranks go to their owners, which
    combine them. The results go to all machines. SimGrid 3.32 simulated the same schedule.
    """
    rail = model.Rail(model.Cluster(machines, rail=0.97 * 48e3))
    after = [[] for _ in range(machines)]
    for part, combine in ((size / machines, size / 350e3), (size / 8 / machines, 0)):
        received = [[] for _ in range(machines)]
        for distance in range(1, machines):
            for sender in range(machines):
                receiver = (sender + distance) % machines
                task = rail.send(after[sender], sender, receiver, part, 2.0)
                received[receiver].append(task)
        after = [[rail.add(tasks, combine)] for tasks in received]
    return rail.time()


def ring(cluster, size, share, hop):
    """The time of an all-reduce by a ring of the machines."""
    machines = cluster.machines
    rail = model.Rail(cluster)
    after = [[] for _ in range(machines)]
    for _ in range(2 * (machines - 1)):
        sent = [
            rail.send(tasks, m, (m + 1) % machines, size / machines, hop, share)
            for m, tasks in enumerate(after)
        ]
        after = [[sent[m - 1]] for m in range(machines)]
    return rail.time()


class Model(unittest.TestCase):
    def assert_near(self, got, expected, tolerance):
        difference = abs(got - expected)
        self.assertLess(difference, tolerance * expected, f"{got} is not near {expected}")

    def test_slices_take_the_time_that_simgrid_computes(self):
        for machines, size, us in (
            (2, 1 << 22, 69.2),
            (4, 1 << 22, 95.8),
            (16, 1 << 10, 16.05),
            (16, 1 << 25, 898),
            (64, 1 << 10, 54.5),
            (64, 1 << 25, 938),
            (128, 1 << 22, 223.3),
        ):
            with self.subTest(machines=machines, size=size):
                self.assert_near(slices(machines, size), us, 0.05)

    def test_a_ring_takes_the_time_of_its_formula(self):
        for machines, size in ((2, 1 << 10), (5, 1 << 26), (16, 1 << 10), (16, 1 << 26)):
            with self.subTest(machines=machines, size=size):
                cluster = model.Cluster(machines, 1, message=0.0)
                times = [
                    start + ring(cluster, size, share, hop) for share, start, _, hop in model.RING
                ]
                self.assert_near(min(times), model.nccl_ring(cluster, size), 1e-9)

    def test_a_small_tree_takes_the_time_of_its_hops_and_a_large_one_that_of_its_cards(self):
        large = 1 << 28
        for machines in (2, 4, 16, 64):
            with self.subTest(machines=machines):
                cluster = model.Cluster(machines, 1)
                hops = 2 * 5.0 * math.log2(machines)
                self.assert_near(model.double_tree(cluster, 8, 5.0, 0.5), hops, 0.2)
                cards = min(2, machines - 1) * large / cluster.rail
                self.assert_near(model.double_tree(cluster, large, 14.0, 1.0), cards, 0.15)

    def assert_chain_overtakes_two_shots(self, machines, widening):
        cluster = model.Cluster(machines)
        turn = cluster.call + model.RING[2][3] + cluster.kernel
        saved = (1 - math.sqrt((widening + 1) / cluster.ranks)) ** 2
        at = cluster.rail * turn * (2 * machines - 3) / saved
        self.assertLess(model.chain(cluster, 2 * at, widening), model.two_shot(cluster, 2 * at))
        self.assertGreater(model.chain(cluster, at / 2, widening), model.two_shot(cluster, at / 2))

    def test_a_chain_overtakes_two_shots_at_the_size_of_the_rule(self):
        for machines, widening in itertools.product((4, 8, 16), (1, 2)):
            with self.subTest(machines=machines, widening=widening):
                self.assert_chain_overtakes_two_shots(machines, widening)

    def test_two_shots_take_the_time_that_was_measured(self):
        """The times were measured in graphs, between two H100s as two machines, by sockets over
        loopback. There an exchange of 64 MB took 36.3 ms.
        """
        cluster = model.Cluster(2, 1, rail=(1 << 26) / 36.3e3, call=100.0)
        for size, us in ((1 << 22, 2204), (1 << 24, 8293), (1 << 26, 34295)):
            with self.subTest(size=size):
                self.assert_near(model.two_shot(cluster, size), us, 0.15)


if __name__ == "__main__":
    unittest.main()
