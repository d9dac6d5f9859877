// SPDX-License-Identifier: Apache-2.0
//! One of several ranks that may each be in another language. Start it by `symm run -n 4 -- demo`, or beside the demos of C, Python
//! and Julia, which do the same: a block of 1 MiB each, a put into the neighbour's, an all-reduce, a block handed on by token; every
//! result is checked bit for bit.

use std::error::Error;
use std::time::Instant;
use symm::{Backend, GroupConfig, Memory, Op};

/// Elements of a block: 1 MiB.
const BLOCK: usize = 1 << 18;
const PUT: usize = 4096;
const REDUCED: usize = 65536;
/// Where a token goes, in bytes.
const TOKEN_AT: usize = 768 << 10;
/// Signal channels.
const DATA: usize = 1;
const TOKEN: usize = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let group = GroupConfig::new().backend(Backend::Host).create()?;
    let (rank, size) = (group.rank(), group.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);

    let memory = group.memory::<f32>(BLOCK)?;
    let here = memory.view(rank)?;
    for i in 0..BLOCK / 2 {
        here.store(i, value(rank, i));
    }
    group.barrier()?;

    let start = Instant::now();
    memory.put_with_signal(next, BLOCK / 2, &memory.span(..PUT)?, DATA)?;
    let put = micros(start);
    memory.wait_signal(previous, DATA)?;
    check("what the previous rank put", (0..PUT).map(|i| (here.load(BLOCK / 2 + i), value(previous, i))))?;

    let mut sum = vec![0.0; REDUCED];
    let start = Instant::now();
    group.allreduce(&memory.span(..REDUCED)?, &mut sum, Op::Sum)?;
    let reduce = micros(start);
    check(
        "the all-reduced sum",
        (0..REDUCED).map(|i| (sum[i], (1..size).fold(value(0, i), |sum, r| sum + value(r, i)))),
    )?;

    let mut line = format!("rank {rank} (Rust): put {} B to rank {next} in {put:.1} us", PUT * 4);
    line += &format!("; all-reduce {} B in {reduce:.1} us; all bits right", REDUCED * 4);
    line += &token(&memory, next, previous)?;
    println!("{line}");
    group.finalize()?;
    Ok(())
}

/// What a rank writes into its own block.
fn value(rank: usize, i: usize) -> f32 {
    (rank + 1) as f32 * (i % 1024) as f32
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

fn check(what: &str, pairs: impl Iterator<Item = (f32, f32)>) -> Result<(), String> {
    for (i, (seen, expected)) in pairs.enumerate() {
        if seen.to_bits() != expected.to_bits() {
            return Err(format!("{what}: element {i} is {seen}, not {expected}"));
        }
    }
    Ok(())
}

/// Hands this rank's block to the next by a token, and looks into the one that came.
fn token(memory: &Memory<f32>, next: usize, previous: usize) -> Result<String, Box<dyn Error>> {
    let bytes = memory.cast::<u8>();
    let token = Vec::from(memory.span(..)?.export()?);
    let mut message = u32::try_from(token.len())?.to_le_bytes().to_vec();
    message.extend(&token);
    bytes.put_with_signal(next, TOKEN_AT, &message, TOKEN)?;

    bytes.wait_signal(previous, TOKEN)?;
    let mut length = [0; 4];
    bytes.get(memory.rank(), TOKEN_AT, &mut length)?;
    let mut came = vec![0; u32::from_le_bytes(length) as usize];
    bytes.get(memory.rank(), TOKEN_AT + 4, &mut came)?;
    let length = came.len();
    let block = symm::ipc::import::<f32>(&came.into())?;
    let view = block.view()?;
    check("the imported block", (0..16).map(|i| (view.load(i), value(previous, i))))?;
    Ok(format!("; imported rank {previous}'s block by token ({length} bytes)"))
}
