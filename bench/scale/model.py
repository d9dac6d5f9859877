"""How long an all-reduce between GPUs of 2 to 128 machines takes, by a model: python3
bench/scale/model.py prints microseconds.

A message holds its sender's card while its bytes go and, a hop later, its receiver's
while they come; who wants a card that is held waits in the order of coming. Calls of a
stream follow each other, and begin a message on both sides. All rails of a machine do
alike, so one is simulated. What NCCL takes within a call is as its tuner counts.
docs/machines.md says what is left out.
"""

import collections
import dataclasses
import heapq
import math

# LL, LL128 and Simple: which share of the bandwidth is data's;
# then the start, a hop by NVLink and one by the network.
RING = ((0.5, 6.6, 0.6, 2.7), (0.92, 14.0, 1.9, 4.0), (1.0, 8.4, 3.4, 14.0))
TREE = ((0.5, 6.8, 0.6, 5.0), (0.92, 14.0, 1.25, 8.5), (0.92, 8.4, 4.0, 14.0))
LL_MOST = 16 << 10  # bytes of a message


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Bytes per microsecond, and microseconds."""

    machines: int
    ranks: int = 8  # of a machine, each with a rail
    rail: float = 48e3  # 400 Gbit/s
    nvlink: float = 350e3
    memory: float = 2.5e6  # of a GPU, from which operands are read to be combined
    message: float = 0.4  # of a card's time, besides the bytes'
    kernel: float = 4.0  # of symm's, with its barriers
    call: float = 8.4  # of NCCL, that sends and receives

    def local(self, operand):
        """A reduce-scatter, an all-to-all or an all-gather between the ranks of a machine."""
        return self.kernel + operand * (1 - 1 / self.ranks) / self.nvlink if self.ranks > 1 else 0.0

    def combining(self, operands):
        return self.kernel + operands / self.memory


class Rail:
    """A card of each machine, and the stream that uses it."""

    def __init__(self, cluster):
        # a task: (port, lasts, lead, followers)
        self.cluster, self.tasks, self.waits = cluster, [], []
        self.last = [[] for _ in range(cluster.machines)]

    def add(self, after, lasts, lead=None, port=None):
        """What follows begins `lead` after it does, or when it is over."""
        self.tasks.append((port, lasts, lasts if lead is None else lead, []))
        self.waits.append(len(after))
        for earlier in after:
            self.tasks[earlier][3].append(len(self.tasks) - 1)
        return len(self.tasks) - 1

    def send(self, after, sender, receiver, size, hop, share=1.0, messages=1):
        lasts = messages * self.cluster.message + size / (self.cluster.rail * share)
        return self.add(
            [self.add(after, lasts, hop, ("out", sender))], lasts, port=("in", receiver)
        )

    def calls(self, messages, pieces=1):
        """One call by each machine that sends or receives a
        (sender, receiver, bytes), which is so many pieces.
        """
        for machine in {machine for message in messages for machine in message[:2]}:
            self.last[machine] = [self.add(self.last[machine], self.cluster.call)]
        for sender, receiver, size in messages:
            share, _, _, hop = RING[0 if size / pieces <= LL_MOST else 2]
            begun = [self.last[sender][0], self.last[receiver][0]]
            came = self.send(begun, sender, receiver, size, hop, share, pieces)
            self.last[sender].append(came)
            self.last[receiver].append(came)

    def time(self):
        free, begin, end = collections.defaultdict(float), [0.0] * len(self.tasks), 0.0
        ready = [(0.0, task) for task, waits in enumerate(self.waits) if waits == 0]
        while ready:
            at, task = heapq.heappop(ready)
            port, lasts, lead, followers = self.tasks[task]
            if port is not None:
                at = max(at, free[port])
                free[port] = at + lasts
            end = max(end, at + lasts)
            for follower in followers:
                begin[follower] = max(begin[follower], at + lead)
                self.waits[follower] -= 1
                if self.waits[follower] == 0:
                    heapq.heappush(ready, (begin[follower], follower))
        return end


def pieces_of(time, stages, each):
    """Into how many a pipeline cuts what takes `time`
    whole, where each piece costs something by itself.
    """
    return max(1, min(256, round(math.sqrt(time * stages / each))))


def nccl_ring(cluster, operand, laps=2):
    """All-reduce; in one lap, the all-gather of `operand` bytes in all."""
    ranks, machines = cluster.ranks * cluster.machines, cluster.machines
    most = min(cluster.ranks * cluster.rail, cluster.nvlink if cluster.ranks > 1 else math.inf)
    return min(
        start
        + laps
        * (
            (ranks - machines) * near
            + (machines - 1) * far
            + (1 - 1 / ranks) * operand / (most * share)
        )
        for share, start, near, far in RING
    )


def double_tree(cluster, operand, hop, share):
    """Halves of the operand go in pieces up and down
    two trees, in one of which each rank is a leaf.
    """
    size, rail, edges = cluster.machines, Rail(cluster), collections.defaultdict(list)
    pieces = pieces_of(
        operand / (cluster.rail * share), 2 * math.ceil(math.log2(size)), 4 * cluster.message
    )
    part = operand / 2 / pieces
    # pieces under way on a hop, so that trees take turns
    window = 2 + math.ceil(hop * cluster.rail * share / part)
    parents = {}
    for rank in range(1, size):
        bit = rank & -rank
        up = rank & ~bit | bit << 1
        parents[rank] = up if up < size else rank - bit
    order = sorted(parents, key=lambda rank: rank & -rank)  # children first

    def pass_on(after, *ends):
        done = edges[ends]
        done.append(
            rail.send(after + done[-window:][: len(done) >= window], *ends, part, hop, share)
        )
        return done[-1]

    for place in (range(size), range(size - 1, -1, -1)):
        edges.clear()
        for _ in range(pieces):
            came, went = collections.defaultdict(list), {}
            for rank in order:
                came[parents[rank]].append(pass_on(came[rank], place[rank], place[parents[rank]]))
            for rank in reversed(order):
                went[rank] = [
                    pass_on(
                        went[parents[rank]] if parents[rank] else came[0],
                        place[parents[rank]],
                        place[rank],
                    )
                ]
    return rail.time()


def nccl_tree(cluster, operand):
    inside = 2 * operand / cluster.nvlink if cluster.ranks > 1 else 0.0
    mine = operand / cluster.ranks
    return min(
        start
        + 2 * (cluster.ranks - 1) * near
        + max(inside / share, double_tree(cluster, mine, far, share))
        for share, start, near, far in TREE
    )


def one_shot(cluster, operand):
    everything = cluster.machines * cluster.ranks * operand
    return nccl_ring(cluster, everything, 1) + cluster.combining(everything)


def two_shot(cluster, operand):
    machines, rail = cluster.machines, Rail(cluster)
    rail.calls(
        [
            (m, (m + d) % machines, operand / machines)
            for d in range(1, machines)
            for m in range(machines)
        ],
        cluster.ranks,
    )
    return rail.time() + cluster.combining(operand) + nccl_ring(cluster, operand, 1)


def chain(cluster, operand, widening=1):
    """In each turn a machine makes one call: a piece of the sums comes and one goes on,
    and a piece of the results likewise.
    """
    last, rail, down = cluster.machines - 1, Rail(cluster), operand / cluster.ranks
    pieces = pieces_of(
        (widening + 1) * down / cluster.rail,
        2 * last - 1,
        cluster.call + RING[2][3] + cluster.kernel,
    )
    for turn in range(pieces + 2 * last - 1):
        adders = [machine + 1 for machine in range(last) if 0 <= turn - machine < pieces]
        backs = [
            machine for machine in range(last) if 0 <= turn - (2 * last - 1 - machine) < pieces
        ]
        rail.calls(
            [(m - 1, m, widening * down / pieces) for m in adders]
            + [(m + 1, m, down / pieces) for m in backs]
        )
        for machine in adders:
            rail.last[machine] = [rail.add(rail.last[machine], cluster.combining(operand / pieces))]
    return 2 * cluster.local(operand) + rail.time()


def hierarchical(cluster, operand):
    """Slices of each machine's sums go along the rails, and NCCL gathers the results."""
    machines, rail = cluster.machines, Rail(cluster)
    part = operand / cluster.ranks / machines
    rail.calls([(m, (m + d) % machines, part) for d in range(1, machines) for m in range(machines)])
    return (
        cluster.local(operand)
        + rail.time()
        + cluster.combining(operand / cluster.ranks)
        + nccl_ring(cluster, operand, 1)
    )


if __name__ == "__main__":
    print(
        "| bytes | machines | one shot | two shots | chain, f32 | chain, bf16 | hierarchical "
        "| NCCL, ring | NCCL, tree |"
    )
    print("|---" + "|---:" * 8 + "|")
    for name, size in {
        "16 KB": 1 << 14,
        "256 KB": 1 << 18,
        "4 MB": 1 << 22,
        "64 MB": 1 << 26,
    }.items():
        for of in map(Cluster, (2, 4, 16, 128)):
            ways = (
                one_shot,
                two_shot,
                chain,
                lambda *what: chain(*what, 2),
                hierarchical,
                nccl_ring,
                nccl_tree,
            )
            print(
                f"| {name} | {of.machines} |",
                " | ".join(f"{way(of, size):,.0f}" for way in ways),
                "|",
            )
