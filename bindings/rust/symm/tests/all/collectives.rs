//! Operands, plans and lengths of collectives. Every collective, in place and not, is in the table
//! of behaviours, on addresses.

use crate::ranks::threads;
use symm::{Algorithm, Blocks, Collective, Complex, Op, Pair, Scale, Status};

const RANKS: usize = 3;

/// Elements of an operand.
const N: usize = 1001;

fn values(rank: usize) -> Vec<f64> {
    (0..N).map(|i| (rank * 31 + i * 7) as f64).collect()
}

fn sum() -> Vec<f64> {
    (0..N)
        .map(|i| (0..RANKS).map(|rank| values(rank)[i]).sum())
        .collect()
}

#[test]
fn vectors_and_slices_are_operands() {
    threads(RANKS, |group| {
        let me = group.rank();
        let nothing: &[f64] = &[];
        let mut recv = vec![0.0; N];

        group
            .allreduce(&values(me), &mut recv, Op::Sum)
            .expect("of a vector");
        assert_eq!(recv, sum());

        let from_root = sum();
        let send = if me == 1 { &from_root[..] } else { nothing };
        group
            .broadcast(send, &mut recv, 1)
            .expect("only the root has something to send");
        assert_eq!(recv, from_root);

        let mut reduced = vec![0.0; if me == 0 { N } else { 0 }];
        group
            .reduce(&values(me), &mut reduced, Op::Sum, 0)
            .expect("only the root has room to receive");
        assert!(me != 0 || reduced == sum());
    });
}

#[test]
fn spans_are_operands() {
    threads(RANKS, |group| {
        let me = group.rank();
        let memory = group.memory::<f64>(2 * N).expect("blocks");
        let from = memory.span(..N).expect("within");
        let mut to = memory.span(N..).expect("within");
        memory.put(me, 0, &values(me)).expect("it fits");

        group
            .allreduce(&from, &mut to, Op::Sum)
            .expect("of symmetric memory");
        group
            .allreduce_in_place(&mut to, Op::Max)
            .expect("in place");

        let mut recv = vec![0.0; N];
        memory.get(me, N, &mut recv).expect("it fits");
        assert_eq!(recv, sum());
    });
}

#[test]
fn a_plan_has_the_algorithm_that_was_asked_for() {
    threads(RANKS, |group| {
        let memory = group.memory::<f32>(20_000).expect("blocks");
        let send = memory.span(..10_000).expect("within");
        let recv = memory.span(10_000..).expect("within");
        let plan = |algorithm| {
            group
                .with_algorithm(algorithm)
                .plan(Collective::Allreduce, &send, &recv, 10_000, Op::Sum, 0)
                .expect("it can be planned")
        };

        assert!(!plan(Algorithm::Auto).reason.is_empty());
        for algorithm in [
            Algorithm::OneShot,
            Algorithm::TwoShot,
            Algorithm::TwoShotStaged,
        ] {
            let plan = plan(algorithm);
            assert_eq!(plan.algorithm, algorithm, "{plan:?}");
            assert!(!plan.reason.is_empty());
        }
    });
}

