//! Exchanges of neighbours.

use crate::ranks::{alone, refused, threads};
use symm::{Blocks, Rows, Status, Timeout};

#[test]
fn halos_of_a_ring_come_in_every_round() {
    for size in 1..4 {
        threads(size, |group| {
            let (rank, size) = (group.rank(), group.size());
            let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
            // Four rows of five cells, and a row of halo at both ends.
            let grid = group.memory::<f64>(30).expect("a memory");
            let mut neighbors = group.neighbors();
            neighbors
                .put(left, &grid, 25, &grid, &[Rows::one(5, 0, 5)], 5)
                .and_then(|more| more.put(right, &grid, 0, &grid, &[Rows::one(20, 0, 5)], 5))
                .expect("neighbours");
            let exchange = neighbors.exchange().expect("an exchange");
            let cells = grid.view(rank).expect("a view");

            for round in 0..20_u32 {
                let value = |rank: usize| (rank * 100) as f64 + f64::from(round);
                for at in 5..25 {
                    cells.store(at, value(rank));
                }
                exchange.start().expect("a start");
                exchange.finish().expect("a finish");
                for at in 0..5 {
                    assert_eq!(cells.load(at), value(left));
                    assert_eq!(cells.load(25 + at), value(right));
                }
            }
            group.barrier().expect("a barrier");
        });
    }
}

#[test]
fn a_column_goes_one_way() {
    threads(2, |group| {
        let matrix = group.memory::<i32>(12).expect("a memory");
        let cells = matrix.view(group.rank()).expect("a view");
        let mut neighbors = group.neighbors();
        if group.rank() == 0 {
            for at in 0..12 {
                cells.store(at, 10 + at as i32);
            }
            let column = Rows {
                from: 1,
                to: 8,
                len: 1,
                rows: 4,
                from_stride: 3,
                to_stride: 1,
            };
            neighbors
                .put(1, &matrix, 0, &matrix, &[column], 0)
                .expect("a neighbour");
        } else {
            neighbors.expect::<i32>(0, 4).expect("a neighbour");
        }
        let exchange = neighbors.exchange().expect("an exchange");
        exchange.start().expect("a start");
        exchange.finish().expect("a finish");
        if group.rank() == 1 {
            assert_eq!(cells.to_vec(), [0, 0, 0, 0, 0, 0, 0, 0, 11, 14, 17, 20]);
        }
        group.barrier().expect("a barrier");
    });
}

#[test]
fn what_ranks_say_of_each_other_is_compared() {
    threads(2, |group| {
        let memory = group.memory::<u64>(2).expect("a memory");
        let peer = 1 - group.rank();
        let expecting = |elements| {
            let mut neighbors = group.neighbors();
            neighbors
                .put(peer, &memory, 0, &memory, &[Rows::one(1, 0, 1)], elements)
                .expect("a neighbour");
            neighbors.exchange()
        };
        let wrong = expecting(1 + group.rank()).map(drop);
        refused(
            wrong,
            Status::Mismatch,
            "rank 0 puts 8 bytes to rank 1, which expects 16",
        );

        let exchange = expecting(1).expect("an exchange");
        refused(exchange.finish(), Status::InvalidArgument, "no round");
        if group.rank() == 0 {
            exchange.start().expect("a start");
            refused(exchange.start(), Status::InvalidArgument, "not finished");
            refused(
                exchange.finish_within(Timeout::Now),
                Status::Timeout,
                "rank 1",
            );
        }
        group.barrier().expect("a barrier");
        if group.rank() == 1 {
            exchange.start().expect("a start");
        }
        exchange.finish().expect("a finish");
        group.barrier().expect("a barrier");
    });
}

#[test]
fn blocks_go_to_neighbours() {
    threads(3, |group| {
        let (left, right) = ((group.rank() + 2) % 3, (group.rank() + 1) % 3);
        let send: Vec<i32> = (0..5).map(|i| 10 * group.rank() as i32 + i).collect();
        let mut recv = [-1; 7];
        group
            .neighbor_alltoallv(
                (&[left, right], &send[..], Blocks::packed(&[2, 3])),
                (&[right, left], &mut recv[..], Blocks::at(&[2, 3], &[5, 1])),
                0,
            )
            .expect("an exchange");
        let (left, right) = (10 * left as i32, 10 * right as i32);
        assert_eq!(
            recv,
            [-1, left + 2, left + 3, left + 4, -1, right, right + 1]
        );
        group.barrier().expect("a barrier");
    });

    let mut recv = [0; 2];
    let short = alone().neighbor_alltoallv(
        (&[0], &[1, 2][..], Blocks::packed(&[2])),
        (&[0], &mut recv[..], Blocks::packed(&[1, 1])),
        0,
    );
    refused(short, Status::InvalidArgument, "are not those of 1 ranks");
}
