//! Sharing memory by tokens.

use crate::ranks::{alone, refused};
use std::time::Duration;
use symm::ipc::{
    ExportOptions, Import, ImportOptions, NamedPiece, Token, collect, holders, import,
    import_bundle, lookup, publish, stats, withdraw_version,
};
use symm::{Compare, Op, Status, Stream, Timeout};

#[test]
fn an_import_is_the_memory_of_the_exporter() {
    let mut buffer = alone().alloc::<f32>(1000).expect("a block");
    buffer.as_mut_slice().expect("on the host")[300] = 1.5;
    let shared = buffer.share();
    let part = shared.span(300..400).expect("within");
    let token = part.export().expect("a token");

    let piece: Import<f32> = import(&token).expect("it is there");
    assert_eq!(piece.len(), 100);
    let view = piece.view().expect("on the host");
    assert_eq!(view.load(0), 1.5);
    view.store(99, -2.0);
    assert_eq!(shared.view().expect("on the host").load(399), -2.0);

    let info = piece.info().expect("alive");
    assert_eq!(info.bytes, 400);
    assert_eq!(info.offset, 1200);
    assert_eq!(info.block_bytes, 4000);
    assert!(info.exporter_alive);
    assert_eq!(info.exporter_pid, i64::from(std::process::id()));

    drop(shared);
    // SAFETY: nobody writes to the piece.
    let elements = unsafe { piece.local() }.expect("on the host");
    assert_eq!(elements[0], 1.5, "imports outlive the block's owner");
}

#[test]
fn an_import_is_an_operand_and_can_be_exported() {
    let group = alone();
    let mut buffer = group.alloc::<f32>(100).expect("a block");
    buffer.as_mut_slice().expect("on the host")[99] = -2.0;
    let shared = buffer.share();
    let token = shared.span(..).expect("all").export().expect("a token");
    let piece: Import<f32> = import(&token).expect("it is there");

    let mut sum = vec![0.0f32; 100];
    group
        .allreduce(&piece.span(..).expect("all"), &mut sum, Op::Sum)
        .expect("a sum of one");
    assert_eq!(sum[99], -2.0);

    let part = piece.span(..2).expect("within");
    let token = part.export().expect("a token");
    let again: Import<u8> = import(&token).expect("it is there");
    assert_eq!(again.len(), 8);
}

#[test]
fn a_shared_block_comes_back_when_nobody_holds_it() {
    let shared = alone().alloc::<u32>(64).expect("a block").share();
    let token = shared.span(..).expect("all").export().expect("a token");
    let piece: Import<u32> = import(&token).expect("it is there");

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
}

#[test]
fn a_part_of_a_block_can_be_withdrawn() {
    let shared = alone().alloc::<u32>(64).expect("a block").share();
    let part = shared.span(1..2).expect("within");
    let token = part.export().expect("a token");
    symm::ipc::withdraw(&part, Timeout::Group).expect("nobody holds it");
    assert!(import::<u32>(&token).is_err());
}

#[test]
fn leases_are_counted() {
    let shared = alone().alloc::<u32>(64).expect("a block").share();
    let token = shared.span(..).expect("all").export().expect("a token");
    let piece: Import<u32> = import(&token).expect("it is there");

    let held = holders(&shared.span(..1).expect("within")).expect("its own");
    assert_eq!(held.leases, 1);
    assert_eq!(held.processes, 1);
    assert_eq!(held.quarantined, 0);

    // Other tests share memory at this time.
    assert!(stats().expect("a library").leases >= 1);
    assert!(collect().expect("a library").limbo_blocks < 10);

    let none = Stream::none();
    piece.order(&none).expect("the host has no streams");
    piece.record_use(&none).expect("the host has no streams");
}

#[test]
fn a_token_does_not_go_to_logs() {
    let shared = alone().alloc::<u64>(64).expect("a block").share();
    let token = shared.span(..).expect("all").export().expect("a token");
    assert!(!format!("{token:?}").contains(", "), "{token:?}");
}

#[test]
fn a_token_travels_as_bytes() {
    let shared = alone().alloc::<u64>(64).expect("a block").share();
    let token = shared.span(..).expect("all").export().expect("a token");
    assert_eq!(token.as_ref(), token.as_bytes());

    let bytes = Vec::from(token);
    let whole: Import<u64> = import(&bytes.clone().into()).expect("it is there");
    assert_eq!(whole.len(), 64);

    let refused = |bytes: &[u8]| {
        let token = Token::from(bytes.to_owned());
        refused(import::<u64>(&token), Status::InvalidArgument, "");
    };
    refused(&[]);
    refused(&[7; 100]);
    refused(&bytes[..bytes.len() - 1]);
    let mut forged = bytes;
    forged[20] ^= 1;
    assert!(import::<u64>(&forged.into()).is_err());
}

#[test]
fn no_elements_can_be_shared() {
    let shared = alone().alloc::<u64>(64).expect("a block").share();
    let none = shared.span(5..5).expect("within");
    let token = none.export().expect("a token");
    let import: Import<u64> = import(&token).expect("of no elements");
    assert!(import.is_empty());
    // SAFETY: there is nothing to write to.
    let elements = unsafe { import.local() }.expect("on the host");
    assert!(elements.is_empty());
}

