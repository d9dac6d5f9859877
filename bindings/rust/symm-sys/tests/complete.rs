//! The library at hand has every function of the header that these bindings were made from.

use std::ffi::CStr;

#[test]
fn the_library_has_every_function() {
    let api = symm_sys::api().unwrap_or_else(|error| panic!("{error}"));
    assert!(symm_sys::Api::NAMES.len() > 40, "the table is not empty");
    assert_eq!(api.missing().collect::<Vec<_>>(), Vec::<&str>::new());
    // SAFETY: the string is static and never NULL.
    let info = unsafe { CStr::from_ptr(api.symm_build_info().expect("it is there")) };
    assert!(info.to_str().expect("UTF-8").contains("\"version\""));
}
