//! Runs tests/bindings/behaviours/table.txt as one of three ranks, through this crate. The README
//! of that directory describes the format. Anything that is not as the table says is a panic.
//!
//! Each verb of the table is a function of its name, and [`verbs::find`] lists them. Wrong calls
//! that the types of Rust make impossible are left out: [`is_impossible`] says which.

mod collectives;
mod line;
mod runner;
mod values;
mod verbs;

use line::Line;
use runner::{Gone, Runner};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use symm::{Error, Result, Status};
use values::named;

/// Number of ranks that the table is for.
const RANKS: usize = 3;

/// What a verb of the table does.
type Verb = fn(&mut Runner, &Line<'_>) -> Result<()>;

/// Runs a line, which must fail as it says, or not at all.
fn run(runner: &mut Runner, line: &Line<'_>) {
    if is_impossible(runner, line) {
        return;
    }
    match (runner.run(line), line.failure) {
        (Ok(()), None) => line.require_all_keys_used(),
        (Ok(()), Some(_)) => panic!("it succeeded"),
        (Err(error), None) => panic!("{error}"),
        (Err(error), Some(failure)) => expect_failure(line, &error, failure),
    }
}

/// Whether a line makes a wrong call that cannot be written in safe Rust: with a released handle, a
/// negative rank or channel, words at an odd offset, too many values, or a piece that is nobody's.
/// The library refuses such calls for every caller, and for each rank by itself.
fn is_impossible(runner: &Runner, line: &Line<'_>) -> bool {
    let is_gone = |key| line.has(key) && runner.find::<Gone>(line.text(key)).is_some();
    let is_negative = |key| line.get_or::<i64>(key, 0) < 0;
    let is_odd = || {
        let word = match line.verb {
            "fill32" | "atomic32" => 4,
            "fill64" | "read_value64" => 8,
            _ => 1,
        };
        word != 1 && line.get::<i64>("offset") % word != 0
    };
    // A value for an operation that has none, and a comparison for one that compares nothing.
    let is_extra = || match line.find("atomic") {
        Some("FETCH") => line.has("value"),
        Some("COMPARE_SWAP") | None => false,
        Some(_) => line.has("compared"),
    };

    line.failure.is_some()
        && (is_gone("memory")
            || is_gone("buffer")
            || is_negative("rank")
            || is_negative("channel")
            || is_odd()
            || is_extra()
            || line.verb == "give")
}

/// The failure of a line: `STATUS: words`, or `STATUS rank=N: words`. ` & ` divides words that must
/// each be in the message.
fn expect_failure(line: &Line<'_>, error: &Error, failure: &str) {
    let (status, words) = failure.split_once(": ").expect("a failure with words");
    let (status, blamed) = match status.split_once(" rank=") {
        Some((status, rank)) => (status, Some(rank)),
        None => (status, None),
    };

    let expected = named(status, Status::from_raw);
    assert_eq!(error.status, expected, "status ({error})");

    if let Some(blamed) = blamed {
        let rank = error.rank.map_or(-1, |rank| rank as i64);
        let expected: i64 = line.integer(blamed);
        assert_eq!(rank, expected, "the rank to blame ({error})");
    }

    for words in words.split(" & ") {
        let message = &error.message;
        assert!(message.contains(words), "{words:?} is not in '{message}'");
    }
}

fn main() {
    // The number of the line that is run, for the message of a panic.
    static NUMBER: AtomicUsize = AtomicUsize::new(0);

    let usage = "usage: symm run -n 3 -- behaviours table.txt";
    let rank: usize = std::env::var("SYMM_RANK")
        .ok()
        .and_then(|rank| rank.parse().ok())
        .expect(usage);
    let table = std::fs::read_to_string(std::env::args().nth(1).expect(usage)).expect("a table");
    let table: &'static str = table.leak(); // lines wait for the batch that they are in
    std::panic::set_hook(Box::new(move |what| {
        println!("table.txt:{}: rank {rank}: {what}", NUMBER.load(Relaxed))
    }));

    let mut runner = Runner::new(rank);
    let mut scenarios = 0;
    for (number, text) in table.lines().enumerate() {
        NUMBER.store(number + 1, Relaxed);
        if let Some(name) = text.strip_prefix("scenario ") {
            scenarios += 1;
            runner.begin(name).expect("a group");
        } else if !text.starts_with('#') {
            match Line::new(text, rank) {
                Some(line) if line.has("into") => runner.wait(line),
                Some(line) => run(&mut runner, &line),
                None => {}
            }
        }
    }

    assert!(scenarios > 0, "the table has no scenarios");
    println!("rank {rank}: {scenarios} scenarios");
}
