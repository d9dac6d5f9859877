//! Slices of arrays of ndarray, as ndarray itself would assign them.

use crate::ranks::{alone, refused, threads};
use ndarray::{
    Array2, Array3, ArrayView, Axis, Dimension, Ix3, Slice, SliceInfo, SliceInfoElem, s,
};
use symm::{Compare, Memory, Signal, SignalOp, Status};

/// Numbers that look drawn; the same in every run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % end
    }

    /// A slice of `len` elements of an axis of `all`, with a step of either sign.
    fn slice(&mut self, all: usize, len: usize) -> Slice {
        let most = if len > 1 { (all - 1) / (len - 1) } else { 3 };
        let step = 1 + self.below(most.min(3));
        let reach = (len - 1) * step;
        let first = self.below(all - reach);
        let sign = if self.below(3) == 0 { -1 } else { 1 };
        Slice::new(
            first as isize,
            Some((first + reach + 1) as isize),
            sign * step as isize,
        )
    }
}

/// The elements of the memory's own block, as an array of one axis.
fn block(memory: &Memory<i32>) -> Vec<i32> {
    memory.view(0).expect("a view").to_vec()
}

fn numbers<D: Dimension>(array: &ArrayView<'_, i32, D>) -> Vec<i32> {
    array.iter().copied().collect()
}

/// That slice of one axis, and all of the others.
fn s_of(axis: usize, slice: Slice) -> SliceInfo<[SliceInfoElem; 3], Ix3, Ix3> {
    let mut parts = [SliceInfoElem::from(..); 3];
    parts[axis] = slice.into();
    SliceInfo::try_from(parts).expect("a slice of each axis")
}

/// The axes of an array in another order.
fn turn(draw: &mut Draw) -> [usize; 3] {
    let orders = [
        [0, 1, 2],
        [1, 0, 2],
        [2, 1, 0],
        [0, 2, 1],
        [1, 2, 0],
        [2, 0, 1],
    ];
    orders[draw.below(orders.len())]
}

#[test]
fn slices_at_random_go_where_ndarray_would_put_them() {
    const SHAPE: [usize; 3] = [7, 9, 8];
    const ALL: usize = 7 * 9 * 8;
    let memory = alone().memory::<i32>(ALL + 5).expect("a memory");
    let mut draw = Draw(1);
    for trial in 0..400 {
        let number = |(i, j, k)| (trial + 1) * 1000 + (i * 72 + j * 8 + k) as i32;
        let whole = Array3::from_shape_fn(SHAPE, number);
        let mut source = whole.view().permuted_axes(turn(&mut draw));
        let mut expected = Array3::<i32>::zeros(SHAPE);
        let mut written = expected.view_mut();
        let mut place = memory.array(SHAPE).expect("an array");
        for (axis, &room) in SHAPE.iter().enumerate() {
            let all = source.len_of(Axis(axis));
            let len = 1 + draw.below(all.min(room));
            let to = draw.slice(room, len);
            source.slice_axis_inplace(Axis(axis), draw.slice(all, len));
            written.slice_axis_inplace(Axis(axis), to);
            place = place.slice_move(s_of(axis, to));
        }
        written.assign(&source);

        memory.fill(0, 0, 0, ALL).expect("zeros");
        memory.put_view(0, &place, &source, None).expect("a put");
        assert_eq!(
            block(&memory)[..ALL],
            numbers(&expected.view()),
            "trial {trial}"
        );

        let mut back = Array3::<i32>::zeros(place.raw_dim());
        let mut target = back.view_mut();
        target.invert_axis(Axis(draw.below(3)));
        memory
            .get_view(0, &place, &mut target, None)
            .expect("a get");
        assert_eq!(numbers(&target.view()), numbers(&source), "trial {trial}");
    }
}

#[test]
fn a_column_goes_to_a_row_with_a_signal() {
    threads(2, |group| {
        let memory = group.memory::<f64>(4 * 6).expect("a memory");
        let cells = memory.array((4, 6)).expect("an array");
        let field = Array2::from_shape_fn((6, 5), |(row, column)| (row * 10 + column) as f64);
        let column = field.slice(s![.., 3]);
        let row = cells.slice_move(s![2, ..]);
        let signal = Signal {
            channel: 1,
            op: SignalOp::Set,
            value: 7,
        };
        let other = 1 - group.rank();
        memory
            .put_view(other, &row, &column, Some(signal))
            .expect("a put");
        memory
            .wait_signal_value(other, 1, Compare::Eq, 7, symm::Timeout::Group)
            .expect("the signal");
        let seen = memory.view(group.rank()).expect("a view").to_vec();
        assert_eq!(seen[12..18], [3.0, 13.0, 23.0, 33.0, 43.0, 53.0]);
        assert_eq!(seen.iter().filter(|one| **one != 0.0).count(), 6);
    });
}

#[test]
fn neighbours_put_columns_into_halos() {
    threads(2, |group| {
        let (rank, other) = (group.rank(), 1 - group.rank());
        let grid = group.memory::<i32>(3 * 4).expect("a memory");
        let column = |at: usize| grid.array((3, 4)).expect("an array").slice_move(s![.., at]);
        let mut neighbors = group.neighbors();
        neighbors
            .put_view(other, (&grid, &column(3)), (&grid, &column(1)), 3)
            .expect("a neighbour");
        let exchange = neighbors.exchange().expect("an exchange");
        let cells = grid.view(rank).expect("a view");
        for round in 0..3 {
            for row in 0..3 {
                cells.store(row * 4 + 1, (round * 100 + rank * 10 + row) as i32);
            }
            exchange.start().expect("a start");
            exchange.finish().expect("a finish");
            for row in 0..3 {
                assert_eq!(
                    cells.load(row * 4 + 3),
                    (round * 100 + other * 10 + row) as i32
                );
            }
        }
    });
}

#[test]
fn what_does_not_fit_is_refused() {
    let group = alone();
    let memory = group.memory::<i32>(12).expect("a memory");
    let other = group.memory::<i32>(12).expect("a memory");
    refused(
        memory.array((3, 5)).map(drop),
        Status::InvalidArgument,
        "more elements than the 12",
    );
    refused(
        memory.array((usize::MAX, 2)).map(drop),
        Status::InvalidArgument,
        "more elements",
    );

    let place = memory.array((3, 4)).expect("an array");
    let source = Array2::<i32>::zeros((4, 3));
    refused(
        memory.put_view(0, &place, &source.view(), None),
        Status::InvalidArgument,
        "[4, 3] and [3, 4]",
    );
    refused(
        other.put_view(0, &place, &source.view().reversed_axes(), None),
        Status::InvalidArgument,
        "a slice of Memory::array()",
    );
    refused(
        memory.put_view(1, &place, &source.view().reversed_axes(), None),
        Status::InvalidArgument,
        "rank",
    );

    // Nothing is copied of nothing; its signal comes all the same.
    let nothing = memory.array((0, 4)).expect("an array");
    let empty = Array2::<i32>::zeros((0, 4));
    memory
        .put_view(0, &nothing, &empty.view(), Some(Signal::on(0)))
        .expect("a put");
    memory.wait_signal(0, 0).expect("a signal");
}
