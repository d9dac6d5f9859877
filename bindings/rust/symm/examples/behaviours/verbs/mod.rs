//! The verbs of the table but for collectives.

mod exchanges;
mod groups;
mod heaps;
mod memories;
mod messages;
mod pieces;
mod sharing;
mod signals;

use crate::Verb;

macro_rules! verbs {
    ($name:expr; $($module:ident: $($verb:ident)*;)*) => {
        match $name {
            $($(stringify!($verb) => Some($module::$verb),)*)*
            _ => None,
        }
    };
}

/// The function of a verb.
pub fn find(name: &str) -> Option<Verb> {
    verbs! {
        name;
        groups: create make_id create_by_id split local create_from_ranks shrink finalize abort;
        groups: invite join grow keep_spares;
        groups: expect_group expect_peer expect_calls expect_cuda expect_status expect_failed;
        groups: expect_advice barrier batch die;
        groups: synchronize stream_wait expect_stream_done record_use;
        memories: alloc rendezvous move_memory release expect_memory expect_buffer expect_node;
        memories: find write expect put get;
        memories: suspend resume expect_suspended write_buffer expect_buffer_bytes;
        pieces: put_pieces get_pieces;
        memories: fill8 fill16 fill64 atomic32 atomic64 read_value32 read_value64;
        memories: fill32 write_value32 write_value64 wait_value32 wait_value64;
        messages: send recv messages start_recv wait_request;
        exchanges: exchange start_round finish_round neighbor_alltoallv;
        heaps: heap move_heap take give expect_piece expect_heap;
        signals: signal wait_signal test_signal put_signal put_signal_value;
        signals: signal_value wait_signal_value wait_signals test_signal_value;
        sharing: export import withdraw expect_import expect_holders;
        sharing: suspend_import resume_import expect_asleep;
        sharing: put_import get_import signal_import wait_token fence;
        sharing: export_bundle import_bundle expect_bundle publish lookup withdraw_version;
    }
}
