"""Serve a tensor-parallel model: a request gets the same answer alone and in any batch.

    torchrun --nproc-per-node 2 serve.py

It uses GPUs if PyTorch sees one for each rank of this machine, else processors. The kernels of the
products have fixed shapes, which is what a serving engine calls batch-invariant. The all-reduce
needs no such mode.
"""

import os

import torch
import torch.distributed as dist

import symm

WORDS = 50
WIDTH = 64
LAYERS = 4
LENGTH = 12  # of an answer
REQUESTS = 9


class SymmCommunicator:
    """The communicator of a serving engine: its all-reduce among the ranks of a model."""

    def __init__(self, store, rank, size, device):
        on_gpu = device.type == "cuda"
        placement = {"backend": "cuda", "device": device.index} if on_gpu else {"backend": "host"}
        self.group = symm.Group.from_torch(store, rank, size, name="model", **placement)

    def all_reduce(self, x):
        """The sum over all ranks. On the current stream of a GPU, where it may be captured."""
        out = torch.empty_like(x)
        self.group.allreduce(x, out)
        return out

    def any_rank(self, mask):
        """Where the mask of any rank is true, in place: the "or" of masks."""
        self.group.allreduce(mask, op="max")
        return mask

    def close(self):
        self.group.close()


def by_rows(x, weight):
    """The product of x and the weight, row by row, so that no row depends on how many there are."""
    return torch.cat([row @ weight for row in x.split(1)])


class Model:
    """Layers of two products each, of which every rank has a part, with random weights."""

    def __init__(self, rank, size, device, communicator):
        seeded = torch.Generator().manual_seed(0)

        def weights(*shape):
            return torch.randn(shape, generator=seeded, dtype=torch.float32) / shape[0] ** 0.5

        self.communicator = communicator
        self.words = weights(WORDS, WIDTH).to(device)
        self.layers = []
        for _ in range(LAYERS):
            up, down = weights(WIDTH, 4 * WIDTH), weights(4 * WIDTH, WIDTH)
            part = up.chunk(size, 1)[rank], down.chunk(size, 0)[rank]
            self.layers.append([values.contiguous().to(device) for values in part])

    def log_probabilities(self, states):
        """The log-probabilities of the next word for each row of states, and the new states."""
        for up, down in self.layers:
            part = by_rows(torch.nn.functional.gelu(by_rows(states, up)), down)
            states = torch.nn.functional.normalize(states + self.communicator.all_reduce(part))
        return torch.log_softmax(by_rows(states, self.words.T), 1), states

    def answer(self, requests, cancelled=()):
        """Words for each request, and their log-probabilities.

        Only rank 0 has clients, and so knows which requests are cancelled.
        """
        is_cancelled = torch.zeros(len(requests), dtype=torch.bool, device=self.words.device)
        is_cancelled[list(cancelled)] = True
        is_cancelled = self.communicator.any_rank(is_cancelled)

        states = self.words[requests]
        words, chances = [], []
        for _ in range(LENGTH):
            log_probabilities, states = self.log_probabilities(states)
            best = log_probabilities.max(1)
            words.append(best.indices.masked_fill(is_cancelled, -1))
            chances.append(best.values)
            states = torch.nn.functional.normalize(states + self.words[best.indices])
        return torch.stack(words, 1), torch.stack(chances, 1)


def main():
    # An engine has a process group of its own, whose store is where the ranks meet.
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)

    store = dist.distributed_c10d._get_default_store()
    communicator = SymmCommunicator(store, rank, size, device)
    model = Model(rank, size, device, communicator)

    requests = torch.arange(REQUESTS, device=device)
    words, chances = model.answer(requests)
    differing = 0
    for batch in range(1, REQUESTS):
        for first in range(0, REQUESTS, batch):
            some_words, some_chances = model.answer(requests[first : first + batch])
            same = torch.equal(some_words, words[first : first + batch])
            same_bits = torch.equal(some_chances, chances[first : first + batch])
            differing += not (same and same_bits)

    # A request that is cancelled changes no other answer.
    fewer, _ = model.answer(requests, cancelled=[3] if rank == 0 else [])
    kept = [at for at in range(REQUESTS) if at != 3]
    assert (fewer[3] == -1).all()
    assert torch.equal(fewer[kept], words[kept])

    print(
        f"rank {rank} of {size} on {device}: {differing} batches gave other bits, "
        f"answer {words[0].tolist()}"
    )
    communicator.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
