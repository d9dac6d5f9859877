//! Device memory of [cudarc](https://docs.rs/cudarc) as operands. Both crates use the device's
//! primary context.
//!
//! ```no_run
//! use cudarc::driver::CudaContext;
//! use symm::cudarc::{read, write};
//!
//! let group = symm::GroupConfig::new().backend(symm::Backend::Cuda).device(0).create()?;
//! let stream = CudaContext::new(0)?.new_stream()?;
//! let group = group.with_stream((&stream).into());
//! let send = stream.clone_htod(&vec![1.0f32; 4096])?;
//! let mut sum = stream.alloc_zeros::<f32>(4096)?;
//! group.allreduce(&read(&send, &stream), &mut write(&mut sum, &stream), symm::Op::Sum)?;
//! println!("{}", stream.clone_dtoh(&sum)?[0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Read`] or [`Write`] makes its stream wait for the work that cudarc knows to be pending
//! on the slice, and tells cudarc of the call when it is dropped, so that slices are not freed
//! or used elsewhere too early. It is valid for its own stream only: a call on another stream
//! is refused.

use crate::operand::{Operand, Place, Source};
use crate::{Element, Stream};
use ::cudarc::driver::{
    CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, SyncOnDrop,
};
use std::sync::Arc;

impl From<&Arc<CudaStream>> for Stream {
    fn from(stream: &Arc<CudaStream>) -> Self {
        Self::owned(stream.cu_stream().cast(), stream.clone())
    }
}

mod sealed {
    pub trait Sealed {}
}

/// cudarc's own slices, readable. The trait is sealed, because anybody may implement cudarc's
/// traits and give any address.
pub trait Readable<T>: DevicePtr<T> + sealed::Sealed {}
/// cudarc's own slices, writable.
pub trait Writable<T>: DevicePtrMut<T> + Readable<T> {}

impl<T> sealed::Sealed for CudaSlice<T> {}
impl<T> sealed::Sealed for CudaView<'_, T> {}
impl<T> sealed::Sealed for CudaViewMut<'_, T> {}
impl<T> Readable<T> for CudaSlice<T> {}
impl<T> Readable<T> for CudaView<'_, T> {}
impl<T> Readable<T> for CudaViewMut<'_, T> {}
impl<T> Writable<T> for CudaSlice<T> {}
impl<T> Writable<T> for CudaViewMut<'_, T> {}

/// A slice that a call reads on one stream.
pub struct Read<'a, T: Element> {
    operand: Operand<T>,
    _tells_cudarc: SyncOnDrop<'a>,
}

/// A slice that a call writes on one stream.
pub struct Write<'a, T: Element>(Read<'a, T>);

/// Makes `slice` an operand that calls on `stream` read.
pub fn read<'a, T: Element>(slice: &'a impl Readable<T>, stream: &'a CudaStream) -> Read<'a, T> {
    let len = slice.len();
    let (address, guard) = slice.device_ptr(stream);
    Read {
        operand: operand(address, len, stream),
        _tells_cudarc: guard,
    }
}

/// Makes `slice` an operand that calls on `stream` write.
pub fn write<'a, T: Element>(
    slice: &'a mut impl Writable<T>,
    stream: &'a CudaStream,
) -> Write<'a, T> {
    let len = slice.len();
    let (address, guard) = slice.device_ptr_mut(stream);
    Write(Read {
        operand: operand(address, len, stream),
        _tells_cudarc: guard,
    })
}

fn operand<T: Element>(address: u64, len: usize, stream: &CudaStream) -> Operand<T> {
    // The address belongs to the device; to the host it is a number.
    Operand::new(address as usize as *mut T, len, Place::Device).only_on(stream.cu_stream().cast())
}

// SAFETY: the slice is borrowed, and cudarc orders its further uses, and its release, after the
// calls on this stream.
unsafe impl<T: Element> Source for Read<'_, T> {
    type Element = T;
    fn operand(&self) -> Operand<T> {
        self.operand
    }
}

// The operand is valid because the slice is borrowed exclusively, and cudarc orders its further
// uses, and its release, after the calls on this stream.
operand!(Write<'_, T>, |slice| slice.0.operand);
