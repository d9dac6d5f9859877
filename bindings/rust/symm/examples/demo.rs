//! One of several ranks that may each be in another language. Start it by
//! `symm run -n 4 -- demo`, or beside the demos of C, Python and Julia,
//! which do the same: one heap, of which each takes the same pieces, a put
//! into the neighbour's inbox, an all-reduce, a piece handed on by token,
//! which is of use on its machine only; every result is checked bit for
//! bit. With an argument, the sum goes into a file of that directory.

mod ring;

use ring::{BLOCK, DATA, PUT, REDUCED, TOKEN, check, letter, sums, values};
use std::error::Error;
use std::time::Instant;
use symm::{Backend, Group, GroupConfig, Op, Piece};

fn main() -> Result<(), Box<dyn Error>> {
    let group = GroupConfig::new().backend(Backend::Host).create()?;
    let (rank, size) = (group.rank(), group.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);

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
    check(
        "what the previous rank put",
        &inbox.view(rank)?.to_vec(),
        &values(previous, PUT),
    )?;

    let mut sum = vec![0.0; REDUCED];
    let start = Instant::now();
    group.allreduce(&mine.span(..REDUCED)?, &mut sum, Op::Sum)?;
    let reduce = micros(start);
    check("the all-reduced sum", &sum, &sums(size, REDUCED))?;

    if let Some(directory) = std::env::args().nth(1) {
        let bytes: Vec<u8> = sum
            .iter()
            .flat_map(|value: &f32| value.to_ne_bytes())
            .collect();
        std::fs::write(format!("{directory}/{rank}"), bytes)?;
    }

    let mut line = format!(
        "rank {rank} (Rust): put {} B to rank {next} in {put:.1} us",
        PUT * 4
    );
    line += &format!(
        "; all-reduce {} B in {reduce:.1} us; all bits right",
        REDUCED * 4
    );
    line += &token(&mine, &mail, &group, (next, previous))?;
    println!("{line}");
    group.finalize()?;
    Ok(())
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

/// Hands this rank's piece to the next by a token, and looks into the one that came.
fn token(
    mine: &Piece<f32>,
    mail: &Piece<u8>,
    group: &Group,
    (next, previous): (usize, usize),
) -> Result<String, Box<dyn Error>> {
    mail.memory().put_signal(
        next,
        mail.offset(),
        &letter(mine.span(..)?.export()?),
        TOKEN,
    )?;

    mail.memory().wait_signal(previous, TOKEN)?;
    if !group.peer_info(previous)?.mapped {
        return Ok(format!("; rank {previous}'s piece is on another machine"));
    }
    let came = mail.view(group.rank())?.to_vec();
    let length = u32::from_le_bytes([came[0], came[1], came[2], came[3]]) as usize;
    let piece = symm::ipc::import::<f32>(&came[4..4 + length].to_vec().into())?;
    check(
        "the imported piece",
        &piece.view()?.to_vec()[..16],
        &values(previous, 16),
    )?;
    Ok(format!(
        "; imported rank {previous}'s piece by token ({length} bytes)"
    ))
}
