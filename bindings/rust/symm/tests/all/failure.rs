//! Ranks that fail or leave are errors that say who and why.

use crate::ranks::threads;
use std::io::Read;
use std::time::Duration;
use symm::{Op, Status, Timeout};

/// One that is killed is in the table of behaviours.
#[test]
fn a_peer_that_leaves_is_named() {
    threads(3, |group| {
        let memory = group.memory::<u8>(4096).expect("a block each");
        group.barrier().expect("all come");
        if group.rank() == 2 {
            // Not before the others have left the barrier, which would fail too.
            return [0, 1].iter().for_each(|rank| memory.wait_signal(*rank, 1).expect("it comes"));
        }
        memory.signal(2, 1).expect("it is there");
        let error = group.allreduce_in_place(&mut [1.0f32; 100], Op::Sum).expect_err("rank 2 is gone");
        assert_eq!((error.status, error.rank), (Status::PeerFailed, Some(2)), "{error}");
        let status = group.status().expect("it can still be asked");
        assert_eq!((status.status, status.failed_rank), (Status::PeerFailed, Some(2)));
        assert!(status.failed_pid.is_some() && error.pid == status.failed_pid, "{status:?} {error:?}");
        let rest = group.shrink(Some("rest"), Timeout::Group).expect("two are left");
        assert_eq!((rest.size(), rest.rank(), rest.info().expect("it lives").name.as_str()), (2, group.rank(), "rest"));
        rest.allreduce_in_place(&mut [1], Op::Sum).expect("both live");
        assert_eq!(rest.translate_rank(&group, 2).expect("a rank of the whole"), None);
        assert_eq!(rest.translate_rank(&group, 1).expect("a rank of the whole"), Some(1));
        let (gone, mine) = (group.peer_info(2).expect("known"), group.peer_info(group.rank()).expect("known"));
        assert!(!gone.alive && mine.alive && mine.pid == Some(std::process::id().into()), "{gone:?} {mine:?}");
        assert!(group.stats().expect("it can still be asked").failures >= 1);
        assert_eq!(rest.stats().expect("it lives").collective_calls[symm::Collective::Allreduce.as_raw() as usize], 1);
        let mut failed = std::fs::File::from(group.failure_fd().expect("a descriptor").try_clone_to_owned().expect("another"));
        assert_eq!(failed.read(&mut [0; 8]).expect("readable, since the group is revoked"), 8);
        rest.finalize().expect("both come");
    });
}

#[test]
fn another_thread_ends_a_wait() {
    threads(2, |group| {
        let memory = group.memory::<u8>(64).expect("a block each");
        let handle = group.abort_handle();
        if group.rank() == 0 {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(30));
                    handle.abort("had enough").expect("the group is alive");
                });
                let error = memory.wait_signal(1, 0).expect_err("nobody signals");
                assert_eq!((error.status, error.rank), (Status::Aborted, Some(0)), "{error}");
                assert!(error.message.contains("had enough"), "{error}");
            });
        } else {
            let error = memory.wait_signal(0, 0).expect_err("nobody signals");
            assert_eq!((error.status, error.rank), (Status::Aborted, Some(0)), "{error}");
        }
        assert_eq!(handle.abort("a\0b").expect_err("a NUL").status, Status::InvalidArgument);
        drop(memory);
        drop(group);
        assert_eq!(handle.abort("too late").expect_err("it is gone").status, Status::InvalidHandle);
    });
}

#[test]
fn an_error_is_an_error() {
    let error: Box<dyn std::error::Error + Send + Sync> = symm::device_info(symm::Backend::Host, 7).unwrap_err().into();
    let text = error.to_string();
    assert!(text.starts_with("invalid argument: ") && text.contains('7'), "{text}");
}
