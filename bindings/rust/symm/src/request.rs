//! Calls that do not block on the host.

use crate::convert::Handle;
use crate::error::{Result, acting};
use crate::operand::{Source, Target, TargetOf};
use crate::{Element, Error, Group, Memory, Op, Reduces, Timeout, waking};
use std::cell::Cell;
use std::future::Future;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll};
use symm_sys::{symm_request, symm_request_info_t};

thread_local! {
    /// Where the call of this thread is to leave its request; null: the call has to block.
    static PLACE: Cell<*mut *mut symm_request> = const { Cell::new(ptr::null_mut()) };
}

/// Where the next call that has options is to leave its request. Errors: `InvalidArgument` if
/// another call has left one there.
#[inline]
pub(crate) fn place() -> Result<*mut *mut symm_request> {
    let place = PLACE.get();
    // SAFETY: the place is one of start(), which is under way on this thread.
    if !place.is_null() && unsafe { !(*place).is_null() } {
        return Err(Error::argument(
            "start: the function makes several calls, and one of them has the request",
        ));
    }
    Ok(place)
}

/// A call of a host group that the library makes while the program goes on. It owns the operands
/// of the call, and gives them back when the call is over.
///
/// Collectives of a group keep the order of their calls, blocking or not, and messages their order
/// on a channel; nothing waits behind a receive or a wait. [`Group::abort_handle`] cancels. A
/// request that is dropped before its call is over leaves the call alone and leaks the operands.
///
/// It is a future of any executor, too: `request.await` is [`wait`](Self::wait) for a task, and no
/// thread of the executor waits. One thread of this crate does, for all requests that are awaited.
///
/// ```
/// # fn main() -> symm::Result<()> {
/// # let group = symm::GroupConfig::new().ranks(0, 1).bootstrap("thread://request").create()?;
/// let sum = group.start_allreduce_in_place(vec![1.5_f32; 4], symm::Op::Sum)?;
/// // ... other work ...
/// assert_eq!(sum.wait()?, [1.5; 4]);
/// # Ok(())
/// # }
/// ```
#[must_use = "a request gives its operands back by wait()"]
pub struct Request<T> {
    handle: Handle<symm_request>,
    /// The box of the operands is not moved while the library writes to them. None: they were
    /// given back.
    operands: Option<NonNull<T>>,
    /// Whether a task has awaited the request.
    is_awaited: bool,
}

// SAFETY: the handle may be used by any thread, and the operands are touched only by whoever takes
// or drops the request.
unsafe impl<T: Send> Send for Request<T> {}
// SAFETY: a shared reference gives nobody the operands.
unsafe impl<T: Send> Sync for Request<T> {}

/// Makes the call that `function` makes, without waiting for its end. Errors: those of the call,
/// as far as they are found at once; `Unsupported` for groups of devices, and for calls that have
/// no such form; `OutOfMemory` if 256 messages and waits are under way in the group;
/// `InvalidArgument` if `function` makes no call, or several.
///
/// # Safety
/// All memory that the call reads and writes belongs to `operands`: `function` passes nothing else
/// that may go, change or be touched before the call is over.
pub unsafe fn start<T: Send + 'static, R>(
    operands: T,
    function: impl FnOnce(&mut T) -> Result<R>,
) -> Result<Request<T>> {
    // It is not moved, since the call leaves its request in it.
    let mut begun = Begun {
        made: Cell::new(ptr::null_mut()),
        operands: Some(NonNull::from(Box::leak(Box::new(operands)))),
        before: PLACE.get(),
    };
    PLACE.set(begun.made.as_ptr());
    let outcome = match begun.operands {
        // SAFETY: the operands were leaked for this function, and the call is to write to them.
        Some(mut operands) => function(unsafe { operands.as_mut() }).map(|_| ()),
        None => Ok(()),
    };
    match begun.end()? {
        Some(request) => outcome.map(|()| request),
        None => outcome.and_then(|()| Err(Error::argument("start: the function makes no call"))),
    }
}

