//! Where the library is sought. Each case is a process of its own, since a process searches once.
#![cfg(not(feature = "link"))]

mod library;

use library::Scratch;
use std::path::Path;
use std::process::Command;

/// What `api()` says in a process started as `executable`, with `SYMM_LIB` as given.
fn asked(executable: &Path, symm_lib: Option<&Path>) -> String {
    let mut command = Command::new(executable);
    command.args(["--exact", "answer", "--nocapture", "--ignored"]);
    command.env_remove("SYMM_LIB").env_remove("LD_LIBRARY_PATH");
    command.envs(symm_lib.map(|path| ("SYMM_LIB", path)));
    let output = command.output().expect("the test can start itself");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Not a test: what the processes above run.
#[test]
#[ignore = "started by the tests beside it"]
fn answer() {
    match symm_sys::api() {
        Ok(_) => println!("loaded"),
        Err(error) => println!("{error}"),
    }
}

fn this() -> std::path::PathBuf {
    std::env::current_exe().expect("the path of this test")
}

/// By another process: a file that this one writes goes into whatever is started beside it, and cannot be started meanwhile.
fn copy_of_this(to: &Path) {
    let done = Command::new("cp").arg(this()).arg(to).status().expect("cp");
    assert!(done.success(), "no copy of this program");
}

#[test]
fn symm_lib_is_the_only_place_when_it_is_set() {
    let answer = asked(&this(), Some(Path::new("/nowhere/libsymm.so")));
    assert!(answer.contains("cannot load libsymm from /nowhere/libsymm.so"), "{answer}");
    let scratch = Scratch::new("set");
    let library = scratch.versioned("any.so", symm_sys::SYMM_VERSION);
    let answer = asked(&this(), Some(&library));
    assert!(answer.contains("loaded"), "{answer}");
}

#[test]
fn then_beside_the_executable_and_in_lib() {
    let scratch = Scratch::new("beside");
    let executable = scratch.path().join("bin/program");
    std::fs::create_dir(scratch.path().join("bin")).expect("a directory");
    copy_of_this(&executable);
    scratch.versioned("lib/libsymm.so.0", 7 << 16);
    let answer = asked(&executable, None);
    assert!(answer.contains("lib/libsymm.so.0 is libsymm 7.0.0"), "{answer}");
    scratch.versioned("bin/libsymm.so", 8 << 16);
    let answer = asked(&executable, Some(Path::new("")));
    assert!(answer.contains("bin/libsymm.so is libsymm 8.0.0"), "{answer}");
}

#[test]
fn then_the_system() {
    let scratch = Scratch::new("system");
    let executable = scratch.path().join("program");
    copy_of_this(&executable);
    let answer = asked(&executable, None);
    assert!(answer.contains("loaded") || answer.contains("cannot load libsymm from libsymm.so.0"), "{answer}");
}
