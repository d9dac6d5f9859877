//! Calls that do not block.

use crate::ranks::{alone, threads};
use std::future::Future;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;
use symm::{Op, Request, Status, Timeout};

#[test]
fn operands_come_back_in_whatever_order_requests_are_awaited() {
    threads(3, |group| {
        let mut sums: Vec<_> = (1..20_u32)
            .map(|i| {
                let data = vec![i * (group.rank() as u32 + 1); i as usize];
                (
                    i,
                    group
                        .start_allreduce_in_place(data, Op::Sum)
                        .expect("a request"),
                )
            })
            .collect();
        if group.rank() != 1 {
            sums.reverse();
        }
        for (i, sum) in sums {
            assert_eq!(sum.wait().expect("a sum"), vec![6 * i; i as usize]);
        }
        let (_, all) = group
            .start_allgather([group.rank() as i32], vec![0_i32; 3])
            .and_then(Request::wait)
            .expect("all numbers");
        assert_eq!(all, [0, 1, 2]);
        group
            .start_barrier()
            .and_then(Request::wait)
            .expect("a barrier");
    });
}

#[test]
fn a_receive_holds_up_no_send() {
    threads(2, |group| {
        let peer = 1 - group.rank();
        let receive = group
            .start_recv(peer, vec![0_u8; 100], 0)
            .expect("a request");
        let late = receive.wait_for(Duration::from_millis(1));
        assert!(late.is_ok() || late.is_err_and(|e| e.status == Status::Timeout));
        let send = group
            .start_send(peer, vec![7_u8; 60], 0)
            .expect("a request");
        assert_eq!(
            Request::wait_any(&[receive], Timeout::Group).expect("one"),
            0
        );
        send.wait().expect("sent");
        group.barrier().expect("a barrier");
    });
}

#[test]
fn the_number_that_came_and_the_descriptor() {
    let group = alone();
    let receive = group.start_recv(0, vec![0_u8; 10], 0).expect("a request");
    assert!(receive.fd().expect("a descriptor").as_raw_fd() >= 0);
    assert_eq!(receive.value().expect("none yet"), 0);
    group.send(0, &[1_u8, 2, 3], 0).expect("sent");
    receive.wait_for(Timeout::Never).expect("received");
    assert!(receive.test().expect("no failure"));
    assert_eq!(receive.value().expect("a number"), 3);
    assert_eq!(receive.wait().expect("operands")[..4], [1, 2, 3, 0]);

    let memory = group.memory::<u64>(1).expect("a memory");
    let signal = memory.start_wait_signal(0, 0).expect("a request");
    memory.signal(0, 0).expect("a signal");
    signal.wait().expect("a signal");
}

#[test]
fn what_fails_or_is_dropped() {
    let group = alone();
    let Err(refused) = group.start_recv(1, vec![0_u8; 10], 0) else {
        panic!("there is no rank 1");
    };
    assert_eq!(refused.status, Status::InvalidArgument);
    let Err(several) = (
        // SAFETY: barriers touch no memory.
        unsafe { symm::start((), |()| group.barrier().and_then(|()| group.barrier())) }
    ) else {
        panic!("there are two barriers");
    };
    assert!(several.to_string().contains("several calls"), "{several}");
    // SAFETY: nothing is called.
    let Err(none) = (unsafe { symm::start((), |()| Ok(())) }) else {
        panic!("there is no call");
    };
    assert!(none.to_string().contains("makes no call"), "{none}");
    group.barrier().expect("a call that blocks again");

    drop(group.start_recv(0, vec![0_u8; 10], 0).expect("a request"));
    let pending = group.start_recv(0, vec![0_u8; 10], 1).expect("a request");
    group.abort("over").expect("an abort");
    let error = pending.wait().expect_err("it is cancelled");
    assert_eq!(error.status, Status::Aborted);
    assert!(error.to_string().contains("over"), "{error}");
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The simplest executor: it sleeps until the future's task is woken.
fn run<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn tasks_of_any_executor_await_requests() {
    threads(2, |group| {
        let peer = 1 - group.rank();
        run(async {
            for round in 0..50_u32 {
                let receive = group.start_recv(peer, vec![0_u32; 3], 0)?;
                let sum = group.start_allreduce_in_place([round], Op::Sum)?;
                let send = group.start_send(peer, [round; 3], 0)?;
                assert_eq!(sum.await?, [2 * round]);
                send.await?;
                assert_eq!(receive.await?, [round; 3]);
            }
            group.start_barrier()?.await
        })
        .expect("a barrier");
    });
}

#[test]
fn many_tasks_await_and_the_last_waker_is_woken() {
    let group = alone();
    let mut receives: Vec<_> = (0..50)
        .map(|_| group.start_recv(0, vec![0_u8; 1], 0).expect("a request"))
        .collect();
    // Nobody hears of these, and some are dropped.
    for receive in &mut receives {
        let nobody = &mut Context::from_waker(Waker::noop());
        assert!(Pin::new(receive).poll(nobody).is_pending());
    }
    let dropped = receives.split_off(40);
    drop(dropped);

    let sender = group.clone();
    let sending = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        for i in 0..50_u8 {
            sender.send(0, &[i], 0).expect("sent");
        }
    });
    for (i, receive) in receives.into_iter().enumerate().rev() {
        assert_eq!(run(receive).expect("received"), [i as u8]);
    }
    sending.join().expect("a thread");
}

#[test]
fn a_task_hears_of_the_failure_of_its_call() {
    let group = alone();
    let receive = group.start_recv(0, vec![0_u8; 10], 0).expect("a request");
    let aborted = group.abort_handle();
    let aborting = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        aborted.abort("enough").expect("an abort");
    });
    let error = run(receive).expect_err("it is cancelled");
    assert_eq!(error.status, Status::Aborted);
    aborting.join().expect("a thread");
}

/// Tells when it is dropped.
struct Told(Arc<AtomicBool>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_panic_behind_the_call_frees_nothing_that_it_works_with() {
    let group = alone();
    let is_dropped = Arc::new(AtomicBool::new(false));
    let start = |is_called: bool| {
        let operands = (vec![0_u8; 10], Told(Arc::clone(&is_dropped)));
        catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the operand is the request's.
            let started = unsafe {
                symm::start(operands, |(into, _)| {
                    if is_called {
                        group.recv(0, into, 0)?;
                    }
                    panic!("behind the call");
                    #[allow(unreachable_code)]
                    Ok(())
                })
            };
            drop(started);
        }))
        .expect_err("a panic");
    };
    start(true);
    assert!(!is_dropped.load(Ordering::Relaxed), "the call goes on");
    group.send(0, &[1_u8; 10], 0).expect("it is received");
    start(false);
    assert!(is_dropped.load(Ordering::Relaxed), "there was no call");
    group.barrier().expect("a call that blocks again");
}
