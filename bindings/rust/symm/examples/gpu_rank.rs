//! One of several ranks on GPUs that may each be in another language: the example `demo` for device
//! memory, with cudarc's slices and stream. Start it by `symm run -n 4 -- gpu_rank`, or beside the
//! ranks of C++, Python and Julia by `tests/gpu/languages/run` of the repository. Every result is
//! checked bit for bit.

mod ring;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use ring::{BLOCK, DATA, PUT, REDUCED, TOKEN, TOKEN_AT, check, letter, sums, values};
use std::error::Error;
use std::sync::Arc;
use symm::cudarc::{read, write};
use symm::ipc::{ExportOptions, ImportOptions};
use symm::{Backend, Group, GroupConfig, Memory, Op, Status};

/// The element of its own block to which a rank copies what it has imported.
const SEEN_AT: usize = (640 << 10) / 4;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    // Ranks share GPUs if there are fewer GPUs than ranks.
    let group = GroupConfig::new()
        .backend(Backend::Cuda)
        .overlapping_devices(true)
        .create()?;
    let rank = group.rank();
    let size = group.size();
    let device = group.info()?.device;
    let next = (rank + 1) % size;
    let previous = (rank + size - 1) % size;
    let stream = CudaContext::new(device)?.new_stream()?;
    let group = group.with_stream((&stream).into());

    let memory = group.memory::<f32>(BLOCK)?;
    let mine = stream.clone_htod(&values(rank, BLOCK / 2))?;
    memory.put(rank, 0, &read(&mine, &stream))?;
    group.barrier()?;

    memory.put_signal(next, BLOCK / 2, &memory.span(..PUT)?, DATA)?;
    memory.wait_signal(previous, DATA)?;
    let seen = own(&memory, BLOCK / 2, PUT, &stream)?;
    check("what the previous rank put", &seen, &values(previous, PUT))?;

    let mut sum: CudaSlice<f32> = stream.alloc_zeros(REDUCED)?;
    let send = memory.span(..REDUCED)?;
    group.allreduce(&send, &mut write(&mut sum, &stream), Op::Sum)?;
    let seen = stream.clone_dtoh(&sum)?;
    check("the all-reduced sum", &seen, &sums(size, REDUCED))?;

    slices_in_a_group_of_one(&stream, device)?;
    wrong_calls_are_refused(&group, &memory);

    let length = token(&memory, next, previous, device, &stream)?;
    stream.synchronize()?;
    group.finalize()?;
    let put_bytes = PUT * 4;
    let reduced_bytes = REDUCED * 4;
    println!(
        "rank {rank} (Rust) on GPU {device}: put {put_bytes} B to rank {next}; \
         all-reduce {reduced_bytes} B; all bits right; \
         imported rank {previous}'s block by token ({length} bytes)"
    );
    Ok(())
}

fn wrong_calls_are_refused(group: &Group, memory: &Memory<f32>) {
    let of_host = group.allreduce_in_place(&mut [0.0f32; 16], Op::Sum);
    expect_status("memory of the host", of_host, Status::InvalidArgument);
    let view = memory.view(0).map(|_| ());
    expect_status("a view", view, Status::Unsupported);
    let signal = memory.signal(99, 0);
    expect_status("rank 99", signal, Status::InvalidArgument);
}

fn expect_status(what: &str, result: symm::Result<()>, status: Status) {
    assert_eq!(result.map_err(|error| error.status), Err(status), "{what}");
}

/// Slices of cudarc as both operands, in a group of one rank.
fn slices_in_a_group_of_one(stream: &Arc<CudaStream>, device: usize) -> Outcome {
    let config = GroupConfig::new()
        .ranks(0, 1)
        .bootstrap("thread://alone")
        .backend(Backend::Cuda)
        .device(device);
    let group = config.create()?.with_stream(stream.into());
    let expected = values(1, REDUCED);
    let send = stream.clone_htod(&expected)?;

    let mut recv: CudaSlice<f32> = stream.alloc_zeros(REDUCED)?;
    group.allreduce(&read(&send, stream), &mut write(&mut recv, stream), Op::Sum)?;
    check("slice to slice", &stream.clone_dtoh(&recv)?, &expected)?;

    let mut gathered: CudaSlice<f32> = stream.alloc_zeros(REDUCED)?;
    group.allgather(&read(&send, stream), &mut write(&mut gathered, stream))?;
    check("gathered", &stream.clone_dtoh(&gathered)?, &expected)?;
    Ok(())
}

/// Copies elements of this rank's own block to the host.
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

/// Hands this rank's block to the next rank by a token, and looks into the block of the previous
/// rank. Returns the length of the token that came.
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

    // Without a device, the memory is mapped for the GPU that has it.
    let import = ImportOptions::new()
        .device(device)
        .stream(stream.into())
        .import::<f32>(&came.into())?;
    memory.put(memory.rank(), SEEN_AT, &import.span(..16)?)?;
    let seen = own(memory, SEEN_AT, 16, stream)?;
    check("the imported block", &seen, &values(previous, 16))?;
    Ok(length)
}
