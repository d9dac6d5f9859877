//! The examples, started by the launcher, print what they should.

use std::process::Command;

/// The output of the ranks of an example, which cargo builds along with the tests.
fn run(name: &str, size: usize) -> String {
    let this = std::env::current_exe().expect("this program");
    let example = this
        .parent()
        .and_then(|deps| deps.parent())
        .expect("target/<profile>")
        .join("examples")
        .join(name);

    let tool = std::env::var_os("SYMM_TOOL").unwrap_or_else(|| "symm".into());
    let output = Command::new(tool)
        .args(["run", "-n", &size.to_string(), "--timeout", "120"])
        .args(["--no-prefix", "--"])
        .arg(example)
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
