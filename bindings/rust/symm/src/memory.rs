//! Symmetric memory: the rendezvous that makes it of buffers, copies between blocks, access to
//! single elements, and signals between ranks.

use crate::buffer::{Buffer, bytes, on_host};
use crate::convert::{Feature, FromC, Handle, count, index};
use crate::element::Word;
use crate::error::{Error, Result, looked_up};
use crate::group::{Shared, number};
use crate::operand::{Operand, Source, Target};
use crate::{Compare, Element, Group, SignalOp, Status, Stream, Timeout};
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
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
    stream: Stream,
    _type: PhantomData<fn() -> T>,
}

/// The state that all handles to a memory share. The order of the fields is that of their release.
pub(crate) struct Inner {
    handle: Handle<symm_memory>,
    /// The buffer, for a rendezvous on another group. A memory that was found by an address has
    /// none.
    buffer: Option<Handle<symm_buffer>>,
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
            inner: self.inner.clone(),
            stream,
            _type: PhantomData,
        }
    }

    /// A handle to this memory as elements of another type. Bytes at the end of a block that make
    /// no whole element are out of reach.
    #[must_use]
    pub fn cast<U: Element>(&self) -> Memory<U> {
        Memory {
            inner: self.inner.clone(),
            stream: self.stream.clone(),
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
        on!(self.symm_memory_multicast_pointer() -> ptr::null_mut()).map(|pointer| pointer.cast())
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
        self.rendezvous_tagged(buffer, 0)
    }

    /// As [`rendezvous`](Self::rendezvous), between calls with equal tags, so that several threads
    /// of a rank can share blocks of one group at once.
    pub fn rendezvous_tagged<T: Element>(&self, buffer: Buffer<T>, tag: u64) -> Result<Memory<T>> {
        self.rendezvous_with(buffer, tag, 0)
    }

    /// As [`rendezvous_tagged`](Self::rendezvous_tagged), with a number of signal channels that is
    /// equal on all ranks; 0 for as many as the group has. Errors: as
    /// [`rendezvous`](Self::rendezvous); `Unsupported` for more channels than there can be.
    pub fn rendezvous_with<T: Element>(
        &self,
        buffer: Buffer<T>,
        tag: u64,
        channels: usize,
    ) -> Result<Memory<T>> {
        let handle = self.meet(&buffer.handle, tag, channels)?;
        Memory::adopt(handle, Some(buffer.handle), self)
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
        let found = on!(self.symm_memory_find(address.cast(), &mut out, &mut rank, &mut offset));
        if !looked_up(found)? {
            return Ok(None);
        }

        // SAFETY: a successful call gives one reference.
        let memory = Memory::adopt(unsafe { Handle::new(out) }?, None, self)?;
        Ok(Some(Found {
            memory,
            rank: count(rank),
            offset,
        }))
    }

    fn meet(
        &self,
        buffer: &Handle<symm_buffer>,
        tag: u64,
        channels: usize,
    ) -> Result<Handle<symm_memory>> {
        let options = sized!(symm_rendezvous_options_t {
            tag: tag,
            channels: number("channels", channels)?,
        });
        on!(self.symm_rendezvous(buffer.as_raw(), &options) => Handle)
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
    pub(crate) fn adopt(
        handle: Handle<symm_memory>,
        buffer: Option<Handle<symm_buffer>>,
        group: &Group,
    ) -> Result<Self> {
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
            _type: PhantomData,
        })
    }

    /// Shares this memory's own block with the ranks of another group of its device. All ranks of
    /// that group call it. A second call for a group is local and gives the memory that the first
    /// one made. Errors: as [`Group::rendezvous`]; `Unsupported` for a memory that was
    /// [found](Group::find).
    pub fn rendezvous_on(&self, group: &Group, tag: u64) -> Result<Self> {
        let Some(buffer) = &self.inner.buffer else {
            return Err(Error::from_parts(
                Status::Unsupported,
                "a memory that was found by an address has no buffer to share",
            ));
        };

        let handle = group.meet(buffer, tag, 0)?;
        on!(buffer.symm_buffer_retain())?;
        // SAFETY: the retain that has just succeeded gives the reference.
        let buffer = unsafe { Handle::new(buffer.as_raw()) }?;
        Self::adopt(handle, Some(buffer), group)
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
        let (offset, from, size) = self.copied(offset, source.operand())?;
        on!(self.symm_put(index(rank), offset, from, size, self.stream.as_raw()))
    }

    /// Copies from element `offset` of a rank's block to `target`, as many elements as `target`
    /// has. A local call.
    pub fn get<D: Target<Element = T> + ?Sized>(
        &self,
        rank: usize,
        offset: usize,
        target: &mut D,
    ) -> Result<()> {
        let (offset, to, size) = self.copied(offset, target.operand_mut())?;
        on!(self.symm_get(index(rank), offset, to, size, self.stream.as_raw()))
    }

    /// As [`Buffer::record_use`], for the blocks of all ranks.
    pub fn record_use(&self) -> Result<()> {
        on!(self.symm_memory_record_use(self.stream.as_raw()))
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
        let (offset, from, size) = self.copied(offset, source.operand())?;
        on!(self.symm_put_signal(
            index(rank),
            offset,
            from,
            size,
            index(channel),
            self.stream.as_raw()
        ))
    }

    /// The offset of a copy in the block, the operand's address, and the size of the copy; offset
    /// and size in bytes.
    fn copied(&self, offset: usize, operand: Operand<T>) -> Result<(usize, *mut c_void, usize)> {
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
        on!(self.symm_fill32(
            index(rank),
            offset,
            value.bits(),
            count,
            self.stream.as_raw()
        ))
    }

    /// Stores one value at element `offset` of a rank's block, after everything that this rank
    /// wrote before. A local call.
    pub fn write_value(&self, rank: usize, offset: usize, value: T) -> Result<()> {
        let offset = bytes::<T>(offset)?;
        on!(self.symm_write_value32(index(rank), offset, value.bits(), self.stream.as_raw()))
    }
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
        let options = timeout.into().options();
        let compare = compare.as_raw();
        let stream = self.stream.as_raw();
        on!(self.symm_wait_value32(offset, compare, value, &options, stream))
    }
}

