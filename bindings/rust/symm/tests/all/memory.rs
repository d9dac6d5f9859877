//! Blocks, heaps, and what can be done with them.

use crate::ranks::{alone, refused, threads};
use symm::{AllocConfig, Group, Op, Status, Timeout};

fn left(group: &Group) -> usize {
    (group.rank() + group.size() - 1) % group.size()
}

fn right(group: &Group) -> usize {
    (group.rank() + 1) % group.size()
}

#[test]
fn a_buffer_is_zero_and_ones_own() {
    threads(1, |group| {
        let mut buffer = group.alloc::<i64>(1000).expect("a block");
        assert_eq!((buffer.len(), buffer.as_ptr() as usize % 4096), (1000, 0));
        assert_eq!(buffer.as_slice().expect("on the host"), [0; 1000]);
        buffer.as_mut_slice().expect("on the host")[999] = -2;
        let bytes = buffer.cast::<u8>();
        assert_eq!(
            (bytes.len(), bytes.as_slice().expect("on the host")[7992]),
            (8000, 0xfe)
        );
        refused(group.alloc::<f32>(0), Status::InvalidArgument, "size");
        refused(group.alloc::<f64>(usize::MAX), Status::InvalidArgument, "");
    });
}

#[test]
fn other_kinds_of_memory() {
    threads(1, |group| {
        let mut buffer = group
            .alloc_on_host::<u32>(100, None)
            .expect("all memory is the host's");
        buffer.as_mut_slice().expect("on the host")[99] = 3;
        refused(buffer.export_dmabuf(0, 400), Status::Unavailable, "DMA-BUF");
        refused(
            buffer.export_dmabuf(4, 4),
            Status::InvalidArgument,
            "offset",
        );
        match group.alloc_on_host::<u32>(100, Some(0)) {
            Ok(mut on_node) => on_node.as_mut_slice().expect("on the host")[99] = 4,
            Err(error) => assert!(
                error.status == Status::Unavailable && error.message.contains("mbind"),
                "{error}"
            ),
        }
        for node in [65534, u16::MAX] {
            refused(
                group.alloc_on_host::<u32>(100, Some(node)),
                Status::InvalidArgument,
                &node.to_string(),
            );
        }
        let own = [0_u32; 4];
        // SAFETY: it is refused.
        refused(
            unsafe { group.adopt(own.as_ptr(), own.len()) },
            Status::Unsupported,
            "pointer",
        );
        let info = symm::device_info(symm::Backend::Host, 0).expect("it is there");
        assert!(info.host_memory.is_ok() && info.numa_node.is_none());
    });
}

/// That every block is seen everywhere is in the table of behaviours.
#[test]
fn what_views_load_and_store() {
    threads(3, |group| {
        let mut buffer = group.alloc::<f32>(100).expect("a block");
        buffer
            .as_mut_slice()
            .expect("on the host")
            .fill(group.rank() as f32 + 0.5);
        let memory = group.rendezvous(buffer).expect("all come");
        let there = memory.view(right(&group)).expect("it is mapped");
        assert_eq!(
            there.to_vec(),
            [right(&group) as f32 + 0.5; 100],
            "written before the rendezvous"
        );
        group.barrier().expect("all come");
        there.store_release(99, group.rank() as f32);
        group.barrier().expect("all come");
        assert_eq!(
            memory
                .view(group.rank())
                .expect("it is mapped")
                .load_acquire(99),
            left(&group) as f32
        );
        // SAFETY: nobody writes any more.
        assert_eq!(
            unsafe { memory.local() }.expect("on the host")[99],
            left(&group) as f32
        );
        refused(memory.view(3), Status::InvalidArgument, "3");
        group.barrier().expect("all come");
    });
}

#[test]
#[should_panic(expected = "element 4 of a block of 4")]
fn a_view_has_an_end() {
    let memory = alone().memory::<u64>(4).expect("a block");
    memory.view(0).expect("it is mapped").load(4);
}

