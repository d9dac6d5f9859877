// SPDX-License-Identifier: Apache-2.0
//! Strings to and from C.

use crate::error::{Error, Result};
use std::ffi::{CStr, CString, c_char};

/// A C string, or an error that names the argument.
pub(crate) fn to_c(name: &str, text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::argument(format!("{name} contains a NUL character")))
}

/// The text in a fixed array of a struct.
pub(crate) fn from_array(array: &[c_char]) -> String {
    let bytes: Vec<u8> =
        array.iter().map(|c| u8::from_ne_bytes(c.to_ne_bytes())).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A static string of the library.
///
/// # Safety
/// `text` is NULL or a C string that lives for ever.
pub(crate) unsafe fn from_static(text: *const c_char) -> &'static str {
    if text.is_null() {
        return "";
    }
    // SAFETY: by contract.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("")
}
