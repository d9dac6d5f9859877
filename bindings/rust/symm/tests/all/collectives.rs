//! On slices and on symmetric memory, in place. Every type, and what is not in place, is in the table of behaviours.

use crate::ranks::{processes, threads};
use symm::{Algorithm, Blocks, Collective, Element, Group, Op, Scale, Status};

const RANKS: usize = 3;

/// What rank `r` has at `i`: small integers, so that every type can hold every result.
fn value(r: usize, i: usize) -> i64 {
    ((31 * r + 7 * i) % 11) as i64
}

fn values<T>(r: usize, range: std::ops::Range<usize>, make: &impl Fn(i64) -> T) -> Vec<T> {
    range.map(|i| make(value(r, i))).collect()
}

/// All collectives, on operands of `n` elements a rank that are private and symmetric.
fn all_six<T: Element + PartialEq>(group: &Group, n: usize, make: impl Fn(i64) -> T) {
    let me = group.rank();
    let memory = group.memory::<T>(4 * RANKS * n).expect("blocks");
    let mut symmetric = memory.span(..RANKS * n).expect("within");
    let whole = values(me, 0..RANKS * n, &make);
    let sum = |range: std::ops::Range<usize>| -> Vec<T> { range.map(|i| make((0..RANKS).map(|r| value(r, i)).sum())).collect() };
    let own = me * n..(me + 1) * n;
    let blank = vec![make(0); RANKS * n];

    // Slices, in place, and to others where an operand may be empty; all else from one to another is in the table.
    let mut recv = blank.clone();
    group.allreduce(&whole, &mut recv, Op::Sum).expect("allreduce");
    assert_eq!(recv, sum(0..RANKS * n));
    let mut data = whole.clone();
    group.allreduce_in_place(&mut data, Op::Sum).expect("allreduce in place");
    assert_eq!(data, recv);

    data.clone_from(&whole);
    group.reduce_scatter_in_place(&mut data, Op::Sum).expect("reduce_scatter in place");
    assert_eq!(data[own.clone()], sum(own.clone()));

    let gathered: Vec<T> = (0..RANKS).flat_map(|r| values(r, 0..n, &make)).collect();
    data.clone_from(&blank);
    data[own].copy_from_slice(&whole[..n]);
    group.allgather_in_place(&mut data).expect("allgather in place");
    assert_eq!(data, gathered);

    let nothing: &[T] = &[];
    group.broadcast(if me == 1 { &whole[..] } else { nothing }, &mut recv, 1).expect("broadcast");
    assert_eq!(recv, values(1, 0..RANKS * n, &make));
    data.clone_from(&whole);
    group.broadcast_in_place(&mut data, 2).expect("broadcast in place");
    assert_eq!(data, values(2, 0..RANKS * n, &make));

    recv.clone_from(&blank);
    group.reduce(&whole, if me == 0 { &mut recv[..] } else { &mut [] }, Op::Max, 0).expect("reduce");
    let most: Vec<T> = (0..RANKS * n).map(|i| make((0..RANKS).map(|r| value(r, i)).max().unwrap_or(0))).collect();
    assert_eq!(recv, if me == 0 { most.clone() } else { blank.clone() });
    data.clone_from(&whole);
    group.reduce_in_place(&mut data, Op::Max, 2).expect("reduce in place");
    assert_eq!(data, if me == 2 { most } else { whole.clone() });

    let mut part = if me == 1 { recv.clone() } else { whole[..n].to_vec() };
    if me == 1 {
        part[n..2 * n].clone_from_slice(&whole[..n]);
    }
    group.gather_in_place(&mut part, 1).expect("gather in place");
    let parts: Vec<T> = (0..RANKS).flat_map(|r| values(r, 0..n, &make)).collect();
    assert_eq!(part, if me == 1 { parts } else { whole[..n].to_vec() });
    group.scatter_in_place(&mut part, 1).expect("scatter in place");
    assert_eq!(if me == 1 { &part[n..2 * n] } else { &part[..] }, &whole[..n], "each has its own again");

    let exchanged: Vec<T> = (0..RANKS).flat_map(|r| values(r, me * n..(me + 1) * n, &make)).collect();
    data.clone_from(&whole);
    group.alltoall_in_place(&mut data).expect("alltoall in place");
    assert_eq!(data, exchanged);

    // The same from and to symmetric memory.
    let mut got = blank;
    memory.put(me, 0, &whole).expect("it fits");
    group.allreduce_in_place(&mut symmetric, Op::Sum).expect("allreduce in place, symmetric");
    memory.get(me, 0, &mut got).expect("it fits");
    assert_eq!(got, sum(0..RANKS * n));
    group.allgather(&whole[..n], &mut symmetric).expect("allgather to symmetric");
    let mut elsewhere = memory.span(RANKS * n..2 * RANKS * n).expect("within");
    group.alltoall(&symmetric, &mut elsewhere).expect("alltoall, symmetric");
    memory.get(me, RANKS * n, &mut got).expect("it fits");
    let again: Vec<T> = (0..RANKS).flat_map(|_| values(me, 0..n, &make)).collect();
    assert_eq!(got, again, "everybody's part for this rank is what this rank had sent to all");
}

