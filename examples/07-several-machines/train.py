"""Train a transformer's block on several machines.

Inside a machine each rank has a part of every layer (tensor-parallel). Each machine learns from
a part of every batch (data-parallel). Then the ranks compare their results bit by bit with each
other, and up to rounding with the same training in one process.

torchrun starts the program; docs/tutorial/07-several-machines.md shows it on two pretended
machines. It uses GPUs if PyTorch sees any, else host memory; SYMM_BACKEND overrides that.
"""

import functools
import os

import torch
import torch.nn.functional as F  # noqa: N812 - its customary name

import symm
import symm.torch

WORDS = 13
LENGTH = 16
WIDTH = 64
HEADS = 4
BATCH = 64
STEPS = 40

# The shape of each parameter, and the dimension along which the ranks of a machine divide it;
# None: every rank has all of it.
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
    """The batches: every word is the sum of the two words before it, modulo WORDS."""
    seeded = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        rows = torch.randint(WORDS, (BATCH, LENGTH + 1), generator=seeded)
        for at in range(2, LENGTH + 1):
            rows[:, at] = (rows[:, at - 1] + rows[:, at - 2]) % WORDS
        yield rows.to(device)


def loss_of(p, rows, over_parts):
    """The loss of the parameters `p`, summed over all words.

    `over_parts` adds up the parts of a layer's result that the ranks of a machine have.
    """
    x = p["words"][rows[:, :-1]] + p["places"]

    q, k, v = torch.einsum("nhdw,blw->nbhld", p["heads"], normal(x))
    attention = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + over_parts(torch.einsum("whd,bhld->blw", p["join"], attention))

    x = x + over_parts(F.gelu(normal(x) @ p["up"].T) @ p["down"].T)

    scores = normal(x) @ p["words"].T
    return F.cross_entropy(scores.flatten(0, 1), rows[:, 1:].flatten(), reduction="sum")


def part_of(parameters, part, parts):
    """The parameters of one of `parts` ranks of a machine."""
    divided = {}
    for name, (_, dimension) in PARAMETERS.items():
        if dimension is not None:
            divided[name] = parameters[name].chunk(parts, dimension)[part].contiguous()
    return parameters | divided


def add_over(group, values):
    """Add up `values` in place over the ranks of the group; None: of one process."""
    if group is not None:
        group.allreduce(values)
    return values


def flat_gradients(parameters, device):
    """Give the parameters gradients that lie in two tensors, and return these.

    The first one is of parameters that all ranks have, the second one of parameters that the
    ranks of a machine divide. So a step adds up each kind by one call.
    """
    flat = []
    for is_divided in (False, True):
        members = [
            values
            for name, values in parameters.items()
            if (PARAMETERS[name][1] is not None) == is_divided
        ]
        counts = [values.numel() for values in members]
        gradients = torch.zeros(sum(counts), device=device)
        for values, gradient in zip(members, gradients.split(counts), strict=True):
            values.grad = gradient.view_as(values)
        flat.append(gradients)

    return flat


def train(device, group=None, machine=None, machines=None):
    """Train as a rank of these groups, or alone if there are none.

    Returns:
        The loss of each step, and the parameters.
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
    common_gradients, divided_gradients = flat_gradients(parameters, device)

    def over_parts(values):
        return torch.ops.symm.all_reduce(values, "sum", "machine") if machine else values

    losses = []
    for rows in batches(device):
        common_gradients.zero_()
        divided_gradients.zero_()
        # The losses of all ranks add up to the loss of the batch. symm's gradients are those of
        # the sum.
        own_rows = rows.chunk(shares)[share]
        loss = loss_of(parameters, own_rows, over_parts) / (parts * BATCH * LENGTH)
        loss.backward()
        add_over(group, common_gradients)
        add_over(machines, divided_gradients)
        optimizer.step()
        losses.append(add_over(group, loss.detach()))
    return torch.stack(losses), {name: values.detach() for name, values in parameters.items()}


def require_same_bits(group, values, what):
    """End the program if `values` differ between the ranks of the group."""
    bits = values.contiguous().view(torch.int32)
    least = bits.clone()
    most = bits.clone()
    group.allreduce(least, op="min")
    group.allreduce(most, op="max")
    if not torch.equal(least, most):
        raise SystemExit(f"rank {group.rank}: {what} has not the same bits on all ranks")


def main():
    kind = os.environ.get("SYMM_BACKEND") or ("cuda" if torch.cuda.is_available() else "host")
    device = torch.device("cpu")
    placement = {}
    if kind == "cuda":
        gpus = torch.cuda.device_count()
        device = torch.device("cuda", int(os.environ["RANK"]) % gpus)
        torch.cuda.set_device(device)
        placement["device"] = device.index
        placement["overlapping_devices"] = gpus < int(os.environ["WORLD_SIZE"])

    with (
        symm.Group.from_env(backend=kind, **placement) as group,
        group.local() as machine,
        group.split(machine.rank) as machines,
    ):
        symm.torch.use(machine, "machine")
        losses, parameters = train(device, group, machine, machines)
        symm.torch.forget("machine")

        require_same_bits(group, losses, "the loss")
        for name, values in parameters.items():
            is_divided = PARAMETERS[name][1] is not None
            require_same_bits(machines if is_divided else group, values, name)

        expected, whole = train(device)
        torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-4)
        for name, values in part_of(whole, machine.rank, machine.size).items():
            torch.testing.assert_close(parameters[name], values, rtol=1e-3, atol=1e-4)

        difference = (losses - expected).abs().max()
        print(
            f"rank {group.rank}: {machines.size} machines of {machine.size} ranks on {device}, "
            f"{group.info().engine}: loss {losses[0]:.3f} to {losses[-1]:.3f}, "
            f"at most {difference:.0e} from one process's"
        )


if __name__ == "__main__":
    main()
