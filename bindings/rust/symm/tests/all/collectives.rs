//! Operands, plans and lengths.

use crate::ranks::threads;
use symm::{Algorithm, Blocks, Collective, Op, Scale, Status};

const RANKS: usize = 3;

/// Every collective, in place and not, is in the table of behaviours, on addresses.
#[test]
fn slices_and_spans_are_operands() {
    threads(RANKS, |group| {
        let (me, n) = (group.rank(), 1001);
        let values =
            |rank: usize| -> Vec<f64> { (0..n).map(|i| (rank * 31 + i * 7) as f64).collect() };
        let sum: Vec<f64> = (0..n)
            .map(|i| (0..RANKS).map(|rank| values(rank)[i]).sum())
            .collect();
        let (nothing, mut recv): (&[f64], _) = (&[], vec![0.0; n]);
        group
            .allreduce(&values(me), &mut recv, Op::Sum)
            .expect("of a vector");
        assert_eq!(recv, sum);
        group
            .broadcast(if me == 1 { &sum[..] } else { nothing }, &mut recv, 1)
            .expect("nothing is sent but by the root");
        let mut reduced = vec![0.0; if me == 0 { n } else { 0 }];
        group
            .reduce(&values(me), &mut reduced, Op::Sum, 0)
            .expect("nothing is received but by the root");
        assert!(me != 0 || reduced == sum);

        let memory = group.memory::<f64>(2 * n).expect("blocks");
        let (from, mut to) = (
            memory.span(..n).expect("within"),
            memory.span(n..).expect("within"),
        );
        memory.put(me, 0, &values(me)).expect("it fits");
        group
            .allreduce(&from, &mut to, Op::Sum)
            .expect("of symmetric memory");
        group
            .allreduce_in_place(&mut to, Op::Max)
            .expect("in place");
        memory.get(me, n, &mut recv).expect("it fits");
        assert_eq!(recv, sum);
    });
}

#[test]
fn plans_say_how_and_why() {
    threads(RANKS, |group| {
        let memory = group.memory::<f32>(20_000).expect("blocks");
        let (send, recv) = (
            memory.span(..10_000).expect("within"),
            memory.span(10_000..).expect("within"),
        );
        for algorithm in [
            Algorithm::Auto,
            Algorithm::OneShot,
            Algorithm::TwoShot,
            Algorithm::TwoShotStaged,
        ] {
            let forced = group.with_algorithm(algorithm);
            let plan = forced
                .plan(Collective::Allreduce, &send, &recv, 10_000, Op::Sum, 0)
                .expect("it can be planned");
            assert!(
                algorithm == Algorithm::Auto || plan.algorithm == algorithm,
                "{plan:?}"
            );
            assert!(!plan.reason.is_empty());
        }
        let (send, recv) = (vec![0.0f32; 300], vec![0.0f32; 2000]);
        let (counts, none) = ([300, 300, 300], Blocks::packed(&[]));
        let plans = [
            group.plan_blocks(
                Collective::Allgatherv,
                &send,
                none,
                &recv,
                Blocks::packed(&counts),
                Op::Sum,
            ),
            group.plan_blocks(
                Collective::ReduceScatterv,
                &recv,
                Blocks::packed(&counts),
                &send,
                none,
                Op::Sum,
            ),
            group.plan_rows(&send, &recv, 3, 400),
            group.with_scale(Scale::Before, 0.5).plan(
                Collective::Allreduce,
                &send,
                &recv,
                300,
                Op::Sum,
                0,
            ),
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
            assert_eq!(
                (error.status, error.rank),
                (Status::InvalidArgument, None),
                "{error}"
            );
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
        let (a, mut b) = (
            memory.span(0..4).expect("within"),
            memory.span(2..6).expect("within"),
        );
        refused(group.allreduce(&a, &mut b, Op::Sum));
        // SAFETY: it is refused before anything is touched.
        let mut device =
            unsafe { symm::Raw::new(std::ptr::null_mut::<f32>(), 5, symm::Place::Device) };
        refused(group.allreduce_in_place(&mut device, Op::Sum));
        group
            .allreduce(&[0f32; 0], &mut [0f32; 0], Op::Sum)
            .expect("nothing is little");
        group.barrier().expect("no harm was done");
    });
}
