// SPDX-License-Identifier: Apache-2.0
//! Wrong calls that the types of the safe layer make impossible: a released handle, a negative rank or channel, a data type that does not
//! exist, words at an odd offset.

use crate::line::Line;
use crate::runner::Runner;
use crate::things::Thing;
use crate::{Outcome, Wrong, collective};
use std::ffi::{CStr, c_void};
use std::ptr;
use symm::symm_sys as sys;

/// Whether only the raw layer can make the call.
pub fn only(runner: &Runner, line: &Line) -> Result<bool, String> {
    if line.failure.is_none() {
        return Ok(false);
    }
    for key in ["memory", "buffer"] {
        if line.has(key) && matches!(runner.things.get(line.text(key)?)?, Thing::Released(_)) {
            return Ok(true);
        }
    }
    let negative = |key| Ok::<_, String>(line.integer_or(key, 0)? < 0);
    let odd = line.verb == "fill32" && line.integer("offset")? % 4 != 0;
    let unknown = line.has("send") && !collective::known(line.constant("dtype")?);
    Ok(negative("rank")? || negative("channel")? || odd || unknown)
}

fn raw(runner: &Runner, name: &str) -> Result<*mut c_void, String> {
    Ok(match runner.things.get(name)? {
        Thing::Group(group) => group.as_raw().cast(),
        Thing::Buffer(buffer) => buffer.as_raw().cast(),
        Thing::Memory(memory) => memory.as_raw().cast(),
        Thing::Taken(raw) | Thing::Released(raw) => *raw,
    })
}

pub fn run(runner: &mut Runner, line: &Line) -> Outcome {
    let api = sys::api().map_err(|error| error.to_string())?;
    let group: *mut sys::symm_group = raw(runner, line.text_or("group", "group")?)?.cast();
    let memory: *mut sys::symm_memory =
        if line.has("memory") { raw(runner, line.text("memory")?)?.cast() } else { ptr::null_mut() };
    let rank = line.integer_or("rank", 0)? as i32;
    let channel = line.integer_or("channel", 0)? as i32;
    let timeout = line.size_or("timeout_ms", 0)? as u64;
    let none = ptr::null_mut();
    // SAFETY: the library refuses what is wrong with these calls before it touches anything; that is what the table tests. Released
    // handles are recognised, since nothing was made since that could have their slot.
    let status = unsafe {
        match line.verb.as_str() {
            "put_signal" => api.symm_put_signal(memory, rank, channel, none),
            "wait_signal" => api.symm_wait_signal(memory, rank, channel, timeout, none),
            "barrier" => api.symm_barrier(group, ptr::null(), 0, channel, timeout, none),
            "fill32" => {
                let (offset, value, count) = (line.size("offset")?, line.integer("value")? as u32, line.size("count")?);
                api.symm_fill32(memory, rank, offset, value, count, none)
            }
            "rendezvous" => {
                let buffer = raw(runner, line.text("buffer")?)?.cast();
                let mut out = ptr::null_mut();
                api.symm_rendezvous(group, buffer, line.size_or("tag", 0)? as u64, &mut out)
            }
            "allreduce" => {
                let (send, recv) = (runner.address(line, "send")?, runner.address(line, "recv")?);
                let (count, dtype, op) = (line.size("count")?, line.constant("dtype")?, line.constant("op")?);
                api.symm_allreduce(group, send.cast(), recv.cast(), count, dtype, op, ptr::null(), none)
            }
            verb => return Err(format!("{verb} cannot be called wrongly here; add it to raw.rs").into()),
        }
    };
    let status = status.map_err(|error| error.to_string())?;
    // SAFETY: never NULL, and copied before the next call.
    let message = unsafe { CStr::from_ptr(api.symm_last_error().map_err(|error| error.to_string())?) };
    if status == sys::SYMM_OK { Ok(()) } else { Err(failed(status, &message.to_string_lossy())) }
}

/// As the safe layer would have it.
fn failed(status: i32, message: &str) -> Wrong {
    Wrong::Call(symm::Error::from_parts(symm::Status::from_raw(status), message))
}
