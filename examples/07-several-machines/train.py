"""Train a transformer's block on several machines.

Inside a machine each rank has a part of every layer (tensor-parallel); each machine
learns from a part of every batch (data-parallel). Then it is compared with the same
training in one process, and bit by bit among the ranks.

Started by torchrun; docs/tutorial/07-several-machines.md shows
it with two machines pretended on one. On GPUs where PyTorch
sees some, else on host memory, or as SYMM_BACKEND says.
"""

import functools
import os

import torch
import torch.nn.functional as F  # noqa: N812 - its customary name

import symm
import symm.torch

WORDS, LENGTH, WIDTH, HEADS, BATCH, STEPS = 13, 16, 64, 4, 64, 40
# Shapes of the parameters, and the dimension by which the ranks of a machine share one.
PARAMETERS = {
    "words": ((WORDS, WIDTH), None),
    "places": ((LENGTH, WIDTH), None),
    "heads": ((3, HEADS, WIDTH // HEADS, WIDTH), 1),
    "join": ((WIDTH, HEADS, WIDTH // HEADS), 1),
    "up": ((4 * WIDTH, WIDTH), 0),
    "down": ((WIDTH, 4 * WIDTH), 1),
}
normal = functools.partial(F.layer_norm, normalized_shape=(WIDTH,))


def batches(device):
    """Every word is the sum of the two before it, modulo their number."""
    seeded = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        rows = torch.randint(WORDS, (BATCH, LENGTH + 1), generator=seeded)
        for at in range(2, LENGTH + 1):
            rows[:, at] = (rows[:, at - 1] + rows[:, at - 2]) % WORDS
        yield rows.to(device)


def loss_of(p, rows, over_parts):
    """Summed over all words; `over_parts` adds what
    the ranks of a machine have of a layer's result.
    """
    x = p["words"][rows[:, :-1]] + p["places"]
    q, k, v = torch.einsum("nhdw,blw->nbhld", p["heads"], normal(x))
    x = x + over_parts(
        torch.einsum(
            "whd,bhld->blw", p["join"], F.scaled_dot_product_attention(q, k, v, is_causal=True)
        )
    )
    x = x + over_parts(F.gelu(normal(x) @ p["up"].T) @ p["down"].T)
    return F.cross_entropy(
        (normal(x) @ p["words"].T).flatten(0, 1), rows[:, 1:].flatten(), reduction="sum"
    )


def part_of(parameters, part, parts):
    cuts = {name: dimension for name, (_, dimension) in PARAMETERS.items() if dimension is not None}
    return parameters | {
        name: parameters[name].chunk(parts, cut)[part].contiguous() for name, cut in cuts.items()
    }


def added(group, values):
    """In place, over the ranks of the group, where there is one."""
    if group is not None:
        group.allreduce(values)
    return values


def train(device, group=None, machine=None, machines=None):
    """The loss of each step, and the parameters: of
    one process alone, or of a rank of these groups.
    """
    part, parts = (machine.rank, machine.size) if machine else (0, 1)
    share, shares = (machines.rank, machines.size) if machines else (0, 1)
    seeded = torch.Generator().manual_seed(0)
    whole = {
        name: torch.randn(shape, generator=seeded) / WIDTH**0.5
        for name, (shape, _) in PARAMETERS.items()
    }
    parameters = {
        name: values.to(device).requires_grad_()
        for name, values in part_of(whole, part, parts).items()
    }
    optimizer = torch.optim.SGD(parameters.values(), 0.3, momentum=0.9)
    # Gradients of what all ranks have lie in one tensor, those
    # of parts in another: a step adds up each by one call.
    gradients = []
    for is_part in (False, True):
        mine = [
            values
            for name, values in parameters.items()
            if (PARAMETERS[name][1] is not None) == is_part
        ]
        gradients.append(torch.zeros(sum(values.numel() for values in mine), device=device))
        for values, gradient in zip(
            mine, gradients[-1].split([values.numel() for values in mine]), strict=True
        ):
            values.grad = gradient.view_as(values)

    def over_parts(values):
        return torch.ops.symm.all_reduce(values, "sum", "machine") if machine else values

    losses = []
    for rows in batches(device):
        for flat in gradients:
            flat.zero_()
        # The ranks' losses add up to that of the batch,
        # and symm's gradients are those of the sum.
        loss = loss_of(parameters, rows.chunk(shares)[share], over_parts) / (parts * BATCH * LENGTH)
        loss.backward()
        added(group, gradients[0])
        added(machines, gradients[1])
        optimizer.step()
        losses.append(added(group, loss.detach()))
    return torch.stack(losses), {name: values.detach() for name, values in parameters.items()}


def require_same_bits(group, values, what):
    bits = values.contiguous().view(torch.int32)
    least, most = bits.clone(), bits.clone()
    group.allreduce(least, op="min")
    group.allreduce(most, op="max")
    if not torch.equal(least, most):
        raise SystemExit(f"rank {group.rank}: {what} has not the same bits on all ranks")


def main():
    kind = os.environ.get("SYMM_BACKEND") or ("cuda" if torch.cuda.is_available() else "host")
    device, where = torch.device("cpu"), {}
    if kind == "cuda":
        gpus = torch.cuda.device_count()
        device = torch.device("cuda", int(os.environ["RANK"]) % gpus)
        torch.cuda.set_device(device)
        where = {
            "device": device.index,
            "overlapping_devices": gpus < int(os.environ["WORLD_SIZE"]),
        }
    with (
        symm.Group.from_env(backend=kind, **where) as group,
        group.local() as machine,
        group.split(machine.rank) as machines,
    ):
        symm.torch.use(machine, "machine")
        losses, parameters = train(device, group, machine, machines)
        symm.torch.forget("machine")
        require_same_bits(group, losses, "the loss")
        for name, values in parameters.items():
            require_same_bits(group if PARAMETERS[name][1] is None else machines, values, name)
        expected, whole = train(device)
        torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-4)
        for name, values in part_of(whole, machine.rank, machine.size).items():
            torch.testing.assert_close(parameters[name], values, rtol=1e-3, atol=1e-4)
        print(
            f"rank {group.rank}: {machines.size} machines of {machine.size} ranks on {device}, {group.info().engine}: "
            f"loss {losses[0]:.3f} to {losses[-1]:.3f}, at most {(losses - expected).abs().max():.0e} from one process's"
        )


if __name__ == "__main__":
    main()
