//! Verbs on heaps.

use crate::line::Line;
use crate::runner::Runner;
use symm::{Piece, Result};

pub fn heap(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let heap = r.group(line).heap(line.get("bytes"))?;
    r.made(line, heap)
}

pub fn move_heap(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let from = line.has("heap").then(|| r.heap(line));
    let heap = r.group(line).move_heap(from, line.timeout())?;
    r.made(line, heap)
}

/// A piece is called by its address.
pub fn take(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let bytes = line.get("bytes");
    let alignment = line.get_or("alignment", 0);
    let piece: Piece<u8> = r.heap(line).alloc_aligned(bytes, alignment)?;
    let offset = piece.offset();
    r.put(&format!("{}+{offset}", line.text("heap")), piece);
    line.expect("offset", offset);
    Ok(())
}

pub fn give(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    line.text("heap"); // the address has the name of the heap
    r.remove(line.text("at")).expect("a piece");
    Ok(())
}

pub fn expect_piece(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let found = r.heap(line).find(r.address(line, "at"))?;
    let (offset, bytes) = found.unwrap_or((0, 0));
    line.expect("offset", offset);
    line.expect("bytes", bytes);
    Ok(())
}

pub fn expect_heap(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let info = r.heap(line).info()?;
    line.expect("used_bytes", info.used_bytes);
    line.expect("free_bytes", info.free_bytes);
    line.expect("pieces", info.pieces);
    line.expect("largest_free_bytes", info.largest_free_bytes);
    line.expect("fragmentation_permille", info.fragmentation_permille);
    r.expect_group_of(line, &r.heap(line).group())
}
