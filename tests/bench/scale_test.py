"""bench/scale: its network against closed forms and SimGrid's figures, its schedules
against what they promise and a measurement.
"""

import math
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "bench" / "scale"))
import model


def slices(machines, size):
    """Slices of 8 ranks' operands go to who owns them and combines them, the results go to
    all. SimGrid 3.32 was told the same.
    """
    rail, after = (
        model.Rail(model.Cluster(machines, rail=0.97 * 48e3)),
        [[] for _ in range(machines)],
    )
    for part, combine in ((size / machines, size / 350e3), (size / 8 / machines, 0)):
        came = [[] for _ in after]
        for d in range(1, machines):
            for m in range(machines):
                came[(m + d) % machines].append(
                    rail.send(after[m], m, (m + d) % machines, part, 2.0)
                )
        after = [[rail.add(tasks, combine)] for tasks in came]
    return rail.time()


def ring(cluster, size, share, hop):
    rail, after = model.Rail(cluster), [[] for _ in range(cluster.machines)]
    for _ in range(2 * (cluster.machines - 1)):
        came = [
            rail.send(tasks, m, (m + 1) % cluster.machines, size / cluster.machines, hop, share)
            for m, tasks in enumerate(after)
        ]
        after = [[came[m - 1]] for m in range(cluster.machines)]
    return rail.time()


class Model(unittest.TestCase):
    def near(self, got, expected, part):
        self.assertLess(abs(got - expected), part * expected, f"{got} is not near {expected}")

    def test_slices_take_what_simgrid_says(self):
        for machines, size, us in (
            (2, 1 << 22, 69.2),
            (4, 1 << 22, 95.8),
            (16, 1 << 10, 16.05),
            (16, 1 << 25, 898),
            (64, 1 << 10, 54.5),
            (64, 1 << 25, 938),
            (128, 1 << 22, 223.3),
        ):
            self.near(slices(machines, size), us, 0.05)

    def test_a_ring_takes_what_its_formula_says(self):
        for machines, size in ((2, 1 << 10), (5, 1 << 26), (16, 1 << 10), (16, 1 << 26)):
            cluster = model.Cluster(machines, 1, message=0.0)
            times = (start + ring(cluster, size, share, hop) for share, start, _, hop in model.RING)
            self.near(min(times), model.nccl_ring(cluster, size), 1e-9)

    def test_trees_take_what_hops_and_cards_allow(self):
        for machines in (2, 4, 16, 64):
            cluster = model.Cluster(machines, 1)
            self.near(model.double_tree(cluster, 8, 5.0, 0.5), 2 * 5.0 * math.log2(machines), 0.2)
            self.near(
                model.double_tree(cluster, 1 << 28, 14.0, 1.0),
                min(2, machines - 1) * (1 << 28) / cluster.rail,
                0.15,
            )

    def test_a_chain_overtakes_two_shots_where_the_rule_says(self):
        for machines in (4, 8, 16):
            for widening in (1, 2):
                cluster = model.Cluster(machines)
                turn = cluster.call + model.RING[2][3] + cluster.kernel
                at = (
                    cluster.rail
                    * turn
                    * (2 * machines - 3)
                    / (1 - math.sqrt((widening + 1) / cluster.ranks)) ** 2
                )
                self.assertLess(
                    model.chain(cluster, 2 * at, widening), model.two_shot(cluster, 2 * at)
                )
                self.assertGreater(
                    model.chain(cluster, at / 2, widening), model.two_shot(cluster, at / 2)
                )

    def test_two_shots_take_what_was_measured(self):
        """In graphs, between two H100s as two machines, by sockets
        over loopback, where an exchange of 64 MB took 36.3 ms.
        """
        cluster = model.Cluster(2, 1, rail=(1 << 26) / 36.3e3, call=100.0)
        for size, us in ((1 << 22, 2204), (1 << 24, 8293), (1 << 26, 34295)):
            self.near(model.two_shot(cluster, size), us, 0.15)


if __name__ == "__main__":
    unittest.main()
