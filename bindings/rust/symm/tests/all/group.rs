//! Forming groups, stores, and ranks that fail or leave: errors name the rank and the reason.

use crate::ranks::{alone, refused, threads};
use std::collections::HashMap;
use std::io::Read;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use symm::{
    Algorithm, Backend, Collective, Group, GroupConfig, GroupOptions, Op, Order, Status, Store,
    StoreError, Timeout, symm_sys as sys,
};

#[test]
fn a_group_that_cannot_be_is_refused() {
    let refused = |config: GroupConfig, words| {
        refused(config.create(), Status::InvalidArgument, words);
    };
    let nobody = "thread://nobody";
    refused(GroupConfig::new().name("a\0b"), "name");
    refused(GroupConfig::new().ranks(0, 0), "size");
    refused(GroupConfig::new().ranks(2, 2).bootstrap(nobody), "rank");
    refused(GroupConfig::new().ranks(0, 1 << 40).bootstrap(nobody), "");
}

#[test]
fn a_group_of_one_describes_itself() {
    let group = alone();
    assert_eq!(group.rank(), 0);
    assert_eq!(group.size(), 1);
    assert_eq!(group.backend(), Backend::Host);

    let info = group.info().expect("it is alive");
    assert_eq!(info.backend, Backend::Host);
    assert!(info.bootstrap.contains("thread://"), "{info:?}");
    assert_eq!(group.status().expect("it is alive"), None);

    let mut data = [3.5f32, -1.0];
    group
        .allreduce_in_place(&mut data, Op::Sum)
        .expect("a sum of one");
    assert_eq!(data, [3.5, -1.0]);
}

#[test]
fn a_group_tells_what_it_was_made_with() {
    let seconds = |count| Timeout::After(Duration::from_secs(count));
    let config = GroupConfig::new()
        .ranks(0, 1)
        .backend(Backend::Host)
        .bootstrap("thread://told")
        .check(true)
        .any_order(false)
        .create_timeout(seconds(9))
        .timeout(Timeout::Never);
    let info = config.create().and_then(|group| group.info());
    let info = info.expect("it is alone");
    let wanted = sys::SYMM_GROUP_CHECK | sys::SYMM_GROUP_RANK_ORDER;
    assert_eq!(info.flags & wanted, wanted, "{info:?}");
    assert_eq!(info.create_timeout, seconds(9));
    assert_eq!(info.timeout, Timeout::Never);
}

#[test]
fn ranks_are_combined_in_the_order_of_the_call_or_the_group() {
    // Each order rounds their sum in another way.
    let operands = [
        1.0_f32,
        2.0_f32.powi(-24),
        2.0_f32.powi(-24),
        2.0_f32.powi(-24),
    ];
    let total = |group: &Group| {
        let mut data = [operands[group.rank()]];
        group
            .allreduce_in_place(&mut data, Op::Sum)
            .expect("a sum of four");
        data[0]
    };
    threads(4, |group| {
        let in_tree_order = 1.0 + 2.0_f32.powi(-23);
        assert_eq!(total(&group), 1.0);
        assert_eq!(total(&group.with_order(Order::Tree)), in_tree_order);
        let options = GroupOptions::new().tree_order(true).any_order(false);
        let part = group.split_with(Some(0), 0, &options).expect("a split");
        let part = part.expect("this rank has a color");
        assert_eq!(total(&part), in_tree_order);
        assert_eq!(total(&part.with_order(Order::Ranks)), 1.0);
    });
}

#[test]
fn a_group_of_a_group_has_options_of_its_own() {
    threads(2, |group| {
        let options = GroupOptions::new()
            .name("both")
            .check(true)
            .channels(3)
            .group_timeout(Duration::from_millis(1500));
        let both = group
            .split_with(Some(0), 0, &options)
            .expect("all split")
            .expect("it has a color");
        let info = both.info().expect("it is alive");
        assert_eq!(info.name, "both");
        assert_eq!(info.channels, 3);
        assert_eq!(info.flags & sys::SYMM_GROUP_CHECK, sys::SYMM_GROUP_CHECK);
        assert_eq!(
            info.timeout,
            Timeout::After(Duration::from_millis(1500)),
            "that of the new group"
        );
        let whole = group.info().expect("it is alive");
        assert_eq!(info.create_timeout, whole.create_timeout, "inherited");

        let ranks = [1, 0];
        let swapped = both.create_from_ranks_with(&ranks, &GroupOptions::new().check(false));
        let info = swapped.and_then(|group| group.info()).expect("both come");
        assert_eq!(info.rank, 1 - group.rank());
        assert_eq!(info.channels, 3, "inherited");
        assert_eq!(info.flags & sys::SYMM_GROUP_CHECK, 0);

        let local = both.local_with(&GroupOptions::new().name("near"));
        let info = local.and_then(|group| group.info()).expect("both come");
        assert_eq!(info.name, "near");
        refused(
            both.local_with(&GroupOptions::new().name("a\0b")),
            Status::InvalidArgument,
            "name",
        );
    });
}

