//! The thread that wakes tasks when the calls that they await are over.
//!
//! It sleeps in poll() on the descriptors of all requests that are awaited, so that a request can
//! be awaited in any executor, and nobody looks again and again. It begins with the first request
//! that is awaited and stays.

use crate::convert::Handle;
use crate::unwind::contained;
use crate::{Error, Result, Status};
use std::collections::HashMap;
use std::ffi::{c_int, c_short, c_ulong};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use symm_sys::symm_request;

#[repr(C)]
struct PollFd {
    fd: c_int,
    events: c_short,
    revents: c_short,
}
const POLLIN: c_short = 1;

unsafe extern "C" {
    fn poll(fds: *mut PollFd, count: c_ulong, timeout: c_int) -> c_int;
}

/// A task that awaits a request. The reference keeps the descriptor open.
struct Task {
    _request: Handle<symm_request>,
    fd: RawFd,
    waker: Waker,
}

/// What the thread and the tasks share.
struct Wakers {
    /// By the number of the request's handle, which is never given out twice.
    tasks: Mutex<HashMap<usize, Task>>,
    /// Written to when there is a task more.
    news: UnixStream,
    process: u32,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What panics with the lock has changed nothing by halves.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Those of this process: a forked child has no thread of its parent's.
static WAKERS: Mutex<Option<Arc<Wakers>>> = Mutex::new(None);

fn wakers() -> io::Result<Arc<Wakers>> {
    let mut wakers = lock(&WAKERS);
    let process = std::process::id();
    if let Some(there) = wakers.as_ref().filter(|there| there.process == process) {
        return Ok(Arc::clone(there));
    }

    let (news, awaited) = UnixStream::pair()?;
    news.set_nonblocking(true)?;
    awaited.set_nonblocking(true)?;
    let made = Arc::new(Wakers {
        tasks: Mutex::default(),
        news,
        process,
    });
    let own = Arc::clone(&made);
    std::thread::Builder::new()
        .name("symm-wakers".into())
        .spawn(move || {
            loop {
                own.wait(&awaited);
            }
        })?;
    // The parent's stays as it is: what it keeps means nothing in this process.
    std::mem::forget(wakers.replace(Arc::clone(&made)));
    Ok(made)
}

/// Has `waker` woken when the call of a request is over, whose descriptor is `fd`.
pub(crate) fn wake_when_over(
    request: Handle<symm_request>,
    fd: RawFd,
    waker: &Waker,
) -> Result<()> {
    let wakers = wakers().map_err(|why| {
        let message = format!("thread for awaited requests: {why}");
        Error::from_parts(Status::System, message)
    })?;
    let number = request.as_raw() as usize;
    let task = Task {
        _request: request,
        fd,
        waker: waker.clone(),
    };
    // A waker that is dropped may be anything, so it is dropped without the lock.
    let before = lock(&wakers.tasks).insert(number, task);
    if before.is_none() {
        // If there is no room, the thread has not read what it was told before.
        let _ = (&wakers.news).write(&[1]);
    }
    Ok(())
}

/// Forgets the task that awaits a request.
pub(crate) fn forget(number: usize) {
    let wakers = lock(&WAKERS).clone();
    if let Some(wakers) = wakers.filter(|there| there.process == std::process::id()) {
        let task = lock(&wakers.tasks).remove(&number);
        drop(task);
    }
}

impl Wakers {
    /// Waits for the calls of all tasks, and wakes those whose calls are over.
    fn wait(&self, mut awaited: &UnixStream) {
        let mut numbers = Vec::new();
        let mut fds = vec![PollFd {
            fd: awaited.as_raw_fd(),
            events: POLLIN,
            revents: 0,
        }];
        for (&number, task) in lock(&self.tasks).iter() {
            numbers.push(number);
            fds.push(PollFd {
                fd: task.fd,
                events: POLLIN,
                revents: 0,
            });
        }

        // SAFETY: the array has so many elements. A descriptor that is closed meanwhile belongs to
        // a task that was forgotten.
        if unsafe { poll(fds.as_mut_ptr(), fds.len() as c_ulong, -1) } <= 0 {
            return; // a signal
        }
        let mut news = [0; 64];
        while awaited
            .read(&mut news)
            .is_ok_and(|count| count == news.len())
        {}

        for (number, fd) in numbers.into_iter().zip(&fds[1..]) {
            if fd.revents == 0 {
                continue;
            }
            let task = lock(&self.tasks).remove(&number);
            if let Some(task) = task {
                contained(move || task.waker.wake());
            }
        }
    }
}
