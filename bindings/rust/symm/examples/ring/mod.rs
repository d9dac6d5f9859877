//! Values that ranks write into a ring of blocks, and the check of what arrives: for examples on
//! the host and on GPUs.
#![allow(dead_code)] // each example uses its part

/// Elements of a block, which is 1 MiB.
pub const BLOCK: usize = 1 << 18;
/// Elements that are put to a neighbour.
pub const PUT: usize = 4096;
/// Elements that are reduced.
pub const REDUCED: usize = 65536;
/// The byte of a block from which a token is put.
pub const TOKEN_AT: usize = 768 << 10;
/// Signal channel of data.
pub const DATA: usize = 1;
/// Signal channel of tokens.
pub const TOKEN: usize = 2;

/// The values that a rank writes into its own block.
pub fn values(rank: usize, count: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((rank + 1) * (i % 1024)) as f32 * 0.3)
        .collect()
}

/// The sums of the values of all ranks, added in the order of the ranks, as the library adds.
pub fn sums(ranks: usize, count: usize) -> Vec<f32> {
    let mut sums = values(0, count);
    for rank in 1..ranks {
        for (sum, value) in sums.iter_mut().zip(values(rank, count)) {
            *sum += value;
        }
    }
    sums
}

/// Compares every bit.
pub fn check(what: &str, seen: &[f32], expected: &[f32]) -> Result<(), String> {
    let (len, needed) = (seen.len(), expected.len());
    if len != needed {
        return Err(format!("{what}: {len} elements, not {needed}"));
    }
    for (i, (seen, expected)) in seen.iter().zip(expected).enumerate() {
        if seen.to_bits() != expected.to_bits() {
            return Err(format!("{what}: element {i} is {seen}, not {expected}"));
        }
    }
    Ok(())
}

/// A token as it travels: its length in four bytes, then its bytes.
pub fn letter(token: symm::ipc::Token) -> Vec<u8> {
    let bytes = token.as_bytes();
    [&(bytes.len() as u32).to_le_bytes(), bytes].concat()
}
