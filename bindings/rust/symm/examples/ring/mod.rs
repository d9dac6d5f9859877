//! What ranks write into a ring of blocks, and how they tell
//! whether it came: for examples on the host and on GPUs.
#![allow(dead_code)] // each example uses its part

/// Elements of a block: 1 MiB.
pub const BLOCK: usize = 1 << 18;
pub const PUT: usize = 4096;
pub const REDUCED: usize = 65536;
/// Where a token goes, in bytes.
pub const TOKEN_AT: usize = 768 << 10;
/// Signal channels.
pub const DATA: usize = 1;
pub const TOKEN: usize = 2;

/// What a rank writes into its own block.
pub fn values(rank: usize, count: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((rank + 1) * (i % 1024)) as f32 * 0.3)
        .collect()
}

/// In the order of the ranks, as the library adds.
pub fn sums(ranks: usize, count: usize) -> Vec<f32> {
    let add = |sum: Vec<f32>, rank| {
        sum.iter()
            .zip(values(rank, count))
            .map(|(a, b)| a + b)
            .collect()
    };
    (1..ranks).fold(values(0, count), add)
}

/// Every bit.
pub fn check(what: &str, seen: &[f32], expected: &[f32]) -> Result<(), String> {
    if seen.len() != expected.len() {
        return Err(format!(
            "{what}: {} elements, not {}",
            seen.len(),
            expected.len()
        ));
    }
    match seen
        .iter()
        .zip(expected)
        .position(|(a, b)| a.to_bits() != b.to_bits())
    {
        Some(i) => Err(format!(
            "{what}: element {i} is {}, not {}",
            seen[i], expected[i]
        )),
        None => Ok(()),
    }
}

/// A token as it travels: its length in four bytes, then its bytes.
pub fn letter(token: symm::ipc::Token) -> Vec<u8> {
    let bytes = token.as_bytes();
    [&(bytes.len() as u32).to_le_bytes(), bytes].concat()
}
