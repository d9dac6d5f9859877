//! Forming groups, and what they say of themselves.

use crate::ranks::{refused, unique};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use symm::{Backend, Group, GroupConfig, Status, Store, StoreError};

#[test]
fn what_cannot_be_a_group() {
    refused(GroupConfig::new().name("a\0b").create(), Status::InvalidArgument, "name");
    refused(GroupConfig::new().ranks(0, 0).create(), Status::InvalidArgument, "size");
    refused(GroupConfig::new().ranks(2, 2).bootstrap("thread://nobody").create(), Status::InvalidArgument, "rank");
    refused(GroupConfig::new().ranks(0, 1 << 40).bootstrap("thread://nobody").create(), Status::InvalidArgument, "");
    let alone = GroupConfig::new().ranks(0, 2).backend(Backend::Host).bootstrap(format!("thread://{}", unique("alone")));
    let error = alone.create_timeout(Duration::from_millis(50)).create().expect_err("rank 1 does not come");
    assert_eq!((error.status, error.rank), (Status::Timeout, Some(1)), "{error}");
}

type Values = HashMap<String, Vec<u8>>;

/// What a program might have: bytes by key.
#[derive(Clone, Default)]
struct Shelf(Arc<(Mutex<Values>, Condvar)>);

impl Store for Shelf {
    fn set(&self, key: &str, value: &[u8], _: Duration) -> Result<(), StoreError> {
        self.0.0.lock().unwrap().insert(key.to_owned(), value.to_owned());
        self.0.1.notify_all();
        Ok(())
    }

    fn get(&self, key: &str, timeout: Duration) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.0.1.wait_timeout_while(self.0.0.lock().unwrap(), timeout, |values| !values.contains_key(key));
        Ok(found.unwrap().0.get(key).cloned())
    }
}

fn with_store(rank: usize, store: impl Store + 'static) -> symm::Result<Group> {
    let config = GroupConfig::new().ranks(rank, 2).backend(Backend::Host).store(store);
    config.create_timeout(Duration::from_secs(20)).create()
}

#[test]
fn a_store_of_ones_own() {
    let shelf = Shelf::default();
    std::thread::scope(|scope| {
        for rank in 0..2 {
            let shelf = shelf.clone();
            scope.spawn(move || with_store(rank, shelf).expect("a group").barrier().expect("both come"));
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
    assert!(error.message.contains("the shelf fell down") || error.message.contains("it panicked"), "{error}");
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
