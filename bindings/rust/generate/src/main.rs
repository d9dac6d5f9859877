//! `bindings/rust/dev generate` writes the raw Rust layer from
//! `symm.h`: bindgen reads the header, and what it says is sorted
//! into lists, which the macros of `symm-sys/src/header.rs` expand.

use bindgen::callbacks::{DeriveInfo, ParseCallbacks};
use std::error::Error;
use syn::{ForeignItem, Item, ItemConst, ItemType, Type, parse_quote};

const HEADER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../capi/include/symm/symm.h"
);
const OUTPUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../symm-sys/src/generated.rs");

const HEAD: &str = "// Types, constants and functions of `symm.h`, which says of the functions what is here in a sentence, for the macros of header.rs.
// Generated from symm.h by bindings/rust/generate. Do not edit.

use crate::MissingSymbol;
use core::ffi::{c_char, c_void};

";

/// The C preprocessor's UINT64_MAX is no literal, so bindgen does not see it.
const OF_UINT64_MAX: &str = "
/// No deadline.
pub const SYMM_TIMEOUT_INFINITE: u64 = u64::MAX;
/// Where a parameter says so, cast to a pointer: all streams.
pub const SYMM_ALL_STREAMS: u64 = u64::MAX;
/// Look once instead of waiting.
pub const SYMM_TIMEOUT_NOW: u64 = u64::MAX - 1;
";

/// Columns of its packed lines.
const WIDTH: usize = 160;

fn main() -> Result<(), Box<dyn Error>> {
    std::fs::write(OUTPUT, generate()?)?;
    println!("wrote {OUTPUT}");
    Ok(())
}

#[test]
fn the_committed_file_is_what_the_header_says() {
    let committed = std::fs::read_to_string(OUTPUT).expect(OUTPUT);
    assert!(
        committed == generate().expect(HEADER),
        "run `bindings/rust/dev generate` and commit {OUTPUT}"
    );
}

fn generate() -> Result<String, Box<dyn Error>> {
    let bindings = bindgen::Builder::default()
        .header(HEADER)
        .allowlist_item("(symm|SYMM)_.*")
        .rust_target(bindgen::RustTarget::stable(85, 0).map_err(|error| error.to_string())?)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .use_core()
        .ctypes_prefix("::core::ffi")
        .prepend_enum_name(false) // the constants are called as in C
        .layout_tests(false)
        .disable_header_comment()
        .formatter(bindgen::Formatter::None)
        .parse_callbacks(Box::new(ToMarkdown))
        .generate()?;
    let (mut types, mut constants, mut structs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut enums, mut functions) = (Vec::<Enum>::new(), String::new());
    constants.extend(syn::parse_file(OF_UINT64_MAX)?.items);
    for item in syn::parse_file(&bindings.to_string())?.items {
        match item {
            // `symm_x_values` is the enum, and `symm_x_t`
            // the integer in structs and parameters.
            Item::Type(alias) if alias.ident.to_string().ends_with("_values") => {}
            Item::Type(alias) if name(&alias.ty) == "i32" => enums.push(Enum {
                alias,
                constants: Vec::new(),
            }),
            Item::Type(_) => types.push(item),
            Item::Const(mut constant) => match name(&constant.ty).strip_suffix("_values") {
                None => constants.push(Item::Const(constant)),
                Some(stem) => match enums
                    .iter_mut()
                    .find(|one| one.alias.ident == format!("{stem}_t"))
                {
                    Some(one) => one.constants.push(constant),
                    None => {
                        *constant.ty = match stem {
                            "symm_misc" => parse_quote!(i32),
                            stem if stem.ends_with("_flag") => parse_quote!(u64),
                            _ => {
                                return Err(syn::Error::new_spanned(
                                    &constant.ident,
                                    "of no integer type",
                                )
                                .into());
                            }
                        };
                        constants.push(Item::Const(constant));
                    }
                },
            },
            Item::Struct(mut one) => {
                // Its fields are the header's to document, but
                // where the safe layer hands it out as it is.
                if !is_plain(&one.ident.to_string()) {
                    one.fields.iter_mut().for_each(|field| field.attrs.clear());
                }
                structs.push(Item::Struct(one));
            }
            Item::ForeignMod(block) => {
                for function in block.items {
                    functions += &one_line(function);
                }
            }
            other => {
                return Err(syn::Error::new_spanned(
                    other,
                    "neither a type, a constant nor a function",
                )
                .into());
            }
        }
    }
    // What all structs have is said by the macro.
    let structs = print(structs)
        .replace("#[repr(C)]\n", "")
        .replace("#[derive(Debug, Copy, Clone)]\n", "");
    let plain = |text: &str| {
        text.replace("::core::ffi::", "")
            .replace("::core::option::", "")
            .replace("usize]", "]")
    };
    let list = |name, text: String| format!("\n{name}! {{\n{}}}\n", pack(&plain(&text)));
    let text = [
        HEAD.to_owned(),
        pack(&plain(&print(types))),
        list("enums", enums.into_iter().map(Enum::print).collect()),
        list("constants", print(constants)),
        list("structs", structs.replace("Debug, Copy, Clone, ", "")),
        list("functions", functions),
    ];
    Ok(text.concat())
}

