//! Symmetric memory: the rendezvous that makes it of buffers, copies between blocks, access to
//! single elements, and signals between ranks.

use crate::buffer::{Buffer, BufferInfo, bytes, export_dmabuf, on_host};
use crate::convert::{Feature, FromC, Handle, count, index};
use crate::element::Word;
use crate::error::{Error, Result, acting, looked_up};
use crate::group::{Shared, number};
use crate::operand::{Operand, Source, Target};
use crate::stream::no_wait;
use crate::{AtomicOp, Compare, Element, Group, SignalOp, Stream, Timeout};
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use symm_sys::{
    self as sys, symm_buffer, symm_memory, symm_memory_info_t, symm_memory_view_t,
    symm_signal_wait_t,
};

/// Blocks of all ranks, mapped here: made by [`Group::rendezvous`](crate::Group::rendezvous).
///
/// # Who may touch what
///
/// Any rank may write to any block at any time: that is what symmetric memory is for.
/// So there is no safe `&[T]` to a block. There are, from the safest to the fastest:
///
/// * [`put`](Self::put), [`get`](Self::get) and the collectives copy between blocks and memory of
///   your own. The library does them, outside of what the compiler reasons about; if ranks race,
///   elements are old, new or mixed, and every bit pattern is a value.
/// * [`view`](Self::view) loads and stores single elements of any rank's block atomically.
/// * [`local`](Self::local) and [`local_mut`](Self::local_mut) borrow this rank's own block as a
///   slice. They are `unsafe`: you promise that no rank writes to the block, or touches it at all,
///   during the borrow, which barriers or signals can ensure.
///
/// A write of one rank is visible to another after a barrier, or after a signal that was sent
/// after the write.
///
/// # Life
///
/// A memory keeps its group and its own block alive, and the mappings of the others, even after
/// their ranks died. A borrow from a memory cannot outlive the memory:
///
/// ```compile_fail,E0505
/// # let group = symm::Group::from_env()?;
/// let memory = group.memory::<f32>(1024)?;
/// let view = memory.view(0)?;
/// drop(memory);
/// println!("{}", view.load(0));
/// # Ok::<(), symm::Error>(())
/// ```
///
/// ```compile_fail,E0505
/// # let group = symm::Group::from_env()?;
/// let memory = group.memory::<f32>(1024)?;
/// let mut span = memory.span(0..16)?;
/// drop(memory);
/// group.allreduce_in_place(&mut span, symm::Op::Sum)?;
/// # Ok::<(), symm::Error>(())
/// ```
///
/// A clone is another handle to one memory.
pub struct Memory<T: Element> {
    pub(crate) inner: Arc<Inner>,
    pub(crate) stream: Stream,
    pub(crate) timeout: Timeout,
    _type: PhantomData<fn() -> T>,
}

/// The state that all handles to a memory share. The order of the fields is that of their release.
pub(crate) struct Inner {
    handle: Handle<symm_memory>,
    /// This rank's own block.
    buffer: Handle<symm_buffer>,
    pub(crate) group: Arc<Shared>,
    info: symm_memory_info_t,
    own: *mut c_void,
}

// SAFETY: the handles are Send and Sync; `own` is an address, and only Span, View and local()
// access the memory behind it.
unsafe impl Send for Inner {}
// SAFETY: a shared reference gives the handles, which are Sync, and an address.
unsafe impl Sync for Inner {}

impl<T: Element> Memory<T> {
    /// A handle to this memory whose calls are ordered on `stream`.
    #[must_use]
    pub fn with_stream(&self, stream: Stream) -> Self {
        Self {
            stream,
            ..self.clone()
        }
    }

    /// A handle to this memory whose calls have this deadline where they wait and are not given
    /// one: [`wait_signal`](Self::wait_signal), and puts, gets, signals and stores to a rank of
    /// another machine, for which [`Timeout::Now`] is `InvalidArgument`.
    #[must_use]
    pub fn with_timeout(&self, timeout: impl Into<Timeout>) -> Self {
        Self {
            timeout: timeout.into(),
            ..self.clone()
        }
    }

    /// The group of the memory.
    pub fn group(&self) -> Group {
        Group::from_shared(self.inner.group.clone(), self.stream.clone())
    }

    /// Describes the buffer that has become this memory: this rank's own block.
    pub fn buffer_info(&self) -> Result<BufferInfo> {
        let buffer = &self.inner.buffer;
        on!(buffer.symm_buffer_info() => BufferInfo)
    }