/// A call that [`start`] begins, also if the function panics behind it.
struct Begun<T> {
    made: Cell<*mut symm_request>,
    operands: Option<NonNull<T>>,
    before: *mut *mut symm_request,
}

impl<T> Begun<T> {
    /// The request, which has the operands now; if there is none, they are dropped.
    fn end(&mut self) -> Result<Option<Request<T>>> {
        let Some(operands) = self.operands.take() else {
            return Ok(None);
        };
        PLACE.set(self.before);
        if self.made.get().is_null() {
            // SAFETY: no call has begun, so this value alone has what was leaked for it.
            drop(unsafe { Box::from_raw(operands.as_ptr()) });
            return Ok(None);
        }
        // SAFETY: the call has given one reference.
        let handle = unsafe { Handle::new(self.made.get()) }?;
        Ok(Some(Request {
            handle,
            operands: Some(operands),
            is_awaited: false,
        }))
    }
}

impl<T> Drop for Begun<T> {
    fn drop(&mut self) {
        drop(self.end());
    }
}

impl<T> Request<T> {
    fn info(&self) -> Result<symm_request_info_t> {
        let request = &self.handle;
        let mut info = symm_request_info_t::default();
        on!(request.symm_request_info(&raw mut info)).map(|()| info)
    }

    fn is_over(&self) -> bool {
        self.info().is_ok_and(|info| info.done != 0)
    }

    /// Whether the call is over. Errors: that of the call, if it has failed.
    pub fn test(&self) -> Result<bool> {
        let request = &self.handle;
        on!(request.symm_request_test(ptr::null()) -> 0).map(|done| done != 0)
    }

    /// Waits until the call is over, and gives back its operands. Errors: that of the call; the
    /// operands are dropped then.
    pub fn wait(mut self) -> Result<T> {
        self.end()
    }

    fn end(&mut self) -> Result<T> {
        self.wait_for(Timeout::Group)?;
        let operands = self.operands.take().expect("a request is awaited once");
        // SAFETY: the call is over, so this value alone has what was leaked for it.
        Ok(*unsafe { Box::from_raw(operands.as_ptr()) })
    }

    /// One more reference to the request.
    fn shared(&self) -> Result<Handle<symm_request>> {
        let request = &self.handle;
        on!(request.symm_request_retain())?;
        // SAFETY: the call has added the reference.
        unsafe { Handle::new(request.as_raw()) }
    }

    /// Waits until the call is over, but no longer than so; [`Timeout::Group`] is as long as it
    /// takes. Errors: `Timeout`, and then the call goes on; that of the call.
    pub fn wait_for(&self, timeout: impl Into<Timeout>) -> Result<()> {
        let request = &self.handle;
        on!(request.symm_request_wait(options), options: timeout.into().options())
    }

    /// Waits until one of `requests` is over, and returns its place. Errors: `Timeout`;
    /// `InvalidArgument` if there are none.
    pub fn wait_any(requests: &[Self], timeout: impl Into<Timeout>) -> Result<usize> {
        let handles: Vec<_> = requests.iter().map(|one| one.handle.as_raw()).collect();
        let mut found = 0;
        // SAFETY: the handles are alive.
        acting(timeout.into().options(), |api, options| unsafe {
            api.symm_request_wait_any(handles.as_ptr(), handles.len(), options, &mut found)
        })?;
        Ok(found)
    }

    /// The number that the call would have returned, as [`Group::recv`] the bytes that came; 0 if
    /// it has none, or is not over.
    pub fn value(&self) -> Result<u64> {
        self.info().map(|info| info.value)
    }

    /// A descriptor that becomes readable when the call is over, and stays so, for event loops.
    pub fn fd(&self) -> Result<BorrowedFd<'_>> {
        let request = &self.handle;
        let fd = on!(request.symm_request_fd() -> -1)?;
        // SAFETY: the descriptor is the request's, which this value keeps.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }
}

