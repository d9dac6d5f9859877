//! Sharing by tokens.

use crate::ranks::{alone, refused};
use std::time::Duration;
use symm::ipc::{Import, ImportOptions, Token, collect, holders, import, stats};
use symm::{Op, Status, Stream, Timeout};

#[test]
fn a_piece_is_the_same_memory() {
    let group = alone();
    let mut buffer = group.alloc::<f32>(1000).expect("a block");
    buffer.as_mut_slice().expect("on the host")[300] = 1.5;
    let shared = buffer.share();
    let token = shared
        .span(300..400)
        .expect("within")
        .export()
        .expect("a token");
    let piece: Import<f32> = import(&token).expect("it is there");
    assert_eq!(piece.view().expect("on the host").load(0), 1.5);
    let info = piece.info().expect("alive");
    assert_eq!(
        (
            info.bytes,
            info.offset,
            info.block_bytes,
            info.exporter_alive
        ),
        (400, 1200, 4000, true)
    );
    assert_eq!(
        (piece.len(), info.exporter_pid),
        (100, i64::from(std::process::id()))
    );
    piece.view().expect("on the host").store(99, -2.0);
    assert_eq!(shared.view().expect("on the host").load(399), -2.0);
    // It is an operand, and can be passed on.
    let mut sum = vec![0.0f32; 100];
    group
        .allreduce(&piece.span(..).expect("all"), &mut sum, Op::Sum)
        .expect("a sum of one");
    assert_eq!((sum[0], sum[99]), (1.5, -2.0));
    let again: Import<u8> =
        import(&piece.span(..2).expect("within").export().expect("a token")).expect("it is there");
    assert_eq!(again.len(), 8);
    drop(shared);
    // SAFETY: nobody writes to it.
    assert_eq!(
        unsafe { piece.local() }.expect("on the host")[0],
        1.5,
        "imports outlive the block's owner"
    );
}

#[test]
fn what_was_shared_comes_back_when_nobody_holds_it() {
    let shared = alone().alloc::<u32>(64).expect("a block").share();
    let token = shared.span(..).expect("all").export().expect("a token");
    let piece: Import<u32> = import(&token).expect("it is there");
    let held = holders(&shared.span(..1).expect("within")).expect("its own");
    assert_eq!((held.leases, held.processes, held.quarantined), (1, 1, 0));
    assert!(
        stats().expect("a library").leased >= 1
            && collect().expect("a library").blocks_in_limbo < 10
    );
    piece
        .order(&Stream::none())
        .expect("the host has no streams");
    piece
        .record_use(&Stream::none())
        .expect("the host has no streams");
    let held = shared
        .withdraw(Duration::from_millis(20))
        .expect_err("there is a lease");
    assert_eq!(held.error.status, Status::Timeout, "{held}");
    refused(import::<u32>(&token), Status::InvalidHandle, "");
    drop(piece);
    let mut buffer = held
        .shared
        .withdraw(Timeout::Group)
        .expect("nobody holds it");
    buffer.as_mut_slice().expect("on the host")[0] = 1;
    let shared = buffer.share();
    let token = shared
        .span(1..2)
        .expect("within")
        .export()
        .expect("a token");
    symm::ipc::withdraw(&shared.span(1..2).expect("within"), Timeout::Group)
        .expect("nobody holds it");
    assert!(import::<u32>(&token).is_err());
}

#[test]
fn what_is_no_token() {
    let shared = alone().alloc::<u64>(64).expect("a block").share();
    let token = shared.span(..).expect("all").export().expect("a token");
    refused(
        import::<u64>(&Token::from(vec![7; 100])),
        Status::InvalidArgument,
        "",
    );
    assert!(
        !format!("{token:?}").contains(", "),
        "its bytes do not go to logs: {token:?}"
    );
    let nothing: Import<u64> = import(
        &shared
            .span(5..5)
            .expect("within")
            .export()
            .expect("a token"),
    )
    .expect("of nothing");
    // SAFETY: there is nothing to write to.
    assert!(nothing.is_empty() && unsafe { nothing.local() }.expect("on the host").is_empty());
    let elsewhere = ImportOptions::new().directory("/nowhere\0");
    refused(
        elsewhere.import::<u8>(&token),
        Status::InvalidArgument,
        "NUL",
    );
    // A piece that begins where no u64 can.
    let bytes = alone().alloc::<u8>(64).expect("a block").share();
    let odd = bytes
        .span(3..20)
        .expect("within")
        .export()
        .expect("a token");
    refused(import::<u64>(&odd), Status::InvalidArgument, "byte 3");
    assert_eq!(import::<u8>(&odd).expect("bytes can be anywhere").len(), 17);
}
