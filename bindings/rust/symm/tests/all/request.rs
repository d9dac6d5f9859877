//! Calls that do not block.

use crate::ranks::{alone, threads};
use std::os::fd::AsRawFd;
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