    /// As [`Buffer::export_dmabuf`], of this rank's own block.
    pub fn export_dmabuf(&self, offset: usize, bytes: usize) -> Result<OwnedFd> {
        export_dmabuf(&self.inner.buffer, offset, bytes)
    }

    /// A handle to this memory as elements of another type. Bytes at the end of a block that make
    /// no whole element are out of reach.
    #[must_use]
    pub fn cast<U: Element>(&self) -> Memory<U> {
        Memory {
            inner: self.inner.clone(),
            stream: self.stream.clone(),
            timeout: self.timeout,
            _type: PhantomData,
        }
    }

    /// This rank, in the memory's group.
    pub fn rank(&self) -> usize {
        count(self.inner.info.rank)
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        count(self.inner.info.size)
    }

    /// A number that is equal on all ranks and different for every memory.
    pub fn id(&self) -> u64 {
        self.inner.info.id
    }

    /// Signal channels: `0 .. channels`.
    pub fn channels(&self) -> usize {
        count(self.inner.info.channels)
    }

    /// The address at which a rank's block is mapped here, for code of your own. An address of
    /// device memory in a CUDA group.
    pub fn pointer(&self, rank: usize) -> Result<*mut T> {
        on!(self.symm_memory_pointer(index(rank)) -> ptr::null_mut()).map(|pointer| pointer.cast())
    }

    /// The address by which the multimem instructions of the device reach all ranks'
    /// blocks at once. Errors: `Unavailable` if there is none; the message says why.
    pub fn multicast_pointer(&self) -> Result<*mut T> {
        on!(
            self.symm_memory_multicast_pointer(options) -> ptr::null_mut(),
            options: no_wait()
        )
        .map(|pointer| pointer.cast())
    }

    /// Whether the memory has a multicast address, or why not. The answer is one for all ranks.
    pub fn multicast(&self) -> Feature {
        FromC::from_c((self.inner.info.multicast, self.inner.info.multicast_reason))
    }

    /// The block of a rank, which may be this rank.
    pub fn view(&self, rank: usize) -> Result<View<'_, T>> {
        on_host(self.inner.group.backend)?;
        // SAFETY: the block is mapped while the memory lives, and has `len()` elements.
        Ok(unsafe { View::new(self.pointer(rank)?, self.len()) })
    }

    /// The handle, for calls of [`symm_sys`]. It is valid while this value, or another handle to
    /// the memory, lives.
    #[inline]
    pub fn as_raw(&self) -> *mut symm_memory {
        self.inner.handle.as_raw()
    }

    pub(crate) fn backend(&self) -> crate::Backend {
        self.inner.group.backend
    }

    fn parts(&self) -> (*mut T, usize, crate::Backend) {
        let len = usize::try_from(self.inner.info.bytes).unwrap_or(usize::MAX) / size_of::<T>();
        (self.own(), len, self.backend())
    }

    /// This rank's own block, and its bytes.
    pub(crate) fn own_block(&self) -> (*const T, usize) {
        let bytes = usize::try_from(self.inner.info.bytes).unwrap_or(usize::MAX);
        (self.own(), bytes)
    }

    #[inline]
    pub(crate) fn own(&self) -> *mut T {
        self.inner.own.cast()
    }
}

slices!(
    Memory,
    "A part of this rank's own block, as an operand or to be exported.",
    "During the borrow, nobody writes to this rank's own block: no rank by `put`, `fill`, a
[`View`], a pointer or a collective into it, and this rank not by another handle or a collective. A
barrier or signal before the borrow, and one after it, is the usual way to ensure that. The compiler
assumes that elements that it has read do not change; if they do, anything can happen.",
    "The contract of [`local`](Self::local), and nobody reads the block either."
);

impl<T: Element> Clone for Memory<T> {
    fn clone(&self) -> Self {
        self.cast()
    }
}

impl<T: Element> fmt::Debug for Memory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = std::any::type_name::<T>();
        write!(
            f,
            "Memory<{name}>({} elements, rank {} of {})",
            self.len(),
            self.rank(),
            self.size()
        )
    }
}

impl Group {
    /// Shares a block: afterwards the block of every rank is mapped here. All ranks call it, with
    /// buffers of equal size, and all succeed or all fail.
    ///
    /// The buffer is taken even if the call fails, because a peer may have mapped it already.
    /// Errors: `Mismatch` (sizes differ), `Timeout`, `PeerFailed`, `Aborted`, `System`,
    /// `OutOfMemory`.
    pub fn rendezvous<T: Element>(&self, buffer: Buffer<T>) -> Result<Memory<T>> {
        self.rendezvous_with(buffer, &RendezvousOptions::new())
    }

