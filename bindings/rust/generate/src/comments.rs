// SPDX-License-Identifier: Apache-2.0
//! What bindgen asks: the header's comments as Markdown, and further derives.

use bindgen::callbacks::{DeriveInfo, ParseCallbacks};
use syn::visit_mut::VisitMut;
use syn::{Attribute, Expr, ExprLit, Lit, Meta, MetaNameValue, parse_quote};

/// Rewrites comments so that rustdoc shows them as they were meant.
#[derive(Debug)]
pub struct ToMarkdown;

impl ParseCallbacks for ToMarkdown {
    fn process_comment(&self, comment: &str) -> Option<String> {
        Some(markdown(comment))
    }

    /// The structs of numbers that the safe layer hands out as they are.
    fn add_derives(&self, info: &DeriveInfo<'_>) -> Vec<String> {
        let plain = matches!(info.name, "symm_ipc_report_t" | "symm_ipc_stats_t");
        if plain { ["Default", "PartialEq", "Eq"].map(str::to_owned).to_vec() } else { Vec::new() }
    }
}

/// Square brackets would be links, angle brackets tags, and an indented line would be code.
fn markdown(comment: &str) -> String {
    let mut out = String::new();
    for line in comment.trim_start_matches('<').lines().map(str::trim) {
        let line = line.replace('[', "\\[").replace(']', "\\]").replace('<', "\\<").replace('*', "\\*");
        if let Some(parameter) = line.strip_prefix("@param") {
            let parameter = parameter.trim_start_matches("\\[out\\]").trim_start_matches("\\[in,out\\]").trim();
            let (name, text) = parameter.split_once(' ').unwrap_or((parameter, ""));
            out += if out.contains("* `") { "" } else { "\n" };
            out += &format!("* `{name}`: {}", text.trim());
        } else if let Some(text) = line.strip_prefix("@return") {
            out += &format!("\nReturns {}", text.trim());
        } else {
            out += &line;
        }
        out.push('\n');
    }
    out.trim().to_owned()
}

/// One `///` for each line, as a person would write it.
pub struct OneLineEach;

impl VisitMut for OneLineEach {
    fn visit_attributes_mut(&mut self, attributes: &mut Vec<Attribute>) {
        *attributes = attributes.drain(..).flat_map(split).collect();
    }
}

fn split(attribute: Attribute) -> Vec<Attribute> {
    match &attribute.meta {
        Meta::NameValue(MetaNameValue { value: Expr::Lit(ExprLit { lit: Lit::Str(text), .. }), .. }) => {
            let spaced = |line: &str| if line.is_empty() { String::new() } else { format!(" {}", line.trim_start()) };
            text.value().lines().map(spaced).map(|line| parse_quote!(#[doc = #line])).collect()
        }
        _ => vec![attribute],
    }
}

#[cfg(test)]
mod tests {
    use super::markdown;

    #[test]
    fn nothing_becomes_a_link_or_code() {
        assert_eq!(markdown("[local] pad[a]\n      indented"), "\\[local\\] pad\\[a\\]\nindented");
    }

    #[test]
    fn parameters_and_results_are_lists_and_paragraphs() {
        assert_eq!(markdown("Do.\n@param[out] out  one.\n@return X."), "Do.\n\n* `out`: one.\n\nReturns X.");
    }
}
