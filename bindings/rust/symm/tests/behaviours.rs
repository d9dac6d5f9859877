//! The table of behaviours that the tests of all languages run.
#![cfg(feature = "half")]

mod ranks;

use ranks::{Directory, died, example, launch, wait};

#[test]
fn the_table() {
    let table = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/bindings/behaviours/table.txt");
    let place = Directory::new("behaviours");
    let started = launch(&example("behaviours"), 3, &place, &[table]);
    // The last scenario kills rank 2.
    let said = wait(started, |rank, status| if rank == 2 { died(status) } else { status.success() });
    for (rank, said) in said.iter().enumerate().take(2) {
        assert!(said.starts_with(&format!("rank {rank}: ")) && said.contains(" scenarios"), "{said}");
    }
}
