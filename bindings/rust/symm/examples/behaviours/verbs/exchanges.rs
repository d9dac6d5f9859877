//! Verbs on neighbours.

use super::pieces::rows;
use crate::line::Line;
use crate::runner::Runner;
use symm::{Blocks, Exchange, Result};

/// Piece i of the line goes to the i-th rank of `to`.
pub fn exchange(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let memory = r.block(line);
    // The source is a part of this rank's block, so pieces count from its start.
    let (name, at) = line.address("source");
    let source = r.memory(name);
    line.get::<usize>("bytes");

    let mut neighbors = r.group(line).neighbors();
    let expected = line.list("expects");
    for ((rank, mut piece), expected) in line.list("to").into_iter().zip(rows(line)).zip(expected) {
        piece.from += at;
        neighbors.put(rank, &memory, 0, &source, &[piece], expected)?;
    }
    let exchange = neighbors.exchange_within(line.timeout())?;
    r.made(line, exchange)
}

pub fn start_round(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let exchange = r.the::<Exchange>(line.text("exchange"));
    exchange.start_within(line.timeout())
}

pub fn finish_round(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let exchange = r.the::<Exchange>(line.text("exchange"));
    exchange.finish_within(line.timeout())
}

pub fn neighbor_alltoallv(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let (to, from) = (line.list("to"), line.list("from"));
    let (sent, received) = (line.list("to_counts"), line.list("from_counts"));
    let places = line.list("from_displacements");
    let of_recv = if places.is_empty() {
        Blocks::packed(&received)
    } else {
        Blocks::at(&received, &places)
    };
    let source = r.operand::<i32>(line, "source", sent.iter().sum());
    let mut destination = r.operand::<i32>(line, "destination", received.iter().sum());
    r.group(line).neighbor_alltoallv(
        (&to, &source, Blocks::packed(&sent)),
        (&from, &mut destination, of_recv),
        line.channel(),
    )
}
