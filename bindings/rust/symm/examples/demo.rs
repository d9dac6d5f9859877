// SPDX-License-Identifier: Apache-2.0
//! One of several ranks that may each be in another language. Start it by `symm run -n 4 -- demo`, or beside the demos of C, Python
//! and Julia, which do the same: a block of 1 MiB each, a put into the neighbour's, an all-reduce, a block handed on by token; every
//! result is checked bit for bit.

mod ring;

use ring::{BLOCK, DATA, PUT, REDUCED, TOKEN, TOKEN_AT, check, letter, sums, values};
use std::error::Error;
use std::time::Instant;
use symm::{Backend, GroupConfig, Memory, Op};

fn main() -> Result<(), Box<dyn Error>> {
    let group = GroupConfig::new().backend(Backend::Host).create()?;
    let (rank, size) = (group.rank(), group.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);

    let memory = group.memory::<f32>(BLOCK)?;
    let here = memory.view(rank)?;
    here.write(0, &values(rank, BLOCK / 2));
    group.barrier()?;

    let start = Instant::now();
    memory.put_signal(next, BLOCK / 2, &memory.span(..PUT)?, DATA)?;
    let put = micros(start);
    memory.wait_signal(previous, DATA)?;
    check("what the previous rank put", &here.to_vec()[BLOCK / 2..][..PUT], &values(previous, PUT))?;

    let mut sum = vec![0.0; REDUCED];
    let start = Instant::now();
    group.allreduce(&memory.span(..REDUCED)?, &mut sum, Op::Sum)?;
    let reduce = micros(start);
    check("the all-reduced sum", &sum, &sums(size, REDUCED))?;

    let mut line = format!("rank {rank} (Rust): put {} B to rank {next} in {put:.1} us", PUT * 4);
    line += &format!("; all-reduce {} B in {reduce:.1} us; all bits right", REDUCED * 4);
    line += &token(&memory, next, previous)?;
    println!("{line}");
    group.finalize()?;
    Ok(())
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

/// Hands this rank's block to the next by a token, and looks into the one that came.
fn token(memory: &Memory<f32>, next: usize, previous: usize) -> Result<String, Box<dyn Error>> {
    let bytes = memory.cast::<u8>();
    bytes.put_signal(next, TOKEN_AT, &letter(memory.span(..)?.export()?), TOKEN)?;

    bytes.wait_signal(previous, TOKEN)?;
    let mut length = [0; 4];
    bytes.get(memory.rank(), TOKEN_AT, &mut length)?;
    let mut came = vec![0; u32::from_le_bytes(length) as usize];
    bytes.get(memory.rank(), TOKEN_AT + 4, &mut came)?;
    let length = came.len();
    let block = symm::ipc::import::<f32>(&came.into())?;
    check("the imported block", &block.view()?.to_vec()[..16], &values(previous, 16))?;
    Ok(format!("; imported rank {previous}'s block by token ({length} bytes)"))
}
