//! What a call costs over C's: an all-reduce of 8 bytes in a group of one, by this
//! crate and by the raw function, by turns. Build it with `--release`.

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
    let (send, mut recv) = ([1.5f64], [0.0f64]);
    let (api, handle, dtype, op) = (
        sys::api()?,
        group.as_raw(),
        sys::SYMM_DTYPE_F64,
        sys::SYMM_OP_SUM,
    );
    let (mut safe, mut raw) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        safe.push(nanoseconds(|| {
            group
                .allreduce(black_box(&send), black_box(&mut recv), symm::Op::Sum)
                .expect("a sum of one");
        }));
        raw.push(nanoseconds(|| {
            let (from, to) = (
                black_box(&send).as_ptr().cast(),
                black_box(&mut recv).as_mut_ptr().cast(),
            );
            // SAFETY: the group is alive, and both operands have one f64.
            let status = unsafe {
                api.symm_allreduce(handle, from, to, 1, dtype, op, ptr::null(), ptr::null_mut())
            };
            assert_eq!(status, Ok(sys::SYMM_OK));
        }));
    }
    let (safe, raw) = (median(safe), median(raw));
    println!(
        "8-byte all-reduce, one rank: symm {safe:.1} ns, raw call {raw:.1} ns, difference {:.1} ns",
        safe - raw
    );
    Ok(())
}