impl<T> Future for Request<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let request = self.get_mut();
        if request.is_over() {
            return Poll::Ready(request.end());
        }
        let fd = request.fd()?.as_raw_fd();
        waking::wake_when_over(request.shared()?, fd, context.waker())?;
        request.is_awaited = true;
        Poll::Pending
    }
}

impl<T> Drop for Request<T> {
    fn drop(&mut self) {
        if self.is_awaited {
            waking::forget(self.handle.as_raw() as usize);
        }
        if let Some(operands) = self.operands.filter(|_| self.is_over()) {
            // SAFETY: the call is over, so this value alone has what was leaked for it.
            drop(unsafe { Box::from_raw(operands.as_ptr()) });
        }
    }
}

/// # Calls that do not block
///
/// They own their operands until they are over ([`Request`]), and begin in the order of the calls.
impl Group {
    /// Begins [`barrier`](Self::barrier).
    pub fn start_barrier(&self) -> Result<Request<()>> {
        // SAFETY: a barrier touches no memory.
        unsafe { start((), |()| self.barrier()) }
    }

    /// Begins [`allreduce`](Self::allreduce).
    pub fn start_allreduce<S, R>(&self, send: S, recv: R, op: Op) -> Result<Request<(S, R)>>
    where
        S: Source + Send + 'static,
        R: Target + Send + 'static,
        S::Element: Reduces<R::Element>,
    {
        // SAFETY: the request has both operands.
        unsafe {
            start((send, recv), |(send, recv)| {
                self.allreduce(&*send, recv, op)
            })
        }
    }

    /// Begins [`allreduce_in_place`](Self::allreduce_in_place).
    pub fn start_allreduce_in_place<D>(&self, data: D, op: Op) -> Result<Request<D>>
    where
        D: Target + Send + 'static,
    {
        // SAFETY: the request has the operand.
        unsafe { start(data, |data| self.allreduce_in_place(data, op)) }
    }

    /// Begins [`allgather`](Self::allgather).
    pub fn start_allgather<S, R>(&self, send: S, recv: R) -> Result<Request<(S, R)>>
    where
        S: Source + Send + 'static,
        R: TargetOf<S> + Send + 'static,
    {
        // SAFETY: the request has both operands.
        unsafe { start((send, recv), |(send, recv)| self.allgather(&*send, recv)) }
    }

    /// Begins [`broadcast_in_place`](Self::broadcast_in_place).
    pub fn start_broadcast_in_place<D>(&self, data: D, root: usize) -> Result<Request<D>>
    where
        D: Target + Send + 'static,
    {
        // SAFETY: the request has the operand.
        unsafe { start(data, |data| self.broadcast_in_place(data, root)) }
    }

    /// Begins [`send`](Self::send).
    pub fn start_send<S>(&self, rank: usize, source: S, channel: usize) -> Result<Request<S>>
    where
        S: Source + Send + 'static,
    {
        // SAFETY: the request has the operand.
        unsafe { start(source, |source| self.send(rank, &*source, channel)) }
    }

    /// Begins [`recv`](Self::recv); [`Request::value`] is the number of bytes that came.
    pub fn start_recv<D>(&self, rank: usize, target: D, channel: usize) -> Result<Request<D>>
    where
        D: Target + Send + 'static,
    {
        // SAFETY: the request has the operand.
        unsafe { start(target, |target| self.recv(rank, target, channel)) }
    }
}

impl<T: Element> Memory<T> {
    /// Begins [`wait_signal`](Self::wait_signal), with no deadline but that of the group.
    pub fn start_wait_signal(&self, rank: usize, channel: usize) -> Result<Request<()>> {
        // SAFETY: the request keeps the memory, and no other is touched.
        unsafe { start((), |()| self.wait_signal(rank, channel)) }
    }
}
