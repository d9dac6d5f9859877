//! Measures what a call of this crate costs beyond the call of C: an all-reduce of 8 bytes in a
//! group of one, by this crate and by the raw function in turn. Build it with `--release`.

use std::error::Error;
use std::hint::black_box;
use std::ptr;
use std::time::Instant;
use symm::symm_sys as sys;

const CALLS: u32 = 20_000;
const ROUNDS: usize = 21;

fn nanoseconds(mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..CALLS).for_each(|_| call());
    start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let config = symm::GroupConfig::new()
        .ranks(0, 1)
        .backend(symm::Backend::Host)
        .bootstrap("thread://overhead");
    let group = config.create()?;
    let send = [1.5f64];
    let mut recv = [0.0f64];
    let api = sys::api()?;
    let handle = group.as_raw();
    let dtype = sys::SYMM_DTYPE_F64;
    let op = sys::SYMM_OP_SUM;

    let mut safe = Vec::new();
    let mut raw = Vec::new();
    for _ in 0..ROUNDS {
        safe.push(nanoseconds(|| {
            group
                .allreduce(black_box(&send), black_box(&mut recv), symm::Op::Sum)
                .expect("a sum of one");
        }));
        raw.push(nanoseconds(|| {
            let from = black_box(&send).as_ptr().cast();
            let to = black_box(&mut recv).as_mut_ptr().cast();
            // SAFETY: the group is alive, and both operands have one f64.
            let status = unsafe {
                api.symm_allreduce(handle, from, to, 1, dtype, op, ptr::null(), ptr::null_mut())
            };
            assert_eq!(status, Ok(sys::SYMM_OK));
        }));
    }

    let safe = median(safe);
    let raw = median(raw);
    println!(
        "8-byte all-reduce, one rank: symm {safe:.1} ns, raw call {raw:.1} ns, difference {:.1} ns",
        safe - raw
    );
    Ok(())
}
