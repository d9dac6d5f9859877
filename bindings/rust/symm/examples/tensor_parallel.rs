//! Two linear layers, divided among ranks as those of large models are. The first layer is divided
//! by columns: each rank computes its share of the hidden values, without communication. The second
//! layer is divided by rows: each rank computes a part of every output, and an all-reduce adds the
//! parts. Start it by `symm run -n 4 -- tensor_parallel`. The result is compared with the undivided
//! product.

use std::error::Error;
use symm::{Backend, GroupConfig, Op};

const BATCH: usize = 8;
const INPUT: usize = 64;
const HIDDEN: usize = 192;
const OUTPUT: usize = 64;

/// Weights in small steps, so that all sums are exact in f32 in any order, and equal to the sums of
/// the undivided product bit for bit.
fn weight(layer: usize, row: usize, column: usize) -> f32 {
    ((row * 31 + column * 17 + layer * 7) % 13) as f32 / 4.0 - 1.5
}

fn input(row: usize, column: usize) -> f32 {
    ((row * 5 + column * 3) % 9) as f32 / 2.0 - 2.0
}

/// `x [BATCH, inner] * w [inner, outer]`, where `w` is given by its elements.
fn product(x: &[f32], inner: usize, outer: usize, w: impl Fn(usize, usize) -> f32) -> Vec<f32> {
    let mut y = vec![0.0; BATCH * outer];
    for b in 0..BATCH {
        for k in 0..inner {
            for j in 0..outer {
                y[b * outer + j] += x[b * inner + k] * w(k, j);
            }
        }
    }
    y
}

fn relu(mut values: Vec<f32>) -> Vec<f32> {
    values.iter_mut().for_each(|value| *value = value.max(0.0));
    values
}

fn main() -> Result<(), Box<dyn Error>> {
    let group = GroupConfig::new().backend(Backend::Host).create()?;
    let rank = group.rank();
    let size = group.size();
    if HIDDEN % size != 0 {
        return Err(format!("{HIDDEN} hidden values cannot be divided among {size} ranks").into());
    }
    let share = HIDDEN / size;
    let first = rank * share;

    // This rank has some columns of the first layer, and the rows of those numbers of the second.
    let x: Vec<f32> = (0..BATCH * INPUT)
        .map(|i| input(i / INPUT, i % INPUT))
        .collect();
    let hidden = relu(product(&x, INPUT, share, |row, column| {
        weight(0, row, first + column)
    }));
    let partial = product(&hidden, share, OUTPUT, |row, column| {
        weight(1, first + row, column)
    });

    // Partial outputs go to symmetric memory, where the all-reduce, which is the only
    // communication, works without a copy.
    let memory = group.memory::<f32>(BATCH * OUTPUT)?;
    memory.put(rank, 0, &partial)?;
    group.allreduce_in_place(&mut memory.span(..)?, Op::Sum)?;
    let mut y = vec![0.0; BATCH * OUTPUT];
    memory.get(rank, 0, &mut y)?;

    let unsplit = relu(product(&x, INPUT, HIDDEN, |row, column| {
        weight(0, row, column)
    }));
    let unsplit = product(&unsplit, HIDDEN, OUTPUT, |row, column| {
        weight(1, row, column)
    });
    if let Some(i) = (0..y.len()).find(|i| y[*i].to_bits() != unsplit[*i].to_bits()) {
        return Err(format!("output {i} is {}, not {}", y[i], unsplit[i]).into());
    }

    println!(
        "rank {rank} of {size}: {share} of {HIDDEN} hidden values, \
         output to the bit as the unsplit product"
    );
    group.finalize()?;
    Ok(())
}
