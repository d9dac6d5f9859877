//! Wrong calls that the types of the safe layer make impossible: a released handle, a negative rank or channel, a data type that does not
//! exist, words at an odd offset.

use crate::line::Line;
use crate::{Runner, Thing, dtype};
use std::ffi::{CStr, c_void};
use std::ptr;
use symm::{Op, Result, Status, symm_sys as sys};

/// Whether only the raw layer can make the call.
pub fn only(runner: &Runner, line: &Line) -> bool {
    let gone = |key| line.has(key) && matches!(runner.thing(line.text(key)), Thing::Gone(_));
    let negative = |key| line.get_or::<i64>(key, 0) < 0;
    let odd = || line.verb == "fill32" && line.get::<i64>("offset") % 4 != 0;
    let unknown = || line.has("send") && dtype(line).1.is_none();
    let wrong = || {
        gone("memory") || gone("buffer") || negative("rank") || negative("channel") || odd() || unknown() || line.verb == "give"
    };
    line.failure.is_some() && wrong()
}

pub fn run(runner: &Runner, line: &Line) -> Result<()> {
    let api = sys::api()?;
    let handle = |key| runner.thing(line.text(key)).raw();
    let group: *mut sys::symm_group = runner.thing(line.text_or("group", "group")).raw().cast();
    let memory: *mut sys::symm_memory = if line.has("memory") { handle("memory").cast() } else { ptr::null_mut() };
    let (rank, channel, timeout) = (line.get_or("rank", 0), line.get_or("channel", 0), line.get_or("timeout_ms", 0));
    let options = sys::symm_wait_options_t {
        struct_size: size_of::<sys::symm_wait_options_t>(),
        timeout_ms: timeout,
        failure: ptr::null_mut(),
    };
    let none: *mut c_void = ptr::null_mut();
    // SAFETY: the library refuses what is wrong with these calls before it touches anything; that is what the table tests. Released
    // handles are recognised, since nothing was made since that could have their slot.
    let status = unsafe {
        match line.verb.as_str() {
            "signal" => api.symm_signal(memory, rank, channel, none),
            "wait_signal" => api.symm_wait_signal(memory, rank, channel, &options, none),
            "barrier" => api.symm_barrier(group, ptr::null(), 0, channel, &options, none),
            "fill32" => api.symm_fill32(memory, rank, line.get("offset"), line.get("value"), line.get("count"), none),
            "give" => api.symm_heap_free(handle("heap").cast(), runner.address(line, "at").cast()),
            "rendezvous" => {
                let mut out = ptr::null_mut();
                api.symm_rendezvous(group, handle("buffer").cast(), ptr::null(), &mut out)
            }
            "allreduce" => {
                let (send, recv) = (runner.address(line, "send").cast(), runner.address(line, "recv").cast());
                let (count, op) = (line.get("count"), line.named("op", Op::from_raw).as_raw());
                api.symm_allreduce(group, send, recv, count, dtype(line).0, op, ptr::null(), none)
            }
            verb => panic!("{verb} cannot be called wrongly here; add it to raw.rs"),
        }
    };
    // As the safe layer would have it.
    let status = Status::from_raw(status?);
    // SAFETY: all zeros is a value of a struct of numbers, which then says its size; what the library wrote ends with a NUL.
    let failure = unsafe {
        let mut failure: sys::symm_failure_t = std::mem::zeroed();
        failure.struct_size = size_of_val(&failure);
        api.symm_last_failure(&mut failure)?;
        failure
    };
    // SAFETY: as above.
    let message = unsafe { CStr::from_ptr(failure.message.as_ptr()) }.to_string_lossy();
    let mut error = symm::Error::from_parts(status, message);
    error.rank = usize::try_from(failure.rank).ok();
    if status == Status::Ok { Ok(()) } else { Err(error) }
}
