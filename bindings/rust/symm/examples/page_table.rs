//! Rank 0 hands the pages of a sequence over to rank 1, as an inference engine does with the cache
//! of keys and values of a request that goes on elsewhere. Each rank has a table of its own that
//! says where pages of the sequence lie among its pages. Started by: symm run -n 2 -- page_table

use symm::{Group, Memory, Pieces, Result};

/// Elements of a page.
const PAGE: usize = 1024;
/// Pages of a rank's cache, whatever sequences they belong to.
const PAGES: usize = 256;
/// Pages of the sequence.
const LENGTH: usize = 100;

// Channels.
const TABLE: usize = 0;
const ARRIVED: usize = 1;

/// Where the pages of the sequence lie on a rank: nowhere in order, and elsewhere on each rank.
fn table_of(rank: usize) -> Vec<u64> {
    let step = [37, 101][rank];
    (0..LENGTH)
        .map(|page| ((page * step + rank) % PAGES) as u64)
        .collect()
}

fn value(page: usize, element: usize) -> f32 {
    (page * PAGE + element) as f32
}

/// Sends the pages that `mine` names to where the receiver wants them, in one call.
fn hand_over(group: &Group, cache: &Memory<f32>, mine: &[u64]) -> Result<()> {
    let own = cache.view(0)?;
    for (page, &place) in mine.iter().enumerate() {
        for element in 0..PAGE {
            own.store(place as usize * PAGE + element, value(page, element));
        }
    }

    let mut theirs = vec![0; LENGTH];
    group.recv(1, &mut theirs, TABLE)?;
    let pages = Pieces::pages(PAGE, mine, &theirs)?.with_signal(ARRIVED);
    cache.put_pieces(1, 0, &cache.span(..)?, &pages)
}

/// Says where the pages shall go, waits for all of them, and counts those that are right.
fn take_over(group: &Group, cache: &Memory<f32>, mine: &[u64]) -> Result<usize> {
    group.send(0, mine, TABLE)?;
    cache.wait_signal(0, ARRIVED)?;

    let own = cache.view(1)?;
    let is_right = |page: usize| {
        let first = mine[page] as usize * PAGE;
        (0..PAGE).all(|element| own.load(first + element) == value(page, element))
    };
    Ok((0..LENGTH).filter(|&page| is_right(page)).count())
}

fn main() -> Result<()> {
    let group = Group::from_env()?;
    assert_eq!(group.size(), 2, "this program is for two ranks");
    let cache = group.memory::<f32>(PAGES * PAGE)?;
    let mine = table_of(group.rank());

    if group.rank() == 0 {
        hand_over(&group, &cache, &mine)?;
    } else {
        let right = take_over(&group, &cache, &mine)?;
        println!("{right} of {LENGTH} pages are where the table of rank 1 wants them");
    }
    group.finalize()
}