    /// As [`rendezvous`](Self::rendezvous), as `options` say. Errors: as
    /// [`rendezvous`](Self::rendezvous); `Unsupported` for more channels than there can be.
    pub fn rendezvous_with<T: Element>(
        &self,
        buffer: Buffer<T>,
        options: &RendezvousOptions,
    ) -> Result<Memory<T>> {
        Memory::adopt(self.meet(&buffer.handle, options)?, self)
    }

    /// A block of `len` elements on every rank: [`alloc`](Self::alloc) and
    /// [`rendezvous`](Self::rendezvous).
    pub fn memory<T: Element>(&self, len: usize) -> Result<Memory<T>> {
        self.rendezvous(self.alloc(len)?)
    }

    /// Finds the memory of this group that maps an address, which may lie anywhere inside any
    /// rank's block.
    pub fn find<T: Element>(&self, address: *const T) -> Result<Option<Found>> {
        let mut out = ptr::null_mut();
        let mut rank = 0;
        let mut offset = 0;
        let address = address.cast();
        let found = on!(
            self.symm_memory_find(address, options, &mut out, &mut rank, &mut offset),
            options: no_wait()
        );
        if !looked_up(found)? {
            return Ok(None);
        }

        // SAFETY: a successful call gives one reference.
        let memory = Memory::adopt(unsafe { Handle::new(out) }?, self)?;
        Ok(Some(Found {
            memory,
            rank: count(rank),
            offset,
        }))
    }

    /// Moves a memory of another group to this one, which [`grow`](Self::grow) or
    /// [`shrink`](Self::shrink) made. All ranks call it: those that have the memory bring it, and
    /// newcomers, with `None`, get a block of zeros. All succeed or all fail, which changes
    /// nothing. What a rank has mapped stays where it is; if all have the numbers that they had, so
    /// do signal pads and pointer tables. Signals that were not taken are void, and `memory` has no
    /// signals any more. Errors: `Mismatch` (different memories), `InvalidHandle` (it has moved),
    /// `Unsupported` (a group on several machines), otherwise as
    /// [`rendezvous`](Self::rendezvous).
    pub fn move_memory<T: Element>(
        &self,
        memory: Option<&Memory<T>>,
        timeout: impl Into<Timeout>,
    ) -> Result<Memory<T>> {
        let from = memory.map_or(ptr::null_mut(), Memory::as_raw);
        let mut out = ptr::null_mut();
        // SAFETY: the handles are alive, or null for no memory.
        acting(timeout.into().options(), |api, options| unsafe {
            api.symm_memory_move(from, self.as_raw(), options, &mut out)
        })?;
        // SAFETY: a successful call gives one reference.
        Memory::adopt(unsafe { Handle::new(out) }?, self)
    }

    fn meet(
        &self,
        buffer: &Handle<symm_buffer>,
        options: &RendezvousOptions,
    ) -> Result<Handle<symm_memory>> {
        let given = sys::symm_rendezvous_options_t {
            tag: options.tag,
            timeout_ms: options.timeout.as_millis(),
            channels: number("channels", options.channels)?,
            ..Default::default()
        };
        on!(self.symm_rendezvous(buffer.as_raw(), options) => Handle, options: given)
    }
}

builder! {
    /// How to share a block; see [`Group::rendezvous_with`].
    #[derive(Debug, Clone)]
    #[must_use = "options do nothing until a block is shared with them"]
    pub struct RendezvousOptions {
        /// Calls with equal tags meet, so that several threads of a rank can share blocks of one
        /// group at once. Otherwise 0.
        tag(tag: u64): u64 = tag;
        /// Deadline of the call. Otherwise
        /// [`GroupConfig::create_timeout`](crate::GroupConfig::create_timeout).
        timeout(timeout: impl Into<Timeout>): Timeout = timeout.into();
        /// Signal channels of the memory, equal on all ranks. Otherwise as many as the group has.
        channels(number: usize): usize = number;
    }
}

/// The result of [`Group::find`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Found {
    /// The memory, as bytes; [`Memory::cast`] it as needed.
    pub memory: Memory<u8>,
    /// The rank whose block contains the address.
    pub rank: usize,
    /// Bytes from the start of that block to the address.
    pub offset: usize,
}

