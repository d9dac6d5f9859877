//! Buffers, memories and heaps.

use crate::ranks::{alone, refused, threads};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use symm::symm_sys as sys;
use symm::{AllocConfig, Backend, Group, Op, RendezvousOptions, Status, Timeout};

fn left(group: &Group) -> usize {
    (group.rank() + group.size() - 1) % group.size()
}

fn right(group: &Group) -> usize {
    (group.rank() + 1) % group.size()
}

#[test]
fn a_buffer_is_zero_and_can_be_borrowed() {
    let mut buffer = alone().alloc::<i64>(1000).expect("a block");
    assert_eq!(buffer.len(), 1000);
    assert_eq!(buffer.as_ptr() as usize % 4096, 0);
    assert_eq!(buffer.as_slice().expect("on the host"), [0; 1000]);

    buffer.as_mut_slice().expect("on the host")[999] = -2;
    let bytes = buffer.cast::<u8>();
    assert_eq!(bytes.len(), 8000);
    assert_eq!(bytes.as_slice().expect("on the host")[7992], 0xfe);
}

#[test]
fn a_callback_is_asked_before_an_allocation_fails() {
    const TOO_MUCH: usize = 1 << 50; // no machine has so many bytes
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let listener = symm::on_memory_pressure(move |backend, device, bytes| {
        assert_eq!((backend, device), (Backend::Host, 0));
        if bytes == TOO_MUCH as u64 {
            count.fetch_add(1, Ordering::Relaxed);
        }
        0
    })
    .expect("a listener");
    let panics = symm::on_memory_pressure(|_, _, _| panic!("no cache")).expect("a listener");

    let group = alone();
    refused(group.alloc::<u8>(TOO_MUCH), Status::OutOfMemory, "");
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    drop(listener);
    drop(panics);
    refused(group.alloc::<u8>(TOO_MUCH), Status::OutOfMemory, "");
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[test]
fn a_length_that_cannot_be_is_refused() {
    let group = alone();
    refused(group.alloc::<f32>(0), Status::InvalidArgument, "bytes");
    refused(group.alloc::<f64>(usize::MAX), Status::InvalidArgument, "");
}

#[test]
fn memory_of_the_host_can_be_asked_for() {
    let group = alone();
    let mut buffer = group
        .alloc_on_host::<u32>(100, None)
        .expect("all memory is the host's");
    buffer.as_mut_slice().expect("on the host")[99] = 3;

    match group.alloc_on_host::<u32>(100, Some(0)) {
        Ok(mut on_node) => on_node.as_mut_slice().expect("on the host")[99] = 4,
        Err(error) => {
            assert_eq!(error.status, Status::Unavailable, "{error}");
            assert!(error.message.contains("mbind"), "{error}");
        }
    }
    for node in [65534, u16::MAX] {
        let buffer = group.alloc_on_host::<u32>(100, Some(node));
        refused(buffer, Status::InvalidArgument, &node.to_string());
    }

    let info = symm::device_info(symm::Backend::Host, 0).expect("it is there");
    assert!(info.host_memory.is_ok());
    assert!(info.numa_node.is_none());
}

#[test]
fn memory_of_the_host_has_no_dmabuf() {
    let buffer = alone().alloc::<u32>(100).expect("a block");
    let whole = buffer.export_dmabuf(0, 400);
    refused(whole, Status::Unavailable, "DMA-BUF");
    let odd = buffer.export_dmabuf(4, 4);
    refused(odd, Status::InvalidArgument, "offset");
}

#[test]
fn memory_of_the_host_cannot_be_adopted_by_its_address() {
    let own = [0_u32; 4];
    // SAFETY: it is refused.
    let adopted = unsafe { alone().adopt(own.as_ptr(), own.len()) };
    refused(adopted, Status::Unsupported, "pointer");
}

/// That every block is seen everywhere is in the table of behaviours.
#[test]
fn views_load_and_store() {
    threads(3, |group| {
        let mut buffer = group.alloc::<f32>(100).expect("a block");
        buffer
            .as_mut_slice()
            .expect("on the host")
            .fill(group.rank() as f32 + 0.5);
        let memory = group.rendezvous(buffer).expect("all come");
        let there = memory.view(right(&group)).expect("it is mapped");
        let before = [right(&group) as f32 + 0.5; 100];
        assert_eq!(there.to_vec(), before, "written before the rendezvous");

        group.barrier().expect("all come");
        there.store_release(99, group.rank() as f32);
        group.barrier().expect("all come");
        let here = memory.view(group.rank()).expect("it is mapped");
        assert_eq!(here.load_acquire(99), left(&group) as f32);
        // SAFETY: nobody writes any more.
        let own = unsafe { memory.local() }.expect("on the host");
        assert_eq!(own[99], left(&group) as f32);

        refused(memory.view(3), Status::InvalidArgument, "3");

        let blocks = memory.pointer_table().expect("on the host");
        let pads = memory.signal_pad_table().expect("on the host");
        for rank in 0..group.size() {
            // SAFETY: both tables have an entry for each rank, and the memory is alive.
            let (block, pad) = unsafe { (*blocks.add(rank), *pads.add(rank)) };
            assert_eq!(block.cast(), memory.pointer(rank).expect("it is mapped"));
            assert_eq!(pad, memory.signal_pad(rank).expect("it is mapped"));
        }
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
fn a_place_out_of_range_is_refused() {
    threads(2, |group| {
        let memory = group.memory::<u32>(16).expect("a block each");
        let refused = |result, words| refused::<()>(result, Status::InvalidArgument, words);
        refused(memory.put(usize::MAX, 0, &[1]), "rank");
        refused(
            memory.put(0, usize::MAX, &[1]),
            "more than can be addressed",
        );
        group.barrier().expect("no harm was done");
    });
}

#[test]
fn a_span_lies_within_its_block() {
    let memory = alone().memory::<u32>(16).expect("a block");
    assert_eq!(memory.span(..).expect("all").len(), 16);
    assert!(memory.span(3..17).is_err());
    assert!(memory.span(5..=16).is_err());
    #[allow(clippy::reversed_empty_ranges)]
    let backwards = memory.span(5..4);
    assert!(backwards.is_err());
}

#[test]
fn an_address_is_found() {
    threads(2, |group| {
        let memory = group.memory::<f64>(100).expect("a block each");
        let address = memory.pointer(left(&group)).expect("mapped");
        let found = group
            .find(address.wrapping_add(12))
            .expect("a look-up")
            .expect("it lies in a block");
        assert_eq!(found.memory.id(), memory.id());
        assert_eq!(found.rank, left(&group));
        assert_eq!(found.offset, 96);
        assert_eq!(found.memory.cast::<f64>().len(), 100);
        let again = found
            .memory
            .rendezvous_on(&group, &RendezvousOptions::new());
        let again = again.expect("its block has met");
        assert_eq!(again.as_raw(), memory.as_raw());

        let address = memory.pointer(group.rank()).expect("its own");
        let (info, offset) = symm::find_buffer(address.wrapping_add(1))
            .expect("a look-up")
            .expect("its own");
        assert_eq!(info.bytes, 800);
        assert_eq!(info.memories, 1);
        assert_eq!(offset, 8);

        assert!(!memory.signal_pad(0).expect("a pad").is_null());
        group.barrier().expect("all come");
    });
}

#[test]
fn what_is_made_of_a_group_tells_the_group() {
    let group = alone();
    let buffer = group.alloc::<u32>(100).expect("a block");
    assert_eq!(buffer.group().as_raw(), group.as_raw());
    let heap = group.heap(1 << 16).expect("a heap");
    assert_eq!(heap.group().as_raw(), group.as_raw());

    let memory = group.rendezvous(buffer).expect("alone");
    let info = memory.buffer_info().expect("it is alive");
    assert_eq!(info.bytes, 400);
    assert_eq!(info.memories, 1);
    refused(memory.export_dmabuf(0, 400), Status::Unavailable, "DMA-BUF");

    let mut of_c = ptr::null_mut();
    // SAFETY: the memory is alive, and the call gives one reference, which is released.
    unsafe {
        let api = sys::api().expect("a library");
        let status = api.symm_memory_group(memory.as_raw(), &mut of_c);
        assert_eq!(status, Ok(sys::SYMM_OK));
        api.symm_group_release(of_c).expect("it is there");
    }
    assert_eq!(memory.group().as_raw(), of_c);
    assert_eq!(of_c, group.as_raw());
}

#[test]
fn a_deadline_of_zero_looks_once() {
    threads(2, |group| {
        let memory = group.memory::<u32>(4).expect("a block each");
        let zero = Duration::ZERO;
        let hasty = memory.with_timeout(zero);
        let start = Instant::now();
        refused(
            memory.wait_signal_for(left(&group), 0, zero),
            Status::Timeout,
            "no signal",
        );
        refused(
            hasty.wait_signal(left(&group), 0),
            Status::Timeout,
            "no signal",
        );
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "the group's is 60 s"
        );

        // A rank on another machine would have to act for this call.
        refused(
            hasty.signal(right(&group), 0),
            Status::InvalidArgument,
            "timeout",
        );
        group.barrier().expect("both have looked");
        memory.signal(right(&group), 0).expect("it is there");
        group.barrier().expect("all come");
        hasty.wait_signal(left(&group), 0).expect("it has come");
        memory
            .with_timeout(None)
            .wait_signal_for(left(&group), 0, Some(Duration::from_millis(1)))
            .expect_err("there is no other");
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
    let info = group.info().expect("it is alive");
    assert_eq!(info.multicast, Err(why.clone()));
    refused(memory.multicast_pointer(), Status::Unavailable, &why);
}

#[test]
fn one_block_is_in_two_groups() {
    threads(4, |group| {
        let memory = group.memory::<i32>(8).expect("a block each");
        let half = group
            .split(Some((group.rank() % 2) as u32), 0)
            .expect("all split")
            .expect("it has a color");
        let options = RendezvousOptions::new().tag(1).channels(2);
        let again = memory.rendezvous_on(&half, &options).expect("both come");
        assert_eq!(again.channels(), 2);
        assert_eq!(again.size(), 2);
        assert_eq!(again.rank(), half.rank());

        drop(memory);
        let there = again.view(1 - half.rank()).expect("mapped");
        there.store(3, group.rank() as i32);
        half.barrier().expect("both come");
        let here = again.view(half.rank()).expect("mapped");
        assert_eq!(here.load(3), (group.rank() as i32 + 2) % 4);
        half.barrier().expect("both come");
    });
}

#[test]
fn handles_may_be_dropped_in_any_order() {
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
fn pieces_have_equal_offsets_on_all_ranks() {
    threads(3, |group| {
        let config = AllocConfig::new().name("pieces");
        let heap = group
            .heap_with(1 << 20, &config, Timeout::default())
            .expect("a heap");
        let first = heap.alloc::<u8>(100).expect("room");
        let second = heap.alloc_aligned::<f64>(1000, 4096).expect("room");
        assert_eq!(first.offset(), 0);
        assert_eq!(second.offset(), 512);
        assert_eq!(second.len(), 1000);

        drop(second);
        assert_eq!(heap.alloc::<i8>(1000).expect("room").offset(), 256);
    });
}

#[test]
fn pieces_are_symmetric_memory() {
    threads(3, |group| {
        let right = right(&group);
        let left = left(&group);
        let heap = group.heap(1 << 20).expect("a heap");
        let mut piece = heap.alloc::<f64>(1000).expect("room");

        // SAFETY: nobody else uses it before the barrier.
        let own = unsafe { piece.local_mut() }.expect("on the host");
        own.fill(group.rank() as f64);
        group.barrier().expect("all ranks");
        assert_eq!(piece.view(right).expect("a rank").load(999), right as f64);

        group.barrier().expect("all ranks");
        group
            .allreduce_in_place(&mut piece.span(..).expect("all of it"), Op::Sum)
            .expect("a sum");
        piece.put(right, &[group.rank() as f64]).expect("room");
        piece.memory().signal(right, 1).expect("a rank");
        piece.memory().wait_signal(left, 1).expect("a signal");
        let mut seen = [0.0; 2];
        piece.get(group.rank(), &mut seen).expect("room");
        assert_eq!(seen, [left as f64, 3.0]);

        let long = vec![0.0; 1001];
        refused(
            piece.put(right, &long),
            Status::InvalidArgument,
            "more than",
        );
        group.barrier().expect("all ranks");
    });
}

#[test]
fn a_piece_keeps_its_heap() {
    let heap = alone().heap(10_000).expect("a heap");
    let piece = heap.alloc::<i32>(1000).expect("room");
    let info = heap.info().expect("it is open");
    assert_eq!(info.bytes, 10_240);
    assert_eq!(info.free_pieces, 1);

    let memory = heap.memory::<i32>();
    drop(heap);
    memory
        .fill(0, piece.offset(), 7, piece.len())
        .expect("a piece keeps its heap");
    // SAFETY: the group has one rank.
    let elements = unsafe { piece.local() }.expect("on the host");
    assert_eq!(elements[999], 7);
}

#[cfg(feature = "allocator-api2")]
mod containers {
    use super::*;
    use allocator_api2::{alloc::Allocator, boxed::Box, vec::Vec};
    use std::alloc::Layout;
    use symm::{Heap, HeapAllocator};

    fn heap_and_allocator(group: &Group) -> (Heap, HeapAllocator) {
        let heap = group.heap(1 << 16).expect("a heap");
        // SAFETY: ranks write to their own containers only.
        let own = unsafe { heap.allocator() }.expect("on the host");
        (heap, own)
    }

    #[test]
    fn contents_are_symmetric_operands() {
        threads(2, |group| {
            let (heap, own) = heap_and_allocator(&group);
            let mut sum = Vec::with_capacity_in(10, own.clone());
            let boxed = Box::new_in(5_u64, own.clone());
            sum.extend((0..100).map(|i| (i * (group.rank() + 1)) as f32));
            let found = heap.find(&sum[99]).expect("a look-up");
            assert_eq!(found, Some((512, 4 * sum.capacity())), "behind the box");

            group
                .allreduce_in_place(&mut sum[..], Op::Sum)
                .expect("a sum");
            assert_eq!(sum[99], 297.0);
            assert_eq!(*boxed, 5);
        });
    }

    #[test]
    fn containers_give_their_pieces_back() {
        let (heap, own) = heap_and_allocator(&alone());
        let info = || heap.info().expect("it is open");
        let mut numbers = Vec::with_capacity_in(10, own.clone());
        numbers.push(1.0_f32);
        let boxed = Box::new_in(5_u64, own.clone());
        assert_eq!(info().pieces, 2);

        let too_many = numbers.try_reserve(1 << 16);
        assert!(too_many.is_err());
        let misaligned = own.allocate(Layout::from_size_align(8, 1 << 40).unwrap());
        assert!(misaligned.is_err());

        drop((numbers, boxed));
        assert_eq!(info().pieces, 0);
    }

    #[test]
    fn no_elements_take_no_piece() {
        let (heap, own) = heap_and_allocator(&alone());
        let calls = || heap.info().expect("it is open").calls;
        let before = calls();

        drop(Vec::<f32, _>::new_in(own.clone()));
        let nothing = Layout::from_size_align(0, 64).unwrap();
        let place = own.allocate(nothing).expect("no bytes can always be had");
        // SAFETY: as it was allocated.
        unsafe { own.deallocate(place.cast(), nothing) };
        assert_eq!(calls(), before);
    }

    #[test]
    fn a_container_keeps_its_heap() {
        let (heap, own) = heap_and_allocator(&alone());
        let kept = Box::new_in(1_u8, own);
        drop(heap);
        assert_eq!(*kept, 1);
    }
}
