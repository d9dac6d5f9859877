//! What is missing is an error value.

mod library;

use library::Scratch;
use std::path::Path;
use symm_sys::{Api, LoadError, MissingSymbol, SYMM_VERSION};

fn open(path: &Path) -> Result<Api, LoadError> {
    // SAFETY: the libraries of these tests have no initialisers, and the signatures of symm.h.
    unsafe { Api::open(path) }
}

#[test]
fn a_missing_library_is_an_error_that_names_it() {
    let error = open(Path::new("/nowhere/libsymm.so")).err().expect("there is no such file");
    assert!(matches!(error, LoadError::Open { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("/nowhere/libsymm.so") && text.contains("No such file"), "{text}");
}

#[test]
fn another_library_is_refused() {
    let scratch = Scratch::new("another");
    let path = scratch.library("libother.so", "pub extern \"C\" fn something() {}");
    let error = open(&path).err().expect("it has no symm_version()");
    assert!(matches!(error, LoadError::NotSymm { missing: MissingSymbol { name: "symm_version" }, .. }), "{error:?}");
    assert!(error.to_string().contains("is not libsymm"), "{error}");
}

#[test]
fn another_major_version_is_refused() {
    let scratch = Scratch::new("major");
    let error = open(&scratch.versioned("libsymm.so.9", 9 << 16 | 2 << 8 | 1)).err().expect("it is version 9");
    assert!(matches!(error, LoadError::Version { found: 0x0009_0201, .. }), "{error:?}");
    assert!(error.to_string().contains("is libsymm 9.2.1"), "{error}");
}

#[test]
fn a_missing_function_is_an_error_when_it_is_called() {
    let scratch = Scratch::new("symbol");
    let api = open(&scratch.versioned("libsymm.so.0", SYMM_VERSION)).expect("it is new enough");
    // SAFETY: neither function has preconditions.
    unsafe {
        assert_eq!(api.symm_version(), Ok(SYMM_VERSION));
        let missing = api.symm_build_info().expect_err("the library has no such function");
        assert_eq!(missing.name, "symm_build_info");
        assert!(missing.to_string().contains("no function symm_build_info"), "{missing}");
        // A release has nothing to say, but must not end the process either.
        assert!(api.symm_group_release(std::ptr::null_mut()).is_err());
    }
}
