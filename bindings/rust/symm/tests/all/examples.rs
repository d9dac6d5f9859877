//! The examples, started by the launcher, print what they should.

use crate::ranks::alone;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use symm::ipc::{ExportOptions, NamedPiece, Shared, publish, withdraw_version};

/// An example, which cargo builds along with the tests.
fn example(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("this program");
    this.parent()
        .and_then(|deps| deps.parent())
        .expect("target/<profile>")
        .join("examples")
        .join(name)
}

/// The output of the ranks of an example.
fn run(name: &str, size: usize) -> String {
    let tool = std::env::var_os("SYMM_TOOL").unwrap_or_else(|| "symm".into());
    let output = Command::new(tool)
        .args(["run", "-n", &size.to_string(), "--timeout", "120"])
        .args(["--no-prefix", "--"])
        .arg(example(name))
        .output()
        .expect("symm run, by $SYMM_TOOL");

    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");
    said
}

#[test]
fn first() {
    let said = run("first", 4);
    for rank in 0..4 {
        let line = format!("rank {rank}: [6.0, 6.0, 6.0, 6.0, 6.0, 6.0, 6.0, 6.0]\n");
        assert!(said.contains(&line), "{said}");
    }
}

#[test]
fn the_readme_shows_the_first_example() {
    let readme = include_str!("../../README.md");
    let program = include_str!("../../examples/first.rs");
    assert!(
        readme.contains(&format!("```rust\n{program}```")),
        "README.md and examples/first.rs differ"
    );
    assert!(program.lines().count() <= 15);
}

#[test]
fn tensor_parallel() {
    let said = run("tensor_parallel", 3);
    for rank in 0..3 {
        assert!(said.contains(&format!("rank {rank} of 3: ")), "{said}");
    }
    assert_eq!(said.matches("as the unsplit product").count(), 3, "{said}");
}

#[test]
fn page_table() {
    let said = run("page_table", 2);
    assert_eq!(
        said,
        "100 of 100 pages are where the table of rank 1 wants them\n"
    );
}

/// Publishes a version whose arrays hold one value.
fn publish_weights(name: &str, version: u64, value: f32) -> Shared<f32> {
    let mut block = alone().alloc::<f32>(80).expect("a block");
    block.as_mut_slice().expect("on the host").fill(value);
    let shared = block.share();
    let weight = shared.span(..64).expect("within");
    let steps = shared.span(64..66).expect("within");
    let pieces = [
        NamedPiece::new("weight", &weight)
            .expect("a name")
            .about("f32[16,4]"),
        NamedPiece::new("steps", &steps)
            .expect("a name")
            .about("i64[1]"),
    ];
    let token = ExportOptions::new()
        .export_bundle(&pieces)
        .expect("a token");
    publish(name, version, &token, 0).expect("published");
    shared
}

#[test]
fn follow_weights() {
    let name = format!("weights of {}", std::process::id());
    let first = publish_weights(&name, 1, 0.5);
    let mut reader = Command::new(example("follow_weights"))
        .args([&name, "2"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the example");
    let mut lines = BufReader::new(reader.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().expect("a line").expect("text");

    assert_eq!(next(), "version 1: weight is f32[16,4], adds up to 32");
    let place = next();
    let at = place
        .strip_prefix("version 1: steps is i64[1], 8 bytes at ")
        .expect("the bytes");
    let second = publish_weights(&name, 2, 2.0);
    assert_eq!(next(), "version 2: weight is f32[16,4], adds up to 128");
    assert_eq!(
        next(),
        format!("version 2: steps is i64[1], 8 bytes at {at}")
    );

    assert!(reader.wait().expect("it ends").success());
    for version in [1, 2] {
        withdraw_version(&name, version, Duration::from_secs(20)).expect("nobody holds it");
    }
    drop((first, second));
}