impl<T: Element> Memory<T> {
    pub(crate) fn adopt(handle: Handle<symm_memory>, group: &Group) -> Result<Self> {
        let buffer = on!(handle.symm_memory_buffer() => Handle)?;
        let info = on!(handle.symm_memory_info() => symm_memory_info_t)?;
        let own = on!(handle.symm_memory_pointer(info.rank) -> ptr::null_mut())?;
        let inner = Inner {
            handle,
            buffer,
            group: group.shared.clone(),
            info,
            own,
        };
        Ok(Self {
            inner: Arc::new(inner),
            stream: group.stream.clone(),
            timeout: Timeout::Group,
            _type: PhantomData,
        })
    }

    /// Shares this memory's own block with the ranks of another group of its device. All ranks of
    /// that group call it. A second call for a group is local and gives the memory that the first
    /// one made. Errors: as [`Group::rendezvous`].
    pub fn rendezvous_on(&self, group: &Group, options: &RendezvousOptions) -> Result<Self> {
        Self::adopt(group.meet(&self.inner.buffer, options)?, group)
    }
}

/// Offsets and counts are in elements.
impl<T: Element> Memory<T> {
    /// Copies `source` to element `offset` of a rank's block. That rank sees the elements after a
    /// signal or barrier. A local call.
    pub fn put<S: Source<Element = T> + ?Sized>(
        &self,
        rank: usize,
        offset: usize,
        source: &S,
    ) -> Result<()> {
        let (offset, from, bytes) = self.copied(offset, source.operand())?;
        on!(
            self.symm_put(index(rank), offset, from, bytes, options, self.stream.as_raw()),
            options: self.timeout.options()
        )
    }

    /// Copies from element `offset` of a rank's block to `target`, as many elements as `target`
    /// has. A local call.
    pub fn get<D: Target<Element = T> + ?Sized>(
        &self,
        rank: usize,
        offset: usize,
        target: &mut D,
    ) -> Result<()> {
        let (offset, to, bytes) = self.copied(offset, target.operand_mut())?;
        on!(
            self.symm_get(index(rank), offset, to, bytes, options, self.stream.as_raw()),
            options: self.timeout.options()
        )
    }

    /// As [`Buffer::record_use`], for the blocks of all ranks.
    pub fn record_use(&self) -> Result<()> {
        on!(
            self.symm_memory_record_use(options, self.stream.as_raw()),
            options: no_wait()
        )
    }

    /// [`put`](Self::put), then [`signal`](Self::signal), in one call.
    pub fn put_signal<S>(
        &self,
        rank: usize,
        offset: usize,
        source: &S,
        channel: usize,
    ) -> Result<()>
    where
        S: Source<Element = T> + ?Sized,
    {
        let (offset, from, bytes) = self.copied(offset, source.operand())?;
        let channel = index(channel);
        let stream = self.stream.as_raw();
        on!(
            self.symm_put_signal(index(rank), offset, from, bytes, channel, options, stream),
            options: self.timeout.options()
        )
    }

    /// [`put`](Self::put), then [`signal_value`](Self::signal_value), in one call.
    pub fn put_signal_value<S>(
        &self,
        rank: usize,
        offset: usize,
        source: &S,
        channel: usize,
        op: SignalOp,
        value: u64,
    ) -> Result<()>
    where
        S: Source<Element = T> + ?Sized,
    {
        let (offset, from, bytes) = self.copied(offset, source.operand())?;
        let (rank, channel, op) = (index(rank), index(channel), op.as_raw());
        let stream = self.stream.as_raw();
        on!(
            self.symm_put_signal_value(
                rank, offset, from, bytes, channel, op, value, options, stream
            ),
            options: self.timeout.options()
        )
    }

    /// The offset of a copy in the block in bytes, the operand's address, and the bytes to copy.
    pub(crate) fn copied(
        &self,
        offset: usize,
        operand: Operand<T>,
    ) -> Result<(usize, *mut c_void, usize)> {
        let operand = operand.on(&self.inner.group, &self.stream)?;
        Ok((
            bytes::<T>(offset)?,
            operand.pointer(),
            bytes::<T>(operand.len())?,
        ))
    }
}

/// Elements of 32 bits.
impl<T: Word> Memory<T> {
    /// Stores `count` copies of a value, from element `offset` of a rank's block on. A local call.
    pub fn fill(&self, rank: usize, offset: usize, value: T, count: usize) -> Result<()> {
        let offset = bytes::<T>(offset)?;
        let stream = self.stream.as_raw();
        on!(
            self.symm_fill32(index(rank), offset, value.bits(), count, options, stream),
            options: self.timeout.options()
        )
    }

