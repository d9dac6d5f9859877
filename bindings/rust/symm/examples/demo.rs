//! One of several ranks that may each be in another language. Start it by `symm run -n 4 -- demo`,
//! or beside the demos of C, Python and Julia, which make these calls too: a heap, of which each
//! rank takes equal pieces; a put into the neighbour's inbox; an all-reduce; and a piece handed on
//! by a token, which only ranks of its machine can use. Every result is checked bit for bit. With
//! an argument, the sum is written to a file in that directory.

mod ring;

use ring::{BLOCK, DATA, PUT, REDUCED, TOKEN, check, letter, sums, values};
use std::error::Error;
use std::time::Instant;
use symm::{Backend, Group, GroupConfig, Op, Piece};

fn main() -> Result<(), Box<dyn Error>> {
    let group = GroupConfig::new().backend(Backend::Host).create()?;
    let rank = group.rank();
    let size = group.size();
    let next = (rank + 1) % size;
    let previous = (rank + size - 1) % size;

    let heap = group.heap(BLOCK * 4)?;
    let memory = heap.memory::<f32>();
    let mine = heap.alloc::<f32>(BLOCK / 2)?;
    let inbox = heap.alloc::<f32>(PUT)?;
    let mail = heap.alloc::<u8>(1024)?;
    mine.view(rank)?.write(0, &values(rank, BLOCK / 2));
    group.barrier()?;

    let start = Instant::now();
    memory.put_signal(next, inbox.offset(), &mine.span(..PUT)?, DATA)?;
    let put = micros(start);
    memory.wait_signal(previous, DATA)?;
    let seen = inbox.view(rank)?.to_vec();
    check("what the previous rank put", &seen, &values(previous, PUT))?;

    let mut sum = vec![0.0; REDUCED];
    let start = Instant::now();
    group.allreduce(&mine.span(..REDUCED)?, &mut sum, Op::Sum)?;
    let reduce = micros(start);
    check("the all-reduced sum", &sum, &sums(size, REDUCED))?;

    if let Some(directory) = std::env::args().nth(1) {
        let bytes: Vec<u8> = sum.iter().copied().flat_map(f32::to_ne_bytes).collect();
        std::fs::write(format!("{directory}/{rank}"), bytes)?;
    }

    let token = hand_on_by_token(&mine, &mail, &group, (next, previous))?;
    let put_bytes = PUT * 4;
    let reduced_bytes = REDUCED * 4;
    println!(
        "rank {rank} (Rust): put {put_bytes} B to rank {next} in {put:.1} us; \
         all-reduce {reduced_bytes} B in {reduce:.1} us; all bits right; {token}"
    );
    group.finalize()?;
    Ok(())
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

/// Hands this rank's piece to the next rank by a token, and looks into the piece of the previous
/// rank. Returns what has happened, in words.
fn hand_on_by_token(
    mine: &Piece<f32>,
    mail: &Piece<u8>,
    group: &Group,
    (next, previous): (usize, usize),
) -> Result<String, Box<dyn Error>> {
    let memory = mail.memory();
    let letter = letter(mine.span(..)?.export()?);
    memory.put_signal(next, mail.offset(), &letter, TOKEN)?;

    memory.wait_signal(previous, TOKEN)?;
    if !group.peer_info(previous)?.mapped {
        return Ok(format!("rank {previous}'s piece is on another machine"));
    }

    let came = mail.view(group.rank())?.to_vec();
    let length = u32::from_le_bytes([came[0], came[1], came[2], came[3]]) as usize;
    let piece = symm::ipc::import::<f32>(&came[4..4 + length].to_vec().into())?;
    let seen = &piece.view()?.to_vec()[..16];
    check("the imported piece", seen, &values(previous, 16))?;
    Ok(format!(
        "imported rank {previous}'s piece by token ({length} bytes)"
    ))
}
