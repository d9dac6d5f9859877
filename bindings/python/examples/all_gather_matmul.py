"""Triton: an all-gather fused into the matrix product that needs it.

Each rank has some rows of X. All ranks compute Y = X W, tile by tile::

    torchrun --standalone --nproc-per-node 2 all_gather_matmul.py
        [rows of a rank, columns of X, columns of W]

The first programs of the grid push this rank's tiles of X to the other ranks, each with a
signal. The other programs multiply, beginning with this rank's rows. Result and time are
compared with an all-gather and PyTorch's matrix product. NVIDIA GPUs are needed.
"""

import os
import sys

import torch
import triton
import triton.language as tl

import symm
import symm.triton as st

TILE_ROWS = 128
TILE_COLUMNS = 128
DEPTH = 64
PUSHERS = 16  # programs that push tiles


@triton.jit(do_not_specialize=["step"])
def gather_matmul(
    view, w, y, trouble, step, rows, k_size: tl.constexpr, columns: tl.constexpr,
    tile_rows: tl.constexpr, tile_columns: tl.constexpr, depth: tl.constexpr, pushers: tl.constexpr,
):  # fmt: skip
    """Compute Y [ranks * rows, columns] = X W.

    `view` is of memory for X [ranks * rows, k_size], which has this rank's rows in their place.
    `step` grows by one with each call.
    """
    me = st.rank(view)
    ranks = st.size(view)
    tiles = rows // tile_rows
    x = st.pointer(view, me, w.dtype.element_ty)
    row_range = tl.arange(0, tile_rows)
    column_range = tl.arange(0, tile_columns)
    depth_range = tl.arange(0, depth)

    program = tl.program_id(0)
    if program < pushers:
        for tile in range(program, tiles, pushers):
            first = me * rows + tile * tile_rows
            at = (first + row_range)[:, None] * k_size + depth_range[None, :]
            for hop in range(1, ranks):
                peer = (me + hop) % ranks
                for k in range(0, k_size, depth):
                    st.put(view, peer, at + k, tl.load(x + at + k))
                st.signal(view, peer, tile, step, "set")
    else:
        tiles_across = columns // tile_columns
        row_tile = (program - pushers) // tiles_across
        column = (program - pushers) % tiles_across * tile_columns
        owner = (me + row_tile // tiles) % ranks
        tile = row_tile % tiles

        if owner != me:
            code = st.wait_signal_value(view, owner, tile, step)
            if code != 0:
                tl.store(trouble, code)

        first = owner * rows + tile * tile_rows
        left = x + (first + row_range)[:, None] * k_size + depth_range[None, :]
        right = w + depth_range[:, None] * columns + (column + column_range)[None, :]
        sums = tl.zeros((tile_rows, tile_columns), tl.float32)
        for k in range(0, k_size, depth):
            sums = tl.dot(tl.load(left + k), tl.load(right + k * columns), sums)
        target = y + (first + row_range)[:, None] * columns + (column + column_range)[None, :]
        tl.store(target, sums.to(y.dtype.element_ty))


def microseconds(call, rounds=50):
    """The time of one call, on average."""
    begin = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    call()
    begin.record()
    for _ in range(rounds):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1000 / rounds


def run(group, rows, k_size, columns):
    """Compute one product, and compare it with PyTorch's in result and time.

    PyTorch's current device must be the group's.
    """
    if (
        rows % TILE_ROWS != 0
        or rows > 64 * TILE_ROWS
        or k_size % DEPTH != 0
        or columns % TILE_COLUMNS != 0
    ):
        raise SystemExit(
            f"rows: 1 to 64 times {TILE_ROWS}; columns of X: a multiple of {DEPTH}; "
            f"of W: of {TILE_COLUMNS}"
        )

    # Each tile of rows has a signal channel of its own; a memory has 64.
    shared = group.empty((group.size * rows, k_size), "bf16")
    x = shared.torch()
    mine = x[group.rank * rows : (group.rank + 1) * rows]
    generator = torch.Generator("cuda").manual_seed(group.rank)
    mine.normal_(generator=generator)
    w = torch.randn(
        k_size, columns, generator=generator.manual_seed(99), device="cuda", dtype=torch.bfloat16
    )
    y = torch.empty(len(x), columns, device="cuda", dtype=torch.bfloat16)
    trouble = torch.zeros(1, dtype=torch.int32, device="cuda")
    view = st.view(shared.memory)
    grid = (PUSHERS + len(x) // TILE_ROWS * (columns // TILE_COLUMNS),)
    step = 0

    def fused():
        nonlocal step
        step += 1
        group.barrier()  # all ranks have read the tiles that are about to be overwritten

        gather_matmul[grid](
            view,
            w,
            y,
            trouble,
            step,
            rows,
            k_size,
            columns,
            TILE_ROWS,
            TILE_COLUMNS,
            DEPTH,
            PUSHERS,
            num_warps=8,
            num_stages=3,
        )

    everything = torch.empty_like(x)
    plain_y = torch.empty_like(y)

    def plain():
        group.allgather(mine, everything)
        torch.matmul(everything, w, out=plain_y)

    fused()
    plain()
    torch.cuda.synchronize()
    if trouble.item() != 0:
        raise SystemExit(f"rank {trouble.item() >> 8} did not push its tiles")
    torch.testing.assert_close(y, plain_y, rtol=2e-2, atol=2e-2 * k_size**0.5)

    fused_us = microseconds(fused)
    plain_us = microseconds(plain)
    if group.rank == 0:
        print(
            f"Y = X W is right on {group.size} ranks; fused {fused_us:.0f} us, "
            f"all-gather and matmul {plain_us:.0f} us"
        )
    group.barrier()
    torch.cuda.synchronize()


def main():
    shares_device = torch.cuda.device_count() < int(os.environ["WORLD_SIZE"])
    device = 0 if shares_device else int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(device)
    with symm.Group.from_env(
        backend="cuda", device=device, overlapping_devices=shares_device
    ) as group:
        run(group, *map(int, sys.argv[1:4] or (2048, 4096, 4096)))


if __name__ == "__main__":
    main()
