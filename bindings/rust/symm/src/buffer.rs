//! Buffers: one rank's block before other ranks can see it.

use crate::convert::{Handle, to_c};
use crate::error::{Error, Result, acting, looked_up};
use crate::group::Shared as GroupShared;
use crate::stream::no_wait;
use crate::{Backend, Element, Group, Status, Stream};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use symm_sys::{self as sys, symm_buffer};

/// One rank's block, before others can see it: made by
/// [`Group::alloc`], shared by [`Group::rendezvous`].
///
/// Nobody else has it mapped, so its elements can be borrowed like those of a `Vec`.
/// The rendezvous takes the buffer, and with it that possibility:
///
/// ```compile_fail,E0382
/// # let group = symm::Group::from_env()?;
/// let mut buffer = group.alloc::<f32>(1024)?;
/// let memory = group.rendezvous(buffer)?;
/// buffer.as_mut_slice()?[0] = 1.0; // other ranks may write there now
/// # Ok::<(), symm::Error>(())
/// ```
///
/// A borrow of the elements cannot outlive the block:
///
/// ```compile_fail,E0505
/// # let group = symm::Group::from_env()?;
/// let buffer = group.alloc::<f32>(1024)?;
/// let elements = buffer.as_slice()?;
/// drop(buffer);
/// println!("{}", elements[0]);
/// # Ok::<(), symm::Error>(())
/// ```
pub struct Buffer<T: Element> {
    pub(crate) handle: Handle<symm_buffer>,
    pointer: NonNull<T>,
    len: usize,
    pub(crate) group: Arc<GroupShared>,
    pub(crate) stream: Stream,
}

// SAFETY: a buffer owns its block as a Vec owns its elements, and elements are Send.
unsafe impl<T: Element> Send for Buffer<T> {}
// SAFETY: by a shared reference the block is only read, and elements are Sync.
unsafe impl<T: Element> Sync for Buffer<T> {}

impl Group {
    /// Allocates this rank's block of `len` elements, zeroed, on the group's device. A local call.
    /// Errors: `OutOfMemory` (the message names the limit), `InvalidArgument` for no elements.
    pub fn alloc<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        self.alloc_with(len, &AllocConfig::new())
    }

    /// Allocates this rank's block in memory of the host, also where the group works on devices:
    /// there it is pinned, and the devices of all ranks reach it as the host does. The memory is
    /// on NUMA node `node`, or else on the node nearest to the device (in a host group, to the
    /// calling thread). A local call. Errors: as [`Group::alloc`], and `Unavailable` with the
    /// reason where the machine has no such memory; `InvalidArgument` for an unknown node.
    pub fn alloc_on_host<T: Element>(&self, len: usize, node: Option<u16>) -> Result<Buffer<T>> {
        self.alloc_with(
            len,
            &AllocConfig {
                host: true,
                node,
                ..AllocConfig::new()
            },
        )
    }

    /// As [`alloc`](Self::alloc), of memory as `config` says. A local call. Errors: as
    /// [`Group::alloc_on_host`]; `InvalidArgument` for an alignment or page size that is not a
    /// power of two, `Unavailable` for pages that the machine does not have.
    pub fn alloc_with<T: Element>(&self, len: usize, config: &AllocConfig) -> Result<Buffer<T>> {
        let bytes = bytes::<T>(len)?;
        let name = to_c("name", &config.name)?;
        let given = sys::symm_alloc_options_t {
            flags: config.flags(),
            numa_node: config.numa_node(),
            alignment: config.alignment as u64,
            page_bytes: config.page_bytes as u64,
            name: name.as_ptr(),
            ..Default::default()
        };
        self.own_buffer(
            len,
            on!(self.symm_alloc(bytes, options) => Handle, options: given)?,
        )
    }

    /// A buffer of device memory that another library has made by `cuMemCreate`, on the group's
    /// device and with handles that are POSIX file descriptors. The buffer keeps the physical
    /// memory, so its owner may free its own mapping at any time. The owner's mapping is not
    /// touched. A local call.
    ///
    /// `pointer` is anywhere inside a mapped allocation, at a multiple of 16; [`Buffer::as_ptr`]
    /// is a new address of these bytes. Errors: `InvalidArgument` says what is wrong with the
    /// memory, for instance that `cudaMalloc` made it; `Unsupported` in a host group.
    ///
    /// # Safety
    /// The owner of the memory must not treat it as exclusively its own any more: work on streams,
    /// and other ranks after a rendezvous, write there.
    pub unsafe fn adopt<T: Element>(&self, pointer: *const T, len: usize) -> Result<Buffer<T>> {
        let bytes = bytes::<T>(len)?;
        // The library asks the driver about the pointer and does not follow it.
        let pointer = pointer.cast();
        let given = sys::symm_adopt_options_t::default();
        self.own_buffer(
            len,
            on!(self.symm_buffer_adopt(pointer, bytes, options) => Handle, options: given)?,
        )
    }

    /// A buffer of `len` elements of a memfd from byte `offset` on, in a host group. The memfd is
    /// open for reading and writing, and sealed against shrinking (`F_SEAL_SHRINK`). The
    /// descriptor stays its owner's. A local call. Errors: `InvalidArgument` says what is wrong
    /// with the descriptor; `Unsupported` in a CUDA group.
    ///
    /// # Safety
    /// As for [`adopt`](Self::adopt).
    pub unsafe fn adopt_fd<T: Element>(
        &self,
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> Result<Buffer<T>> {
        let bytes = bytes::<T>(len)?;
        let given = sys::symm_adopt_options_t {
            flags: sys::SYMM_ADOPT_FD,
            offset,
            fd: fd.as_raw_fd(),
            ..Default::default()
        };
        self.own_buffer(
            len,
            on!(self.symm_buffer_adopt(ptr::null(), bytes, options) => Handle, options: given)?,
        )
    }

    fn own_buffer<T: Element>(&self, len: usize, handle: Handle<symm_buffer>) -> Result<Buffer<T>> {
        let pointer = on!(handle.symm_buffer_pointer() -> ptr::null_mut())?;
        let pointer = NonNull::new(pointer.cast())
            .ok_or_else(|| Error::from_parts(Status::Internal, "the block is at NULL"))?;
        Ok(Buffer {
            handle,
            pointer,
            len,
            group: self.shared.clone(),
            stream: self.stream.clone(),
        })
    }
}

