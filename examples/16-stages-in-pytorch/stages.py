"""Train a model whose layers are spread over the ranks, with PyTorch's pipeline schedules on symm.

    symm run -n 3 -- python stages.py

Each rank is a stage. A batch is cut into microbatches, which go forward from stage to stage, and
whose gradients come back, so that all stages are at work at a time. Afterwards the last stage
trains the whole model alone, and compares the losses.
"""

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

import symm.torch  # noqa: F401 -- torch.distributed now has the back end "symm"

WIDTH = 32
LAYERS_OF_A_STAGE = 2
ROWS = 48  # of a batch
MICROBATCHES = 4
STEPS = 20


def make_stages(count):
    torch.manual_seed(1)
    layers = [
        layer
        for _ in range(count * LAYERS_OF_A_STAGE)
        for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh())
    ]
    length = len(layers) // count
    return [torch.nn.Sequential(*layers[i * length : (i + 1) * length]) for i in range(count)]


def make_batches():
    torch.manual_seed(2)
    return [(torch.randn(ROWS, WIDTH), torch.rand(ROWS, WIDTH)) for _ in range(STEPS)]


def train_stage(module, rank, size):
    """Train one stage with all others. Returns the losses on the last stage."""
    stage = PipelineStage(module, rank, size, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, MICROBATCHES, loss_fn=torch.nn.functional.mse_loss)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    means = []
    for inputs, targets in make_batches():
        optimizer.zero_grad()
        losses = []
        if rank == 0:
            schedule.step(inputs)
        elif rank == size - 1:
            schedule.step(target=targets, losses=losses)
        else:
            schedule.step()
        optimizer.step()
        if losses:
            means.append(torch.stack(losses).mean().item())
    return means


def train_whole(model):
    """Train all stages on this rank alone. Returns the losses."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for inputs, targets in make_batches():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


dist.init_process_group("symm")
rank, size = dist.get_rank(), dist.get_world_size()
losses = train_stage(make_stages(size)[rank], rank, size)
if rank == size - 1:
    alone = train_whole(torch.nn.Sequential(*make_stages(size)))
    torch.testing.assert_close(losses, alone, rtol=1e-4, atol=0)
    print(f"{size} stages: the loss went from {losses[0]:.3f} to {losses[-1]:.3f}, as in one")
dist.destroy_process_group()
