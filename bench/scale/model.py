"""A model of the time of an all-reduce between GPUs of 2 to 128 machines.

`python3 bench/scale/model.py` prints microseconds.

The model:

1. A message occupies its sender's network card while its bytes are sent and, a hop later, its
   receiver's card while they arrive.
2. A message that needs an occupied card waits, in the order of arrival.
3. Calls of a stream follow each other. A message begins when the calls of both sides have.
4. All rails of a machine do the same, so one rail is simulated.
5. The time within a call of NCCL is what NCCL's tuner computes.

docs/machines.md says what the model leaves out.
"""

import collections
import dataclasses
import heapq
import math

# NCCL's protocols LL, LL128 and Simple: the share of the bandwidth that is data; then the start
# of a call, a hop by NVLink and a hop by the network, in microseconds.
RING = ((0.5, 6.6, 0.6, 2.7), (0.92, 14.0, 1.9, 4.0), (1.0, 8.4, 3.4, 14.0))
TREE = ((0.5, 6.8, 0.6, 5.0), (0.92, 14.0, 1.25, 8.5), (0.92, 8.4, 4.0, 14.0))
LL_LARGEST = 16 << 10  # bytes of a message


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Machines and what connects them: bytes per microsecond, and microseconds."""

    machines: int
    ranks: int = 8  # of a machine; each has a rail
    rail: float = 48e3  # 400 Gbit/s
    nvlink: float = 350e3
    memory: float = 2.5e6  # reads of operands by a GPU that combines them
    message: float = 0.4  # time of a card for a message, in addition to that for its bytes
    kernel: float = 4.0  # of symm, with its barriers
    call: float = 8.4  # of NCCL, to send and receive

    def local(self, operand):
        """A reduce-scatter, an all-to-all or an all-gather between the ranks of a machine."""
        if self.ranks == 1:
            return 0.0
        return self.kernel + operand * (1 - 1 / self.ranks) / self.nvlink

    def combining(self, operands):
        """A kernel that reads `operands` bytes and combines them."""
        return self.kernel + operands / self.memory


@dataclasses.dataclass
class Task:
    """Something that lasts, perhaps on a port of a card."""

    port: tuple | None  # ("out", machine) or ("in", machine)
    lasts: float
    lead: float  # followers begin so much later than the task begins
    followers: list = dataclasses.field(default_factory=list)
    waits_for: int = 0  # number of tasks that it follows


class Rail:
    """The cards of one rail, one in each machine, and the streams that use them."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.tasks = []
        self.last = [[] for _ in range(cluster.machines)]  # the last tasks of each stream

    def add(self, after, lasts, lead=None, port=None):
        """Add a task that follows the tasks `after`. Returns its number.

        Its followers begin `lead` after it has begun; without `lead`, when it is over.
        """
        number = len(self.tasks)
        task = Task(port, lasts, lasts if lead is None else lead, waits_for=len(after))
        self.tasks.append(task)
        for earlier in after:
            self.tasks[earlier].followers.append(number)
        return number

    def send(self, after, sender, receiver, size, hop, share=1.0, messages=1):
        """Add a transfer of `size` bytes. Returns the number of the task that receives."""
        lasts = messages * self.cluster.message + size / (self.cluster.rail * share)
        sent = self.add(after, lasts, hop, ("out", sender))
        return self.add([sent], lasts, port=("in", receiver))

    def calls(self, messages, pieces=1):
        """One call of each machine that is in a message (sender, receiver, bytes) of `pieces`."""
        for machine in {machine for message in messages for machine in message[:2]}:
            self.last[machine] = [self.add(self.last[machine], self.cluster.call)]
        for sender, receiver, size in messages:
            share, _, _, hop = RING[0 if size / pieces <= LL_LARGEST else 2]
            both_calls = [self.last[sender][0], self.last[receiver][0]]
            received = self.send(both_calls, sender, receiver, size, hop, share, pieces)
            self.last[sender].append(received)
            self.last[receiver].append(received)

    def time(self):
        """The time at which the last task is over."""
        free = collections.defaultdict(float)  # when a port is free
        begin = [0.0] * len(self.tasks)
        end = 0.0
        ready = [(0.0, number) for number, task in enumerate(self.tasks) if task.waits_for == 0]

        while ready:
            at, number = heapq.heappop(ready)
            task = self.tasks[number]
            if task.port is not None:
                at = max(at, free[task.port])
                free[task.port] = at + task.lasts
            end = max(end, at + task.lasts)
            for follower in task.followers:
                begin[follower] = max(begin[follower], at + task.lead)
                self.tasks[follower].waits_for -= 1
                if self.tasks[follower].waits_for == 0:
                    heapq.heappush(ready, (begin[follower], follower))

        return end


def pieces_of(time, stages, each):
    """The number of pieces into which a pipeline of `stages` divides its work.

    The work takes `time` as a whole, and each piece costs `each` in addition.
    """
    return max(1, min(256, round(math.sqrt(time * stages / each))))


def nccl_ring(cluster, operand, laps=2):
    """An all-reduce; with one lap, an all-gather of `operand` bytes in all."""
    ranks = cluster.ranks * cluster.machines
    near_hops = ranks - cluster.machines
    far_hops = cluster.machines - 1
    bandwidth = cluster.ranks * cluster.rail
    if cluster.ranks > 1:
        bandwidth = min(bandwidth, cluster.nvlink)

    def time(share, start, near, far):
        transfer = (1 - 1 / ranks) * operand / (bandwidth * share)
        return start + laps * (near_hops * near + far_hops * far + transfer)

    return min(time(*protocol) for protocol in RING)


