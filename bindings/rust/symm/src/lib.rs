#![doc = include_str!("../README.md")]
//!
//! # Terms
//!
//! | term | meaning |
//! |---|---|
//! | [`Group`] | the ranks that share memory |
//! | [`Buffer`] | one rank's allocation, before others can see it |
//! | [`Memory`] | a buffer after [`Group::rendezvous`]: every rank's block mapped here |
//! | [`Timeout`] | the deadline of a call: the group's own, a duration, a look, or none |
//! | [`Heap`], [`Piece`] | a memory that is handed out in pieces, at equal offsets on all ranks |
//! | [`Neighbors`], [`Exchange`] | what neighbours put into each other's blocks in every round |
//! | [`Request`] | a call that the library makes while the program goes on |
//! | [`Span`] | a part of this rank's own block, as an operand of calls |
//! | [`View`] | any rank's block, element by element |
//! | [`ipc::Token`] | plain bytes by which any process of this user maps a piece of memory |
//! | signal, channel | how ranks notify each other: [`Memory::signal`], [`Memory::wait_signal`] |
//!
//! # Failure
//!
//! When a rank dies, hangs, aborts or calls something different from the others, the group is
//! *revoked*: pending and later calls fail with one status on all ranks, and [`Group::status`] says
//! why. The [`Error`] of a call is the failure of that very call, whatever other threads and tasks
//! do. In a forked child every call on an object that its parent made is `InvalidHandle`.
//!
//! Every call can fail with these errors, which its documentation does not repeat:
//! `InvalidArgument` for a rank, channel or length that is out of range, or a text with a NUL
//! character; `Unsupported` for a slice or view of memory of a device; `Unavailable` without a
//! library; `Cuda` with the driver's result; and the status with which the group was revoked. A
//! call that is documented as another one is fails as that one.
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

#[macro_use]
mod macros;
#[cfg(feature = "allocator-api2")]
mod allocator;
mod buffer;
mod collective;
mod convert;
#[cfg(feature = "cudarc")]
pub mod cudarc;
mod device;
mod element;
mod error;
mod exchange;
mod group;
mod heap;
pub mod ipc;
mod log;
mod memory;
mod messages;
#[cfg(feature = "ndarray")]
pub mod ndarray;
mod operand;
mod pieces;
mod pressure;
mod request;
mod store;
mod stream;
mod unwind;
mod waking;

#[cfg(feature = "allocator-api2")]
pub use allocator::HeapAllocator;
pub use buffer::{AllocConfig, Buffer, BufferInfo, Suspended, find_buffer};
pub use collective::{Batch, Blocks, Plan, RmsNorm};
pub use convert::Feature;
pub use device::{
    DeviceInfo, Topology, Version, build_info, device_count, device_info, topology, version,
};
pub use element::{Bool, Complex, Element, F8E4M3, F8E5M2, Pair, Reduces, Word};
pub use error::{Error, Result};
pub use exchange::{Exchange, Neighbors};
pub use group::{
    AbortHandle, AlgorithmStats, CollectiveStats, Group, GroupConfig, GroupInfo, GroupOptions,
    GroupStats, GroupTopology, GrowOptions, PeerInfo, Ticket, UniqueId, unique_id,
};
pub use heap::{Heap, HeapInfo, Piece};
#[cfg(feature = "tracing")]
pub use log::log_to_tracing;
pub use log::{LogListener, log_to, log_to_fd};
pub use memory::{Atomic, Found, Memory, RendezvousOptions, SignalWait, View};
pub use messages::Messages;
pub use operand::{Operand, Place, Raw, Source, Span, Target, TargetOf};
pub use pieces::{Pieces, Rows, Signal};
pub use pressure::{MemoryPressureListener, on_memory_pressure};
pub use request::{Request, start};
pub use store::{Store, StoreError};
pub use stream::{Stream, Timeout};

#[doc(no_inline)]
pub use symm_sys;
pub use symm_sys::{
    Advice, Algorithm, AtomicOp, Backend, Collective, Compare, Locality, LogLevel, Op, Order,
    Scale, SignalOp, Status, TopologyClass,
};
