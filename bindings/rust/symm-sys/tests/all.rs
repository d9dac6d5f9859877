//! Finding the library: the places, the functions that it must have, and the errors.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use symm_sys::{Api, LoadError, SYMM_VERSION};

/// The library at hand has every function of the header that these bindings were made from.
#[test]
fn the_library_has_every_function() {
    let api = symm_sys::api().unwrap_or_else(|error| panic!("{error}"));
    assert!(Api::NAMES.len() > 40, "the table is not empty");
    assert_eq!(api.missing().collect::<Vec<_>>(), Vec::<&str>::new());
    // SAFETY: the string is static and never NULL.
    let info = unsafe { CStr::from_ptr(api.symm_build_info().expect("it is there")) };
    assert!(info.to_str().expect("UTF-8").contains("\"version\""));
}

fn open(path: &Path) -> Result<Api, LoadError> {
    // SAFETY: the libraries of these tests have the signatures of symm.h, and no initialisers, or
    // initialisers that ran before (libc).
    unsafe { Api::open(path) }
}

#[test]
fn another_library_is_refused() {
    let error = open(Path::new("libc.so.6"))
        .err()
        .expect("it has no symm_version()");
    let LoadError::NotSymm { missing, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(missing.name, "symm_version");
    assert_eq!(missing.version, 0);
    assert!(error.to_string().contains("is not libsymm"), "{error}");
}

#[test]
fn another_major_version_is_refused() {
    let scratch = Scratch::new("major");
    let error = open(&scratch.versioned("libsymm.so.9", 9 << 24 | 2 << 12 | 1))
        .err()
        .expect("it is version 9");
    let LoadError::Version { found, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(*found, 0x0900_2001);
    assert!(error.to_string().contains("is libsymm 9.2.1"), "{error}");
}

#[test]
fn a_missing_function_is_an_error_when_it_is_called() {
    let scratch = Scratch::new("symbol");
    let older = SYMM_VERSION - (1 << 12);
    let api = open(&scratch.versioned("libsymm.so.0", older)).expect("it has this major version");

    // SAFETY: none of these functions has preconditions.
    unsafe {
        assert_eq!(api.symm_version(), Ok(older));

        let missing = api
            .symm_build_info()
            .expect_err("the library has no such function");
        assert_eq!(missing.name, "symm_build_info");
        assert_eq!(missing.version, older);
        let message = "the loaded libsymm 0.1.0 has no function symm_build_info, \
                       which these bindings (0.2.0) call";
        assert_eq!(missing.to_string(), message);

        // A release returns no status, but a missing one must not end the process.
        assert!(api.symm_group_release(std::ptr::null_mut()).is_err());
    }
}

/// The places where the library is looked for. Each case is a process of its own, because a process
/// looks once.
#[cfg(not(feature = "link"))]
mod search {
    use super::*;

    /// The answer of `api()` in a process started as `executable`, with `SYMM_LIB` as given.
    fn asked(executable: &Path, symm_lib: Option<&Path>) -> String {
        let mut command = Command::new(executable);
        command.args(["--exact", "search::answer", "--nocapture", "--ignored"]);
        command.env_remove("SYMM_LIB").env_remove("LD_LIBRARY_PATH");
        command.envs(symm_lib.map(|path| ("SYMM_LIB", path)));
        let output = command.output().expect("the test can start itself");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Not a test, but the program of the processes that asked() starts.
    #[test]
    #[ignore = "started by the tests beside it"]
    fn answer() {
        match symm_sys::api() {
            Ok(_) => println!("loaded"),
            Err(error) => println!("{error}"),
        }
    }

    fn this() -> PathBuf {
        std::env::current_exe().expect("the path of this test")
    }

    /// Copies by another process: a descriptor that this process opens for writing is inherited by
    /// every process that is started meanwhile, and a file that is open for writing cannot be
    /// started.
    fn copy_of_this(to: &Path) {
        let done = Command::new("cp").arg(this()).arg(to).status().expect("cp");
        assert!(done.success(), "no copy of this program");
    }

    #[test]
    fn symm_lib_is_the_only_place_when_it_is_set() {
        let answer = asked(&this(), Some(Path::new("/nowhere/libsymm.so")));
        assert!(
            answer.contains("cannot load libsymm from /nowhere/libsymm.so")
                && answer.contains("No such file"),
            "{answer}"
        );

        let scratch = Scratch::new("set");
        let library = scratch.versioned("any.so", SYMM_VERSION);
        let answer = asked(&this(), Some(&library));
        assert!(answer.contains("loaded"), "{answer}");
    }

    #[test]
    fn then_beside_the_executable_and_in_lib() {
        let scratch = Scratch::new("beside");
        let executable = scratch.0.join("bin/program");
        std::fs::create_dir(scratch.0.join("bin")).expect("a directory");
        copy_of_this(&executable);

        scratch.versioned("lib/libsymm.so.0", 7 << 24);
        let answer = asked(&executable, None);
        assert!(
            answer.contains("lib/libsymm.so.0 is libsymm 7.0.0"),
            "{answer}"
        );

        scratch.versioned("bin/libsymm.so", 8 << 24);
        let answer = asked(&executable, Some(Path::new("")));
        assert!(
            answer.contains("bin/libsymm.so is libsymm 8.0.0"),
            "{answer}"
        );
    }

    #[test]
    fn then_the_system() {
        let scratch = Scratch::new("system");
        let executable = scratch.0.join("program");
        copy_of_this(&executable);
        let answer = asked(&executable, None);
        assert!(
            answer.contains("loaded") || answer.contains("cannot load libsymm from libsymm.so.0"),
            "{answer}"
        );
    }
}

/// An empty directory, in which tiny libraries are built.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::remove_dir_all(&path).ok();
        std::fs::create_dir_all(&path).expect("a scratch directory");
        Self(path)
    }

    /// A shared library with nothing but `symm_version()`.
    fn versioned(&self, name: &str, version: u32) -> PathBuf {
        let file = self.0.join("source.rs");
        let library = self.0.join(name);
        std::fs::create_dir_all(library.parent().expect("a name below the directory"))
            .expect("a directory");

        let source = format!(
            "#[unsafe(no_mangle)] pub extern \"C\" fn symm_version() -> u32 {{ {version} }}"
        );
        std::fs::write(&file, source).expect("the source");

        let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
        let mut command = Command::new(rustc);
        command
            .args([
                "--edition=2024",
                "--crate-type=cdylib",
                "--crate-name=tiny",
                "-o",
            ])
            .args([&library, &file]);
        assert!(command.status().expect("rustc").success());
        library
    }
}
