//! The programs hear of signals, of the rank that died and of their clients, in tokio.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

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
        let line = format!("rank {rank}: the sum is [3, 3, 3, 3]\n");
        assert!(said.contains(&line), "{said}{errors}");
    }
    for rank in [0, 2] {
        let start = format!("rank {rank}: ");
        let mut lines = said.lines().filter_map(|line| line.strip_prefix(&start));
        assert!(lines.any(|line| line.contains("rank 1")), "{said}{errors}");
    }
}

#[test]
fn clients_map_the_memory_of_a_server() {
    let program = env!("CARGO_BIN_EXE_serve");
    let socket = std::env::temp_dir().join(format!("symm-serve-{}", std::process::id()));
    let mut server = Command::new(program)
        .args([socket.as_os_str(), "2".as_ref()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut said = BufReader::new(server.stdout.take().expect("a pipe")).lines();
    let mut next = || said.next().expect("a line").expect("UTF-8");
    assert_eq!(next(), "ready");

    for _ in 0..2 {
        let client = Command::new(program).arg(&socket).output();
        let client = client.expect("it starts");
        let line = String::from_utf8_lossy(&client.stdout);
        assert_eq!(line, "fetched, 1.5\n", "{client:?}");
    }
    assert_eq!(next(), "served, 2.5", "what the clients have stored");
    assert!(server.wait().expect("it ends").success());
    std::fs::remove_file(&socket).expect("the socket");
}