#[test]
fn calls_are_counted_by_algorithm() {
    threads(2, |group| {
        let memory = group.memory::<f32>(8).expect("a block each");
        group
            .with_algorithm(Algorithm::TwoShot)
            .allreduce_in_place(&mut memory.span(..).expect("all"), Op::Sum)
            .expect("both come");
        let stats = group.algorithm_stats(Algorithm::TwoShot);
        assert_eq!(stats.expect("it is alive").calls, 1);
        refused(
            group.algorithm_stats(Algorithm::Unknown(77)),
            Status::Unsupported,
            "77",
        );
    });
}

#[test]
fn a_tag_is_a_text_of_c() {
    refused(alone().with_tag("a\0b"), Status::InvalidArgument, "tag");
}

type Values = HashMap<String, Vec<u8>>;

/// A store in the memory of this process.
#[derive(Clone, Default)]
struct InMemory {
    values: Arc<Mutex<Values>>,
    changed: Arc<Condvar>,
}

impl Store for InMemory {
    fn set(&self, key: &str, value: &[u8], _: Duration) -> Result<(), StoreError> {
        let mut values = self.values.lock().unwrap();
        values.insert(key.to_owned(), value.to_owned());
        self.changed.notify_all();
        Ok(())
    }

    fn get(&self, key: &str, timeout: Duration) -> Result<Option<Vec<u8>>, StoreError> {
        let values = self.values.lock().unwrap();
        let is_missing = |values: &mut Values| !values.contains_key(key);
        let (values, _) = self
            .changed
            .wait_timeout_while(values, timeout, is_missing)
            .unwrap();
        Ok(values.get(key).cloned())
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
fn ranks_find_each_other_by_a_store_of_the_caller() {
    let store = InMemory::default();
    std::thread::scope(|scope| {
        for rank in 0..2 {
            let store = store.clone();
            scope.spawn(move || {
                let group = with_store(rank, store).expect("a group");
                group.barrier().expect("both come");
            });
        }
    });
    let used = !store.values.lock().unwrap().is_empty();
    assert!(used, "the store was used");
}

struct Broken;

impl Store for Broken {
    fn set(&self, _: &str, _: &[u8], _: Duration) -> Result<(), StoreError> {
        Err("the store is broken".into())
    }

    fn get(&self, _: &str, _: Duration) -> Result<Option<Vec<u8>>, StoreError> {
        panic!("the store is broken")
    }
}

#[test]
fn a_store_that_fails_fails_the_creation() {
    let error = with_store(0, Broken).expect_err("nothing can be set");
    let message = &error.message;
    assert!(
        message.contains("the store is broken") || message.contains("it panicked"),
        "{error}"
    );
}

/// Panics wherever it can, also while it is dropped.
#[derive(Debug)]
struct Explosive;

impl std::fmt::Display for Explosive {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::panic::panic_any(Explosive)
    }
}

impl std::error::Error for Explosive {}

impl Drop for Explosive {
    fn drop(&mut self) {
        // A second panic during the first would end the process by Rust's own rules.
        if !std::thread::panicking() {
            panic!("Drop of an Explosive");
        }
    }
}

impl Store for Explosive {
    fn set(&self, _: &str, _: &[u8], _: Duration) -> Result<(), StoreError> {
        Err(Box::new(Explosive))
    }

