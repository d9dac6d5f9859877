//! Most tests are one program, since linking takes longer than they do.

mod collectives;
mod examples;
mod exchange;
mod group;
mod ipc;
mod memory;
#[cfg(feature = "ndarray")]
mod ndarray;
mod pieces;
#[path = "../ranks/mod.rs"]
mod ranks;
mod request;
