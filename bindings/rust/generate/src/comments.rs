// SPDX-License-Identifier: Apache-2.0
//! The header's comments as Markdown.

use bindgen::callbacks::ParseCallbacks;
use syn::visit_mut::VisitMut;
use syn::{Attribute, Expr, Lit, Meta, parse_quote};

/// Rewrites comments so that rustdoc shows them as they were meant.
#[derive(Debug)]
pub struct ToMarkdown;

impl ParseCallbacks for ToMarkdown {
    fn process_comment(&self, comment: &str) -> Option<String> {
        Some(markdown(comment))
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
    let Some(text) = doc(&attribute) else { return vec![attribute] };
    let spaced =
        text.lines().map(|line| if line.is_empty() { String::new() } else { format!(" {}", line.trim_start()) });
    spaced.map(|line| parse_quote!(#[doc = #line])).collect()
}

fn doc(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
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
