// SPDX-License-Identifier: Apache-2.0
//! Generates the raw Rust layer from `symm.h`: bindgen reads the header, and its functions become a table.
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

mod comments;
mod table;
mod types;

use std::error::Error;
use std::path::Path;
use syn::visit_mut::VisitMut;

/// The header, seen from this crate.
pub const HEADER: &str = "../../../capi/include/symm/symm.h";
/// Where the generated files live, seen from this crate.
pub const OUTPUT: &str = "../symm-sys/src/generated";

/// One generated file.
pub struct File {
    /// Its name in [`OUTPUT`].
    pub name: &'static str,
    /// What belongs in it.
    pub text: String,
}

/// Everything that is generated from `header`.
pub fn generate(header: &Path) -> Result<Vec<File>, Box<dyn Error>> {
    let header = header.to_str().ok_or("the header's path is not UTF-8")?;
    let bindings = bindgen::Builder::default()
        .header(header)
        .allowlist_item("(symm|SYMM)_.*")
        .rust_target(bindgen::RustTarget::stable(85, 0).map_err(|error| error.to_string())?)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .use_core()
        .ctypes_prefix("::core::ffi")
        .prepend_enum_name(false) // the constants are called as in C
        .layout_tests(true)
        .merge_extern_blocks(true)
        .disable_header_comment()
        .formatter(bindgen::Formatter::None)
        .parse_callbacks(Box::new(comments::ToMarkdown))
        .generate()?;
    let (functions, types): (Vec<_>, Vec<_>) = syn::parse_file(&bindings.to_string())?
        .items
        .into_iter()
        .partition(|item| matches!(item, syn::Item::ForeignMod(_)));
    let functions = table::functions(functions)?;
    Ok(vec![
        file("types.rs", "Types and constants of `symm.h`.", types::polish(types)?),
        file("linked.rs", "The functions of `symm.h`, for the linker.", table::extern_block(&functions)),
        file("api.rs", "The functions of `symm.h` as a table that is filled at run time.", table::table(&functions)),
    ])
}

fn file(name: &'static str, summary: &str, items: Vec<syn::Item>) -> File {
    let mut tree = syn::File { shebang: None, attrs: Vec::new(), items };
    comments::OneLineEach.visit_file_mut(&mut tree);
    let head = format!(
        "// SPDX-License-Identifier: Apache-2.0\n// {summary}\n// Generated from symm.h by bindings/rust/generate. Do not edit.\n\n"
    );
    File { name, text: head + &prettyplease::unparse(&tree) }
}
