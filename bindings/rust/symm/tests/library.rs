//! The library's version, devices and log, and the errors of calls without a library.

mod ranks;

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use symm::{Backend, LogLevel, Status, TopologyClass};

#[test]
fn the_library_has_a_version() {
    let version = symm::version().expect("there is a library");
    assert_eq!(version.major, symm::symm_sys::SYMM_VERSION_MAJOR);
    let info = symm::build_info().expect("there is a library");
    assert!(info.contains(&version.to_string()), "{info}");
}

#[test]
fn the_host_is_a_device() {
    assert_eq!(symm::device_count(Backend::Host).expect("a host"), 1);
    let info = symm::device_info(Backend::Host, 0).expect("a host");
    assert_eq!(info.backend, Backend::Host);
    assert!(info.memory_bytes > 0, "{info:?}");
    assert!(info.compute_units > 0, "{info:?}");
    assert!(info.multicast.is_err_and(|reason| !reason.is_empty()));

    let topology = symm::topology(Backend::Host).expect("a host");
    let classes = [TopologyClass::FullyConnected, TopologyClass::Other];
    assert!(classes.contains(&topology.class), "{topology:?}");
    assert_eq!(topology.links, [[0]]);
}

#[test]
fn a_back_end_that_is_missing_has_a_reason() {
    if let Err(error) = symm::device_count(Backend::Cuda) {
        assert_eq!(error.status, Status::Unavailable, "{error}");
        assert!(!error.message.is_empty());
    }
}

fn abort_as_two_ranks(reason: &str) {
    ranks::threads(2, |group| group.abort(reason).expect("abort"));
}

#[test]
fn listeners_hear_messages_until_they_are_dropped() {
    static HEARD: Mutex<Vec<(LogLevel, String)>> = Mutex::new(Vec::new());
    let heard = || HEARD.lock().unwrap().len();

    let callback = symm::log_to(LogLevel::Debug, |level, message| {
        HEARD.lock().unwrap().push((level, message.to_owned()));
        panic!("a panic in a callback ends there");
    });
    let callback = callback.expect("a listener");
    let (mut lines, end) = UnixStream::pair().expect("two ends");
    let descriptor = symm::log_to_fd(LogLevel::Warning, end).expect("a listener");

    abort_as_two_ranks("the log is to hear of it");
    drop(callback);
    drop(descriptor);

    let mut text = String::new();
    lines
        .read_to_string(&mut text)
        .expect("its end, since nobody has the other");
    assert!(text.starts_with("warning: "), "{text}");
    assert!(text.contains("the log is to hear of it"), "{text}");
    assert!(
        HEARD
            .lock()
            .unwrap()
            .iter()
            .any(|(_, message)| message.contains("the log is to hear of it"))
    );

    let before = heard();
    abort_as_two_ranks("the log is not to hear of it");
    assert_eq!(heard(), before);
}

#[test]
fn an_unknown_level_is_refused() {
    let error = symm::log_to(LogLevel::Unknown(77), |_, _| ())
        .err()
        .expect("there is no such level");
    assert_eq!(error.status, Status::Unsupported, "{error}");
}

/// Not a test, but a program of its own, in which no other thread reads variables.
#[test]
#[ignore = "started by the test below"]
fn change_variables() {
    let flags = |at_load: bool| {
        let config = symm::GroupConfig::new()
            .ranks(0, 1)
            .backend(Backend::Host)
            .bootstrap("thread://variables")
            .variables_at_load(at_load);
        let info = config.create().and_then(|group| group.info());
        info.expect("it is alone").flags
    };
    let before = flags(true);
    // SAFETY: this is the only thread.
    unsafe { std::env::set_var("SYMM_ORDER", "any") };
    assert_eq!(flags(true), before);
    let any_order = symm::symm_sys::SYMM_GROUP_ANY_ORDER;
    assert_eq!(flags(false), before | any_order);
    println!("both kinds of group");
}

#[test]
fn a_group_takes_the_variables_at_load_where_it_is_asked_to() {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", "change_variables", "--ignored", "--nocapture"])
        .env_remove("SYMM_ORDER");
    let output = command.output().expect("it starts");
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(said.contains("both kinds of group"), "{said}");
}

/// The output of this program when it is started with another library.
fn asked(library: &Path) -> String {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", "answer", "--ignored", "--nocapture"])
        .env("SYMM_LIB", library);
    String::from_utf8(command.output().expect("it starts").stdout).expect("UTF-8")
}

