"""Train a network with DistributedDataParallel, whose collectives are symm's.

    torchrun --nproc-per-node 2 train.py
    symm run -n 2 -- python train.py

Each rank learns from a part of every batch. It uses GPUs if PyTorch sees one for each rank of this
machine, else processors.
"""

import hashlib
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import symm.torch  # noqa: F401 - registers the back end

STEPS = 200
BATCH = 128


def batches(rank, size, device):
    """This rank's part of each batch: points of a plane, and the heights of a hill over them."""
    seeded = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        places = torch.rand(BATCH, 2, generator=seeded) * 2 - 1
        heights = torch.exp(-4 * places.square().sum(1, keepdim=True))
        yield places.chunk(size)[rank].to(device), heights.chunk(size)[rank].to(device)


def is_finite_everywhere(loss):
    """Whether the loss of every rank is a number: the "and" of a mask."""
    finite = torch.isfinite(loss.detach())
    dist.all_reduce(finite, dist.ReduceOp.MIN)
    return bool(finite)


def main():
    dist.init_process_group("cpu:symm,cuda:symm")
    rank, size = dist.get_rank(), dist.get_world_size()
    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)

    torch.manual_seed(0)
    layers = (torch.nn.Linear(2, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    net = DistributedDataParallel(torch.nn.Sequential(*layers).to(device))
    optimizer = torch.optim.Adam(net.parameters(), 0.02)

    losses = []
    for places, heights in batches(rank, size, device):
        loss = (net(places) - heights).square().mean()
        if not is_finite_everywhere(loss):
            raise SystemExit("a loss is not a number: all ranks stop at the same step")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        losses.append(mean.item())

    # The sums have the same bits on all ranks, so the parameters have, too.
    parameters = torch.cat([values.detach().flatten() for values in net.parameters()])
    bits = hashlib.sha256(parameters.cpu().numpy().tobytes()).hexdigest()[:16]
    print(
        f"rank {rank} of {size} on {device}: loss {losses[0]:.4f} to {losses[-1]:.4f}, bits {bits}"
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
