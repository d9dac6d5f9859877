//! Puts and gets of many pieces.

use crate::ranks::{alone, refused, threads};
use symm::{Compare, Pieces, Rows, SignalOp, Status};

#[test]
fn a_column_goes_to_a_row_and_back() {
    threads(2, |group| {
        let memory = group.memory::<f64>(100).expect("a memory");
        let other = 1 - group.rank();
        let matrix: Vec<f64> = (0..36).map(|i| f64::from(i) + 1.0).collect();

        let column = Rows {
            from: 2,
            to: 10,
            len: 1,
            rows: 6,
            from_stride: 6,
            to_stride: 1,
        };
        let pieces = Pieces::rows(&[column, Rows::one(30, 20, 6)])
            .expect("pieces")
            .with_signal_value(3, SignalOp::Set, 1 << 40);
        memory
            .put_pieces(other, 5, &matrix, &pieces)
            .expect("a put");
        memory
            .wait_signal_value(other, 3, Compare::Eq, 1 << 40, symm::Timeout::Group)
            .expect("the signal");

        let seen = memory.view(group.rank()).expect("a view").to_vec();
        assert_eq!(seen[15..21], [3.0, 9.0, 15.0, 21.0, 27.0, 33.0]);
        assert_eq!(seen[25..31], matrix[30..]);
        assert_eq!(seen.iter().filter(|one| **one != 0.0).count(), 12);

        let mut back = [0.0; 36];
        let turned = Rows {
            from: 0,
            to: 2,
            from_stride: 1,
            to_stride: 6,
            ..column
        };
        let pieces = Pieces::rows(&[turned]).expect("pieces").with_signal(0);
        memory
            .get_pieces(other, 15, &mut back, &pieces)
            .expect("a get");
        for (i, one) in back.iter().enumerate() {
            assert_eq!(*one, if i % 6 == 2 { matrix[i] } else { 0.0 }, "{i}");
        }
        memory.wait_signal(other, 0).expect("a signal");
    });
}

#[test]
fn pages_go_by_their_numbers() {
    let memory = alone().memory::<u16>(64).expect("a memory");
    let pages: Vec<u16> = (0..40).collect();
    let pieces = Pieces::pages(8, &[4, 1], &[0, 6]).expect("pages");
    memory.put_pieces(0, 8, &pages, &pieces).expect("a put");
    let seen = memory.view(0).expect("a view").to_vec();
    assert_eq!(seen[8..16], pages[32..]);
    assert_eq!(seen[56..], pages[8..16]);
    assert!(seen[..8].iter().chain(&seen[16..56]).all(|one| *one == 0));

    let mut first = [0; 16];
    let pieces = Pieces::pages(8, &[6, 0], &[]).expect("pages");
    memory.get_pieces(0, 8, &mut first, &pieces).expect("a get");
    assert_eq!(first[..8], pages[8..16]);
    assert_eq!(first[8..], pages[32..]);
}

#[test]
fn pieces_that_cannot_be_are_refused() {
    let memory = alone().memory::<u32>(16).expect("a memory");
    let beyond = Pieces::rows(&[Rows::one(0, 0, 4), Rows::one(5, 0, 4)]).expect("pieces");
    let put = memory.put_pieces(0, 0, &[7; 8], &beyond);
    refused(put, Status::InvalidArgument, "call.pieces[1].from");
    let put = memory.put_pieces(0, 13, &[7; 9], &beyond);
    refused(put, Status::InvalidArgument, "call.pieces[0].to");
    let mut short = [0; 3];
    let get = memory.get_pieces(0, 0, &mut short, &beyond);
    refused(get, Status::InvalidArgument, "12 bytes of destination");

    let pages = Pieces::<u32>::pages(4, &[0, 1], &[0]);
    refused(pages.map(drop), Status::InvalidArgument, "differ in length");
    let far = Pieces::<u32>::rows(&[Rows::one(usize::MAX / 2, 0, 1)]);
    refused(far.map(drop), Status::InvalidArgument, "addressed");
    assert_eq!(memory.view(0).expect("a view").to_vec(), [0; 16]);
}