#[test]
fn what_is_refused() {
    threads(2, |group| {
        let memory = group.memory::<u32>(16).expect("a block each");
        let refused = |result, words| refused::<()>(result, Status::InvalidArgument, words);
        refused(memory.put(usize::MAX, 0, &[1]), "rank");
        refused(
            memory.put(0, usize::MAX, &[1]),
            "more than can be addressed",
        );
        assert!(memory.span(3..17).is_err() && memory.span(5..=16).is_err());
        #[allow(clippy::reversed_empty_ranges)]
        let backwards = memory.span(5..4);
        assert!(backwards.is_err());
        assert_eq!(memory.span(..).expect("all").len(), 16);
        group.barrier().expect("no harm was done");
    });
}

#[test]
fn an_address_is_found() {
    threads(2, |group| {
        let memory = group.memory::<f64>(100).expect("a block each");
        let address = memory
            .pointer(left(&group))
            .expect("mapped")
            .wrapping_add(12);
        let found = group
            .find(address)
            .expect("a look-up")
            .expect("it lies in a block");
        assert_eq!(
            (found.memory.id(), found.rank, found.offset),
            (memory.id(), left(&group), 96)
        );
        assert_eq!(found.memory.cast::<f64>().len(), 100);
        assert!(
            found.memory.rendezvous_on(&group, 0).is_err(),
            "it has no buffer"
        );
        let (info, offset) = symm::find_buffer(
            memory
                .pointer(group.rank())
                .expect("its own")
                .wrapping_add(1),
        )
        .expect("a look-up")
        .expect("its own");
        assert_eq!((info.bytes, info.memories, offset), (800, 1, 8));
        assert!(!memory.signal_pad(0).expect("a pad").is_null());
        group.barrier().expect("all come");
    });
}

#[test]
fn no_multicast_on_the_host() {
    let config = symm::GroupConfig::new()
        .ranks(0, 1)
        .bootstrap("thread://multicast")
        .backend(symm::Backend::Host);
    let group = config.multicast(true).create().expect("it is alone");
    let memory = group.memory::<f32>(4).expect("a block");
    let why = memory.multicast().expect_err("the host has none");
    assert_eq!(
        group.info().expect("it is alive").multicast,
        Err(why.clone())
    );
    refused(memory.multicast_pointer(), Status::Unavailable, &why);
}

#[test]
fn one_block_in_two_groups() {
    threads(4, |group| {
        let memory = group.memory::<i32>(8).expect("a block each");
        let half = group
            .split(Some((group.rank() % 2) as u32), 0)
            .expect("all split")
            .expect("it has a color");
        let again = memory.rendezvous_on(&half, 1).expect("both come");
        assert_eq!((again.size(), again.rank()), (2, half.rank()));
        drop(memory);
        again
            .view(1 - half.rank())
            .expect("mapped")
            .store(3, group.rank() as i32);
        half.barrier().expect("both come");
        assert_eq!(
            again.view(half.rank()).expect("mapped").load(3),
            (group.rank() as i32 + 2) % 4
        );
        half.barrier().expect("both come");
    });
}

#[test]
fn handles_may_go_in_any_order() {
    threads(2, |group| {
        let mut memory = group.memory::<u8>(100).expect("a block each");
        let other = memory.clone();
        group.barrier().expect("all come");
        drop(group);
        drop(other);
        // SAFETY: nobody else touches the block.
        unsafe { memory.local_mut() }.expect("on the host")[5] = 1;
        assert_eq!(memory.view(memory.rank()).expect("mapped").load(5), 1);
    });
}