#[test]
fn every_form_of_plan_has_a_reason() {
    threads(RANKS, |group| {
        let send = vec![0.0f32; 300];
        let recv = vec![0.0f32; 2000];
        let counts = [300, 300, 300];
        let blocks = Blocks::packed(&counts);
        let none = Blocks::packed(&[]);

        let gathered = Collective::Allgatherv;
        let scattered = Collective::ReduceScatterv;
        let reduced = Collective::Allreduce;
        let scaled = group.with_scale(Scale::Before, 0.5);
        let plans = [
            group.plan_blocks(gathered, &send, none, &recv, blocks, Op::Sum),
            group.plan_blocks(scattered, &recv, blocks, &send, none, Op::Sum),
            group.plan_rows(&send, &recv, 3, 400),
            scaled.plan(reduced, &send, &recv, 300, Op::Sum, 0),
        ];
        for plan in plans {
            assert!(!plan.expect("it can be planned").reason.is_empty());
        }
    });
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    threads(RANKS, |group| {
        let refused = |result: symm::Result<()>| {
            let error = result.expect_err("the lengths do not fit");
            assert_eq!(error.status, Status::InvalidArgument, "{error}");
            assert_eq!(error.rank, None, "{error}");
        };

        let send = [0f32; 6];
        let mut recv = [0f32; 5];
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
        let a = memory.span(0..4).expect("within");
        let mut b = memory.span(2..6).expect("within");
        refused(group.allreduce(&a, &mut b, Op::Sum));

        // SAFETY: it is refused before anything is touched.
        let mut device =
            unsafe { symm::Raw::new(std::ptr::null_mut::<f32>(), 5, symm::Place::Device) };
        refused(group.allreduce_in_place(&mut device, Op::Sum));

        group
            .allreduce(&[0f32; 0], &mut [0f32; 0], Op::Sum)
            .expect("a call of no elements succeeds");
        group.barrier().expect("no harm was done");
    });
}

#[test]
fn a_batch_makes_all_of_its_calls_at_once() {
    threads(RANKS, |group| {
        let me = group.rank();
        let mut sums = values(me);
        let mut firsts = [0_i32; RANKS];
        let mut halves = vec![0.0_f32; 4];
        let from = [me as i32];
        let small = [2.0_f32; 4];
        let counts = [1; RANKS];
        let mut blocks = [0_u8; RANKS];
        let own = [me as u8 + 5];

        let tagged = group.with_tag("a batch").expect("a tag");
        let mut batch = tagged.batch();
        assert!(batch.is_empty());
        batch
            .allreduce_in_place(&mut sums, Op::Sum)
            .and_then(|batch| batch.allgather(&from, &mut firsts))
            .and_then(|batch| batch.allgatherv(&own, &mut blocks, Blocks::packed(&counts)))
            .and_then(|batch| batch.with(&group.with_scale(Scale::After, 0.5)))
            .and_then(|batch| batch.allreduce(&small, &mut halves, Op::Sum))
            .expect("calls that are right");
        assert_eq!(batch.len(), 4);
        batch.submit().expect("all calls");

        assert_eq!(sums, sum());
        assert_eq!(firsts, [0, 1, 2]);
        assert_eq!(blocks, [5, 6, 7]);
        assert_eq!(halves, [3.0; 4]);
        group.batch().submit().expect("nothing to do");
    });
}

#[test]
fn a_batch_that_is_wrong_makes_no_call() {
    threads(RANKS, |group| {
        let memory = group.memory::<f32>(16).expect("a memory");
        let mut first = memory.span(0..4).expect("a span");
        let mut same = memory.span(2..6).expect("a span");
        let mut batch = group.batch();
        batch
            .allreduce_in_place(&mut first, Op::Sum)
            .and_then(|batch| batch.allreduce_in_place(&mut same, Op::Sum))
            .expect("each is right by itself");
        let error = batch.submit().expect_err("they depend on each other");
        assert_eq!(error.status, Status::InvalidArgument);
        assert!(
            error.message.starts_with("calls[1]: send: overlaps"),
            "{error}"
        );

        let (send, mut short) = ([1.0_f64], [0.0]);
        let mut batch = group.batch();
        let error = batch.allgather(&send, &mut short).map(drop);
        assert!(error.is_err(), "the length is checked at once");
        let others = group.split(Some(0), 0).expect("a split").expect("a part");
        assert!(batch.with(&others).is_err(), "it is another group");
        assert!(batch.is_empty());
        drop(batch);
        group.barrier().expect("the group works");
    });
}