    /// Stores one value at element `offset` of a rank's block, after everything that this rank
    /// wrote before. A local call.
    pub fn write_value(&self, rank: usize, offset: usize, value: T) -> Result<()> {
        let offset = bytes::<T>(offset)?;
        let stream = self.stream.as_raw();
        on!(
            self.symm_write_value32(index(rank), offset, value.bits(), options, stream),
            options: self.timeout.options()
        )
    }
}

/// Copies of elements of 8, 16 and 64 bits.
macro_rules! filled {
    ($($word:ident $fill:ident;)*) => {$(
        impl Memory<$word> {
            /// Stores `count` copies of a value, from element `offset` of a rank's block on. A
            /// local call.
            pub fn fill(
                &self,
                rank: usize,
                offset: usize,
                value: $word,
                count: usize,
            ) -> Result<()> {
                let offset = bytes::<$word>(offset)?;
                let stream = self.stream.as_raw();
                on!(
                    self.$fill(index(rank), offset, value, count, options, stream),
                    options: self.timeout.options()
                )
            }
        }
    )*};
}
filled! {
    u8 symm_fill8;
    u16 symm_fill16;
    u64 symm_fill64;
}

/// A change of a word in one step, by [`Memory::change`] or [`Memory::fetch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Atomic<T> {
    /// The word stays as it is; for [`Memory::fetch`] alone.
    Fetch,
    /// The sum of the word and the value, which wraps.
    Add(T),
    /// The bits that both have.
    And(T),
    /// The bits that one of both has.
    Or(T),
    /// The bits in which they differ.
    Xor(T),
    /// The value.
    Swap(T),
    /// `new` if the word is `current`, else the word as it is.
    CompareSwap {
        /// What the word is compared with.
        current: T,
        /// What it becomes.
        new: T,
    },
}

impl<T: Copy + Default> Atomic<T> {
    /// The operation, the value, and what the word is compared with.
    fn parts(self) -> (AtomicOp, T, T) {
        let none = T::default();
        match self {
            Self::Fetch => (AtomicOp::Fetch, none, none),
            Self::Add(value) => (AtomicOp::Add, value, none),
            Self::And(value) => (AtomicOp::And, value, none),
            Self::Or(value) => (AtomicOp::Or, value, none),
            Self::Xor(value) => (AtomicOp::Xor, value, none),
            Self::Swap(value) => (AtomicOp::Swap, value, none),
            Self::CompareSwap { current, new } => (AtomicOp::CompareSwap, new, current),
        }
    }
}

macro_rules! changed {
    ($($word:ident $change:ident $read:ident;)*) => {$(
        impl Memory<$word> {
            /// Changes element `offset` of a rank's block in one step. That is atomic to the
            /// changes of all ranks, to `write_value` and `wait_value`, and to atomic operations of
            /// kernels at system scope. Whatever this rank wrote before is visible to a rank that
            /// sees the element changed. A local call. Errors: `InvalidArgument`; `Unsupported` for
            /// a GPU on another machine.
            pub fn change(&self, rank: usize, offset: usize, how: Atomic<$word>) -> Result<()> {
                self.changed(rank, offset, how, std::ptr::null_mut())
            }

            /// As [`change`](Self::change), and stores in `target`, which has one element, what the
            /// element was before: on a CUDA stream when the call runs, so that a captured call
            /// fetches anew.
            pub fn fetch<D: Target<Element = $word> + ?Sized>(
                &self,
                rank: usize,
                offset: usize,
                how: Atomic<$word>,
                target: &mut D,
            ) -> Result<()> {
                let operand = target.operand_mut().on(&self.inner.group, &self.stream)?;
                if operand.len() != 1 {
                    return Err(Error::argument(format!(
                        "target: has {} elements, not one",
                        operand.len()
                    )));
                }
                self.changed(rank, offset, how, operand.pointer())
            }

            /// Element `offset` of a rank's block, as it is now, whatever streams there are.
            /// Whatever was written before it in release order is visible afterwards. A local call.
            /// Errors: `InvalidArgument`; `Unsupported` for a GPU on another machine.
            pub fn read_value(&self, rank: usize, offset: usize) -> Result<$word> {
                let offset = bytes::<$word>(offset)?;
                on!(
                    self.$read(index(rank), offset, options) -> 0,
                    options: self.timeout.options()
                )
            }

            fn changed(
                &self,
                rank: usize,
                offset: usize,
                how: Atomic<$word>,
                fetched: *mut c_void,
            ) -> Result<()> {
                let offset = bytes::<$word>(offset)?;
                let (op, value, compare) = how.parts();
                let (rank, op) = (index(rank), op.as_raw());
                let stream = self.stream.as_raw();
                on!(
                    self.$change(rank, offset, op, value, compare, options, fetched, stream),
                    options: self.timeout.options()
                )
            }
        }
    )*};
}
changed! {
    u32 symm_atomic32 symm_read_value32;
    u64 symm_atomic64 symm_read_value64;
}