#[test]
fn pieces_of_all_ranks() {
    threads(3, |group| {
        let heap = group
            .heap_with(
                1 << 20,
                &AllocConfig::new().name("pieces"),
                Timeout::default(),
            )
            .expect("a heap");
        let (right, left) = ((group.rank() + 1) % 3, (group.rank() + 2) % 3);
        let first = heap.alloc::<u8>(100).expect("room");
        let mut second = heap.alloc_aligned::<f64>(1000, 4096).expect("room");
        assert_eq!(
            (first.offset(), second.offset(), second.len()),
            (0, 512, 1000)
        );
        // SAFETY: nobody else uses it before the barrier.
        unsafe { second.local_mut() }
            .expect("on the host")
            .fill(group.rank() as f64);
        group.barrier().expect("all ranks");
        assert_eq!(second.view(right).expect("a rank").load(999), right as f64);
        group.barrier().expect("all ranks");
        group
            .allreduce_in_place(&mut second.span(..).expect("all of it"), Op::Sum)
            .expect("a sum");
        second.put(right, &[group.rank() as f64]).expect("room");
        second.memory().signal(right, 1).expect("a rank");
        second.memory().wait_signal(left, 1).expect("a signal");
        let mut seen = [0.0; 2];
        second.get(group.rank(), &mut seen).expect("room");
        assert_eq!(seen, [left as f64, 3.0]);
        refused(
            second.put(right, &vec![0.0; 1001]),
            Status::InvalidArgument,
            "more than",
        );
        group.barrier().expect("all ranks");
        drop(second);
        assert_eq!(heap.alloc::<i8>(1000).expect("room").offset(), 256);
    });
}

#[test]
fn what_is_free_and_what_is_not() {
    threads(1, |group| {
        let heap = group.heap(10_000).expect("a heap");
        let piece = heap.alloc::<i32>(1000).expect("room");
        let info = heap.info().expect("it is open");
        assert_eq!((info.bytes, info.free_pieces), (10_240, 1));
        let memory = heap.memory::<i32>();
        drop(heap);
        memory
            .fill(0, piece.offset(), 7, piece.len())
            .expect("a piece keeps its heap");
        // SAFETY: of a group of one.
        assert_eq!(unsafe { piece.local() }.expect("on the host")[999], 7);
    });
}

#[cfg(feature = "allocator-api2")]
#[test]
fn containers() {
    use allocator_api2::{alloc::Allocator, boxed::Box, vec::Vec};
    use std::alloc::Layout;
    threads(2, |group| {
        let heap = group.heap(1 << 16).expect("a heap");
        // SAFETY: ranks write to their own containers only.
        let own = unsafe { heap.allocator() }.expect("on the host");
        let mut sum = Vec::with_capacity_in(10, own.clone());
        let boxed = Box::new_in(5_u64, own.clone());
        sum.extend((0..100).map(|i| (i * (group.rank() + 1)) as f32));
        assert_eq!(
            heap.find(&sum[99]).expect("a look"),
            Some((512, 4 * sum.capacity())),
            "behind the box"
        );
        group
            .allreduce_in_place(&mut sum[..], Op::Sum)
            .expect("a sum");
        assert_eq!((sum[99], *boxed), (297.0, 5));
        assert!(
            sum.try_reserve(1 << 16).is_err()
                && own
                    .allocate(Layout::from_size_align(8, 1 << 40).unwrap())
                    .is_err()
        );
        let info = heap.info().expect("it is open");
        drop(Vec::<f32, _>::new_in(own.clone()));
        let nothing = own
            .allocate(Layout::from_size_align(0, 64).unwrap())
            .expect("nothing can always be had");
        // SAFETY: as it was allocated.
        unsafe { own.deallocate(nothing.cast(), Layout::from_size_align(0, 64).unwrap()) };
        assert_eq!(
            (info.pieces, heap.info().expect("it is open").calls),
            (2, info.calls)
        );
        drop((sum, boxed));
        assert_eq!(heap.info().expect("it is open").pieces, 0);
        let kept = Box::new_in(1_u8, own);
        drop(heap);
        assert_eq!(*kept, 1, "a container keeps its heap");
    });
}
