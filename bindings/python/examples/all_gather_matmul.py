"""Triton: an all-gather fused into the product that needs it. Each rank has some rows of
X; all compute Y = X W, tile by tile.

    torchrun --standalone --nproc-per-node 2 all_gather_matmul.py
    [rows of a rank, columns of X, columns of W]

The first programs of the grid push this rank's tiles of X to the others, each with a
signal; the rest multiply, beginning with the rows that are here. Compared with an
all-gather and a product that is PyTorch's, for results and time. Needs NVIDIA GPUs.
"""

import os
import sys

import torch
import triton
import triton.language as tl

import symm
import symm.triton as st

TILE_ROWS, TILE_COLUMNS, DEPTH, PUSHERS = 128, 128, 64, 16


@triton.jit(do_not_specialize=["step"])
def gather_matmul(
    view, w, y, trouble, step, rows, k_size: tl.constexpr, columns: tl.constexpr,
    tile_rows: tl.constexpr, tile_columns: tl.constexpr, depth: tl.constexpr, pushers: tl.constexpr,
):  # fmt: skip
    """`view`: of memory that holds X [ranks * rows, k_size],
    this rank's rows in place; `step` grows by one each time.
    """
    me, ranks, tiles = st.rank(view), st.size(view), rows // tile_rows
    x = st.pointer(view, me, w.dtype.element_ty)
    of_row, of_column, of_depth = (
        tl.arange(0, tile_rows),
        tl.arange(0, tile_columns),
        tl.arange(0, depth),
    )
    program = tl.program_id(0)
    if program < pushers:
        for tile in range(program, tiles, pushers):
            at = (me * rows + tile * tile_rows + of_row)[:, None] * k_size + of_depth[None, :]
            for hop in range(1, ranks):
                for k in range(0, k_size, depth):
                    st.put(view, (me + hop) % ranks, at + k, tl.load(x + at + k))
                st.signal(view, (me + hop) % ranks, tile, step, "set")
    else:
        across = columns // tile_columns
        row_tile, column = (
            (program - pushers) // across,
            (program - pushers) % across * tile_columns,
        )
        owner, tile = (me + row_tile // tiles) % ranks, row_tile % tiles
        if owner != me:
            code = st.wait_signal_value(view, owner, tile, step)
            if code != 0:
                tl.store(trouble, code)
        first = owner * rows + tile * tile_rows
        left = x + (first + of_row)[:, None] * k_size + of_depth[None, :]
        right = w + of_depth[:, None] * columns + (column + of_column)[None, :]
        sums = tl.zeros((tile_rows, tile_columns), tl.float32)
        for k in range(0, k_size, depth):
            sums = tl.dot(tl.load(left + k), tl.load(right + k * columns), sums)
        tl.store(
            y + (first + of_row)[:, None] * columns + (column + of_column)[None, :],
            sums.to(y.dtype.element_ty),
        )


def microseconds(call, rounds=50):
    """Of one call, on average."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    call()
    begin.record()
    for _ in range(rounds):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1000 / rounds


def run(group, rows, k_size, columns):
    """One product, compared and timed, on the group's device, which is PyTorch's current one."""
    if (
        rows % TILE_ROWS != 0
        or rows > 64 * TILE_ROWS
        or k_size % DEPTH != 0
        or columns % TILE_COLUMNS != 0
    ):
        raise SystemExit(
            f"rows: 1 to 64 times {TILE_ROWS}; columns of X: a multiple of {DEPTH}; of W: of {TILE_COLUMNS}"
        )
    # a signal channel for each tile of rows: 64
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
        group.barrier()  # nobody reads what is about to be overwritten
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
    times = microseconds(fused), microseconds(plain)
    if group.rank == 0:
        print(
            f"Y = X W is right on {group.size} ranks; fused {times[0]:.0f} us, all-gather and matmul {times[1]:.0f} us"
        )
    group.barrier()
    torch.cuda.synchronize()


def main():
    one = torch.cuda.device_count() < int(os.environ["WORLD_SIZE"])
    device = 0 if one else int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(device)
    with symm.Group.from_env(backend="cuda", device=device, overlapping_devices=one) as group:
        run(group, *map(int, sys.argv[1:4] or (2048, 4096, 4096)))


if __name__ == "__main__":
    main()