def tree_parents(size):
    """{rank: parent} of a binary tree whose root is 0 and whose leaves are the odd ranks."""
    parents = {}
    for rank in range(1, size):
        bit = rank & -rank
        up = rank & ~bit | bit << 1
        parents[rank] = up if up < size else rank - bit
    return parents


def double_tree(cluster, operand, hop, share):
    """Two trees, each of which has half of the operand, in pieces that go up and down.

    Each rank is a leaf in one of the trees.
    """
    size = cluster.machines
    rail = Rail(cluster)
    edges = collections.defaultdict(list)  # the transfers between two machines, in order
    stages = 2 * math.ceil(math.log2(size))
    pieces = pieces_of(operand / (cluster.rail * share), stages, 4 * cluster.message)
    part = operand / 2 / pieces
    # So many pieces are under way on a hop at most, so that the trees take turns.
    window = 2 + math.ceil(hop * cluster.rail * share / part)

    def pass_on(after, sender, receiver):
        earlier = edges[sender, receiver]
        if len(earlier) >= window:
            after = [*after, earlier[-window]]
        earlier.append(rail.send(after, sender, receiver, part, hop, share))
        return earlier[-1]

    parents = tree_parents(size)
    children_first = sorted(parents, key=lambda rank: rank & -rank)
    for machine_of in (range(size), range(size - 1, -1, -1)):
        edges.clear()
        for _ in range(pieces):
            came = collections.defaultdict(list)  # the pieces that came up to each rank
            went = {}  # the piece that went down to each rank
            for rank in children_first:
                parent = parents[rank]
                came[parent].append(pass_on(came[rank], machine_of[rank], machine_of[parent]))
            for rank in reversed(children_first):
                parent = parents[rank]
                after = went[parent] if parent else came[0]
                went[rank] = [pass_on(after, machine_of[parent], machine_of[rank])]
    return rail.time()


def nccl_tree(cluster, operand):
    inside = 2 * operand / cluster.nvlink if cluster.ranks > 1 else 0.0
    own = operand / cluster.ranks

    def time(share, start, near, far):
        between = double_tree(cluster, own, far, share)
        return start + 2 * (cluster.ranks - 1) * near + max(inside / share, between)

    return min(time(*protocol) for protocol in TREE)


def one_shot(cluster, operand):
    everything = cluster.machines * cluster.ranks * operand
    return nccl_ring(cluster, everything, 1) + cluster.combining(everything)


def exchange(machines, size):
    """The messages by which every machine sends `size` bytes to every other one."""
    return [(m, (m + d) % machines, size) for d in range(1, machines) for m in range(machines)]


def two_shot(cluster, operand):
    rail = Rail(cluster)
    rail.calls(exchange(cluster.machines, operand / cluster.machines), cluster.ranks)
    return rail.time() + cluster.combining(operand) + nccl_ring(cluster, operand, 1)


def chain(cluster, operand, widening=1):
    """A chain: pieces of the sums go from the first machine to the last, and results go back.

    In each turn a machine makes one call. It receives and passes on one piece of the sums, and
    receives and passes on one piece of the results. Sums are `widening` times as long as
    results.
    """
    last = cluster.machines - 1
    rail = Rail(cluster)
    own = operand / cluster.ranks
    pieces = pieces_of(
        (widening + 1) * own / cluster.rail,
        2 * last - 1,
        cluster.call + RING[2][3] + cluster.kernel,
    )

    for turn in range(pieces + 2 * last - 1):
        adders = [m + 1 for m in range(last) if 0 <= turn - m < pieces]
        results = [m for m in range(last) if 0 <= turn - (2 * last - 1 - m) < pieces]
        messages = [(m - 1, m, widening * own / pieces) for m in adders]
        messages += [(m + 1, m, own / pieces) for m in results]
        rail.calls(messages)
        for machine in adders:
            rail.last[machine] = [rail.add(rail.last[machine], cluster.combining(operand / pieces))]

    return 2 * cluster.local(operand) + rail.time()


def hierarchical(cluster, operand):
    """Slices of each machine's sums go along the rails, and NCCL gathers the results."""
    rail = Rail(cluster)
    rail.calls(exchange(cluster.machines, operand / cluster.ranks / cluster.machines))
    return (
        cluster.local(operand)
        + rail.time()
        + cluster.combining(operand / cluster.ranks)
        + nccl_ring(cluster, operand, 1)
    )


ALGORITHMS = {
    "one shot": one_shot,
    "two shots": two_shot,
    "chain, f32": chain,
    "chain, bf16": lambda cluster, operand: chain(cluster, operand, 2),
    "hierarchical": hierarchical,
    "NCCL, ring": nccl_ring,
    "NCCL, tree": nccl_tree,
}
SIZES = {"16 KB": 1 << 14, "256 KB": 1 << 18, "4 MB": 1 << 22, "64 MB": 1 << 26}


def main():
    print("| bytes | machines |", " | ".join(ALGORITHMS), "|")
    print("|---" + "|---:" * (1 + len(ALGORITHMS)) + "|")
    for name, size in SIZES.items():
        for machines in (2, 4, 16, 128):
            times = [f"{time(Cluster(machines), size):,.0f}" for time in ALGORITHMS.values()]
            print(f"| {name} | {machines} |", " | ".join(times), "|")


if __name__ == "__main__":
    main()