/// The name of a plain type.
fn name(ty: &Type) -> String {
    match ty {
        Type::Path(path) => path
            .path
            .get_ident()
            .map(ToString::to_string)
            .unwrap_or_default(),
        _ => String::new(),
    }
}

/// An integer type of the header, and the constants of its enum.
struct Enum {
    alias: ItemType,
    constants: Vec<ItemConst>,
}

impl Enum {
    /// `symm_op_t` and `SYMM_OP_SUM` are `Op` and `Sum` in Rust.
    fn print(self) -> String {
        let c_name = self.alias.ident.to_string();
        let stem = c_name
            .trim_start_matches("symm_")
            .trim_end_matches("_t")
            .to_owned();
        let prefix = stem.split('_').next().unwrap_or_default().to_uppercase() + "_";
        let head = print(vec![Item::Type(self.alias)]).replace(
            &format!("pub type {c_name}"),
            &format!("pub enum {}: {c_name}", camel(&stem)),
        );
        let mut out = head.replace("= i32;", "{");
        for constant in self.constants {
            let c_name = constant.ident.to_string();
            let word = c_name.trim_start_matches("SYMM_");
            let word = word
                .strip_prefix(&prefix)
                .or(word.strip_prefix("ERR_"))
                .unwrap_or(word);
            // `Unknown` is a value of a newer library.
            let word = if word == "UNKNOWN" {
                "Other".to_owned()
            } else {
                camel(word)
            };
            let text = print(vec![Item::Const(constant)]);
            let start = text.find("pub const").unwrap_or_default();
            let value = text[start..]
                .split_once("= ")
                .map_or("", |(_, value)| value.trim_end().trim_end_matches(';'));
            out += &format!("{}{word} = {c_name} = {value},\n", &text[..start]);
        }
        out + "}\n"
    }
}

fn camel(words: &str) -> String {
    words
        .split('_')
        .map(|word| word[..1].to_uppercase() + &word[1..].to_lowercase())
        .collect()
}

fn print(items: Vec<Item>) -> String {
    prettyplease::unparse(&syn::File {
        shebang: None,
        attrs: Vec::new(),
        items,
    })
}

/// As much in a line as it takes: an item begins a line,
/// its documentation stands alone, and its end ends one;
/// what is no more than a line has its documentation there.
fn pack(text: &str) -> String {
    let (mut out, mut room) = (String::new(), 0);
    let mut lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .peekable();
    while let Some(line) = lines.next() {
        let of_a_line = |next: &&str| {
            !next.ends_with('{') && !next.starts_with("#[") && !next.starts_with("pub type")
        };
        let both = line
            .strip_prefix("/// ")
            .and_then(|doc| Some(format!("#[doc = {doc:?}] {}", lines.next_if(of_a_line)?)));
        let line = both.as_deref().unwrap_or(line);
        let (alone, begins) = (
            line.starts_with("///"),
            line.ends_with('{') && !out.is_empty(),
        );
        if alone || begins || line.len() >= room {
            out += if out.is_empty() { "" } else { "\n" };
            room = WIDTH;
        } else {
            out.push(' ');
        }
        out += line;
        room = if alone || line == "}" {
            0
        } else {
            room.saturating_sub(line.len() + 1)
        };
    }
    (out + "\n")
        .replace("( ", "(")
        .replace(", )", ")")
        .replace("< unsafe", "<unsafe")
        .replace(", >", ">")
}

/// The first sentence of the function's documentation, then its declaration.
fn one_line(function: ForeignItem) -> String {
    let mut block: syn::ItemForeignMod = parse_quote!(
        unsafe extern "C" {}
    );
    block.items.push(function);
    let text = print(vec![Item::ForeignMod(block)]);
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !matches!(*line, "unsafe extern \"C\" {" | "}"));
    let (docs, declaration): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with("///"));
    format!(
        "{}\n{}\n",
        first_sentence(&docs.concat()),
        declaration.join(" ")
    )
}

/// And what follows of \[local\], \[collective\], \[blocking\]: the rest is the
/// header's and the safe layer's to say.
fn first_sentence(text: &str) -> &str {
    let mut end = text.find(". ").map_or(text.len(), |dot| dot + 1);
    while let Some(tag) = text[end..]
        .strip_prefix(" \\[")
        .and_then(|rest| rest.find(']'))
    {
        end += " \\[".len() + tag + 1;
    }
    &text[..end]
}

/// Rewrites comments so that rustdoc shows them as they were meant.
#[derive(Debug)]
struct ToMarkdown;

impl ParseCallbacks for ToMarkdown {
    /// Square brackets would be links, angle brackets tags, and an indented line would be code.
    fn process_comment(&self, comment: &str) -> Option<String> {
        let words: Vec<_> = comment.trim_start_matches('<').split_whitespace().collect();
        let text = words
            .join(" ")
            .replace('[', "\\[")
            .replace(']', "\\]")
            .replace('<', "\\<")
            .replace('*', "\\*");
        Some(format!(" {text}"))
    }

    fn add_derives(&self, info: &DeriveInfo<'_>) -> Vec<String> {
        if is_plain(info.name) {
            ["Default", "PartialEq", "Eq"].map(str::to_owned).to_vec()
        } else {
            Vec::new()
        }
    }
}

/// The structs of numbers that the safe layer hands out as they are.
fn is_plain(name: &str) -> bool {
    matches!(name, "symm_ipc_report_t" | "symm_ipc_stats_t")
}
