"""The ways of a collective: symm's and its peers', each on the memory that suits it best."""

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
    """Device memory of another library, for torch.as_tensor()."""

    def __init__(self, pointer, size):
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 3,
        }


class Pattern:
    """The operands of the ranks: pseudorandom values that are equal on all ranks, plus the rank."""

    def __init__(self, dtype, size, rank, world):
        self.rank = rank
        self.world = world
        index = torch.arange(PERIOD, device="cuda")
        limit = 16 if world <= 8 else 4  # so small that sums are exact in bf16
        period = ((index * 2654435761) >> 13) % limit
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
    """A way of a collective, whose `call` issues one call."""

    def __init__(self, name, call, collective, pattern, send, recv):
        self.name = name
        self.call = call
        self.collective = collective
        self.pattern = pattern
        self.send = send
        self.recv = recv

    def write(self):
        """Write the operand."""
        if self.collective != "barrier":
            if self.recv.data_ptr() != self.send.data_ptr():
                self.recv.zero_()
            self.pattern.write(self.send)

    def right(self):
        """Whether the result is right."""
        pattern = self.pattern
        recv = self.recv
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

        if self.collective == "ring":
            return pattern.is_from(recv, (pattern.rank - 1) % pattern.world)

        parts = recv.chunk(pattern.world)
        first = pattern.rank * parts[0].numel() if self.collective == "alltoall" else 0
        return all(pattern.is_from(part, rank, first) for rank, part in enumerate(parts))

    def clear(self):
        """Zero the operand, since sums of sums in place would soon be infinite."""
        if self.collective in ("allreduce", "reduce"):
            self.send.zero_()


class Norm(Way):
    """An all-reduce with residual and RMSNorm, of tokens of 16 KB, or of one shorter token.

    The maker sets `call`, which uses the residual and the weight of this object.
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
        world = self.pattern.world
        sums = self.pattern.values[: self.send.numel()] * world + world * (world - 1) // 2
        h = (sums + 3).view(self.tokens, self.hidden)  # 3 is the residual
        wide = h.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
        wanted = wide * scale * self.weight.float()
        close = torch.allclose(self.recv.view_as(wanted).float(), wanted, rtol=2e-2, atol=1e-2)
        return close and torch.equal(self.residual.view_as(h), h)

    def clear(self):
        self.send.zero_()


class SymmPeer:
    """symm by its Python package, with one SYMM_CUDA_TUNE.

    The cost of the package does not count, since graphs are measured.
    """

    def __init__(self, ways, name, tune, size):
        self.ways = ways
        self.name = name
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
        if collective == "ring":
            return [self.name, self.name + " private"]
        return [self.name] if collective != "barrier" or self.name == "symm" else []

    def ring(self, name, send, recv, pattern):
        rank, world = self.ways.rank, self.ways.world
        sides = [symm.Send((rank + 1) % world, send), symm.Recv((rank - 1) % world, recv)]
        return Way(name, lambda: self.group.messages(sides), "ring", pattern, send, recv)

    def way(self, name, collective, size, dtype):
        if collective == "barrier":
            return Way(name, self.group.barrier, collective, None, None, None)
        send, recv = self.ways.operands(self.block, collective, size, dtype)
        pattern = self.ways.pattern_of(dtype)
        if collective == "ring":
            if name.endswith(" private"):
                recv = self.ways.operands(self.ways.plain, collective, size, dtype)[1]
            return self.ring(name, send, recv, pattern)

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

        call = getattr(self.group, collective)
        options = {}
        if collective in ("broadcast", "reduce"):
            options["root"] = sizes.ROOT % self.ways.world

        return Way(name, lambda: call(send, recv, **options), collective, pattern, send, recv)


class NcclPeer:
    """NCCL on ordinary memory, and on a registered window."""

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
        count = min(send.numel(), recv.numel())
        pattern = self.ways.pattern_of(dtype)
        if collective == "ring":
            to, source = (pattern.rank + 1) % pattern.world, (pattern.rank - 1) % pattern.world
            call = self.library.ring(send.data_ptr(), to, recv.data_ptr(), source, count, dtype)
            return Way(name, call, collective, pattern, send, recv)
        if collective == "alltoall":
            count = send.numel() // self.ways.world
        call = self.library.collective(
            collective, send.data_ptr(), recv.data_ptr(), count, dtype, sizes.ROOT % self.ways.world
        )
        return Way(name, call, collective, pattern, send, recv)


class TorchPeer:
    """PyTorch's symmetric memory."""

    def __init__(self, ways):
        self.ways = ways
        size = ways.options.largest if "allreduce" in ways.options.collectives else 4096
        self.symmetric = torch_symm.empty(size, dtype=torch.uint8, device="cuda")
        self.handle = torch_symm.rendezvous(self.symmetric, dist.group.WORLD.group_name)
        self.out = ordinary(min(size, sizes.ONE_SHOT_LARGEST))

    def columns(self, collective):
        names = {"allreduce": ["torch one-shot", "torch two-shot"], "barrier": ["torch"]}
        return names.get(collective, [])

    def way(self, name, collective, size, dtype):
        if collective == "barrier":
            handle = self.handle
            return Way(name, lambda: handle.barrier(channel=0), collective, None, None, None)

        pattern = self.ways.pattern_of(dtype)
        group = dist.group.WORLD.group_name
        send = self.symmetric[:size].view(DTYPES[dtype])
        if name == "torch two-shot":
            if size < sizes.TWO_SHOT_SMALLEST:
                return None
            two_shot = torch.ops.symm_mem.two_shot_all_reduce_
            return Way(name, lambda: two_shot(send, "sum", group), collective, pattern, send, send)

        if size > sizes.ONE_SHOT_LARGEST:
            return None
        one_shot = torch.ops.symm_mem.one_shot_all_reduce_out
        recv = self.out[:size].view(DTYPES[dtype])
        return Way(
            name, lambda: one_shot(send, "sum", group, recv), collective, pattern, send, recv
        )


