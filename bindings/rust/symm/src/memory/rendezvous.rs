//! How buffers become memories.

use super::{Inner, Memory};
use crate::buffer::Buffer;
use crate::convert::{count, filled};
use crate::error::{Error, Result, call, looked_up};
use crate::group::number;
use crate::handle::Handle;
use crate::{Element, Group, Status};
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;
use symm_sys::{self as sys, symm_buffer, symm_memory};

impl Group {
    /// Shares a block: afterwards every rank's is mapped here. All ranks call it, with buffers of the same size, and all succeed
    /// or all fail.
    ///
    /// The buffer is taken even if the call fails, since then it cannot always be known that no peer has mapped it.
    ///
    /// # Errors
    /// `Mismatch` (sizes differ), `Timeout`, `PeerFailed`, `Aborted`, `System`, `OutOfMemory`.
    pub fn rendezvous<T: Element>(&self, buffer: Buffer<T>) -> Result<Memory<T>> {
        self.rendezvous_tagged(buffer, 0)
    }

    /// As [`rendezvous`](Self::rendezvous); calls with equal tags meet, so that several threads of a rank can share blocks of one
    /// group at once.
    pub fn rendezvous_tagged<T: Element>(&self, buffer: Buffer<T>, tag: u64) -> Result<Memory<T>> {
        self.rendezvous_with(buffer, tag, 0)
    }

    /// As [`rendezvous_tagged`](Self::rendezvous_tagged), with so many signal channels, the same on all ranks; 0 for as many as the
    /// group has.
    ///
    /// # Errors
    /// As [`rendezvous`](Self::rendezvous); `Unsupported` for more channels than there can be.
    pub fn rendezvous_with<T: Element>(&self, buffer: Buffer<T>, tag: u64, channels: usize) -> Result<Memory<T>> {
        let handle = self.meet(&buffer.handle, tag, channels)?;
        Memory::adopt(handle, Some(buffer.handle), self)
    }

    /// A block of `len` elements on every rank: [`alloc`](Self::alloc) and [`rendezvous`](Self::rendezvous).
    pub fn memory<T: Element>(&self, len: usize) -> Result<Memory<T>> {
        self.rendezvous(self.alloc(len)?)
    }

    /// Finds the memory of this group that maps an address, which may lie anywhere inside any rank's block.
    pub fn find<T: Element>(&self, address: *const T) -> Result<Option<Found>> {
        let (mut out, mut rank, mut offset) = (ptr::null_mut(), 0, 0);
        // SAFETY: the handle is alive; the address is only looked up.
        let found =
            looked_up(|api| unsafe { api.symm_memory_find(self.as_raw(), address.cast(), &mut out, &mut rank, &mut offset) })?;
        if !found {
            return Ok(None);
        }
        // SAFETY: a successful call gives one reference.
        let memory = Memory::adopt(unsafe { Handle::new(out) }?, None, self)?;
        Ok(Some(Found { memory, rank: count(rank), offset }))
    }

    fn meet(&self, buffer: &Handle<symm_buffer>, tag: u64, channels: usize) -> Result<Handle<symm_memory>> {
        let options = sized!(symm_rendezvous_options_t: tag = tag, channels = number("channels", channels)?);
        on!(self.symm_rendezvous(buffer.as_raw(), &options) => Handle)
    }
}

/// What [`Group::find`] found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Found {
    /// The memory, as bytes; [`Memory::cast`] it as needed.
    pub memory: Memory<u8>,
    /// Whose block it is.
    pub rank: usize,
    /// Bytes from the start of the block.
    pub offset: usize,
}

impl<T: Element> Memory<T> {
    pub(crate) fn adopt(handle: Handle<symm_memory>, buffer: Option<Handle<symm_buffer>>, group: &Group) -> Result<Self> {
        // SAFETY: the handle is alive; a struct of symm.h, and the function that fills it.
        let info: sys::symm_memory_info_t = unsafe { filled(|api, out| api.symm_memory_info(handle.as_raw(), out)) }?;
        let own = on!(handle.symm_memory_pointer(info.rank) -> ptr::null_mut())?;
        let inner = Inner { handle, buffer, group: group.shared.clone(), info, own };
        Ok(Self { inner: Arc::new(inner), stream: group.stream.clone(), _type: PhantomData })
    }

    /// The same block, shared with the ranks of another group of the same device. All ranks of that group call it. The second time it
    /// is a local call, which gives the same memory.
    ///
    /// # Errors
    /// As [`Group::rendezvous`]; `Unsupported` for a memory that was [found](Group::find).
    pub fn rendezvous_on(&self, group: &Group, tag: u64) -> Result<Self> {
        let Some(buffer) = &self.inner.buffer else {
            return Err(Error::from_parts(Status::Unsupported, "a memory that was found by an address has no buffer to share"));
        };
        let handle = group.meet(buffer, tag, 0)?;
        // SAFETY: the handle is alive; retain adds the reference that the second memory will own.
        call(|api| unsafe { api.symm_buffer_retain(buffer.as_raw()) })?;
        // SAFETY: the reference was added above.
        Self::adopt(handle, Some(unsafe { Handle::new(buffer.as_raw()) }?), group)
    }
}
