# SPDX-License-Identifier: Apache-2.0
"""The ways of doing a collective: symm's and its peers', each on the memory that suits it best."""
from functools import partial

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as torch_symm

import sizes
from report import columns
from symm_library import Symm

DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
PERIOD = (1 << 20) - 3


class Raw:
    """Device memory of another library, for torch."""

    def __init__(self, pointer, size):
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (pointer, False), "version": 3}


class Pattern:
    """What the ranks contribute: the same values, which look random, plus the rank."""

    def __init__(self, dtype, size, rank, world):
        self.rank, self.world = rank, world
        index = torch.arange(PERIOD, device="cuda")
        period = ((index * 2654435761) >> 13) % (16 if world <= 8 else 4)  # sums are exact in bf16
        count = size // dtype.itemsize
        self.values = period.to(dtype).repeat(count // PERIOD + 1)[:count]
        self.wanted = torch.empty_like(self.values)

    def write(self, tensor, first=0):
        torch.add(self.values[first:first + tensor.numel()], self.rank, out=tensor)

    def is_sum(self, tensor, first=0):
        wanted = self.wanted[:tensor.numel()]
        torch.mul(self.values[first:first + tensor.numel()], self.world, out=wanted)
        return torch.equal(tensor, wanted.add_(self.world * (self.world - 1) // 2))

    def is_from(self, tensor, rank):
        wanted = self.wanted[:tensor.numel()]
        torch.add(self.values[:tensor.numel()], rank, out=wanted)
        return torch.equal(tensor, wanted)


class Way:
    """`call` issues one call; `write` and `right` give it input and look at its result; symm's can say how it is done, by `plan`."""

    def __init__(self, name, call, collective, pattern, send, recv, plan=None):
        self.name, self.call, self.collective, self.pattern, self.send, self.recv = name, call, collective, pattern, send, recv
        self.plan = plan

    def write(self):
        if self.collective != "barrier":
            if self.recv.data_ptr() != self.send.data_ptr():
                self.recv.zero_()
            self.pattern.write(self.send)

    def right(self):
        pattern, recv = self.pattern, self.recv
        if self.collective == "barrier":
            return True
        if self.collective == "allreduce":
            return pattern.is_sum(recv)
        if self.collective == "reduce_scatter":
            return pattern.is_sum(recv, pattern.rank * recv.numel())
        if self.collective == "broadcast":
            return pattern.is_from(recv, sizes.ROOT % pattern.world)
        return all(pattern.is_from(part, rank) for rank, part in enumerate(recv.chunk(pattern.world)))

    def clear(self):
        """In place, sums of sums would soon be infinite."""
        if self.collective == "allreduce":
            self.send.zero_()


class Ways:
    """Groups and memory of all libraries, made once."""

    def __init__(self, options, device, rank, world, clock, say):
        self.options, self.device, self.rank, self.world, self.clock = options, device, rank, world, clock
        self.group = dist.group.WORLD
        self.unavailable = {}
        self.others = any(name in options.collectives for name in ("allgather", "reduce_scatter", "broadcast"))
        largest = options.largest
        self.part_size = sizes.share_of(largest, world) if self.others else 0
        self.symm, self.blocks = {}, {}
        self.make_symm("symm", "", largest + self.part_size)
        if "allreduce" in options.collectives:
            for tune in options.tune:
                self.make_symm("symm " + tune, tune, largest)
        for tune in options.share:
            self.make_symm("share " + tune, tune, largest)
        self.plain = self.ordinary(largest + self.part_size)
        self.window = self.made("nccl window", self.registered_window, say)
        self.symmetric = self.handle = None
        if "allreduce" in options.collectives or "barrier" in options.collectives:
            self.made("torch", self.torch_memory, say)
        self.pattern = None, None

    def ordinary(self, size):
        return torch.zeros(size, dtype=torch.uint8, device="cuda")

    def make_symm(self, name, tune, size):
        symm = Symm(self.options.library, size, tune, f"bench{len(self.symm)}", self.device,
                    torch.cuda.current_stream().cuda_stream)
        self.symm[name] = symm
        self.blocks[name] = torch.as_tensor(Raw(symm.pointer, size), device="cuda")

    def made(self, name, make, say):
        """What it returns, or None on all ranks, said and kept, where it fails on one (an older PyTorch, say)."""
        try:
            found, reason = make(), None
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            found, reason = None, f"{type(error).__name__}: {error}"
        reasons = [f"rank {rank}: {said}" for rank, said in enumerate(self.clock.everyone(reason)) if said]
        if not reasons:
            return found
        self.unavailable[name] = reasons[0]
        say(f"without {name}: {reasons[0]}")
        return None

    def registered_window(self):
        backend = self.group._get_backend(torch.device("cuda"))
        self.pool = torch.cuda.MemPool(backend.mem_allocator)
        with torch.cuda.use_mem_pool(self.pool):
            window = self.ordinary(self.options.largest + self.part_size)
        backend.register_mem_pool(self.pool, symm=True)
        return window

    def torch_memory(self):
        size = self.options.largest if "allreduce" in self.options.collectives else 4096
        symmetric = torch_symm.empty(size, dtype=torch.uint8, device="cuda")
        self.handle = torch_symm.rendezvous(symmetric, self.group.group_name)
        self.symmetric = symmetric
        self.out = self.ordinary(min(size, sizes.ONE_SHOT_LARGEST))

    def pattern_of(self, dtype):
        if self.pattern[0] != dtype:
            self.pattern = None, None  # one of them at a time
            self.pattern = dtype, Pattern(DTYPES[dtype], self.options.largest, self.rank, self.world)
        return self.pattern[1]

    def columns(self, collective):
        return columns(collective, self.options.tune, self.unavailable)

    def operands(self, block, collective, size, dtype):
        """send and recv in a block: the whole lies first, the part of one rank after it. All-reduce and broadcast are in place."""
        whole = block[:size].view(DTYPES[dtype])
        if collective in ("allreduce", "broadcast"):
            return whole, whole
        part = block[self.options.largest:self.options.largest + size // self.world].view(DTYPES[dtype])
        return (part, whole) if collective == "allgather" else (whole, part)

    def of(self, collective, size, dtype):
        """The ways that there are for this size."""
        if collective == "barrier":
            return self.barriers()
        pattern = self.pattern_of(dtype)
        found = []
        for name in self.columns(collective):
            if name.startswith("symm"):
                found.append(self.symm_way(name, name, collective, size, dtype))
            elif name.startswith("nccl"):
                send, recv = self.operands(self.window if name == "nccl window" else self.plain, collective, size, dtype)
                found.append(Way(name, self.nccl(collective, send, recv), collective, pattern, send, recv))
            elif name == "torch one-shot" and size <= sizes.ONE_SHOT_LARGEST:
                send, recv = (block[:size].view(DTYPES[dtype]) for block in (self.symmetric, self.out))
                found.append(Way(name, self.torch_one_shot(send, recv), collective, pattern, send, recv))
            elif name == "torch two-shot" and size >= sizes.TWO_SHOT_SMALLEST:
                send = self.symmetric[:size].view(DTYPES[dtype])
                found.append(Way(name, self.torch_two_shot(send), collective, pattern, send, send))
        return found

    def symm_way(self, name, key, collective, size, dtype):
        send, recv = self.operands(self.blocks[key], collective, size, dtype)
        arguments = collective, send.data_ptr(), recv.data_ptr(), min(send.numel(), recv.numel()), dtype
        symm = self.symm[key]
        call = symm.collective(*arguments, sizes.ROOT % self.world)
        return Way(name, call, collective, self.pattern_of(dtype), send, recv, partial(symm.plan, *arguments))

    def share(self, size, dtype):
        """All-reduce as symm would, and with each of the tunings that --share names."""
        named = [("symm", "symm")] + [(tune, "share " + tune) for tune in self.options.share]
        return [self.symm_way(name, key, "allreduce", size, dtype) for name, key in named]

    def barriers(self):
        found = [Way("symm", self.symm["symm"].barrier(), "barrier", None, None, None)]
        if "torch" not in self.unavailable:
            handle = self.handle
            found.append(Way("torch", lambda: handle.barrier(channel=0), "barrier", None, None, None))
        return found

    @staticmethod
    def nccl(collective, send, recv):
        if collective == "allreduce":
            return lambda: dist.all_reduce(recv)
        if collective == "allgather":
            return lambda: dist.all_gather_into_tensor(recv, send)
        if collective == "reduce_scatter":
            return lambda: dist.reduce_scatter_tensor(recv, send)
        return lambda: dist.broadcast(recv, sizes.ROOT % dist.get_world_size())

    def torch_one_shot(self, send, recv):
        operation, name = torch.ops.symm_mem.one_shot_all_reduce_out, self.group.group_name
        return lambda: operation(send, "sum", name, recv)

    def torch_two_shot(self, send):
        operation, name = torch.ops.symm_mem.two_shot_all_reduce_, self.group.group_name
        return lambda: operation(send, "sum", name)