/// Not a test, but the program of the processes that asked() starts.
#[test]
#[ignore = "started by the tests beside it"]
fn answer() {
    println!("{:?}", symm::version());
    println!("{:?}", symm::Group::from_env());
    println!("{:?}", symm::log_to(LogLevel::Error, |_, _| ()).err());
    let found = symm::find_buffer(&0_u8);
    println!("{found:?}");
    if let Err(e) = found {
        println!("{:?}", (e.rank, e.pid, e.os_error, e.cuda_result));
    }
}

#[cfg(not(feature = "link"))]
#[test]
fn without_the_library_calls_say_so() {
    let said = asked(Path::new("/nowhere/libsymm.so"));
    assert_eq!(
        said.matches("(unavailable: cannot load libsymm").count(),
        4,
        "{said}"
    );
    assert_eq!(said.matches("/nowhere/libsymm.so").count(), 4 * 2, "{said}");
}

/// Builds a library of this name and source.
#[cfg(not(feature = "link"))]
fn library(name: &str, text: &str) -> std::path::PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    let source = folder.join("source.rs");
    let library = folder.join("libsymm.so.0");
    std::fs::write(&source, text).expect("a file");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let built = Command::new(rustc)
        .args(["--edition=2024", "--crate-type=cdylib", "-o"])
        .args([&library, &source])
        .status();
    assert!(built.expect("rustc").success());
    library
}

#[cfg(not(feature = "link"))]
#[test]
fn an_older_library_says_what_it_lacks() {
    let older = "#[unsafe(no_mangle)] pub extern \"C\" fn symm_version() -> u32 { 0x1001 }";
    let said = asked(&library("older", older));
    for line in [
        "Ok(Version { major: 0, minor: 1, patch: 1 })",
        "libsymm 0.1.1 has no function symm_group_create, which these bindings (0.2.0) call",
        "libsymm 0.1.1 has no function symm_log_add_listener, which these bindings (0.2.0) call",
    ] {
        assert!(said.contains(line), "{said}");
    }
}

/// The library of this test knows nothing of the last failure of a thread.
#[cfg(not(feature = "link"))]
#[test]
fn an_error_is_the_failure_of_that_very_call() {
    let failing = r#"
        #[repr(C)]
        pub struct Failure {
            bytes: usize, status: i32, rank: i32, pid: i64, of: [i32; 2], text: [u8; 1024],
        }
        #[repr(C)]
        pub struct Options { bytes: usize, timeout_ms: u64, failure: *mut Failure }
        #[unsafe(no_mangle)]
        pub extern "C" fn symm_version() -> u32 { 0x2000 }
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn symm_buffer_find(
            _: usize, options: &Options, _: usize, _: usize,
        ) -> i32 {
            let failure = unsafe { &mut *options.failure };
            assert_eq!(failure.bytes, size_of::<Failure>());
            failure.status = -10;
            failure.rank = 3;
            failure.pid = 5;
            failure.of = [7, 0];
            failure.text[..9].copy_from_slice(b"of a call");
            failure.text[9] = 0;
            -10
        }
    "#;
    let said = asked(&library("failing", failing));
    for line in [
        "Err(system call failed: of a call)",
        "(Some(3), Some(5), Some(7), None)",
    ] {
        assert!(said.contains(line), "{said}");
    }
}

/// Log messages as tracing events.
#[cfg(feature = "tracing")]
mod events {
    use super::*;
    use std::fmt::Debug;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    static HEARD: Mutex<Vec<(Level, String)>> = Mutex::new(Vec::new());

    /// Keeps the events of this crate, which has no spans.
    struct Listener;

    impl Subscriber for Listener {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "symm"
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            event.record(&mut Message(*event.metadata().level()));
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    struct Message(Level);

    impl Visit for Message {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            if field.name() == "message" {
                HEARD.lock().unwrap().push((self.0, format!("{value:?}")));
            }
        }
    }

    #[test]
    fn messages_become_events() {
        tracing::subscriber::set_global_default(Listener).expect("there is no other");
        let listener = symm::log_to_tracing(LogLevel::Debug).expect("a listener");
        abort_as_two_ranks("tracing is to hear of it");
        drop(listener);

        let heard = HEARD.lock().unwrap();
        let found = heard
            .iter()
            .find(|(_, message)| message.contains("tracing is to hear of it"));
        assert!(
            found.is_some_and(|(level, _)| *level <= Level::DEBUG),
            "{heard:?}"
        );
    }
}