#[test]
fn all_six_between_processes() {
    processes("collectives::all_six_between_processes", RANKS, |group| {
        all_six(&group, 1, |v| v as f32);
        all_six(&group, 1001, |v| v as f32);
        all_six(&group, 40_000, |v| v as f64);
    });
}

#[test]
fn plans_say_how_and_why() {
    threads(RANKS, |group| {
        let memory = group.memory::<f32>(20_000).expect("blocks");
        let (send, recv) = (memory.span(..10_000).expect("within"), memory.span(10_000..).expect("within"));
        for algorithm in [Algorithm::Auto, Algorithm::OneShot, Algorithm::TwoShot, Algorithm::TwoShotStaged] {
            let forced = group.with_algorithm(algorithm);
            let plan = forced.plan(Collective::Allreduce, &send, &recv, 10_000, Op::Sum, 0).expect("it can be planned");
            assert!(algorithm == Algorithm::Auto || plan.algorithm == algorithm, "{plan:?}");
            assert!(!plan.reason.is_empty());
        }
        let (send, recv) = (vec![0.0f32; 300], vec![0.0f32; 2000]);
        let (counts, none) = ([300, 300, 300], Blocks::packed(&[]));
        let plans = [
            group.plan_blocks(Collective::Allgatherv, &send, none, &recv, Blocks::packed(&counts), Op::Sum),
            group.plan_blocks(Collective::ReduceScatterv, &recv, Blocks::packed(&counts), &send, none, Op::Sum),
            group.plan_rows(&send, &recv, 3, 400),
            group.with_scale(Scale::Before, 0.5).plan(Collective::Allreduce, &send, &recv, 300, Op::Sum, 0),
        ];
        for plan in plans {
            assert!(!plan.expect("it can be planned").reason.is_empty());
        }
    });
}

#[test]
fn lengths_that_do_not_fit() {
    threads(RANKS, |group| {
        let refused = |result: symm::Result<()>| {
            let error = result.expect_err("the lengths do not fit");
            assert_eq!((error.status, error.rank), (Status::InvalidArgument, None), "{error}");
        };
        let (send, mut recv) = ([0f32; 6], [0f32; 5]);
        refused(group.allreduce(&send, &mut recv, Op::Sum));
        refused(group.reduce_scatter(&send, &mut recv, Op::Sum));
        refused(group.reduce_scatter_in_place(&mut recv, Op::Sum));
        refused(group.allgather(&send, &mut recv));
        refused(group.allgather_in_place(&mut recv));
        refused(group.broadcast(&send, &mut recv, 0));
        refused(group.reduce(&send, &mut recv, Op::Sum, 0));
        refused(group.alltoall(&recv, &mut [0f32; 5]));
        refused(group.broadcast_in_place(&mut recv, 3));
        let memory = group.memory::<f32>(8).expect("blocks");
        let (a, mut b) = (memory.span(0..4).expect("within"), memory.span(2..6).expect("within"));
        refused(group.allreduce(&a, &mut b, Op::Sum));
        // SAFETY: it is refused before anything is touched.
        let mut device = unsafe { symm::Raw::new(std::ptr::null_mut::<f32>(), 5, symm::Place::Device) };
        refused(group.allreduce_in_place(&mut device, Op::Sum));
        group.allreduce(&[0f32; 0], &mut [0f32; 0], Op::Sum).expect("nothing is little");
        group.barrier().expect("no harm was done");
    });
}
