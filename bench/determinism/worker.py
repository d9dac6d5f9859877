"""A rank of run.py: `worker.py <way> <file of the answer> [--quick]`, started by torch.distributed.run."""
import json
import os
import statistics
import sys
from pathlib import Path

import model
import torch
import torch.distributed as dist

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


def captured(body):
    """A graph of `body`, which runs once before on the same stream."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        body()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            body()
    torch.cuda.synchronize()
    return graph


def milliseconds(graph, control):
    """Of a replay: the median of turns, on the slowest rank."""
    times = []
    for _ in range(TURNS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        dist.barrier(control)
        graph.replay()  # lines the ranks up
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    slowest = torch.tensor([statistics.median(times)], dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX, group=control)
    return slowest.item()


def rows(way, device, control, sizes):
    """By size: microseconds, and how many rows differ from those of the largest batch."""
    torch.manual_seed(dist.get_rank())
    given = torch.randn(sizes[-1] // (2 * ROW), ROW, dtype=torch.bfloat16, device=device)
    room = way.empty(*given.shape)
    largest = way.all_reduce(room.copy_(given)).clone()
    found = {}
    for size in sizes:
        part = room[: size // (2 * ROW)]
        wrong = (way.all_reduce(part.copy_(given[: len(part)])) != largest[: len(part)]).any(dim=1).sum().item()
        part.zero_()  # sums of sums stay finite
        time = milliseconds(captured(lambda part=part: [way.all_reduce(part) for _ in range(CALLS)]), control)
        found[size] = {"us": time / CALLS * 1000, "rows": len(part), "wrong": wrong}
    return found


def transformer(way, device, control, layers):
    """Tokens each second for batches of 1 and 64, and whether the first sequence's log-probabilities are the same bits in both."""
    tokens = torch.randint(model.WORDS, (64, model.LENGTH), device=device, generator=torch.Generator(device).manual_seed(7))
    found, answers = {}, []
    for batch in (1, 64):
        net = model.Transformer(dist.get_rank(), dist.get_world_size(), device, way, batch, layers)
        given = tokens[:batch].contiguous()
        answers.append(net.log_probabilities(given)[0].clone())
        torch.cuda.synchronize()
        time = milliseconds(captured(lambda net=net, given=given: net.log_probabilities(given)), control)
        found[str(batch)] = batch * model.LENGTH / time * 1000
    return found | {"same": torch.equal(*answers), "finite": bool(answers[0].isfinite().all())}


def main():
    name, answer, quick = sys.argv[1], sys.argv[2], "--quick" in sys.argv
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    control = dist.new_group(backend="gloo")
    way = {"symm": Symm, "torch": TorchSymmetric}.get(name, Nccl)(device)
    sizes = [1 << power for power in range(10, LARGEST + 1, 4 if quick else 1)]
    found = {"sizes": rows(way, device, control, sizes), "model": transformer(way, device, control, 2 if quick else model.LAYERS)}
    nccl = ".".join(str(part) for part in torch.cuda.nccl.version())
    found["machine"] = {"device": torch.cuda.get_device_name(device), "torch": torch.__version__, "nccl": nccl}
    if dist.get_rank() == 0:
        Path(answer).write_text(json.dumps(found))
    dist.barrier(control)
    os._exit(0)  # NCCL's end with captured graphs around is slow, and nothing is left to lose


main()
