// SPDX-License-Identifier: Apache-2.0
//! Runs tests/bindings/behaviours/table.txt as one of three ranks, through this crate; that directory's README says how. Where the
//! types of Rust make a wrong call impossible, the call goes through the raw layer: `raw.rs`.

mod collective;
mod data;
mod element;
mod line;
mod raw;
mod runner;
mod things;

use line::Line;
use runner::Runner;
use std::process::ExitCode;

/// What went wrong with a line: the call, or what it was expected to do.
enum Wrong {
    Call(symm::Error),
    Here(String),
}

type Outcome<T = ()> = Result<T, Wrong>;

impl From<symm::Error> for Wrong {
    fn from(error: symm::Error) -> Self {
        Self::Call(error)
    }
}
impl From<String> for Wrong {
    fn from(text: String) -> Self {
        Self::Here(text)
    }
}

/// Runs a line, which must fail as it says, or not at all.
fn run(runner: &mut Runner, line: &Line) -> Result<(), String> {
    let outcome = runner.run(line);
    match (&line.failure, outcome) {
        (None, Ok(())) => line.require_all_used(),
        (Some(_), Ok(())) => Err("it succeeded".into()),
        (_, Err(Wrong::Here(text))) => Err(text),
        (None, Err(Wrong::Call(error))) => Err(error.to_string()),
        (Some((status, words)), Err(Wrong::Call(error))) => {
            let expected = line::constant("STATUS", status)?;
            if error.status.as_raw() != expected {
                return Err(format!("status is {:?}, not {status} ({})", error.status, error.message));
            }
            match words.iter().find(|words| !error.message.contains(*words)) {
                Some(words) => Err(format!("'{words}' is not in '{}'", error.message)),
                None => Ok(()),
            }
        }
    }
}

fn table(path: &str, rank: usize) -> Result<usize, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let mut runner = Runner::new(rank);
    let mut scenarios = 0;
    for (number, text) in text.lines().enumerate() {
        let done = if let Some(name) = text.strip_prefix("scenario ") {
            scenarios += 1;
            runner.begin(name).map_err(|error| error.to_string())
        } else if text.is_empty() || text.starts_with('#') {
            Ok(())
        } else {
            Line::new(text, rank).and_then(|line| if line.mine { run(&mut runner, &line) } else { Ok(()) })
        };
        done.map_err(|what| format!("table.txt:{}: rank {rank}: {what}", number + 1))?;
    }
    Ok(scenarios)
}

fn main() -> ExitCode {
    let rank = std::env::var("SYMM_RANK").ok().and_then(|rank| rank.parse().ok());
    let (Some(rank), Some(path)) = (rank, std::env::args().nth(1)) else {
        eprintln!("usage: symm run -n 3 -- behaviours table.txt");
        return ExitCode::from(2);
    };
    match table(&path, rank) {
        Ok(scenarios) => {
            println!("rank {rank}: {scenarios} scenarios");
            if scenarios > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(what) => {
            println!("{what}");
            ExitCode::FAILURE
        }
    }
}
