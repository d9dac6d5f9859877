//! Ranks for tests: threads of this process, or programs.
#![allow(dead_code)] // each test program uses its part

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use symm::{Backend, Group, GroupConfig};

/// Long enough for a busy machine, short enough to see what hangs.
const PATIENCE: Duration = Duration::from_secs(60);

fn config(rank: usize, size: usize) -> GroupConfig {
    GroupConfig::new().ranks(rank, size).backend(Backend::Host).create_timeout(PATIENCE).timeout(PATIENCE)
}

/// A name that no other test has.
pub fn unique(name: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{name}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Runs `body` as `size` ranks that are threads. A panic of one is a panic of the test.
pub fn threads(size: usize, body: impl Fn(Group) + Sync) {
    let place = format!("thread://{}", unique("test"));
    std::thread::scope(|scope| {
        let (place, body) = (&place, &body);
        for rank in 0..size {
            scope.spawn(move || body(config(rank, size).bootstrap(place.as_str()).create().expect("a group")));
        }
    });
}

/// It failed so, and said these words.
pub fn refused<T: std::fmt::Debug>(result: symm::Result<T>, status: symm::Status, words: &str) {
    let error = result.expect_err("it is refused");
    assert!(error.status == status && error.message.contains(words), "{error}");
}

/// Waits for ranks, ends those that take too long, and panics with what they said unless all ended right.
pub fn wait(mut ranks: Vec<Child>, right: impl Fn(usize, ExitStatus) -> bool) -> Vec<String> {
    let deadline = Instant::now() + 2 * PATIENCE;
    while Instant::now() < deadline && ranks.iter_mut().any(|rank| rank.try_wait().expect("a child").is_none()) {
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut said = Vec::new();
    let mut wrong = Vec::new();
    for (rank, mut child) in ranks.into_iter().enumerate() {
        child.kill().ok(); // has ended, or takes too long
        let output = child.wait_with_output().expect("what it said");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        if !right(rank, output.status) {
            wrong.push(format!("rank {rank} ended with {}:\n{text}", output.status));
        }
        said.push(text);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    said
}

/// Ends this process as a crash would: nothing is dropped, nobody is told.
pub fn die() -> ! {
    const SIGKILL: i32 = 9;
    unsafe extern "C" {
        fn raise(signal: i32) -> i32;
    }
    // SAFETY: it does not return.
    unsafe { raise(SIGKILL) };
    unreachable!("SIGKILL cannot be survived")
}

/// Whether a process ended by [`die`].
pub fn died(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    status.signal() == Some(9)
}

/// A private directory that goes away.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new(name: &str) -> Self {
        use std::os::unix::fs::DirBuilderExt;
        let path = std::env::temp_dir().join(unique(&format!("symm-rust-{name}")));
        std::fs::DirBuilder::new().mode(0o700).create(&path).expect("a directory");
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// An example, which cargo builds along with the tests.
pub fn example(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("this program");
    let path = this.parent().and_then(|deps| deps.parent()).expect("target/<profile>").join("examples").join(name);
    assert!(path.is_file(), "{} is not there: build the examples", path.display());
    path
}

/// Starts `size` ranks of a program as the launcher would.
pub fn launch(program: &Path, size: usize, directory: &Directory, arguments: &[&str]) -> Vec<Child> {
    let one = |rank: usize| {
        let mut command = Command::new(program);
        command.args(arguments).env("SYMM_RANK", rank.to_string()).env("SYMM_SIZE", size.to_string());
        command.env("SYMM_BOOTSTRAP", format!("dir://{}", directory.0.display()));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a process")
    };
    (0..size).map(one).collect()
}