/// Words of 32 bits that one rank writes and another waits for.
impl Memory<u32> {
    /// Waits until element `offset` of this rank's own block compares with `value` as `compare`
    /// says. Any rank may write the element. Whatever was written before it in release order is
    /// visible afterwards. Errors: `Timeout`, after which the group stays usable on the host, and
    /// is revoked on a CUDA stream; `Aborted`, `InvalidArgument`.
    pub fn wait_value(
        &self,
        offset: usize,
        compare: Compare,
        value: u32,
        timeout: impl Into<Timeout>,
    ) -> Result<()> {
        let offset = bytes::<u32>(offset)?;
        let compare = compare.as_raw();
        let stream = self.stream.as_raw();
        on!(
            self.symm_wait_value32(offset, compare, value, options, stream),
            options: timeout.into().options()
        )
    }
}

/// Words of 64 bits that one rank writes and another waits for.
impl Memory<u64> {
    /// Stores one value at element `offset` of a rank's block, after everything that this rank
    /// wrote before. A local call.
    pub fn write_value(&self, rank: usize, offset: usize, value: u64) -> Result<()> {
        let offset = bytes::<u64>(offset)?;
        let stream = self.stream.as_raw();
        on!(
            self.symm_write_value64(index(rank), offset, value, options, stream),
            options: self.timeout.options()
        )
    }

    /// Waits until element `offset` of this rank's own block compares with `value` as `compare`
    /// says. The rules are those of [`Memory::<u32>::wait_value`].
    pub fn wait_value(
        &self,
        offset: usize,
        compare: Compare,
        value: u64,
        timeout: impl Into<Timeout>,
    ) -> Result<()> {
        let offset = bytes::<u64>(offset)?;
        let compare = compare.as_raw();
        let stream = self.stream.as_raw();
        on!(
            self.symm_wait_value64(offset, compare, value, options, stream),
            options: timeout.into().options()
        )
    }
}

/// One of the signals that [`Memory::wait_any_signal`] and [`Memory::wait_all_signals`] wait for:
/// the wait ends when its word compares with `value` as `compare` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalWait {
    /// The rank that signals.
    pub rank: usize,
    /// The channel of the signal.
    pub channel: usize,
    /// How the word is to compare with the value.
    pub compare: Compare,
    /// The value that the word is compared with.
    pub value: u64,
}

impl SignalWait {
    fn to_c(self) -> symm_signal_wait_t {
        symm_signal_wait_t {
            rank: index(self.rank),
            channel: index(self.channel),
            compare: self.compare.as_raw(),
            value: self.value,
            ..Default::default()
        }
    }
}

impl<T: Element> Memory<T> {
    /// Adds one to the signals that this rank has sent to `rank` on `channel`. Waits only for the
    /// network, where `rank` is on another machine; any number may be outstanding. Whatever this
    /// rank wrote before is visible to `rank` once it has waited for the signal.
    pub fn signal(&self, rank: usize, channel: usize) -> Result<()> {
        let stream = self.stream.as_raw();
        on!(
            self.symm_signal(index(rank), index(channel), options, stream),
            options: self.timeout.options()
        )
    }

    /// Takes one signal from `rank` on `channel`, and waits for it if it is not there. Errors:
    /// `Timeout`, after which on the host nothing was taken and the group stays usable, and on a
    /// CUDA stream the group is revoked; `PeerFailed`, `Aborted`, `InvalidArgument`.
    pub fn wait_signal(&self, rank: usize, channel: usize) -> Result<()> {
        self.wait_signal_for(rank, channel, self.timeout)
    }

    /// As [`wait_signal`](Self::wait_signal), with a deadline of its own.
    pub fn wait_signal_for(
        &self,
        rank: usize,
        channel: usize,
        timeout: impl Into<Timeout>,
    ) -> Result<()> {
        let stream = self.stream.as_raw();
        on!(
            self.symm_wait_signal(index(rank), index(channel), options, stream),
            options: timeout.into().options()
        )
    }

