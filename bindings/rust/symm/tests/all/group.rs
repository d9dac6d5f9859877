//! Forming groups, what they say of themselves, and ranks
//! that fail or leave: errors that say who and why.

use crate::ranks::{refused, threads};
use std::collections::HashMap;
use std::io::Read;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use symm::{Backend, Group, GroupConfig, Op, Status, Store, StoreError, Timeout};

#[test]
fn what_cannot_be_a_group() {
    refused(
        GroupConfig::new().name("a\0b").create(),
        Status::InvalidArgument,
        "name",
    );
    refused(
        GroupConfig::new().ranks(0, 0).create(),
        Status::InvalidArgument,
        "size",
    );
    refused(
        GroupConfig::new()
            .ranks(2, 2)
            .bootstrap("thread://nobody")
            .create(),
        Status::InvalidArgument,
        "rank",
    );
    refused(
        GroupConfig::new()
            .ranks(0, 1 << 40)
            .bootstrap("thread://nobody")
            .create(),
        Status::InvalidArgument,
        "",
    );
}

type Values = HashMap<String, Vec<u8>>;

/// What a program might have: bytes by key.
#[derive(Clone, Default)]
struct Shelf(Arc<(Mutex<Values>, Condvar)>);

impl Store for Shelf {
    fn set(&self, key: &str, value: &[u8], _: Duration) -> Result<(), StoreError> {
        self.0
            .0
            .lock()
            .unwrap()
            .insert(key.to_owned(), value.to_owned());
        self.0.1.notify_all();
        Ok(())
    }

    fn get(&self, key: &str, timeout: Duration) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self
            .0
            .1
            .wait_timeout_while(self.0.0.lock().unwrap(), timeout, |values| {
                !values.contains_key(key)
            });
        Ok(found.unwrap().0.get(key).cloned())
    }
}

fn with_store(rank: usize, store: impl Store + 'static) -> symm::Result<Group> {
    let config = GroupConfig::new()
        .ranks(rank, 2)
        .backend(Backend::Host)
        .store(store);
    config.create_timeout(Duration::from_secs(20)).create()
}

#[test]
fn a_store_of_ones_own() {
    let shelf = Shelf::default();
    std::thread::scope(|scope| {
        for rank in 0..2 {
            let shelf = shelf.clone();
            scope.spawn(move || {
                with_store(rank, shelf)
                    .expect("a group")
                    .barrier()
                    .expect("both come")
            });
        }
    });
    assert!(!shelf.0.0.lock().unwrap().is_empty(), "the store was used");
}

struct Broken;

impl Store for Broken {
    fn set(&self, _: &str, _: &[u8], _: Duration) -> Result<(), StoreError> {
        Err("the shelf fell down".into())
    }
    fn get(&self, _: &str, _: Duration) -> Result<Option<Vec<u8>>, StoreError> {
        panic!("there is no shelf")
    }
}

#[test]
fn a_store_that_fails_fails_the_creation() {
    let error = with_store(0, Broken).expect_err("nothing can be set");
    assert!(
        error.message.contains("the shelf fell down") || error.message.contains("it panicked"),
        "{error}"
    );
}

#[test]
fn everything_may_cross_threads() {
    fn crosses<T: Send + Sync>() {}
    crosses::<Group>();
    crosses::<symm::AbortHandle>();
    crosses::<symm::Buffer<f32>>();
    crosses::<symm::Memory<f32>>();
    crosses::<symm::Span<'_, f32>>();
    crosses::<symm::View<'_, f32>>();
    crosses::<symm::Error>();
    crosses::<symm::ipc::Import<f32>>();
    crosses::<symm::ipc::Shared<f32>>();
}

/// One that is killed is in the table of behaviours.
#[test]
fn a_peer_that_leaves_is_named() {
    threads(3, |group| {
        let memory = group.memory::<u8>(4096).expect("a block each");
        group.barrier().expect("all come");
        if group.rank() == 2 {
            // Not before the others have left the barrier, which would fail too.
            return [0, 1]
                .iter()
                .for_each(|rank| memory.wait_signal(*rank, 1).expect("it comes"));
        }
        memory.signal(2, 1).expect("it is there");
        let error = group
            .allreduce_in_place(&mut [1.0f32; 100], Op::Sum)
            .expect_err("rank 2 is gone");
        assert_eq!(
            (error.status, error.rank),
            (Status::PeerFailed, Some(2)),
            "{error}"
        );
        let status = group.status().expect("it can still be asked");
        assert_eq!(
            (status.status, status.failed_rank),
            (Status::PeerFailed, Some(2))
        );
        assert!(
            status.failed_pid.is_some() && error.pid == status.failed_pid,
            "{status:?} {error:?}"
        );
        let rest = group
            .shrink(Some("rest"), Timeout::Group)
            .expect("two are left");
        assert_eq!(
            (
                rest.size(),
                rest.rank(),
                rest.info().expect("it lives").name.as_str()
            ),
            (2, group.rank(), "rest")
        );
        rest.allreduce_in_place(&mut [1], Op::Sum)
            .expect("both live");
        assert_eq!(
            rest.translate_rank(&group, 2).expect("a rank of the whole"),
            None
        );
        assert_eq!(
            rest.translate_rank(&group, 1).expect("a rank of the whole"),
            Some(1)
        );
        let (gone, mine) = (
            group.peer_info(2).expect("known"),
            group.peer_info(group.rank()).expect("known"),
        );
        assert!(
            !gone.alive && mine.alive && mine.pid == Some(std::process::id().into()),
            "{gone:?} {mine:?}"
        );
        assert!(group.stats().expect("it can still be asked").failures >= 1);
        assert_eq!(
            rest.stats().expect("it lives").collective_calls
                [symm::Collective::Allreduce.as_raw() as usize],
            1
        );
        let mut failed = std::fs::File::from(
            group
                .failure_fd()
                .expect("a descriptor")
                .try_clone_to_owned()
                .expect("another"),
        );
        assert_eq!(
            failed
                .read(&mut [0; 8])
                .expect("readable, since the group is revoked"),
            8
        );
        rest.finalize().expect("both come");
    });
}

#[test]
fn another_thread_ends_a_wait() {
    threads(2, |group| {
        let memory = group.memory::<u8>(64).expect("a block each");
        let handle = group.abort_handle();
        std::thread::scope(|scope| {
            if group.rank() == 0 {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(30));
                    handle.abort("had enough").expect("the group is alive");
                });
            }
            let error = memory
                .wait_signal(1 - group.rank(), 0)
                .expect_err("nobody signals");
            assert_eq!(
                (error.status, error.rank),
                (Status::Aborted, Some(0)),
                "{error}"
            );
            assert!(error.message.contains("had enough"), "{error}");
        });
        assert_eq!(
            handle.abort("a\0b").expect_err("a NUL").status,
            Status::InvalidArgument
        );
        drop(memory);
        drop(group);
        assert_eq!(
            handle.abort("too late").expect_err("it is gone").status,
            Status::InvalidHandle
        );
    });
}

#[test]
fn an_error_is_an_error() {
    let error: Box<dyn std::error::Error + Send + Sync> = symm::device_info(symm::Backend::Host, 7)
        .unwrap_err()
        .into();
    let text = error.to_string();
    assert!(
        text.starts_with("invalid argument: ") && text.contains('7'),
        "{text}"
    );
}
