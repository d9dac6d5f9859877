//! Slices of arrays of [ndarray](https://docs.rs/ndarray) as what [`Memory::put_view`] and
//! [`Memory::get_view`] copy, and what neighbours put in every round: the face of a grid, every
//! second column, a part with its axes in another order. A slice is one call, whatever its strides.
//!
//! ```
//! # fn main() -> symm::Result<()> {
//! # let group = symm::GroupConfig::new().ranks(0, 1).bootstrap("thread://ndarray").create()?;
//! # let right = 0;
//! use ndarray::{Array2, s};
//!
//! let grid = group.memory::<f64>(4 * 6)?;
//! let cells = grid.array((4, 6))?; // where elements lie in a block
//! let field = Array2::from_shape_fn((4, 6), |(row, column)| (row * 10 + column) as f64);
//!
//! // The last column of `field` becomes the first one of the block, with a signal on channel 0.
//! let edge = cells.slice_move(s![.., ..1]);
//! grid.put_view(right, &edge, &field.slice(s![.., 5..]), Some(symm::Signal::on(0)))?;
//! grid.wait_signal(0, 0)?;
//! assert_eq!(grid.view(0)?.load(6), 15.0);
//! # Ok(())
//! # }
//! ```
//!
//! A [`RawArrayView`] of [`Memory::array`] is an address, a shape and strides, and no borrow: it
//! stands for the same place in the block of every rank. It is of memory of a device, too.

use crate::exchange::Neighbors;
use crate::operand::{Place, Raw};
use crate::pieces::{Pieces, Rows, Signal};
use crate::{Element, Error, Memory, Result};
use ::ndarray::{ArrayView, ArrayViewMut, Dimension, IntoDimension, RawArrayView};

/// An axis of two arrays of one shape: its length, and how many elements lie between neighbours on
/// the side that is read and on the side that is written.
#[derive(Clone, Copy)]
struct Axis {
    len: usize,
    from: isize,
    to: isize,
}

/// Where an array begins in the memory that is its side of a copy, and its strides.
struct Side<'a> {
    first: usize,
    strides: &'a [isize],
}

/// The lowest element of an array that has some, and the number of elements from there to behind
/// its highest one.
fn extent<T>(first: *const T, shape: &[usize], strides: &[isize]) -> (*const T, usize) {
    let (mut below, mut above) = (0, 0);
    for (&len, &stride) in shape.iter().zip(strides) {
        // ndarray has no arrays that do not fit into the address space.
        let reach = stride * (len as isize - 1);
        if reach < 0 {
            below -= reach;
        } else {
            above += reach;
        }
    }
    (first.wrapping_offset(-below), (below + above) as usize + 1)
}

/// The pieces that copy an array of `shape` from one side to the other: as few as can be, since
/// axes that continue each other on both sides are one.
fn pieces_of(shape: &[usize], from: &Side<'_>, to: &Side<'_>) -> Vec<Rows> {
    if shape.contains(&0) {
        return Vec::new();
    }
    let (mut first_from, mut first_to) = (from.first, to.first);
    let mut axes = Vec::new();
    for (axis, &len) in shape.iter().enumerate().filter(|(_, len)| **len > 1) {
        let mut one = Axis {
            len,
            from: from.strides[axis],
            to: to.strides[axis],
        };
        // The order in which elements are copied does not matter.
        if one.to < 0 {
            let last = len as isize - 1;
            first_from = first_from.wrapping_add_signed(one.from * last);
            first_to = first_to.wrapping_add_signed(one.to * last);
            (one.from, one.to) = (-one.from, -one.to);
        }
        axes.push(one);
    }
    axes.sort_by_key(|axis| axis.to);

    let mut row = 1;
    while let Some(at) = axes
        .iter()
        .position(|axis| axis.from == row as isize && axis.to == row as isize)
    {
        row *= axes.remove(at).len;
    }

    // Rows have distances of one sign. Those of the longest axis are one piece.
    let longest = (0..axes.len())
        .filter(|&at| axes[at].from >= 0 && axes[at].to >= row as isize)
        .max_by_key(|&at| axes[at].len);
    let rows = longest.map(|at| axes.remove(at));
    let mut pieces = vec![Rows {
        from: first_from,
        to: first_to,
        len: row,
        rows: rows.map_or(1, |axis| axis.len),
        from_stride: rows.map_or(0, |axis| axis.from.unsigned_abs()),
        to_stride: rows.map_or(0, |axis| axis.to.unsigned_abs()),
    }];
    for axis in axes {
        let copies = |piece: Rows| {
            (0..axis.len as isize).map(move |i| Rows {
                from: piece.from.wrapping_add_signed(i * axis.from),
                to: piece.to.wrapping_add_signed(i * axis.to),
                ..piece
            })
        };
        pieces = pieces.into_iter().flat_map(copies).collect();
    }
    pieces
}

fn require_same_shape(to: &[usize], from: &[usize]) -> Result<()> {
    if to == from {
        return Ok(());
    }
    Err(Error::argument(format!(
        "the shapes of what is read and of where it goes differ: {from:?} and {to:?}"
    )))
}