builder! {
    /// How to allocate.
    #[derive(Debug, Clone)]
    #[must_use = "a configuration does nothing until memory is allocated with it"]
    pub struct AllocConfig {
        /// Whether the block lies in memory of the host; see [`Group::alloc_on_host`].
        host(host: bool): bool = host;
        /// The NUMA node of memory of the host. Otherwise the nearest.
        node(node: u16): Option<u16> = Some(node);
        /// Alignment of the block's address, a power of two; for a heap this is the largest
        /// alignment that a piece can have. Otherwise 4096.
        alignment(bytes: usize): usize = bytes;
        /// Least size of the block's pages, a power of two, for instance of huge pages. Otherwise
        /// the system's.
        page_bytes(bytes: usize): usize = bytes;
        /// Shown in messages.
        name(name: impl Into<String>): String = name.into();
    }
}

impl AllocConfig {
    pub(crate) fn flags(&self) -> u64 {
        let host = u64::from(self.host) * sys::SYMM_ALLOC_HOST;
        host + u64::from(self.node.is_some()) * sys::SYMM_ALLOC_ON_NODE
    }

    pub(crate) fn numa_node(&self) -> i32 {
        self.node.unwrap_or_default().into()
    }
}

known! {
    /// Information about a buffer.
    pub struct BufferInfo of symm_buffer_info_t {
        pub backend: Backend = "Host or CUDA.";
        pub device: usize = "The device; 0 on the host.";
        pub bytes: u64 = "Bytes that were asked for.";
        pub mapped_bytes: u64 =
            "Bytes of address space, and of memory unless the memory was adopted.";
        pub flags: u64 = "`SYMM_BUFFER_*` of [`symm_sys`].";
        pub numa_node: Option<usize> = "The NUMA node that was asked for.";
        pub address of pointer: usize = "Its address, as [`Buffer::as_ptr`] gives it.";
        pub memories: usize = "Number of memories that were made of it and live.";
        pub page_bytes: u64 =
            "Size of its pages; 0 if that is not known, as for adopted memory of a device.";
        pub name: String = "Its name.";
    }
}

/// Describes the buffer of this process that contains an address, and gives the bytes from the
/// start of the buffer to the address. A local call.
pub fn find_buffer<T>(address: *const T) -> Result<Option<(BufferInfo, usize)>> {
    let mut out = ptr::null_mut();
    let mut offset = 0;
    // SAFETY: the address is only looked up.
    let found = acting(no_wait(), |api, options| unsafe {
        api.symm_buffer_find(address.cast(), options, &mut out, &mut offset)
    });
    if !looked_up(found)? {
        return Ok(None);
    }

    // SAFETY: a successful call gives one reference.
    let handle: Handle<symm_buffer> = unsafe { Handle::new(out) }?;
    let info = on!(handle.symm_buffer_info() => BufferInfo)?;
    Ok(Some((info, offset)))
}

impl<T: Element> Buffer<T> {
    /// Describes the buffer.
    pub fn info(&self) -> Result<BufferInfo> {
        on!(self.symm_buffer_info() => BufferInfo)
    }

    /// The group that it was made for, which it keeps alive.
    pub fn group(&self) -> Group {
        Group::from_shared(self.group.clone(), self.stream.clone())
    }

