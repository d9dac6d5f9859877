"""The ways of doing a collective: symm's and its peers', each on the memory that suits it best."""

import sizes
import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as torch_symm
from kernel_library import Kernels
from libraries import Nccl, variables

import symm

DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
PERIOD = (1 << 20) - 3


class Raw:
    """Device memory of another library, for torch."""

    def __init__(self, pointer, size):
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 3,
        }


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
        torch.add(self.values[first : first + tensor.numel()], self.rank, out=tensor)

    def is_sum(self, tensor, first=0):
        wanted = self.wanted[: tensor.numel()]
        torch.mul(self.values[first : first + tensor.numel()], self.world, out=wanted)
        return torch.equal(tensor, wanted.add_(self.world * (self.world - 1) // 2))

    def is_from(self, tensor, rank, first=0):
        wanted = self.wanted[: tensor.numel()]
        torch.add(self.values[first : first + tensor.numel()], rank, out=wanted)
        return torch.equal(tensor, wanted)


class Way:
    """`call` issues one call; `write` and `right` give it input and look at its result."""

    def __init__(self, name, call, collective, pattern, send, recv):
        self.name, self.call, self.collective, self.pattern, self.send, self.recv = (
            name,
            call,
            collective,
            pattern,
            send,
            recv,
        )

    def write(self):
        if self.collective != "barrier":
            if self.recv.data_ptr() != self.send.data_ptr():
                self.recv.zero_()
            self.pattern.write(self.send)

    def right(self):
        pattern, recv = self.pattern, self.recv
        if self.collective == "barrier":
            return True
        if self.collective == "reduce":
            return pattern.rank != sizes.ROOT % pattern.world or pattern.is_sum(recv)
        if self.collective == "allreduce":
            return pattern.is_sum(recv)
        if self.collective == "reduce_scatter":
            return pattern.is_sum(recv, pattern.rank * recv.numel())
        if self.collective == "broadcast":
            return pattern.is_from(recv, sizes.ROOT % pattern.world)
        parts = recv.chunk(pattern.world)
        first = pattern.rank * parts[0].numel() if self.collective == "alltoall" else 0
        return all(pattern.is_from(part, rank, first) for rank, part in enumerate(parts))

    def clear(self):
        """In place, sums of sums would soon be infinite."""
        if self.collective in ("allreduce", "reduce"):
            self.send.zero_()


class Norm(Way):
    """An all-reduce with residual and RMSNorm: tokens of 16 KB, or one. Its `call` takes
    what lies beside the operand here.
    """

    def __init__(self, name, pattern, send, recv):
        super().__init__(name, None, "rmsnorm", pattern, send, recv)
        self.hidden = min(send.numel(), sizes.ROW // send.element_size())
        self.tokens = send.numel() // self.hidden
        self.residual = torch.zeros_like(send)
        self.weight = torch.rand(self.hidden, device="cuda").to(send.dtype)

    def write(self):
        self.residual.fill_(3)
        self.pattern.write(self.send)

    def right(self):
        rank_sum = self.pattern.world * (self.pattern.world - 1) // 2
        h = (self.pattern.values[: self.send.numel()] * self.pattern.world + rank_sum + 3).view(
            self.tokens, self.hidden
        )
        wide = h.float()
        wanted = (
            wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5) * self.weight.float()
        )
        close = torch.allclose(self.recv.view_as(wanted).float(), wanted, rtol=2e-2, atol=1e-2)
        return close and torch.equal(self.residual.view_as(h), h)

    def clear(self):
        self.send.zero_()


class SymmPeer:
    """symm itself, by its Python package, whose cost is not in
    a graph; with the tuning of its name (SYMM_CUDA_TUNE).
    """

    def __init__(self, ways, name, tune, size):
        self.ways, self.name = ways, name
        with variables({"SYMM_CUDA_TUNE": tune} if tune else {}):
            self.group = symm.Group.from_torch(
                backend="cuda",
                device=ways.device,
                same_offsets=True,
                create_timeout=60,
                timeout=10,
                name=f"bench{len(ways.peers)}",
            )
        self.block = self.group.empty(size, "u8").torch()

    def columns(self, collective):
        return [self.name] if collective != "barrier" or self.name == "symm" else []

    def way(self, name, collective, size, dtype):
        if collective == "barrier":
            return Way(name, self.group.barrier, collective, None, None, None)
        send, recv = self.ways.operands(self.block, collective, size, dtype)
        pattern = self.ways.pattern_of(dtype)
        if collective == "rmsnorm":
            norm = Norm(name, pattern, send, torch.empty_like(send))
            # The sum of send and residual takes the residual's place.
            norm.call = lambda: self.group.allreduce_rmsnorm(
                send,
                norm.weight,
                norm.recv,
                residual_in=norm.residual,
                residual_out=norm.residual,
                epsilon=1e-5,
            )
            return norm
        call, root = (
            getattr(self.group, collective),
            {"root": sizes.ROOT % self.ways.world} if collective in ("broadcast", "reduce") else {},
        )
        return Way(name, lambda: call(send, recv, **root), collective, pattern, send, recv)


class NcclPeer:
    """On ordinary memory, and on a registered window."""

    def __init__(self, ways, spec):
        self.ways = ways
        size = ways.block_size
        self.library = Nccl(spec, size, ways.rank, ways.world, ways.clock, ways.stream)
        self.blocks = {
            self.library.name: ways.plain,
            self.library.name + " window": torch.as_tensor(
                Raw(self.library.pointer.value, size), device="cuda"
            ),
        }

    def columns(self, collective):
        return [] if collective in ("barrier", "rmsnorm") else list(self.blocks)

    def way(self, name, collective, size, dtype):
        send, recv = self.ways.operands(self.blocks[name], collective, size, dtype)
        # As all libraries count elements.
        count = (
            send.numel() // self.ways.world
            if collective == "alltoall"
            else min(send.numel(), recv.numel())
        )
        call = self.library.collective(
            collective, send.data_ptr(), recv.data_ptr(), count, dtype, sizes.ROOT % self.ways.world
        )
        return Way(name, call, collective, self.ways.pattern_of(dtype), send, recv)


class TorchPeer:
    """PyTorch's symmetric memory."""

    def __init__(self, ways):
        self.ways = ways
        size = ways.options.largest if "allreduce" in ways.options.collectives else 4096
        self.symmetric = torch_symm.empty(size, dtype=torch.uint8, device="cuda")
        self.handle = torch_symm.rendezvous(self.symmetric, dist.group.WORLD.group_name)
        self.out = ordinary(min(size, sizes.ONE_SHOT_LARGEST))

    def columns(self, collective):
        return {"allreduce": ["torch one-shot", "torch two-shot"], "barrier": ["torch"]}.get(
            collective, []
        )

    def way(self, name, collective, size, dtype):
        if collective == "barrier":
            handle = self.handle
            return Way(name, lambda: handle.barrier(channel=0), collective, None, None, None)
        pattern, group = self.ways.pattern_of(dtype), dist.group.WORLD.group_name
        send = self.symmetric[:size].view(DTYPES[dtype])
        if name == "torch two-shot":
            operation = torch.ops.symm_mem.two_shot_all_reduce_
            return (
                Way(name, lambda: operation(send, "sum", group), collective, pattern, send, send)
                if size >= sizes.TWO_SHOT_SMALLEST
                else None
            )
        if size > sizes.ONE_SHOT_LARGEST:
            return None
        one_shot, recv = (
            torch.ops.symm_mem.one_shot_all_reduce_out,
            self.out[:size].view(DTYPES[dtype]),
        )
        return Way(
            name, lambda: one_shot(send, "sum", group, recv), collective, pattern, send, recv
        )


class KernelPeer:
    """FlashInfer's kernels and vLLM's, which leave the result in memory of their own."""

    def __init__(self, ways):
        self.ways = ways
        self.kernels = Kernels(
            ways.options.kernels, ways.rank, ways.world, ways.stream, ways.options.dtypes
        )

    def columns(self, collective):
        flashinfer = ["flashinfer one-shot", "flashinfer two-shot"]
        return {"allreduce": [*flashinfer, "vllm"], "rmsnorm": flashinfer}.get(collective, [])

    def way(self, name, collective, size, dtype):
        smallest, largest = {
            "flashinfer one-shot": (0, sizes.ONE_SHOT_LARGEST),
            "flashinfer two-shot": (256 * sizes.KIB, sizes.PEER_LARGEST),
        }.get(name, (0, sizes.PEER_LARGEST))
        if not smallest <= size <= largest:
            return None
        send, recv = (
            block[:size].view(DTYPES[dtype]) for block in (self.kernels.send, self.kernels.out)
        )
        if collective == "rmsnorm":
            norm = Norm(name, self.ways.pattern_of(dtype), send, recv)
            norm.call = self.kernels.flashinfer(
                send.numel(),
                dtype,
                name == "flashinfer one-shot",
                norm.hidden,
                residual=norm.residual,
                weight=norm.weight,
            )
            return norm
        if name == "vllm":
            call = self.kernels.vllm(send.numel(), dtype)
        else:
            call = self.kernels.flashinfer(send.numel(), dtype, name == "flashinfer one-shot")
        return Way(name, call, collective, self.ways.pattern_of(dtype), send, recv)


def ordinary(size):
    return torch.zeros(size, dtype=torch.uint8, device="cuda")


class Ways:
    """Groups and memory of all libraries, made once."""

    def __init__(self, options, device, rank, world, clock, say):
        self.options, self.device, self.rank, self.world, self.clock, self.say = (
            options,
            device,
            rank,
            world,
            clock,
            say,
        )
        self.stream = torch.cuda.current_stream().cuda_stream
        self.unavailable, self.peers = {}, []
        self.pattern = None, None
        others = [
            name for name in options.collectives if name not in ("allreduce", "rmsnorm", "barrier")
        ]
        beside = (
            0
            if not others
            else options.largest
            if "alltoall" in others
            else sizes.share_of(options.largest, world)
        )
        self.block_size = options.largest + max(beside, 16384)
        for tune in ["", *options.tune]:
            self.peers.append(SymmPeer(self, f"symm {tune}".strip(), tune, self.block_size))
        self.plain = ordinary(self.block_size)
        for spec in ["", *options.nccl]:
            self.add("nccl " + spec if spec else "nccl", lambda spec=spec: NcclPeer(self, spec))
        if "allreduce" in options.collectives or "barrier" in options.collectives:
            self.add("torch", lambda: TorchPeer(self))
        if {"allreduce", "rmsnorm"} & set(options.collectives) and options.kernels:
            self.add("kernels", lambda: KernelPeer(self))

    def add(self, name, make):
        """None of it on any rank, said and kept, where it fails on one (an older PyTorch, say)."""
        try:
            found, reason = make(), None
        except (AttributeError, OSError, RuntimeError, TypeError, ValueError) as error:
            found, reason = None, f"{type(error).__name__}: {error}"
        reasons = [
            f"rank {rank}: {said}" for rank, said in enumerate(self.clock.everyone(reason)) if said
        ]
        if not reasons:
            self.peers.append(found)
            return
        self.unavailable[name] = reasons[0]
        self.say(f"without {name}: {reasons[0]}")

    def pattern_of(self, dtype):
        if self.pattern[0] != dtype:
            self.pattern = None, None  # one of them at a time
            self.pattern = (
                dtype,
                Pattern(DTYPES[dtype], self.options.largest, self.rank, self.world),
            )
        return self.pattern[1]

    def columns(self, collective):
        return [name for peer in self.peers for name in peer.columns(collective)]

    def operands(self, block, collective, size, dtype):
        """send and recv in a block: the whole lies first, what else there is after it.
        Sums and broadcasts are in place.
        """
        whole = block[:size].view(DTYPES[dtype])
        if collective in ("allreduce", "broadcast", "reduce", "rmsnorm"):
            return whole, whole
        beside = size if collective == "alltoall" else size // self.world
        part = block[self.options.largest : self.options.largest + beside].view(DTYPES[dtype])
        return (part, whole) if collective == "allgather" else (whole, part)

    def of(self, collective, size, dtype):
        """The ways that there are for this size."""
        made = [
            peer.way(name, collective, size, dtype)
            for peer in self.peers
            for name in peer.columns(collective)
        ]
        return [way for way in made if way]
