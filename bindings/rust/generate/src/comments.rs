//! What bindgen asks: the header's comments as Markdown, and further derives.

use bindgen::callbacks::{DeriveInfo, ParseCallbacks};

/// Rewrites comments so that rustdoc shows them as they were meant.
#[derive(Debug)]
pub struct ToMarkdown;

impl ParseCallbacks for ToMarkdown {
    fn process_comment(&self, comment: &str) -> Option<String> {
        Some(format!(" {}", markdown(comment).replace('\n', " ")))
    }

    fn add_derives(&self, info: &DeriveInfo<'_>) -> Vec<String> {
        if is_plain(info.name) { ["Default", "PartialEq", "Eq"].map(str::to_owned).to_vec() } else { Vec::new() }
    }
}

/// The structs of numbers that the safe layer hands out as they are.
pub fn is_plain(name: &str) -> bool {
    matches!(name, "symm_ipc_report_t" | "symm_ipc_stats_t")
}

/// Square brackets would be links, angle brackets tags, and an indented line would be code.
fn markdown(comment: &str) -> String {
    let text = comment.trim_start_matches('<').trim().lines().map(str::trim).collect::<Vec<_>>().join("\n");
    text.replace('[', "\\[").replace(']', "\\]").replace('<', "\\<").replace('*', "\\*")
}

#[cfg(test)]
mod tests {
    use super::markdown;

    #[test]
    fn nothing_becomes_a_link_or_code() {
        assert_eq!(markdown("[local] pad[a]\n      indented"), "\\[local\\] pad\\[a\\]\nindented");
    }
}
