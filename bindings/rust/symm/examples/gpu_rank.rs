//! One of several ranks on GPUs that may each be in another language: `demo` for device
//! memory, with cudarc's slices and stream. Start it by `symm run -n 4 -- gpu_rank`, or
//! beside those of C++, Python and Julia by `tests/gpu/languages/run` of the
//! repository. Every result is checked bit for bit.

mod ring;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use ring::{BLOCK, DATA, PUT, REDUCED, TOKEN, TOKEN_AT, check, letter, sums, values};
use std::error::Error;
use std::sync::Arc;
use symm::cudarc::{read, write};
use symm::ipc::{ExportOptions, ImportOptions};
use symm::{Backend, GroupConfig, Memory, Op, Status};

/// Where a rank looks at what it has imported, in elements.
const SEEN_AT: usize = (640 << 10) / 4;
type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    // Where there are fewer GPUs than ranks, ranks share them.
    let group = GroupConfig::new()
        .backend(Backend::Cuda)
        .overlapping_devices(true)
        .create()?;
    let (rank, size, device) = (group.rank(), group.size(), group.info()?.device);
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let stream = CudaContext::new(device)?.new_stream()?;
    let group = group.with_stream((&stream).into());

    let memory = group.memory::<f32>(BLOCK)?;
    let mine = stream.clone_htod(&values(rank, BLOCK / 2))?;
    memory.put(rank, 0, &read(&mine, &stream))?;
    group.barrier()?;

    memory.put_signal(next, BLOCK / 2, &memory.span(..PUT)?, DATA)?;
    memory.wait_signal(previous, DATA)?;
    check(
        "what the previous rank put",
        &own(&memory, BLOCK / 2, PUT, &stream)?,
        &values(previous, PUT),
    )?;

    let mut sum: CudaSlice<f32> = stream.alloc_zeros(REDUCED)?;
    group.allreduce(
        &memory.span(..REDUCED)?,
        &mut write(&mut sum, &stream),
        Op::Sum,
    )?;
    check(
        "the all-reduced sum",
        &stream.clone_dtoh(&sum)?,
        &sums(size, REDUCED),
    )?;
    alone(&stream, device)?;
    let refused = [
        (
            group.allreduce_in_place(&mut [0.0f32; 16], Op::Sum),
            Status::InvalidArgument,
        ),
        (memory.view(0).map(|_| ()), Status::Unsupported),
        (memory.signal(99, 0), Status::InvalidArgument),
    ];
    for (result, status) in refused {
        assert_eq!(
            result.map_err(|error| error.status),
            Err(status),
            "memory of the host, a view, rank 99"
        );
    }

    let length = token(&memory, next, previous, device, &stream)?;
    stream.synchronize()?;
    group.finalize()?;
    print!(
        "rank {rank} (Rust) on GPU {device}: put {} B to rank {next}; all-reduce {} B; ",
        PUT * 4,
        REDUCED * 4
    );
    println!("all bits right; imported rank {previous}'s block by token ({length} bytes)");
    Ok(())
}

/// From slice to slice, and by all of the ranks, of which there is one.
fn alone(stream: &Arc<CudaStream>, device: usize) -> Outcome {
    let config = GroupConfig::new()
        .ranks(0, 1)
        .bootstrap("thread://alone")
        .backend(Backend::Cuda)
        .device(device);
    let group = config.create()?.with_stream(stream.into());
    let send = stream.clone_htod(&values(1, REDUCED))?;
    let mut recv: CudaSlice<f32> = stream.alloc_zeros(REDUCED)?;
    group.allreduce(&read(&send, stream), &mut write(&mut recv, stream), Op::Sum)?;
    check(
        "slice to slice",
        &stream.clone_dtoh(&recv)?,
        &values(1, REDUCED),
    )?;
    let mut gathered: CudaSlice<f32> = stream.alloc_zeros(REDUCED)?;
    group.allgather(&read(&send, stream), &mut write(&mut gathered, stream))?;
    check(
        "gathered",
        &stream.clone_dtoh(&gathered)?,
        &values(1, REDUCED),
    )?;
    Ok(())
}

/// Elements of this rank's own block, on the host.
fn own<T>(
    memory: &Memory<T>,
    offset: usize,
    count: usize,
    stream: &Arc<CudaStream>,
) -> Outcome<Vec<T>>
where
    T: symm::Element + cudarc::driver::DeviceRepr + cudarc::driver::ValidAsZeroBits,
{
    let mut seen: CudaSlice<T> = stream.alloc_zeros(count)?;
    memory.get(memory.rank(), offset, &mut write(&mut seen, stream))?;
    Ok(stream.clone_dtoh(&seen)?)
}

/// Hands this rank's block to the next by a token, and looks
/// into the one that came. Returns the length of that token.
fn token(
    memory: &Memory<f32>,
    next: usize,
    previous: usize,
    device: usize,
    stream: &Arc<CudaStream>,
) -> Outcome<usize> {
    let bytes = memory.cast::<u8>();
    let token = ExportOptions::new()
        .stream(stream.into())
        .export(&memory.span(..)?)?;
    let staged = stream.clone_htod(&letter(token))?;
    bytes.put_signal(next, TOKEN_AT, &read(&staged, stream), TOKEN)?;

    bytes.wait_signal(previous, TOKEN)?;
    let length = own(&bytes, TOKEN_AT, 4, stream)?;
    let length = u32::from_le_bytes(length.as_slice().try_into()?) as usize;
    let came = own(&bytes, TOKEN_AT + 4, length, stream)?;
    // Without a device it is mapped for the GPU that has the memory.
    let import = ImportOptions::new()
        .device(device)
        .stream(stream.into())
        .import::<f32>(&came.into())?;
    memory.put(memory.rank(), SEEN_AT, &import.span(..16)?)?;
    check(
        "the imported block",
        &own(memory, SEEN_AT, 16, stream)?,
        &values(previous, 16),
    )?;
    Ok(length)
}
