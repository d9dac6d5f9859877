//! Log messages as tracing events.
#![cfg(feature = "tracing")]

mod ranks;

use std::fmt::Debug;
use std::sync::Mutex;
use symm::LogLevel;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

static HEARD: Mutex<Vec<(Level, String)>> = Mutex::new(Vec::new());

/// Keeps events of this crate, and no spans, since it has none.
struct Ear;

impl Subscriber for Ear {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "symm"
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        event.record(&mut Message(*event.metadata().level()));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Message(Level);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            HEARD.lock().unwrap().push((self.0, format!("{value:?}")));
        }
    }
}

#[test]
fn messages_become_events() {
    tracing::subscriber::set_global_default(Ear).expect("there is no other");
    let listener = symm::log_to_tracing(LogLevel::Debug).expect("a listener");
    ranks::threads(2, |group| group.abort("tracing is to hear of it").expect("abort"));
    drop(listener);
    let heard = HEARD.lock().unwrap();
    let found = heard.iter().find(|(_, message)| message.contains("tracing is to hear of it"));
    assert!(found.is_some_and(|(level, _)| *level <= Level::DEBUG), "{heard:?}");
}
