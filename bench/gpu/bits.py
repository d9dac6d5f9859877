"""How many elements of a message's first KB have other bits than in a message of 1 KB? All-reduces of NCCL, and of symm by its own
choice and by each algorithm that carries the message. Writes bits.json and bits.svg. On 2 ranks a sum has but one order.

    SYMM_LIB=build/gpu/lib/libsymm.so torchrun --standalone --nproc-per-node 4 bench/gpu/bits.py build/figures [cpu]

NVLink multicast is off, unless the environment says otherwise. On the CPU gloo is in NCCL's place."""
import functools
import json
import os
import sys
from datetime import date
from pathlib import Path

import report
import sizes
import torch
import torch.distributed as dist

import symm

HEAD, LARGEST = 1 << 10, 64 << 20
TYPES = {"bf16": (torch.bfloat16, torch.int16), "f32": (torch.float32, torch.int32)}


def differing(ways, block, given, integer, size):
    """Elements of the head by way; `ways` has the call of each, and the head that it is compared with."""
    found = {}
    for name, (call, first) in ways.items():
        part = given[:size // given.itemsize]
        part = block[:size].view(given.dtype).copy_(part) if name.startswith("symm") else part.clone()
        try:
            call(part)
        except (symm.InvalidArgumentError, symm.UnsupportedError):  # on all ranks: this algorithm does not carry it
            continue
        head = part[:HEAD // given.itemsize].view(integer).cpu()
        found[name] = int((head != first.setdefault(integer, head)).sum())
    return found


def main(folder, on_gpu):
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo")
    found = {"date": date.today().isoformat(), "world": dist.get_world_size(), "device": {"name": "CPU"}, "rows": []}
    group = symm.Group.from_torch(timeout=60, **{"backend": "cuda", "device": device.index} if on_gpu else {})
    block, ours = group.empty(LARGEST, "u8").torch(), {}
    ways = {"NCCL" if on_gpu else "gloo": (dist.all_reduce, {}), "symm": (group.allreduce, ours)}
    ways |= {f"symm {a.name.lower()}": (functools.partial(group.allreduce, algorithm=a), ours) for a in symm.Algorithm if a}
    for name, (dtype, integer) in TYPES.items():
        torch.manual_seed(dist.get_rank())
        given = torch.randn(LARGEST // dtype.itemsize, dtype=dtype, device=device)
        for size in sizes.sizes(HEAD, LARGEST, 2):
            dist.all_gather_object(of_ranks := [None] * found["world"], differing(ways, block, given, integer, size))
            worst = {way: max(of[way] for of in of_ranks) for way in of_ranks[0]}
            found["rows"].append({"dtype": name, "bytes": size, "elements": HEAD // dtype.itemsize, "differ": worst})
    if dist.get_rank() == 0:
        if on_gpu:
            report.describe(found)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "bits.json").write_text(json.dumps(found, indent=1) + "\n")
        (folder / "bits.svg").write_text(report.bits_picture(found))
    group.finalize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), "cpu" not in sys.argv[2:])
