//! Exchanges of neighbours: what ranks put into each other's blocks in every round.

use crate::buffer::bytes;
use crate::convert::{Handle, index};
use crate::error::Result;
use crate::{Element, Group, Memory, Rows, Timeout, memory};
use std::sync::Arc;
use symm_sys::{symm_exchange, symm_neighbor_t, symm_piece_t};

/// What goes to each neighbour in every round of an [`Exchange`], which
/// [`exchange`](Self::exchange) makes of it. Begun by [`Group::neighbors`].
#[must_use = "an exchange is made by exchange()"]
pub struct Neighbors {
    group: Group,
    list: Vec<symm_neighbor_t>,
    /// The pieces of each of `list`.
    pieces: Vec<Vec<symm_piece_t>>,
    kept: Vec<Arc<memory::Inner>>,
}

impl Group {
    /// Begins a list of neighbours, with the deadline of this handle for rounds.
    pub fn neighbors(&self) -> Neighbors {
        Neighbors {
            group: self.clone(),
            list: Vec::new(),
            pieces: Vec::new(),
            kept: Vec::new(),
        }
    }
}

impl Neighbors {
    /// In every round pieces of this rank's own block of `from` go to the block of `rank` of `to`,
    /// from element `offset` on, and `rank` puts `expected` elements here. For several memories a
    /// neighbour may have several of these; what it puts counts once for all of them. Errors:
    /// `InvalidArgument` for a place that cannot be addressed.
    pub fn put<T: Element>(
        &mut self,
        rank: usize,
        to: &Memory<T>,
        offset: usize,
        from: &Memory<T>,
        pieces: &[Rows],
        expected: usize,
    ) -> Result<&mut Self> {
        let list: Result<_> = pieces.iter().map(|piece| piece.to_c::<T>()).collect();
        let (source, source_bytes) = from.own_block();
        self.list.push(symm_neighbor_t {
            rank: index(rank),
            memory: to.as_raw(),
            offset: bytes::<T>(offset)?,
            source: source.cast(),
            source_bytes,
            expected_bytes: bytes::<T>(expected)?,
            ..Default::default()
        });
        self.pieces.push(list?);
        self.kept.extend([to.inner.clone(), from.inner.clone()]);
        Ok(self)
    }

    /// In every round `rank` puts `expected` elements here, and nothing goes there. Errors:
    /// `InvalidArgument` for more than can be addressed.
    pub fn expect<T: Element>(&mut self, rank: usize, expected: usize) -> Result<&mut Self> {
        self.list.push(symm_neighbor_t {
            rank: index(rank),
            expected_bytes: bytes::<T>(expected)?,
            ..Default::default()
        });
        self.pieces.push(Vec::new());
        Ok(self)
    }

    /// Agrees with the neighbours. All ranks of the group call, also those without neighbours, and
    /// all succeed or all fail. Errors: `Mismatch`, which names both ranks, where one names another
    /// that does not name it, or puts more or less than is expected; `InvalidArgument` for a piece
    /// that goes beyond a block, or whose rows overlap where they go; `Unsupported` for groups of
    /// GPUs on several machines.
    pub fn exchange(self) -> Result<Exchange> {
        self.exchange_within(Timeout::default())
    }

    /// As [`exchange`](Self::exchange), with a deadline of its own; the default one is that of
    /// creating the group.
    pub fn exchange_within(mut self, timeout: impl Into<Timeout>) -> Result<Exchange> {
        for (neighbor, pieces) in self.list.iter_mut().zip(&self.pieces) {
            neighbor.pieces = pieces.as_ptr();
            neighbor.count = pieces.len();
        }
        let group = &self.group;
        let (list, count) = (self.list.as_ptr(), self.list.len());
        let handle: Handle<symm_exchange> = on!(
            group.symm_exchange_create(list, count, options) => Handle,
            options: timeout.into().options()
        )?;
        Ok(Exchange {
            handle,
            timeout: self.group.timeout,
            _kept: self.kept,
            group: self.group,
        })
    }
}

/// What this rank and its neighbours put into each other's blocks, round by round: made by
/// [`Neighbors::exchange`].
///
/// A round is [`start`](Self::start) and then [`finish`](Self::finish); between them a program
/// works on what does not depend on its neighbours. Between `finish` and the next `start` what came
/// may be read, and no neighbour writes there: a rank that is ahead waits. Between `start` and
/// `finish` what goes must not change, and what comes must not be touched. With CUDA each of the
/// two is one kernel on the stream of the handle of the group that began the list.
///
/// ```
/// # fn main() -> symm::Result<()> {
/// # let group = symm::GroupConfig::new().ranks(0, 1).bootstrap("thread://exchange").create()?;
/// use symm::Rows;
/// let grid = group.memory::<f64>(6)?;
/// let (left, right) = (0, 0);
/// let mut neighbors = group.neighbors();
/// neighbors.put(left, &grid, 5, &grid, &[Rows::one(1, 0, 1)], 1)?;
/// neighbors.put(right, &grid, 0, &grid, &[Rows::one(4, 0, 1)], 1)?;
/// let exchange = neighbors.exchange()?;
///
/// let cells = grid.view(group.rank())?;
/// cells.store(1, 2.5);
/// cells.store(4, 7.5);
/// exchange.start()?;
/// exchange.finish()?;
/// assert_eq!((cells.load(0), cells.load(5)), (7.5, 2.5));
/// # Ok(())
/// # }
/// ```
pub struct Exchange {
    handle: Handle<symm_exchange>,
    timeout: Timeout,
    _kept: Vec<Arc<memory::Inner>>,
    group: Group,
}

impl Exchange {
    /// This exchange with another deadline for its calls.
    #[must_use]
    pub fn with_timeout(self, timeout: impl Into<Timeout>) -> Self {
        Self {
            timeout: timeout.into(),
            ..self
        }
    }

    /// The group.
    pub fn group(&self) -> Group {
        self.group.clone()
    }

    /// Begins a round: puts to all neighbours that are ready for it, and leaves the others to
    /// [`finish`](Self::finish). Waits for no rank to make a call. Errors: `InvalidArgument` if the
    /// last round is not finished; `Timeout` if a rank on another machine does not take what is
    /// sent, and then the round has begun.
    pub fn start(&self) -> Result<()> {
        self.start_within(self.timeout)
    }

    /// As [`start`](Self::start), with a deadline of its own.
    pub fn start_within(&self, timeout: impl Into<Timeout>) -> Result<()> {
        let exchange = &self.handle;
        on!(
            exchange.symm_exchange_start(options, self.group.stream.as_raw()),
            options: timeout.into().options()
        )
    }

    /// Ends the round: waits until all neighbours have put. Errors: `Timeout`, which names the
    /// neighbour that has not, and then the call may be made again; `PeerFailed` for one that died,
    /// or left before it has put.
    pub fn finish(&self) -> Result<()> {
        self.finish_within(self.timeout)
    }

    /// As [`finish`](Self::finish), with a deadline of its own; [`Timeout::Now`] looks once.
    pub fn finish_within(&self, timeout: impl Into<Timeout>) -> Result<()> {
        let exchange = &self.handle;
        on!(
            exchange.symm_exchange_finish(options, self.group.stream.as_raw()),
            options: timeout.into().options()
        )
    }
}
