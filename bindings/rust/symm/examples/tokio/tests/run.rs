//! The example, started by the launcher, hears of signals and of the rank that died.

use std::process::Command;

#[test]
fn two_ranks_hear_of_the_third() {
    let tool = std::env::var_os("SYMM_TOOL").unwrap_or_else(|| "symm".into());
    let output = Command::new(tool)
        .args(["run", "-n", "3", "--timeout", "120", "--grace", "60"])
        .args(["--no-prefix", "--", env!("CARGO_BIN_EXE_symm-tokio")])
        .output()
        .expect("symm run, by $SYMM_TOOL");

    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    for rank in 0..3 {
        let line = format!("rank {rank}: a signal, Ok(())\n");
        assert!(said.contains(&line), "{said}{errors}");
    }
    for rank in [0, 2] {
        let start = format!("rank {rank}: ");
        let mut lines = said.lines().filter_map(|line| line.strip_prefix(&start));
        assert!(lines.any(|line| line.contains("rank 1")), "{said}{errors}");
    }
}