    /// The elements. Errors: `Unsupported` for memory of a device.
    pub fn as_slice(&self) -> Result<&[T]> {
        on_host(self.group.backend)?;
        // SAFETY: the block has `len` initialised, aligned elements, lives as long as
        // the buffer, and is mapped nowhere else.
        Ok(unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.len) })
    }

    /// The elements, to be written. Errors: `Unsupported` for memory of a device.
    pub fn as_mut_slice(&mut self) -> Result<&mut [T]> {
        on_host(self.group.backend)?;
        // SAFETY: the block has `len` initialised, aligned elements, lives as long as the buffer,
        // and is mapped nowhere else; the borrow is exclusive.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.len) })
    }

    /// The address of the block, aligned to at least 4096 bytes. An address of device memory in a
    /// CUDA group.
    pub fn as_ptr(&self) -> *mut T {
        self.pointer.as_ptr()
    }

    /// A DMA-BUF descriptor of `bytes` bytes at byte `offset`, for a device of another kind to map.
    /// The address at that offset must be a multiple of the page size; the size is rounded up to
    /// whole pages. Use the descriptor no longer than the buffer, or a memory made of it, lives.
    /// Errors: `Unavailable` with the reason, as in
    /// [`DeviceInfo::dmabuf`](crate::DeviceInfo::dmabuf); `InvalidArgument`.
    pub fn export_dmabuf(&self, offset: usize, bytes: usize) -> Result<OwnedFd> {
        export_dmabuf(&self.handle, offset, bytes)
    }

    /// Records that the work that was issued on this handle's stream so far uses the memory.
    ///
    /// The call is optional, because memory is never given back under a kernel. Without records,
    /// memory is given back when all work that the device had at the drop is done. With records,
    /// it is given back when the recorded work and this crate's own calls are done; so record
    /// every use then, each after its last work.
    pub fn record_use(&self) -> Result<()> {
        on!(
            self.symm_buffer_record_use(options, self.stream.as_raw()),
            options: no_wait()
        )
    }

    /// Gives the memory back to the system and keeps its address, for a program that sleeps. With
    /// `keep` the contents are kept in memory of the host. What was issued on this handle's stream
    /// before is over when the memory goes. The tokens of the buffer end; those who have imported
    /// it keep what they have.
    ///
    /// # Errors
    /// The buffer comes back with the error: `Unsupported` if it was adopted, `OutOfMemory` if
    /// there is no memory of the host for the contents.
    pub fn suspend(self, keep: bool) -> std::result::Result<Suspended<T>, Box<(Self, Error)>> {
        let flags = if keep { sys::SYMM_SUSPEND_KEEP } else { 0 };
        match on!(
            self.symm_buffer_suspend(flags, options, self.stream.as_raw()),
            options: no_wait()
        ) {
            Ok(()) => Ok(Suspended(self)),
            Err(error) => Err(Box::new((self, error))),
        }
    }

    /// This buffer as elements of another type. Bytes at the end that make no whole element are out
    /// of reach.
    #[must_use]
    pub fn cast<U: Element>(self) -> Buffer<U> {
        let len = self.len * size_of::<T>() / size_of::<U>();
        Buffer {
            handle: self.handle,
            pointer: self.pointer.cast(),
            len,
            group: self.group,
            stream: self.stream,
        }
    }

    /// The handle, for calls of [`symm_sys`]. It is valid while this value lives.
    pub fn as_raw(&self) -> *mut symm_buffer {
        self.handle.as_raw()
    }
}

/// A buffer that has an address and no memory: [`Buffer::suspend`].
pub struct Suspended<T: Element>(Buffer<T>);

impl<T: Element> Suspended<T> {
    /// Brings memory back to the same address: with the contents that were kept, or zeroed.
    ///
    /// # Errors
    /// It stays suspended, and comes back with the error: `OutOfMemory`, `System`.
    pub fn resume(self) -> std::result::Result<Buffer<T>, Box<(Self, Error)>> {
        let buffer = &self.0;
        match on!(
            buffer.symm_buffer_resume(options, buffer.stream.as_raw()),
            options: no_wait()
        ) {
            Ok(()) => Ok(self.0),
            Err(error) => Err(Box::new((self, error))),
        }
    }

    /// The address, to which memory will come back.
    pub fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }

    /// Describes the buffer: its flags have `SYMM_BUFFER_SUSPENDED`.
    pub fn info(&self) -> Result<BufferInfo> {
        self.0.info()
    }
}

pub(crate) fn export_dmabuf(
    buffer: &Handle<symm_buffer>,
    offset: usize,
    bytes: usize,
) -> Result<OwnedFd> {
    let fd = on!(
        buffer.symm_buffer_export_dmabuf(offset, bytes, options) -> -1,
        options: no_wait()
    )?;
    // SAFETY: a successful call gives the descriptor to its caller.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The size of `len` elements in bytes.
pub(crate) fn bytes<T: Element>(len: usize) -> Result<usize> {
    len.checked_mul(size_of::<T>())
        .ok_or_else(|| Error::argument(format!("{len} elements are more than can be addressed")))
}

/// Refuses memory of a device: only memory of the host can be borrowed.
pub(crate) fn on_host(backend: Backend) -> Result<()> {
    match backend {
        Backend::Host => Ok(()),
        other => Err(Error::from_parts(
            Status::Unsupported,
            format!(
                "the block is in {other:?} memory, which the host cannot reach; use get() and put()"
            ),
        )),
    }
}

elements_at!(Buffer);
