//! What the documentation leads to is there: the file and the heading of a link, and a source file that is named.

use std::collections::{BTreeMap, BTreeSet};

use crate::Finding;
use crate::tree::{File, has_source_ending};

/// What runs left tells of the tree as it was then.
const HISTORY: &str = "bench/runs";

/// Links of `pages` to a file that is not there, or to a heading that a page does not have.
pub fn dead(pages: &[File], exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let headings: BTreeMap<&str, BTreeSet<String>> =
        pages.iter().map(|page| (page.path.as_str(), anchors(&page.text))).collect();
    let advice = |page: &File, link: &str| {
        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        let target = if path.is_empty() { page.path.clone() } else { beside(&page.path, path) };
        if !exists(&target) {
            return Some(format!("a link leads to {target}, which is not there: name what has taken its place"));
        }
        let has_anchor = anchor.is_empty() || headings.get(target.as_str()).is_none_or(|known| known.contains(anchor));
        (!has_anchor).then(|| format!("{target} has no heading #{anchor}: name one that it has"))
    };
    let of_page = |page: &File| -> Vec<Finding> {
        let links = prose(&page.text).flat_map(|(number, line)| links(line).map(move |link| (number, link.to_owned())));
        links.filter_map(|(number, link)| Some(Finding::at_line(&page.path, number, advice(page, &link)?))).collect()
    };
    pages.iter().flat_map(of_page).collect()
}

/// Source files that `pages` name, by the whole path or the end of it, and that are none of `files`.
pub fn unknown_files(pages: &[File], files: &[File]) -> Vec<Finding> {
    let is_known = |name: &str| files.iter().any(|file| file.path == name || file.path.ends_with(&format!("/{name}")));
    let of_page = |page: &File| -> Vec<Finding> {
        let names =
            prose(&page.text).flat_map(|(number, line)| quoted(line).map(move |name| (number, name.to_owned())));
        let unknown = names.filter(|(_, name)| is_file_name(name) && !is_known(name));
        let advice = |name| format!("there is no {name}: name the file where this is now");
        unknown.map(|(number, name)| Finding::at_line(&page.path, number, advice(name))).collect()
    };
    pages.iter().filter(|page| !page.is_in(HISTORY)).flat_map(of_page).collect()
}

/// The lines of a page, with their numbers, without what stands between fences.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    })
}

/// What links of a line lead to, within the tree.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    targets.filter(|target| !target.contains([' ', '`']) && !target.contains(':'))
}

/// What stands between backticks in a line.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn is_file_name(name: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-' | '/');
    has_source_ending(name) && name.chars().all(is_plain) && !name.starts_with('.')
}

/// The path from the root of what is at `path` from the page `page`.
fn beside(page: &str, path: &str) -> String {
    let mut folders: Vec<&str> = page.split('/').collect();
    folders.pop();
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." => drop(folders.pop()),
            step => folders.push(step),
        }
    }
    folders.join("/")
}

/// By which names the places of a page are reached: those that its headings get, and those that it gives.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in prose(text) {
        if let Some(heading) = line.strip_prefix('#') {
            let name = anchor(heading.trim_start_matches('#'));
            // Of headings that are alike the later ones are numbered.
            let numbered = (1..).map(|number| format!("{name}-{number}"));
            let free = std::iter::once(name.clone()).chain(numbered).find(|name| !found.contains(name));
            found.extend(free);
        }
        found.extend(line.split("<a id=\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
    }
    found
}

/// A heading in small letters, with hyphens for blanks and without all other signs; of a link its text.
fn anchor(heading: &str) -> String {
    let mut text = String::new();
    for (index, part) in heading.split("](").enumerate() {
        text += if index == 0 { part } else { part.split_once(')').map_or("", |(_, rest)| rest) };
    }
    let kept = |letter: char| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        letter => letter.is_alphanumeric().then_some(letter),
    };
    text.trim().to_lowercase().chars().filter_map(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_reached_by_the_names_that_readers_of_the_pages_give_them() {
        let page =
            "# A `board`, or: [two](x.md)\n## Same\n## Same\n```\n# no heading\n```\n* <a id=\"by-hand\"></a>here\n";
        let expected = ["a-board-or-two", "same", "same-1", "by-hand"];
        assert_eq!(anchors(page), expected.map(str::to_owned).into());
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let other = File::new("docs/b.md", "# There\n");
        for (text, findings) in [
            ("[x](b.md), [x](../README.md#any), [x](b.md#there), [x](#here)\n# Here", 0),
            ("[x](https://example.org/c.md)\n```\n[x](c.md)\n```\n", 0),
            ("[x](c.md)", 1),
            ("a\n[x](b.md#gone) and [x](#gone) and [x](../b.md)", 3),
        ] {
            let pages = [File::new("docs/a.md", text), File::new("docs/b.md", &*other.text)];
            let exists = |path: &str| ["docs/a.md", "docs/b.md", "README.md"].contains(&path);
            assert_eq!(dead(&pages, exists).len(), findings, "{text}");
        }
    }

    #[test]
    fn files_that_are_named_and_not_there_are_found() {
        let files = [File::new("crates/sync/src/wait.rs", "")];
        let findings = |text: &str| unknown_files(&[File::new("docs/a.md", text)], &files).len();
        assert_eq!(
            findings("`crates/sync/src/wait.rs`, `wait.rs`, `src/wait.rs`, `loom_*.rs`, `tests/loom_<idea>.rs`"),
            0
        );
        assert_eq!(findings("`it.rs`, `crates/sync/wait.rs` and wait_for.rs"), 2);
        assert_eq!(unknown_files(&[File::new("bench/runs/a/README.md", "`it.rs`")], &files), []);
    }
}
