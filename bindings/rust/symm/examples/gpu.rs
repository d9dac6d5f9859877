// SPDX-License-Identifier: Apache-2.0
//! One rank of a group on GPUs, with cudarc's slices and streams. Start it by `symm run -n 4 -- gpu`; ranks may be more than GPUs. Ends with
//! "N passed, N failed", or "skipped: <reason>" where the library cannot use a GPU.

mod ring;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use ring::{check, sums, values};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use symm::cudarc::{read, write};
use symm::{Backend, Group, GroupConfig, Memory, Op, Status};

const BLOCK: usize = 1 << 20;
const HALF: usize = BLOCK / 2;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

struct Checks {
    passed: usize,
    failed: usize,
}

impl Checks {
    fn same(&mut self, what: &str, seen: &[f32], expected: &[f32]) {
        self.expect(what, check(what, seen, expected).is_ok());
    }

    fn expect(&mut self, what: &str, right: bool) {
        if right {
            self.passed += 1;
        } else {
            self.failed += 1;
            println!("wrong: {what}");
        }
    }
}

fn collectives(group: &Group, memory: &Memory<f32>, stream: &Arc<CudaStream>, checks: &mut Checks) -> Outcome {
    for count in [1, 1000, 65536, HALF] {
        let send = stream.clone_htod(&values(group.rank(), count))?;
        let mut recv: CudaSlice<f32> = stream.alloc_zeros(count)?;
        group.allreduce(&read(&send, stream), &mut write(&mut recv, stream), Op::Sum)?;
        checks.same("slice to slice", &stream.clone_dtoh(&recv)?, &sums(group.size(), count));
        group.allreduce(&memory.span(..count)?, &mut write(&mut recv, stream), Op::Sum)?;
        checks.same("symmetric to slice", &stream.clone_dtoh(&recv)?, &sums(group.size(), count));
    }
    let mut gathered: CudaSlice<f32> = stream.alloc_zeros(256 * group.size())?;
    group.allgather(&memory.span(..256)?, &mut write(&mut gathered, stream))?;
    let expected: Vec<f32> = (0..group.size()).flat_map(|rank| values(rank, 256)).collect();
    checks.same("gathered", &stream.clone_dtoh(&gathered)?, &expected);
    Ok(())
}

fn neighbours(group: &Group, memory: &Memory<f32>, stream: &Arc<CudaStream>, checks: &mut Checks) -> Outcome {
    let (next, previous) = ((group.rank() + 1) % group.size(), (group.rank() + group.size() - 1) % group.size());
    memory.put_signal(next, HALF, &memory.span(..4096)?, 1)?;
    memory.wait_signal(previous, 1)?;
    let mut got: CudaSlice<f32> = stream.alloc_zeros(4096)?;
    memory.get(group.rank(), HALF, &mut write(&mut got, stream))?;
    checks.same("what the neighbour put", &stream.clone_dtoh(&got)?, &values(previous, 4096));
    group.barrier()?;
    Ok(())
}

fn refusals(group: &Group, memory: &Memory<f32>, checks: &mut Checks) {
    let mut on_host = vec![0.0f32; 16];
    let refused = |result: symm::Result<()>, status| result.is_err_and(|error| error.status == status);
    checks.expect(
        "a slice of the host is refused",
        refused(group.allreduce_in_place(&mut on_host, Op::Sum), Status::InvalidArgument),
    );
    checks.expect("device memory has no view", refused(memory.view(0).map(|_| ()), Status::Unsupported));
    checks.expect("a rank out of range", refused(memory.signal(99, 0), Status::InvalidArgument));
}

fn tokens(group: &Group, memory: &Memory<f32>, stream: &Arc<CudaStream>, checks: &mut Checks) -> Outcome {
    let export = symm::ipc::ExportOptions::new().stream(stream.into());
    let token = export.export(&memory.span(..)?)?;
    let import = symm::ipc::ImportOptions::new().stream(stream.into()).import::<f32>(&token)?;
    let mut sum: CudaSlice<f32> = stream.alloc_zeros(4096)?;
    group.allreduce(&import.span(..4096)?, &mut write(&mut sum, stream), Op::Sum)?;
    checks.same("an import as operand", &stream.clone_dtoh(&sum)?, &sums(group.size(), 4096));
    Ok(())
}

fn main() -> Outcome {
    let minute = Duration::from_secs(60);
    let config =
        GroupConfig::new().backend(Backend::Cuda).overlapping_devices(true).timeout(minute).create_timeout(minute);
    let group = match config.create() {
        Err(error) if error.status == Status::Unavailable => {
            println!("skipped: {error}\n0 passed, 0 failed");
            return Ok(());
        }
        other => other?,
    };
    let stream = CudaContext::new(group.info()?.device)?.new_stream()?;
    let group = group.with_stream((&stream).into());
    let memory = group.memory::<f32>(BLOCK)?;
    let mine = stream.clone_htod(&values(group.rank(), HALF))?;
    memory.put(group.rank(), 0, &read(&mine, &stream))?;
    group.barrier()?;

    let mut checks = Checks { passed: 0, failed: 0 };
    collectives(&group, &memory, &stream, &mut checks)?;
    neighbours(&group, &memory, &stream, &mut checks)?;
    refusals(&group, &memory, &mut checks);
    tokens(&group, &memory, &stream, &mut checks)?;
    group.barrier()?;
    stream.synchronize()?;
    println!("{} passed, {} failed", checks.passed, checks.failed);
    if checks.failed > 0 { Err("a check failed".into()) } else { Ok(()) }
}