impl<T: Element> Memory<T> {
    /// This rank's own block as an array of `shape`, whose last axis is contiguous. It and its
    /// slices ([`slice_move`](::ndarray::ArrayBase::slice_move)) say where elements lie in the
    /// block of any rank, for [`put_view`](Self::put_view) and others. Errors: `InvalidArgument`
    /// for a shape of more elements than the block has.
    pub fn array<I: IntoDimension>(&self, shape: I) -> Result<RawArrayView<T, I::Dim>> {
        let shape = shape.into_dimension();
        let room = self.own_block().1 / size_of::<T>();
        if shape.size_checked().is_none_or(|len| len > room) {
            return Err(Error::argument(format!(
                "shape: {:?} has more elements than the {room} of a block",
                shape.slice()
            )));
        }
        // SAFETY: all elements are in the block, whose memory stays where it is; they are read
        // only by who makes a view of this by unsafe means.
        Ok(unsafe { RawArrayView::from_shape_ptr(shape, self.own().cast_const()) })
    }

    /// Copies an array, or a slice of one, to a place of its shape in a rank's block, in one call,
    /// with a signal behind it if there is one. `to`: of [`array`](Self::array). All else is as for
    /// [`put_pieces`](Self::put_pieces). Errors: `InvalidArgument` also for different shapes, or a
    /// place that is not in this memory.
    pub fn put_view<D: Dimension>(
        &self,
        rank: usize,
        to: &RawArrayView<T, D>,
        source: &ArrayView<'_, T, D>,
        signal: Option<Signal>,
    ) -> Result<()> {
        require_same_shape(to.shape(), source.shape())?;
        if source.is_empty() {
            return self.put_pieces(rank, 0, &[][..], &Pieces::rows(&[])?.then(signal));
        }
        let (lowest, len) = extent(source.as_ptr(), source.shape(), source.strides());
        let from = Side {
            first: distance(lowest, source.as_ptr()),
            strides: source.strides(),
        };
        let pieces = pieces_of(source.shape(), &from, &self.side(to)?);
        // SAFETY: the elements are borrowed during the call; pieces read no other ones.
        let operand = unsafe { Raw::new(lowest.cast_mut(), len, Place::Host) };
        self.put_pieces(rank, 0, &operand, &Pieces::rows(&pieces)?.then(signal))
    }

    /// Fills an array, or a slice of one, from a place of its shape in a rank's block, in one call.
    /// All else is as for [`put_view`](Self::put_view) and [`get_pieces`](Self::get_pieces).
    pub fn get_view<D: Dimension>(
        &self,
        rank: usize,
        from: &RawArrayView<T, D>,
        target: &mut ArrayViewMut<'_, T, D>,
        signal: Option<Signal>,
    ) -> Result<()> {
        require_same_shape(target.shape(), from.shape())?;
        if target.is_empty() {
            return self.get_pieces(rank, 0, &mut [][..], &Pieces::rows(&[])?.then(signal));
        }
        let first = target.as_mut_ptr();
        let (lowest, len) = extent(first.cast_const(), target.shape(), target.strides());
        let to = Side {
            first: distance(lowest, first),
            strides: target.strides(),
        };
        let pieces = pieces_of(target.shape(), &self.side(from)?, &to);
        // SAFETY: the elements are borrowed during the call; pieces write no other ones.
        let mut operand = unsafe { Raw::new(lowest.cast_mut(), len, Place::Host) };
        self.get_pieces(rank, 0, &mut operand, &Pieces::rows(&pieces)?.then(signal))
    }

    /// Where a place begins in a block. Errors: `InvalidArgument` if it is not in this memory.
    fn side<'a, D: Dimension>(&self, place: &'a RawArrayView<T, D>) -> Result<Side<'a>> {
        let (block, bytes) = self.own_block();
        let (lowest, len) = extent(place.as_ptr(), place.shape(), place.strides());
        let room = bytes / size_of::<T>();
        let at = lowest.addr().wrapping_sub(block.addr()) / size_of::<T>();
        if !place.is_empty() && (lowest.addr() < block.addr() || at > room || len > room - at) {
            return Err(Error::argument(
                "a place in a block is a slice of Memory::array() of that memory",
            ));
        }
        Ok(Side {
            first: distance(block, place.as_ptr()),
            strides: place.strides(),
        })
    }
}

/// Elements from one address to another one of the same array.
fn distance<T>(from: *const T, to: *const T) -> usize {
    to.addr().wrapping_sub(from.addr()) / size_of::<T>()
}

impl Neighbors {
    /// In every round a slice of this rank's own block of `from` goes to a place of its shape in
    /// the block of `rank` of `to`, and `rank` puts `expected` elements here. Both slices are of
    /// [`Memory::array`]. All else is as for [`put`](Self::put).
    pub fn put_view<T: Element, D: Dimension>(
        &mut self,
        rank: usize,
        (to, place): (&Memory<T>, &RawArrayView<T, D>),
        (from, source): (&Memory<T>, &RawArrayView<T, D>),
        expected: usize,
    ) -> Result<&mut Self> {
        require_same_shape(place.shape(), source.shape())?;
        let pieces = pieces_of(place.shape(), &from.side(source)?, &to.side(place)?);
        self.put(rank, to, 0, from, &pieces, expected)
    }
}