/// Applies `a x + b` and then the next one: elements of two numbers, whose order matters.
fn compose(into: &mut [i64], other: &[i64]) {
    for (first, then) in into.chunks_exact_mut(2).zip(other.chunks_exact(2)) {
        first[0] = first[0].wrapping_mul(then[0]);
        first[1] = first[1].wrapping_mul(then[0]).wrapping_add(then[1]);
    }
}

#[test]
fn a_closure_combines_in_the_order_of_the_ranks() {
    let operand =
        |rank: usize| -> Vec<i64> { (0..2 * N as i64).map(|i| 3 + i % 7 + rank as i64).collect() };
    let first = |ranks: usize| {
        let mut all = operand(0);
        for rank in 1..ranks {
            compose(&mut all, &operand(rank));
        }
        all
    };
    threads(RANKS, |group| {
        let me = group.rank();
        let mut recv = vec![0; 2 * N];
        group
            .reduce_by(
                Collective::Allreduce,
                (&operand(me), &mut recv),
                2,
                0,
                compose,
            )
            .expect("of all");
        assert_eq!(recv, first(RANKS));
        group
            .reduce_by(Collective::Scan, (&operand(me), &mut recv), 2, 0, compose)
            .expect("of those up to this one");
        assert_eq!(recv, first(me + 1));

        let odd = group.reduce_by(Collective::Scan, (&operand(me), &mut recv), 5, 0, compose);
        assert_eq!(odd.unwrap_err().status, Status::InvalidArgument);
        let moves = group.reduce_by(
            Collective::Alltoall,
            (&operand(me), &mut recv),
            2,
            0,
            compose,
        );
        assert_eq!(moves.unwrap_err().status, Status::InvalidArgument);
        group.barrier().expect("nothing has happened");
    });
}

#[test]
fn a_panic_of_a_closure_goes_on_behind_the_call() {
    threads(RANKS, |group| {
        let me = group.rank();
        let mut recv = vec![0.0; N];
        let call = std::panic::AssertUnwindSafe(|| {
            group.reduce_by(Collective::Scan, (&values(me), &mut recv), 1, 0, |_, _| {
                assert!(me != 2, "not on this rank");
            })
        });
        match std::panic::catch_unwind(call) {
            Err(payload) => {
                assert_eq!(me, 2);
                assert_eq!(payload.downcast_ref(), Some(&"not on this rank"));
            }
            // Ranks 0 and 1 of a scan may have their results before.
            Ok(result) => assert!(me != 2, "{result:?}"),
        }
        let failed = group.barrier().unwrap_err();
        assert_eq!(failed.status, Status::Aborted);
        assert_eq!(failed.rank, Some(2));
    });
}

#[test]
fn complex_numbers_are_multiplied_and_pairs_have_a_place() {
    let number = |re: f32, im: f32| Complex { re, im };
    let pair = |value: f64, index: i64| Pair { value, index };
    threads(RANKS, |group| {
        let me = group.rank();
        let mine = [number(0.0, 1.0), number(me as f32, 2.0)];
        let mut result = mine;
        group
            .allreduce(&mine, &mut result, Op::Prod)
            .expect("a product");
        assert_eq!(result[0], number(0.0, -1.0));
        group.allreduce(&mine, &mut result, Op::Sum).expect("a sum");
        assert_eq!(result[1], number(3.0, 6.0));
        let refused = group.allreduce(&mine, &mut result, Op::Min).unwrap_err();
        assert_eq!(refused.status, Status::InvalidArgument);

        // All ranks have the value, and rank 2 the lowest index.
        let mine = [pair(2.5, 10 - me as i64)];
        let mut best = mine;
        group
            .allreduce(&mine, &mut best, Op::Maxloc)
            .expect("a place");
        assert_eq!(best, [pair(2.5, 8)]);
        let refused = group.allreduce(&mine, &mut best, Op::Sum).unwrap_err();
        assert_eq!(refused.status, Status::InvalidArgument);
        group.barrier().expect("nothing has happened");
    });
}
