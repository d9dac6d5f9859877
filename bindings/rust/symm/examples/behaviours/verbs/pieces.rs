//! Verbs on many pieces.

use crate::line::Line;
use crate::runner::Runner;
use symm::{Pieces, Result, Rows, SignalOp};

pub fn put_pieces(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let source = r.bytes(line, "source");
    let offset = line.get("offset");
    with_pieces(line, |pieces| {
        r.block(line)
            .put_pieces(line.get("rank"), offset, &source, pieces)
    })
}

pub fn get_pieces(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let mut destination = r.bytes(line, "destination");
    let offset = line.get("offset");
    with_pieces(line, |pieces| {
        r.block(line)
            .get_pieces(line.get("rank"), offset, &mut destination, pieces)
    })
}

/// Calls `copy` with the pieces or the pages of the line, and with its signal.
pub fn with_pieces(
    line: &Line<'_>,
    copy: impl FnOnce(&Pieces<'_, u8>) -> Result<()>,
) -> Result<()> {
    let (from, to) = (table(line, "from_table"), table(line, "to_table"));
    let mut pieces = if line.has("page_bytes") {
        Pieces::pages(line.get("page_bytes"), &from, &to)?
    } else {
        Pieces::rows(&rows(line))?
    };
    if line.has("signal") {
        let op = line.named("signal", SignalOp::from_raw);
        pieces = pieces.with_signal_value(line.channel(), op, line.get("value"));
    }
    copy(&pieces)
}

fn table(line: &Line<'_>, key: &str) -> Vec<u64> {
    line.list(key).into_iter().map(|page| page as u64).collect()
}

pub fn rows(line: &Line<'_>) -> Vec<Rows> {
    line.list("pieces")
        .chunks(6)
        .map(|six| Rows {
            from: six[0],
            to: six[1],
            len: six[2],
            rows: six[3],
            from_stride: six[4],
            to_stride: six[5],
        })
        .collect()
}
