//! The examples do what they say, as a launcher would start them.

use crate::ranks::{Directory, example, launch, wait};

fn run(name: &str, size: usize) -> Vec<String> {
    wait(launch(&example(name), size, &Directory::new(name), &[]), |_, status| status.success())
}

#[test]
fn first() {
    for (rank, said) in run("first", 4).iter().enumerate() {
        assert_eq!(said.trim(), format!("rank {rank}: [6.0, 6.0, 6.0, 6.0, 6.0, 6.0, 6.0, 6.0]"));
    }
}

#[test]
fn the_readme_shows_the_first_example() {
    let readme = include_str!("../../README.md");
    let program = include_str!("../../examples/first.rs");
    assert!(readme.contains(&format!("```rust\n{program}```")), "README.md and examples/first.rs differ");
    assert!(program.lines().count() <= 15);
}

#[test]
fn tensor_parallel() {
    for (rank, said) in run("tensor_parallel", 3).iter().enumerate() {
        assert!(said.contains(&format!("rank {rank} of 3")) && said.contains("as the unsplit product"), "{said}");
    }
}
