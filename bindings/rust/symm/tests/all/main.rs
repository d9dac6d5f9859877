//! Most tests are one program, since linking takes longer than they do.

mod collectives;
mod examples;
mod exchange;
mod group;
mod ipc;
mod memory;
mod pieces;
#[path = "../ranks/mod.rs"]
mod ranks;
mod request;
