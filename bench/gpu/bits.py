"""How many elements of a message's first KB have other bits than in a message of 1 KB? All-reduces of NCCL, and of symm by its own
choice and by each algorithm that carries the message, on rank 0. Writes bits.json and bits.svg. Of 2 ranks a sum has but one order.

    SYMM_LIB=build/gpu/lib/libsymm.so torchrun --standalone --nproc-per-node 4 bench/gpu/bits.py build/figures [cpu]

NVLink multicast is off, unless the environment says otherwise. On the CPU gloo is in NCCL's place."""
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


def differing(ways, block, given, size):
    """Elements of the head by way; `ways` has the call of each, and the heads that they are compared with."""
    found, integer = {}, torch.int16 if given.itemsize == 2 else torch.int32
    for name, (call, first) in ways.items():
        part = given[:size // given.itemsize]
        part = block[:size].view(given.dtype).copy_(part) if name.startswith("symm") else part.clone()
        try:
            call(part)
        except (symm.InvalidArgumentError, symm.UnsupportedError):  # on all ranks: this algorithm does not carry it
            continue
        head = part[:HEAD // given.itemsize].view(integer).cpu()
        found[name] = int((head != first.setdefault(integer, head)).sum())
    return {"bytes": size, "elements": HEAD // given.itemsize, "differ": found}


def main(folder, on_gpu):
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    with symm.Group.from_torch(timeout=60, **{"backend": "cuda", "device": device.index} if on_gpu else {}) as group:
        found = {"date": date.today().isoformat(), "world": group.size, "device": {"name": "CPU"}, "rows": []}
        block, ours = group.empty(LARGEST, "u8").torch(), {}
        ways = {"NCCL" if on_gpu else "gloo": (dist.all_reduce, {}), "symm": (group.allreduce, ours)}
        ways |= {f"symm {a.name.lower()}": (lambda x, a=a: group.allreduce(x, algorithm=a), ours) for a in symm.Algorithm if a}
        for name, dtype in (("bf16", torch.bfloat16), ("f32", torch.float32)):
            torch.manual_seed(group.rank)
            given = torch.randn(LARGEST // dtype.itemsize, dtype=dtype, device=device)
            found["rows"] += [{"dtype": name, **differing(ways, block, given, size)} for size in sizes.sizes(HEAD, LARGEST, 2)]
        if on_gpu:
            report.describe(found)
        if group.rank == 0:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "bits.json").write_text(json.dumps(found) + "\n")
            (folder / "bits.svg").write_text(report.bits_picture(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), "cpu" not in sys.argv[2:])