#[test]
fn a_directory_that_cannot_be_is_refused() {
    let shared = alone().alloc::<u64>(64).expect("a block").share();
    let token = shared.span(..).expect("all").export().expect("a token");
    let elsewhere = ImportOptions::new().directory("/nowhere\0");
    refused(
        elsewhere.import::<u8>(&token),
        Status::InvalidArgument,
        "NUL",
    );
}

#[test]
fn a_piece_must_begin_where_an_element_can() {
    let bytes = alone().alloc::<u8>(64).expect("a block").share();
    let odd = bytes.span(3..20).expect("within");
    let token = odd.export().expect("a token");
    refused(import::<u64>(&token), Status::InvalidArgument, "byte 3");
    let import = import::<u8>(&token).expect("bytes can be anywhere");
    assert_eq!(import.len(), 17);
}

#[test]
fn a_hold_of_no_time_is_none() {
    let shared = alone().alloc::<u32>(64).expect("a block").share();
    let all = shared.span(..).expect("all");
    let none = ExportOptions::new().hold(Duration::ZERO);
    none.export(&all).expect("a token");
    // What nobody holds, no number of imports can end.
    refused(
        none.hold_imports(1).export(&all),
        Status::InvalidArgument,
        "hold_imports",
    );
}

#[test]
fn a_hold_keeps_memory_for_as_many_imports() {
    let mut buffer = alone().alloc::<u32>(64).expect("a block");
    buffer.as_mut_slice().expect("on the host")[63] = 7;
    let shared = buffer.share();
    let hold = ExportOptions::new()
        .hold(Duration::from_secs(60))
        .hold_imports(1);
    let token = hold
        .export(&shared.span(..).expect("all"))
        .expect("a token");
    drop(shared);

    let held: Import<u32> = import(&token).expect("it is held for one import");
    assert_eq!(held.view().expect("on the host").load(63), 7);
    refused(import::<u32>(&token), Status::InvalidHandle, "");
}

#[test]
fn a_bundle_is_read_by_name() {
    let mut buffer = alone().alloc::<f32>(256).expect("a block");
    for (i, element) in buffer
        .as_mut_slice()
        .expect("on the host")
        .iter_mut()
        .enumerate()
    {
        *element = i as f32;
    }
    let shared = buffer.share();
    let weight = shared.span(..64).expect("within");
    let bias = shared.span(64..80).expect("within");
    let pieces = [
        NamedPiece::new("weight", &weight)
            .expect("a name")
            .about("f32[8,8]"),
        NamedPiece::new("bias", &bias).expect("a name"),
    ];
    let token = ExportOptions::new()
        .export_bundle(&pieces)
        .expect("a token");

    let model = import_bundle(&token).expect("it is there");
    assert_eq!(model.len(), 2);
    assert_eq!(model.info().expect("alive").bytes, 320);
    assert_eq!(model.find("bias").expect("a name"), Some(1));
    assert_eq!(model.find("bia").expect("a name"), None);
    let read = model.get::<f32>("bias").expect("it has one");
    assert_eq!(
        (read.len(), read.load(15), read.name()),
        (16, 79.0, Some("bias"))
    );
    assert_eq!(model.at::<f32>(0).expect("the first").about(), b"f32[8,8]");
    // SAFETY: nobody writes to the elements.
    assert_eq!(unsafe { read.local() }.expect("on the host")[1], 65.0);
    refused(model.get::<f32>("bia"), Status::NotFound, "bia");
    refused(model.at::<f32>(2), Status::InvalidArgument, "index");
    refused(
        ExportOptions::new().export_bundle(&[pieces[0].clone(), pieces[0].clone()]),
        Status::InvalidArgument,
        "pieces[1].name",
    );

    let part = weight.export().expect("a token");
    refused(import_bundle(&part), Status::InvalidArgument, "no bundle");
    let reading = ImportOptions::new()
        .import_for_reading::<f32>(&part)
        .expect("it is there");
    assert_eq!(reading.reader().load(63), 63.0);
    assert_ne!(reading.info().expect("alive").flags, 0);
}

#[test]
fn versions_are_found_by_their_numbers() {
    let first = alone().alloc::<f32>(64).expect("a block").share();
    let second = alone().alloc::<f32>(64).expect("a block").share();
    let tokens = [&first, &second].map(|block| block.span(..).expect("all").export().expect("one"));
    let now = Duration::ZERO;
    publish("rust", 1, &tokens[0], 0).expect("published");
    publish("rust", 2, &tokens[1], 0).expect("published");
    let (version, token) = lookup("rust", Compare::Ge, 0, now).expect("it is there");
    assert_eq!((version, &token), (2, &tokens[1]));
    assert_eq!(
        lookup("rust", Compare::Lt, 2, now).expect("it is there").0,
        1
    );
    refused(lookup("rust", Compare::Gt, 2, now), Status::Timeout, "2, 1");

    let held: Import<f32> = import(&tokens[0]).expect("it is there");
    refused(
        withdraw_version("rust", 1, now),
        Status::Timeout,
        "this process",
    );
    drop(held);
    withdraw_version("rust", 1, Duration::from_secs(20)).expect("nobody holds it");
    refused(import::<f32>(&tokens[0]), Status::InvalidHandle, "");
    refused(
        withdraw_version("rust", 1, now),
        Status::InvalidArgument,
        "version",
    );
}
