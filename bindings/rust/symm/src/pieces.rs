//! Puts and gets of many pieces in one call.

use crate::buffer::bytes;
use crate::convert::index;
use crate::error::{Error, Result};
use crate::operand::{Source, Target};
use crate::{Element, Memory, SignalOp};
use std::marker::PhantomData;
use std::ptr;
use symm_sys::{SYMM_PIECES_SIGNAL, symm_piece_t, symm_pieces_call_t};

/// A piece of [`Pieces`]: rows of equal length at equal distances, in elements. A column of a
/// matrix is a piece whose rows have one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rows {
    /// Where the first row is read, from the start of the side that is read.
    pub from: usize,
    /// Where the first row goes, from the start of the side that is written.
    pub to: usize,
    /// Elements of a row.
    pub len: usize,
    /// The number of rows; 0 is 1.
    pub rows: usize,
    /// Elements from the start of a row to that of the next where they are read. With 0 one row is
    /// read again and again.
    pub from_stride: usize,
    /// The same where they go, at least `len`.
    pub to_stride: usize,
}

impl Rows {
    /// A piece of one row.
    pub const fn one(from: usize, to: usize, len: usize) -> Self {
        Self {
            from,
            to,
            len,
            rows: 1,
            from_stride: 0,
            to_stride: 0,
        }
    }

    pub(crate) fn to_c<T: Element>(self) -> Result<symm_piece_t> {
        let bytes = |elements| bytes::<T>(elements).map(|bytes| bytes as u64);
        Ok(symm_piece_t {
            from: bytes(self.from)?,
            to: bytes(self.to)?,
            bytes: bytes(self.len)?,
            rows: self.rows as u64,
            from_stride: bytes(self.from_stride)?,
            to_stride: bytes(self.to_stride)?,
        })
    }
}

/// A signal behind what a call copies, as [`Memory::signal_value`] sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal {
    /// The channel of the memory.
    pub channel: usize,
    /// How the value changes the word.
    pub op: SignalOp,
    /// The value.
    pub value: u64,
}

impl Signal {
    /// The signal that [`Memory::signal`] sends, and [`Memory::wait_signal`] takes.
    pub const fn on(channel: usize) -> Self {
        Self {
            channel,
            op: SignalOp::Add,
            value: 1,
        }
    }
}

/// What [`Memory::put_pieces`] and [`Memory::get_pieces`] copy, and those of an
/// [import](crate::ipc::Import::put_pieces), and the signal behind it. It may be used any number of
/// times.
#[derive(Debug, Clone)]
pub struct Pieces<'a, T: Element> {
    what: What<'a>,
    signal: Option<Signal>,
    _type: PhantomData<fn() -> T>,
}

#[derive(Debug, Clone)]
enum What<'a> {
    List(Vec<symm_piece_t>),
    Pages {
        bytes: usize,
        from: &'a [u64],
        to: &'a [u64],
    },
}

impl<'a, T: Element> Pieces<'a, T> {
    /// The pieces of a list. Errors: `InvalidArgument` for a place that cannot be addressed.
    pub fn rows(pieces: &[Rows]) -> Result<Self> {
        let list: Result<_> = pieces.iter().map(|piece| piece.to_c::<T>()).collect();
        Ok(Self::of(What::List(list?)))
    }

    /// Pages of `len` elements, from the numbers of one table to those of the other: page n begins
    /// n pages behind the start of its side. A table that is empty stands for 0, 1, 2 and so on.
    /// Errors: `InvalidArgument` for tables of different lengths.
    pub fn pages(len: usize, from: &'a [u64], to: &'a [u64]) -> Result<Self> {
        let one_is_empty = from.is_empty() || to.is_empty();
        if !one_is_empty && from.len() != to.len() {
            return Err(Error::argument(format!(
                "the tables differ in length: {} and {}",
                from.len(),
                to.len()
            )));
        }
        let bytes = bytes::<T>(len)?;
        Ok(Self::of(What::Pages { bytes, from, to }))
    }

    /// These pieces with a signal on `channel` when all are there, which
    /// [`Memory::wait_signal`] takes.
    #[must_use]
    pub fn with_signal(self, channel: usize) -> Self {
        self.then(Some(Signal::on(channel)))
    }

    /// As [`with_signal`](Self::with_signal), with a signal as [`Memory::signal_value`] sends it.
    #[must_use]
    pub fn with_signal_value(self, channel: usize, op: SignalOp, value: u64) -> Self {
        self.then(Some(Signal { channel, op, value }))
    }

    /// These pieces with that signal, or with none.
    #[must_use]
    pub fn then(self, signal: Option<Signal>) -> Self {
        Self { signal, ..self }
    }

    fn of(what: What<'a>) -> Self {
        Self {
            what,
            signal: None,
            _type: PhantomData,
        }
    }

    /// The struct of C, which points into this value.
    pub(crate) fn to_c(&self) -> symm_pieces_call_t {
        let mut call = symm_pieces_call_t::default();
        match &self.what {
            What::List(list) => {
                call.pieces = list.as_ptr();
                call.count = list.len();
            }
            What::Pages { bytes, from, to } => {
                call.count = from.len().max(to.len());
                call.page_bytes = *bytes;
                call.from_table = table(from);
                call.to_table = table(to);
            }
        }
        if let Some(signal) = self.signal {
            call.flags = SYMM_PIECES_SIGNAL;
            call.channel = index(signal.channel);
            call.op = signal.op.as_raw();
            call.value = signal.value;
        }
        call
    }
}

fn table(numbers: &[u64]) -> *const u64 {
    if numbers.is_empty() {
        ptr::null()
    } else {
        numbers.as_ptr()
    }
}

impl<T: Element> Memory<T> {
    /// Copies pieces of `source` to a rank's block, from element `offset` on, in one call, and
    /// signals if the pieces say so. That rank sees them after the signal, or any later signal or
    /// barrier. A local call. Errors: `InvalidArgument`, which names the piece that reaches beyond
    /// `source` or the block, or whose rows overlap where they go, and then nothing was written;
    /// `Unsupported` for GPUs of another machine.
    pub fn put_pieces<S: Source<Element = T> + ?Sized>(
        &self,
        rank: usize,
        offset: usize,
        source: &S,
        pieces: &Pieces<'_, T>,
    ) -> Result<()> {
        let (offset, from, bytes) = self.copied(offset, source.operand())?;
        let (rank, call) = (index(rank), &pieces.to_c());
        let stream = self.stream.as_raw();
        on!(
            self.symm_put_pieces(rank, offset, from, bytes, call, options, stream),
            options: self.timeout.options()
        )
    }

    /// Copies pieces of a rank's block, from element `offset` on, to `target` in one call, and
    /// signals that rank, if the pieces say so, that it may write them anew. All else is as for
    /// [`put_pieces`](Self::put_pieces).
    pub fn get_pieces<D: Target<Element = T> + ?Sized>(
        &self,
        rank: usize,
        offset: usize,
        target: &mut D,
        pieces: &Pieces<'_, T>,
    ) -> Result<()> {
        let (offset, to, bytes) = self.copied(offset, target.operand_mut())?;
        let (rank, call) = (index(rank), &pieces.to_c());
        let stream = self.stream.as_raw();
        on!(
            self.symm_get_pieces(rank, offset, to, bytes, call, options, stream),
            options: self.timeout.options()
        )
    }
}
