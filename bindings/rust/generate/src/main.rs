//! `bindings/rust/dev generate` writes the raw Rust layer from
//! `symm.h`: bindgen reads the header, and what it says is sorted
//! into lists, which the macros of `symm-sys/src/header.rs` expand.

use bindgen::callbacks::{DeriveInfo, ParseCallbacks};
use std::error::Error;
use std::fmt::Write;
use syn::{ForeignItem, Item, ItemConst, ItemType, Type, parse_quote};

const HEADER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../capi/include/symm/symm.h"
);
const OUTPUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../symm-sys/src/generated.rs");

const HEAD: &str = "\
// Types, constants and functions of `symm.h`, which says at length what is here in a sentence, for
// the macros of header.rs. Generated from symm.h by bindings/rust/generate. Do not edit.

use crate::MissingSymbol;
use core::ffi::{c_char, c_void};

";

/// Before the names of the enumerators that stand for macros.
const MARK: &str = "rust_";

/// Columns of the lines of documentation.
const WIDTH: usize = 96;

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
    let header = std::fs::read_to_string(HEADER)?;
    let mut lists = Lists::default();
    for item in syn::parse_file(&bindings(&wide_macros(&header))?)?.items {
        lists.add(item)?;
    }
    Ok(lists.print())
}

/// Declarations of the macros of 64 bits: `UINT64_C(1)` and `UINT64_MAX` are macros with arguments
/// of C's own headers, which bindgen does not read. So each becomes an enumerator, of which the
/// compiler says the value, with the comment of the macro, and for flags the structs that they
/// belong to.
fn wide_macros(header: &str) -> String {
    let mut declarations = String::new();
    let mut structs = "";
    let mut comment = Vec::new();
    for line in header.lines() {
        if let Some(named) = line.strip_prefix("/* Flags of ") {
            structs = named
                .trim_end_matches("*/")
                .trim_end()
                .trim_end_matches('.');
        } else if line.starts_with("/**") {
            comment = vec![line];
        } else if line.starts_with(" *") {
            comment.push(line);
        } else if let Some((name, value)) = macro_of(line) {
            if value.contains("UINT64_") {
                declarations += &comment.join("\n").replace("*/", "");
                if value.contains("UINT64_C") {
                    let _ = write!(declarations, " A flag of {structs}.");
                }
                let _ = write!(declarations, " */\n{MARK}{name} = {name},\n");
            }
            comment.clear();
        }
    }
    format!("#include \"{HEADER}\"\nenum {MARK}macros {{\n{declarations}}};\n")
}

/// Name and value of a macro without arguments.
fn macro_of(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_prefix("#define ")?.split_once(' ')?;
    (!name.contains('(')).then_some((name, value))
}

/// What bindgen says of the header and of these declarations, with plain names of C's types.
fn bindings(declarations: &str) -> Result<String, Box<dyn Error>> {
    let bindings = bindgen::Builder::default()
        .header_contents("generate.h", declarations)
        .allowlist_item("(symm|SYMM|rust)_.*")
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
    Ok(bindings
        .to_string()
        .replace(":: core :: ffi ::", "")
        .replace(":: core :: option ::", ""))
}

/// The items of the header, by the macro that they are for.
#[derive(Default)]
struct Lists {
    types: Vec<Item>,
    enums: Vec<Enum>,
    constants: Vec<Item>,
    structs: Vec<Item>,
    functions: Vec<ForeignItem>,
}

impl Lists {
    fn add(&mut self, item: Item) -> syn::Result<()> {
        match item {
            // `symm_x_values` is the enum, and `symm_x_t`
            // the integer in structs and parameters.
            Item::Type(alias) if alias.ident.to_string().ends_with("_values") => {}
            Item::Type(alias) if alias.ident == format!("{MARK}macros") => {}
            Item::Type(alias) if name(&alias.ty) == "i32" => self.enums.push(Enum {
                alias,
                constants: Vec::new(),
            }),
            Item::Type(_) => self.types.push(item),
            Item::Const(constant) => self.add_constant(constant)?,
            Item::Struct(mut one) => {
                // Its fields are the header's to document, but
                // where the safe layer hands it out as it is.
                if !is_plain(&one.ident.to_string()) {
                    one.fields.iter_mut().for_each(|field| field.attrs.clear());
                }
                self.structs.push(Item::Struct(one));
            }
            Item::ForeignMod(block) => self.functions.extend(block.items),
            other => {
                let why = "neither a type, a constant nor a function";
                return Err(syn::Error::new_spanned(other, why));
            }
        }
        Ok(())
    }