class KernelPeer:
    """FlashInfer's kernels and vLLM's, which write their results to memory of their own."""

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

        send = self.kernels.send[:size].view(DTYPES[dtype])
        recv = self.kernels.out[:size].view(DTYPES[dtype])
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
    """Groups and memory of all libraries, which are made once."""

    def __init__(self, options, device, rank, world, clock, say):
        self.options = options
        self.device = device
        self.rank = rank
        self.world = world
        self.clock = clock
        self.say = say
        self.stream = torch.cuda.current_stream().cuda_stream
        self.unavailable = {}
        self.peers = []
        self.pattern = None, None  # the type, and the pattern of that type
        self.block_size = options.largest + self.second_operand_bytes()
        for tune in ["", *options.tune]:
            self.peers.append(SymmPeer(self, f"symm {tune}".strip(), tune, self.block_size))

        self.plain = ordinary(self.block_size)
        for spec in ["", *options.nccl]:
            self.add("nccl " + spec if spec else "nccl", lambda spec=spec: NcclPeer(self, spec))

        if "allreduce" in options.collectives or "barrier" in options.collectives:
            self.add("torch", lambda: TorchPeer(self))
        if {"allreduce", "rmsnorm"} & set(options.collectives) and options.kernels:
            self.add("kernels", lambda: KernelPeer(self))

    def second_operand_bytes(self):
        """Room for the second operand of collectives that are not in place; 16 KB at least."""
        collectives = self.options.collectives
        others = set(collectives) - {"allreduce", "rmsnorm", "barrier"}
        needed = 0
        if others & {"alltoall", "ring"}:
            needed = self.options.largest
        elif others:
            needed = sizes.share_of(self.options.largest, self.world)
        return max(needed, 16384)

    def add(self, name, make):
        """Add a peer, if it can be made on all ranks; else note why not.

        With an older PyTorch, for instance, some peers cannot be made.
        """
        peer = None
        reason = None
        try:
            peer = make()
        except (AttributeError, OSError, RuntimeError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"

        reasons = [
            f"rank {rank}: {text}" for rank, text in enumerate(self.clock.everyone(reason)) if text
        ]
        if not reasons:
            self.peers.append(peer)
            return

        self.unavailable[name] = reasons[0]
        self.say(f"without {name}: {reasons[0]}")

    def pattern_of(self, dtype):
        if self.pattern[0] != dtype:
            self.pattern = None, None  # frees the other one, since both need much memory
            pattern = Pattern(DTYPES[dtype], self.options.largest, self.rank, self.world)
            self.pattern = dtype, pattern
        return self.pattern[1]

    def columns(self, collective):
        return [name for peer in self.peers for name in peer.columns(collective)]

    def operands(self, block, collective, size, dtype):
        """(send, recv) in a block.

        The larger operand is at the start of the block, the other one behind it. Sums and
        broadcasts are in place.
        """
        whole = block[:size].view(DTYPES[dtype])
        if collective in ("allreduce", "broadcast", "reduce", "rmsnorm"):
            return whole, whole
        beside = size if collective in ("alltoall", "ring") else size // self.world
        part = block[self.options.largest : self.options.largest + beside].view(DTYPES[dtype])
        return (part, whole) if collective == "allgather" else (whole, part)

    def of(self, collective, size, dtype):
        """The ways of a collective that support this size."""
        ways = [
            peer.way(name, collective, size, dtype)
            for peer in self.peers
            for name in peer.columns(collective)
        ]
        return [way for way in ways if way]