    /// Adds a value to the word of 64 bits that `rank` has for signals of this rank on `channel`,
    /// or sets that word. Waits only for the network, where `rank` is on another machine.
    pub fn signal_value(
        &self,
        rank: usize,
        channel: usize,
        op: SignalOp,
        value: u64,
    ) -> Result<()> {
        let op = op.as_raw();
        let stream = self.stream.as_raw();
        on!(
            self.symm_signal_value(index(rank), index(channel), op, value, options, stream),
            options: self.timeout.options()
        )
    }

    /// Waits until the word from `rank` on `channel` compares with `value` as `compare` says, and
    /// takes nothing. On the host it returns the word that ended the wait; on a CUDA stream it
    /// returns `None` at once, and the wait is work on the stream.
    pub fn wait_signal_value(
        &self,
        rank: usize,
        channel: usize,
        compare: Compare,
        value: u64,
        timeout: impl Into<Timeout>,
    ) -> Result<Option<u64>> {
        let stream = self.stream.as_raw();
        let rank = index(rank);
        let channel = index(channel);
        let compare = compare.as_raw();

        let mut seen = self.is_on_host().then_some(0);
        let out = seen.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        on!(
            self.symm_wait_signal_value(rank, channel, compare, value, options, out, stream),
            options: timeout.into().options()
        )?;
        Ok(seen)
    }

    /// Waits until each of `waits` has compared as it says at some moment, not necessarily all at
    /// one moment, and takes nothing. Errors: as [`wait_signal`](Self::wait_signal);
    /// `InvalidArgument` for no waits, or more than 64.
    pub fn wait_all_signals(
        &self,
        waits: &[SignalWait],
        timeout: impl Into<Timeout>,
    ) -> Result<()> {
        self.wait_signals(waits, sys::SYMM_WAIT_ALL, timeout.into())
            .map(|_| ())
    }

    /// Waits until one of `waits` compares as it says, and takes nothing. On the host it returns
    /// the index of the first wait that did; on a CUDA stream it returns `None` at once, and the
    /// wait is work on the stream.
    pub fn wait_any_signal(
        &self,
        waits: &[SignalWait],
        timeout: impl Into<Timeout>,
    ) -> Result<Option<usize>> {
        self.wait_signals(waits, sys::SYMM_WAIT_ANY, timeout.into())
    }

    fn wait_signals(
        &self,
        waits: &[SignalWait],
        mode: i32,
        timeout: Timeout,
    ) -> Result<Option<usize>> {
        let waits: Vec<_> = waits.iter().copied().map(SignalWait::to_c).collect();
        let first_wait = waits.as_ptr();
        let len = waits.len();
        let stream = self.stream.as_raw();

        let mut first = self.is_on_host().then_some(0);
        let out = first.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        on!(
            self.symm_wait_signals(first_wait, len, mode, options, out, stream),
            options: timeout.options()
        )?;
        Ok(first)
    }

    /// The number of signals from `rank` on `channel` that have arrived and were not taken. Never
    /// waits.
    pub fn test_signal(&self, rank: usize, channel: usize) -> Result<u64> {
        on!(
            self.symm_test_signal(index(rank), index(channel), options) -> 0,
            options: no_wait()
        )
    }

    /// The word from `rank` on `channel`. Never waits.
    pub fn test_signal_value(&self, rank: usize, channel: usize) -> Result<u64> {
        on!(
            self.symm_test_signal_value(index(rank), index(channel), options) -> 0,
            options: no_wait()
        )
    }

    /// The memory as kernels of your own see it: `symm::device::Memory` of `device.cuh`. `stop` is
    /// null or the device address of a word that ends all waits when it becomes other than 0, and
    /// `timeout` is the deadline of each wait of a kernel. Errors: `Unsupported` on the host.
    pub fn device_view(
        &self,
        stop: *const u32,
        timeout: impl Into<Timeout>,
    ) -> Result<symm_memory_view_t> {
        let stop = stop.cast::<c_void>();
        on!(
            self.symm_memory_device_view(stop, options) => symm_memory_view_t,
            options: timeout.into().options()
        )
    }

    fn is_on_host(&self) -> bool {
        self.inner.group.backend == sys::Backend::Host
    }

    /// Address of a rank's signal pad, `u64 pad[channel][source rank]`, for code of your own. Use a
    /// channel either by the calls of this type or by such code.
    pub fn signal_pad(&self, rank: usize) -> Result<*mut u64> {
        on!(self.symm_memory_signal_pad(index(rank)) -> ptr::null_mut()).map(|pad| pad.cast())
    }

