//! Pieces at the same offsets on all ranks.

use crate::ranks::{refused, threads};
use symm::{AllocConfig, Op, Status, Timeout};

#[test]
fn pieces_of_all_ranks() {
    threads(3, |group| {
        let heap = group.heap_with(1 << 20, &AllocConfig::new().name("pieces"), Timeout::default()).expect("a heap");
        let (right, left) = ((group.rank() + 1) % 3, (group.rank() + 2) % 3);
        let first = heap.alloc::<u8>(100).expect("room");
        let mut second = heap.alloc_aligned::<f64>(1000, 4096).expect("room");
        assert_eq!((first.offset(), second.offset(), second.len()), (0, 512, 1000));
        // SAFETY: nobody else uses it before the barrier.
        unsafe { second.local_mut() }.expect("on the host").fill(group.rank() as f64);
        group.barrier().expect("all ranks");
        assert_eq!(second.view(right).expect("a rank").load(999), right as f64);
        group.barrier().expect("all ranks");
        group.allreduce_in_place(&mut second.span(..).expect("all of it"), Op::Sum).expect("a sum");
        second.put(right, &[group.rank() as f64]).expect("room");
        second.memory().signal(right, 1).expect("a rank");
        second.memory().wait_signal(left, 1).expect("a signal");
        let mut seen = [0.0; 2];
        second.get(group.rank(), &mut seen).expect("room");
        assert_eq!(seen, [left as f64, 3.0]);
        refused(second.put(right, &vec![0.0; 1001]), Status::InvalidArgument, "more than");
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
        assert_eq!((info.bytes, info.used_bytes, info.pieces, info.free_pieces), (10_240, 4096, 1, 1));
        let memory = heap.memory::<i32>();
        drop(heap);
        memory.fill(0, piece.offset(), 7, piece.len()).expect("a piece keeps its heap");
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
        assert_eq!(heap.find(&sum[99]).expect("a look"), Some((512, 4 * sum.capacity())), "behind the box");
        group.allreduce_in_place(&mut sum[..], Op::Sum).expect("a sum");
        assert_eq!((sum[99], *boxed), (297.0, 5));
        assert!(sum.try_reserve(1 << 16).is_err() && own.allocate(Layout::from_size_align(8, 1 << 40).unwrap()).is_err());
        let info = heap.info().expect("it is open");
        drop(Vec::<f32, _>::new_in(own.clone()));
        let nothing = own.allocate(Layout::from_size_align(0, 64).unwrap()).expect("nothing can always be had");
        // SAFETY: as it was allocated.
        unsafe { own.deallocate(nothing.cast(), Layout::from_size_align(0, 64).unwrap()) };
        assert_eq!((info.pieces, heap.info().expect("it is open").calls), (2, info.calls));
        drop((sum, boxed));
        assert_eq!(heap.info().expect("it is open").pieces, 0);
        let kept = Box::new_in(1_u8, own);
        drop(heap);
        assert_eq!(*kept, 1, "a container keeps its heap");
    });
}
