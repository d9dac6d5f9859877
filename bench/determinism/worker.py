"""A rank of run.py: `worker.py <way> <file of the answer> <kernels of peers> [--quick]`, started by torch.distributed.run."""
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import model
import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "gpu"))
from kernel_library import Kernels
from measuring import Clock

ROW = 512  # elements of bf16: 1 KB
LARGEST = 26  # 64 MB, as a power of two
TURNS, CALLS = 11, 20


class Symm:
    def __init__(self, device):
        import symm

        self.group = symm.Group.from_torch(backend="cuda", device=device.index, timeout=60)

    def empty(self, *shape):
        return self.group.empty(shape, "bf16").torch()

    def all_reduce(self, tensor):
        self.group.allreduce(tensor)
        return tensor


class Nccl:
    def __init__(self, device):
        self.device = device

    def empty(self, *shape):
        return torch.empty(shape, dtype=torch.bfloat16, device=self.device)

    def all_reduce(self, tensor):
        dist.all_reduce(tensor)
        return tensor


class TorchSymmetric(Nccl):
    """One shot for what is small, two shot above; neither takes multicast."""

    def empty(self, *shape):
        import torch.distributed._symmetric_memory as symmetric

        tensor = symmetric.empty(*shape, dtype=torch.bfloat16, device=self.device)
        symmetric.rendezvous(tensor, dist.group.WORLD.group_name)
        return tensor

    def all_reduce(self, tensor):
        small = tensor.nbytes <= 256 << 10
        call = torch.ops.symm_mem.one_shot_all_reduce if small else torch.ops.symm_mem.two_shot_all_reduce_
        return call(tensor, "sum", dist.group.WORLD.group_name)


class FlashInfer(Nccl):
    """One shot or two as its own users get it: by the table in its trtllm_ar.py, of twice the bytes of all ranks."""

    ONE_SHOT_MB = {2: 512, 4: 64, 8: 42}

    def __init__(self, device):
        super().__init__(device)
        rank, world = dist.get_rank(), dist.get_world_size()
        self.most = self.ONE_SHOT_MB.get(world, 0) << 20  # Kernels has an error for other worlds
        stream = torch.cuda.current_stream().cuda_stream
        self.kernels = Kernels(sys.argv[3], rank, world, stream, ["bf16"], min(self.most // world // 2, 1 << LARGEST), 1 << LARGEST)

    def all_reduce(self, tensor):
        one_shot = 2 * tensor.nbytes * self.kernels.world <= self.most or len(tensor) <= self.kernels.world
        self.kernels.flashinfer(tensor.numel(), "bf16", one_shot, tensor.shape[1], tensor)()
        return self.kernels.out[: tensor.nbytes].view(tensor.dtype).view_as(tensor)


def microseconds(clock, body, calls=1):
    """Of a call in a graph of some: the median of turns, on the slowest rank."""
    return clock.measure([SimpleNamespace(name="way", call=body)], calls, TURNS)["us"]["way"]


def rows(way, device, clock, sizes):
    """By size: microseconds, and how many rows differ from those of the largest batch."""
    torch.manual_seed(dist.get_rank())
    given = torch.randn(sizes[-1] // (2 * ROW), ROW, dtype=torch.bfloat16, device=device)
    room = way.empty(*given.shape)
    largest = way.all_reduce(room.copy_(given)).clone()
    dist.all_reduce(right := given.float())
    torch.testing.assert_close(largest.float(), right, rtol=0.01, atol=0.01)
    found = {}
    for size in sizes:
        part = room[: size // (2 * ROW)]
        wrong = (way.all_reduce(part.copy_(given[: len(part)])) != largest[: len(part)]).any(dim=1).sum().item()
        part.zero_()  # sums of sums stay finite
        time = microseconds(clock, lambda part=part: way.all_reduce(part), CALLS)
        found[size] = {"us": time, "rows": len(part), "wrong": wrong}
    return found


def transformer(way, device, clock, layers):
    """Tokens each second for batches of 1 and 64, and whether the first sequence's log-probabilities are the same bits in both."""
    tokens = torch.randint(model.WORDS, (64, model.LENGTH), device=device, generator=torch.Generator(device).manual_seed(7))
    found, answers = {}, []
    for batch in (1, 64):
        net = model.Transformer(dist.get_rank(), dist.get_world_size(), device, way, batch, layers)
        given = tokens[:batch].contiguous()
        answers.append(net.log_probabilities(given)[0].clone())
        torch.cuda.synchronize()
        time = microseconds(clock, lambda net=net, given=given: net.log_probabilities(given))
        found[str(batch)] = batch * model.LENGTH / time * 1e6
    return found | {"same": torch.equal(*answers), "finite": bool(answers[0].isfinite().all())}


def main():
    name, answer, quick = sys.argv[1], sys.argv[2], "--quick" in sys.argv
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    torch.cuda.set_stream(torch.cuda.Stream())  # which graphs are captured on
    for _ in range(16):  # Engines use several streams: a process that has runs each kernel of a graph 0.2 us later, ever after.
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.zeros(1, device=device)
    clock = Clock(dist.new_group(backend="gloo"))
    way = {"symm": Symm, "torch": TorchSymmetric, "flashinfer": FlashInfer}.get(name, Nccl)(device)
    sizes = [1 << power for power in range(10, LARGEST + 1, 4 if quick else 1)]
    found = {"sizes": rows(way, device, clock, sizes), "model": transformer(way, device, clock, 2 if quick else model.LAYERS)}
    nccl = ".".join(str(part) for part in torch.cuda.nccl.version())
    found["machine"] = {"device": torch.cuda.get_device_name(device), "torch": torch.__version__, "nccl": nccl}
    if dist.get_rank() == 0:
        Path(answer).write_text(json.dumps(found))
    clock.line_up()
    os._exit(0)  # NCCL's end with captured graphs around is slow, and nothing is left to lose


main()