    /// Table of the block address of each rank, readable by the group's device, for code of your
    /// own. It is valid while the memory lives; the entries of ranks on other machines are null.
    pub fn pointer_table(&self) -> Result<*const *mut c_void> {
        on!(self.symm_memory_pointer_table() -> ptr::null())
    }

    /// Table of the signal pad's address of each rank, readable by the group's device, for code of
    /// your own. It is valid while the memory lives; the entries of ranks on other machines are
    /// null.
    pub fn signal_pad_table(&self) -> Result<*const *mut u64> {
        on!(self.symm_memory_signal_pad_table() -> ptr::null()).map(|table| table.cast())
    }
}

/// Access to single elements of a block that others may write: made by
/// [`Memory::view`](Memory::view), [`Shared::view`](crate::ipc::Shared::view) and
/// [`Import::view`](crate::ipc::Import::view). Every load and store is atomic, because others may
/// load and store at any time: a load gives a value that somebody stored, never a mixture.
/// Barriers and signals, or [`store_release`](Self::store_release) and
/// [`load_acquire`](Self::load_acquire), order the stores that others see.
///
/// Two limits are worth knowing:
///
/// * A copy by `put`, `get` or a collective is not atomic as a whole. The library moves whole
///   aligned words on the processors that are supported, so an element is old or new here too.
/// * Rust's memory model does not define atomics of different sizes that race on one byte, as two
///   views of different [casts](Memory::cast) could. On the supported processors, each reads and
///   writes its bytes whole.
///
/// An index out of range panics, as a slice does.
pub struct View<'a, T: Element> {
    pointer: *mut T,
    len: usize,
    _block: PhantomData<&'a ()>,
}

// SAFETY: all access is atomic.
unsafe impl<T: Element> Send for View<'_, T> {}
// SAFETY: all access is atomic.
unsafe impl<T: Element> Sync for View<'_, T> {}

impl<T: Element> View<'_, T> {
    /// # Safety
    /// `pointer` is aligned and valid for `len` elements, to be read and written, as long as the
    /// view lives.
    pub(crate) unsafe fn new(pointer: *mut T, len: usize) -> Self {
        Self {
            pointer,
            len,
            _block: PhantomData,
        }
    }

    /// Loads one element.
    #[inline]
    pub fn load(&self, at: usize) -> T {
        // SAFETY: at() is within the block, which is aligned, and mapped while the memory lives.
        unsafe { T::load(self.at(at), Ordering::Relaxed) }
    }

    /// Stores one element.
    #[inline]
    pub fn store(&self, at: usize, value: T) {
        // SAFETY: at() is within the block, which is aligned, and mapped while the memory lives.
        unsafe { T::store(self.at(at), value, Ordering::Relaxed) }
    }

    /// Loads one element. Later loads see whatever its writer stored before its
    /// [`store_release`](Self::store_release).
    #[inline]
    pub fn load_acquire(&self, at: usize) -> T {
        // SAFETY: at() is within the block, which is aligned, and mapped while the memory lives.
        unsafe { T::load(self.at(at), Ordering::Acquire) }
    }

    /// Stores one element. A rank that sees it by [`load_acquire`](Self::load_acquire) sees
    /// everything that was stored before.
    #[inline]
    pub fn store_release(&self, at: usize, value: T) {
        // SAFETY: at() is within the block, which is aligned, and mapped while the memory lives.
        unsafe { T::store(self.at(at), value, Ordering::Release) }
    }

    /// The elements in order, each of which is loaded when the iterator reaches it.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = T> + '_ {
        (0..self.len).map(|at| self.load(at))
    }

    /// A copy of the elements.
    pub fn to_vec(&self) -> Vec<T> {
        self.iter().collect()
    }

    /// Stores all of `from`, beginning at element `at`.
    pub fn write(&self, at: usize, from: &[T]) {
        assert!(
            from.len() <= self.len.saturating_sub(at),
            "{} elements at {at} in a block of {}",
            from.len(),
            self.len
        );
        for (i, value) in from.iter().enumerate() {
            self.store(at + i, *value);
        }
    }

    #[inline]
    fn at(&self, at: usize) -> *mut T {
        assert!(at < self.len, "element {at} of a block of {}", self.len);
        self.pointer.wrapping_add(at)
    }
}

elements_at!(View<'_>);