    fn get(&self, _: &str, _: Duration) -> Result<Option<Vec<u8>>, StoreError> {
        std::panic::panic_any(Explosive)
    }
}

#[test]
fn a_store_that_panics_in_display_and_drop_fails_the_creation() {
    // The store itself would panic when the call drops it, which is the caller's to bear.
    struct Kept(std::mem::ManuallyDrop<Explosive>);
    impl Store for Kept {
        fn set(&self, key: &str, value: &[u8], timeout: Duration) -> Result<(), StoreError> {
            self.0.set(key, value, timeout)
        }
        fn get(&self, key: &str, timeout: Duration) -> Result<Option<Vec<u8>>, StoreError> {
            self.0.get(key, timeout)
        }
    }
    let store = Kept(std::mem::ManuallyDrop::new(Explosive));
    let error = with_store(0, store).expect_err("nothing can be set");
    assert!(error.message.contains("it panicked"), "{error}");
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

/// Groups of three after rank 2 has left: `body` is run by the ranks that are left. A rank that is
/// killed is in the table of behaviours.
fn after_one_left(body: impl Fn(&Group, &symm::Error) + Sync) {
    threads(3, |group| {
        let memory = group.memory::<u8>(4096).expect("a block each");
        group.barrier().expect("all come");
        if group.rank() == 2 {
            // Rank 2 waits until the others have left the barrier, which would fail too.
            memory.wait_signal(0, 1).expect("it comes");
            memory.wait_signal(1, 1).expect("it comes");
            return;
        }
        memory.signal(2, 1).expect("it is there");

        let error = group
            .allreduce_in_place(&mut [1.0f32; 100], Op::Sum)
            .expect_err("rank 2 is gone");
        body(&group, &error);
    });
}

#[test]
fn a_peer_that_leaves_is_named() {
    after_one_left(|group, error| {
        assert_eq!(error.status, Status::PeerFailed, "{error}");
        assert_eq!(error.rank, Some(2), "{error}");

        let why = group.status().expect("it can still be asked");
        let why = why.expect("it is revoked");
        assert_eq!(why.status, Status::PeerFailed);
        assert_eq!(why.rank, Some(2));
        assert!(why.pid.is_some(), "{why:?}");
        assert_eq!(error.pid, why.pid);

        let gone = group.peer_info(2).expect("known");
        assert!(!gone.alive, "{gone:?}");
        let mine = group.peer_info(group.rank()).expect("known");
        assert!(mine.alive, "{mine:?}");
        assert_eq!(mine.pid, Some(std::process::id().into()));
    });
}

#[test]
fn the_ranks_that_are_left_form_a_group() {
    after_one_left(|group, _| {
        let rest = group
            .shrink_with(&GroupOptions::new().name("rest"))
            .expect("two are left");
        assert_eq!(rest.size(), 2);
        assert_eq!(rest.rank(), group.rank());
        assert_eq!(rest.info().expect("it is alive").name, "rest");

        let translated = |rank| {
            rest.translate_rank(group, rank)
                .expect("a rank of the whole")
        };
        assert_eq!(translated(2), None);
        assert_eq!(translated(1), Some(1));

        rest.allreduce_in_place(&mut [1], Op::Sum)
            .expect("both are alive");
        let stats = rest.collective_stats(Collective::Allreduce);
        let stats = stats.expect("it is alive");
        assert_eq!((stats.calls, stats.bytes), (1, 4));
        let unused = rest.collective_stats(Collective::Gather);
        assert_eq!(unused.expect("it is alive").calls, 0);
        rest.finalize().expect("both come");
    });
}

#[test]
fn a_failure_is_counted_and_makes_the_descriptor_readable() {
    after_one_left(|group, _| {
        assert!(group.stats().expect("it can still be asked").failures >= 1);

        let descriptor = group
            .failure_fd()
            .expect("a descriptor")
            .try_clone_to_owned()
            .expect("another");
        let read = std::fs::File::from(descriptor).read(&mut [0; 8]);
        assert_eq!(read.expect("readable, since the group is revoked"), 8);
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
            assert_eq!(error.status, Status::Aborted, "{error}");
            assert_eq!(error.rank, Some(0), "{error}");
            assert!(error.message.contains("had enough"), "{error}");
        });
    });
}

#[test]
fn an_abort_may_come_too_late() {
    threads(2, |group| {
        let handle = group.abort_handle();
        refused(handle.abort("a\0b"), Status::InvalidArgument, "reason");
        drop(group);
        refused(handle.abort("too late"), Status::InvalidHandle, "released");
    });
}

#[test]
fn an_error_becomes_a_boxed_error() {
    let error = symm::device_info(Backend::Host, 7).unwrap_err();
    let boxed: Box<dyn std::error::Error + Send + Sync> = error.into();
    let text = boxed.to_string();
    assert!(text.starts_with("invalid argument: "), "{text}");
    assert!(text.contains('7'), "{text}");
}