    /// A constant is a value of an integer type, or a macro.
    fn add_constant(&mut self, mut constant: ItemConst) -> syn::Result<()> {
        if let Some(name) = constant.ident.to_string().strip_prefix(MARK) {
            constant.ident = syn::Ident::new(name, constant.ident.span());
            *constant.ty = parse_quote!(u64);
        }

        let type_name = name(&constant.ty);
        let Some(stem) = type_name.strip_suffix("_values") else {
            self.constants.push(Item::Const(constant));
            return Ok(());
        };

        let alias = format!("{stem}_t");
        match self.enums.iter_mut().find(|one| one.alias.ident == alias) {
            Some(one) => one.constants.push(constant),
            None => {
                let why = "of no integer type";
                return Err(syn::Error::new_spanned(&constant.ident, why));
            }
        }
        Ok(())
    }

    fn print(self) -> String {
        let enums: Vec<_> = self.enums.into_iter().map(Enum::print).collect();
        let structs: Vec<_> = self.structs.into_iter().map(print_struct).collect();
        let functions: Vec<_> = self.functions.into_iter().map(print_function).collect();
        [
            HEAD.to_owned(),
            fill_docs(&print(self.types)),
            list("enums", &enums.join("\n")),
            list("constants", &print(self.constants)),
            list("structs", &structs.join("\n")),
            list("functions", &functions.join("\n")),
        ]
        .concat()
    }
}

/// A call of the macro.
fn list(name: &str, items: &str) -> String {
    let mut indented = String::new();
    for line in items.lines() {
        if !line.is_empty() {
            indented += "    ";
            indented += line;
        }
        indented.push('\n');
    }
    format!("\n{name}! {{\n{}}}\n", fill_docs(&indented))
}

/// What all structs have is said by the macro.
fn print_struct(item: Item) -> String {
    print(vec![item])
        .replace("#[repr(C)]\n", "")
        .replace("#[derive(Debug, Copy, Clone)]\n", "")
        .replace("Debug, Copy, Clone, ", "")
        .replace("usize]", "]")
}

/// The first sentence of the function's documentation, then its declaration.
fn print_function(function: ForeignItem) -> String {
    let mut block: syn::ItemForeignMod = parse_quote!(
        unsafe extern "C" {}
    );
    block.items.push(function);
    let text = print(vec![Item::ForeignMod(block)]);
    let lines = text
        .lines()
        .filter(|line| !matches!(*line, "unsafe extern \"C\" {" | "}"))
        .map(|line| line.strip_prefix("    ").unwrap_or(line));

    let (docs, declaration): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with("///"));
    let docs = docs.concat();
    format!("{}\n{}\n", first_sentence(&docs), declaration.join("\n"))
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
        let stem = c_name.trim_start_matches("symm_").trim_end_matches("_t");
        let prefix = stem.split('_').next().unwrap_or_default().to_uppercase() + "_";

        let mut out = print(vec![Item::Type(self.alias)])
            .replace(
                &format!("pub type {c_name}"),
                &format!("pub enum {}: {c_name}", camel(stem)),
            )
            .replace("= i32;", "{");
        for constant in self.constants {
            for line in variant(&prefix, constant).lines() {
                out += &format!("    {line}\n");
            }
        }
        out + "}\n"
    }
}

/// The documentation of a constant, and its name in Rust, its name in C and its value.
fn variant(prefix: &str, constant: ItemConst) -> String {
    let c_name = constant.ident.to_string();
    let word = c_name.trim_start_matches("SYMM_");
    let word = word
        .strip_prefix(prefix)
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
    format!("{}{word} = {c_name} = {value},\n", &text[..start])
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

/// Breaks lines of documentation that are too long, but not where the next line would begin with
/// what Markdown takes for a list, a heading or a quotation.
fn fill_docs(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let (indent, doc) = line.split_at(line.len() - line.trim_start().len());
        let Some(doc) = doc.strip_prefix("/// ") else {
            out += line;
            out.push('\n');
            continue;
        };

        let lead = format!("{indent}///");
        let mut filled = lead.clone();
        for word in doc.split(' ') {
            if filled.len() + 1 + word.len() > WIDTH && filled != lead && !is_mark(word) {
                out += &filled;
                out.push('\n');
                filled = lead.clone();
            }
            filled.push(' ');
            filled += word;
        }
        out += &filled;
        out.push('\n');
    }
    out
}

fn is_mark(word: &str) -> bool {
    let number = word.trim_end_matches(['.', ')']);
    let numbered = number != word && number.chars().all(|letter| letter.is_ascii_digit());
    numbered || matches!(word.trim_end_matches('#'), "" | "-" | "+" | "*" | ">")
}

/// The first sentence and the tags behind it, such as \[local\], \[collective\], \[blocking\]: the
/// rest is the header's and the safe layer's to say.
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
            ["PartialEq", "Eq"].map(str::to_owned).to_vec()
        } else {
            Vec::new()
        }
    }
}

/// The structs of numbers that the safe layer hands out as they are.
fn is_plain(name: &str) -> bool {
    matches!(name, "symm_ipc_report_t" | "symm_ipc_stats_t")
}
