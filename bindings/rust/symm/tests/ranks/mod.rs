//! Ranks for tests: threads of this process.
#![allow(dead_code)] // each test program uses its part

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use symm::{Backend, Group, GroupConfig};

/// Long enough for a busy machine, short enough to notice a hang.
const PATIENCE: Duration = Duration::from_secs(60);

fn config(rank: usize, size: usize) -> GroupConfig {
    GroupConfig::new()
        .ranks(rank, size)
        .backend(Backend::Host)
        .create_timeout(PATIENCE)
        .timeout(PATIENCE)
}

/// A bootstrap of which no other test has ranks.
fn place() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("thread://test-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A group of one.
pub fn alone() -> Group {
    config(0, 1)
        .bootstrap(place())
        .create()
        .expect("a group of one")
}

/// Runs `body` as `size` ranks that are threads. A panic of one is a panic of the test.
pub fn threads(size: usize, body: impl Fn(Group) + Sync) {
    let place = place();
    let rank_main = |rank| {
        let config = config(rank, size).bootstrap(place.as_str());
        body(config.create().expect("a group"));
    };
    std::thread::scope(|scope| {
        for rank in 0..size {
            let rank_main = &rank_main;
            scope.spawn(move || rank_main(rank));
        }
    });
}

/// Requires that a call failed with this status, and that its message contains these words.
pub fn refused<T: std::fmt::Debug>(result: symm::Result<T>, status: symm::Status, words: &str) {
    let error = result.expect_err("it is refused");
    assert!(
        error.status == status && error.message.contains(words),
        "{error}"
    );
}