/// Words of 64 bits that one rank writes and another waits for.
impl Memory<u64> {
    /// Stores one value at element `offset` of a rank's block, after everything that this rank
    /// wrote before. A local call.
    pub fn write_value(&self, rank: usize, offset: usize, value: u64) -> Result<()> {
        let offset = bytes::<u64>(offset)?;
        let stream = self.stream.as_raw();
        on!(self.symm_write_value64(index(rank), offset, value, stream))
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
        let options = timeout.into().options();
        let compare = compare.as_raw();
        let stream = self.stream.as_raw();
        on!(self.symm_wait_value64(offset, compare, value, &options, stream))
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
        sized!(symm_signal_wait_t {
            rank: index(self.rank),
            channel: index(self.channel),
            compare: self.compare.as_raw(),
            value: self.value,
        })
    }
}

impl<T: Element> Memory<T> {
    /// Adds one to the signals that this rank has sent to `rank` on `channel`. Never waits; any
    /// number may be outstanding. Whatever this rank wrote before is visible to `rank` once it has
    /// waited for the signal.
    pub fn signal(&self, rank: usize, channel: usize) -> Result<()> {
        on!(self.symm_signal(index(rank), index(channel), self.stream.as_raw()))
    }

    /// Takes one signal from `rank` on `channel`, and waits for it if it is not there. Errors:
    /// `Timeout`, after which on the host nothing was taken and the group stays usable, and on a
    /// CUDA stream the group is revoked; `PeerFailed`, `Aborted`, `InvalidArgument`.
    pub fn wait_signal(&self, rank: usize, channel: usize) -> Result<()> {
        self.wait_signal_for(rank, channel, Timeout::Group)
    }

    /// As [`wait_signal`](Self::wait_signal), with a deadline of its own.
    pub fn wait_signal_for(
        &self,
        rank: usize,
        channel: usize,
        timeout: impl Into<Timeout>,
    ) -> Result<()> {
        on!(self.symm_wait_signal(
            index(rank),
            index(channel),
            &timeout.into().options(),
            self.stream.as_raw()
        ))
    }

    /// Adds a value to the word of 64 bits that `rank` has for signals of this rank on `channel`,
    /// or sets that word. Never waits.
    pub fn signal_value(
        &self,
        rank: usize,
        channel: usize,
        op: SignalOp,
        value: u64,
    ) -> Result<()> {
        let op = op.as_raw();
        let stream = self.stream.as_raw();
        on!(self.symm_signal_value(index(rank), index(channel), op, value, stream))
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
        let options = timeout.into().options();
        let stream = self.stream.as_raw();
        let rank = index(rank);
        let channel = index(channel);
        let compare = compare.as_raw();

        let mut seen = self.is_on_host().then_some(0);
        let out = seen.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        on!(self.symm_wait_signal_value(rank, channel, compare, value, &options, out, stream))?;
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
        self.wait_signals(waits, false, timeout.into()).map(|_| ())
    }

    /// Waits until one of `waits` compares as it says, and takes nothing. On the host it returns
    /// the index of the first wait that did; on a CUDA stream it returns `None` at once, and the
    /// wait is work on the stream.
    pub fn wait_any_signal(
        &self,
        waits: &[SignalWait],
        timeout: impl Into<Timeout>,
    ) -> Result<Option<usize>> {
        self.wait_signals(waits, true, timeout.into())
    }

    fn wait_signals(
        &self,
        waits: &[SignalWait],
        any: bool,
        timeout: Timeout,
    ) -> Result<Option<usize>> {
        let waits: Vec<_> = waits.iter().copied().map(SignalWait::to_c).collect();
        let options = timeout.options();
        let stream = self.stream.as_raw();

        let mut first = self.is_on_host().then_some(0);
        let out = first.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        on!(self.symm_wait_signals(
            waits.as_ptr(),
            waits.len(),
            any.into(),
            &options,
            out,
            stream
        ))?;
        Ok(first)
    }

    /// The number of signals from `rank` on `channel` that have arrived and were not taken. Never
    /// waits.
    pub fn test_signal(&self, rank: usize, channel: usize) -> Result<u64> {
        on!(self.symm_test_signal(index(rank), index(channel)) -> 0)
    }

    /// The word from `rank` on `channel`. Never waits.
    pub fn test_signal_value(&self, rank: usize, channel: usize) -> Result<u64> {
        on!(self.symm_test_signal_value(index(rank), index(channel)) -> 0)
    }

    /// The memory as kernels of your own see it: `symm::device::Memory` of `device.cuh`. `stop` is
    /// null or the device address of a word that ends all waits when it becomes other than 0.
    /// Errors: `Unsupported` on the host.
    pub fn device_view(
        &self,
        timeout: impl Into<Timeout>,
        stop: *const u32,
    ) -> Result<symm_memory_view_t> {
        let timeout = timeout.into().as_millis();
        let stop = stop.cast::<c_void>();
        on!(self.symm_memory_device_view(timeout, stop) => symm_memory_view_t)
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
