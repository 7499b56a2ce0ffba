//! Every environment variable of DECK's own stands in one table, and every one in the table is read somewhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::Finding;
use crate::tree::File;

/// Where the tables are, from the root of the tree.
pub const PAGE: &str = "docs/environment.md";

/// Names of error codes look like variables and stand in strings, too.
const ERROR_NAMES: &str = "DECK_E_";

/// Variables that the files name and the page does not tell, and the other way round.
pub fn unlike_the_page(files: &[File], page: &str) -> Vec<Finding> {
    let told = told(page);
    let mut named: BTreeMap<&str, &str> = BTreeMap::new();
    // The snippets that this rule is tested with are no variables.
    for file in files.iter().filter(|file| !file.is_in("tests/layers")) {
        for name in named_in(file) {
            named.entry(name).or_insert(&file.path);
        }
    }
    let untold = named.iter().filter(|(name, _)| !told.contains(*name));
    let unread = told.iter().filter(|name| !named.contains_key(*name));
    untold
        .map(|(name, path)| {
            Finding::new(*path, format!("{name} is in no table of {PAGE}: tell what it does and who needs it"))
        })
        .chain(unread.map(|name| Finding::new(PAGE, format!("{name} is read nowhere: take its line out of the table"))))
        .collect()
}

/// Names in the first column of any table.
fn told(page: &str) -> BTreeSet<&str> {
    let cells = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    cells.flat_map(|cell| cell.split('`').filter(|word| is_name(word))).collect()
}

/// A string that is nothing but a name, or in scripts a name behind `$`.
fn named_in(file: &File) -> impl Iterator<Item = &str> {
    let is_script = file.is_shell();
    let quoted = file.text.split('"').skip(1).filter(move |_| !is_script);
    let expanded = file.text.split(['$']).skip(1).filter(move |_| is_script).map(|rest| {
        let rest = rest.trim_start_matches('{');
        let end = rest.find(|c: char| !c.is_ascii_uppercase() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    });
    quoted.chain(expanded).filter(|word| is_name(word) && !word.starts_with(ERROR_NAMES))
}

fn is_name(word: &str) -> bool {
    word.strip_prefix("DECK_").is_some_and(|rest| {
        !rest.is_empty() && rest.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str =
        "DECK_PROSE is no row.\n\n| Variable | What |\n|---|---|\n| `DECK_ONE`, `DECK_TWO` | see `DECK_THREE` |\n";

    fn findings(path: &str, text: &str) -> Vec<String> {
        unlike_the_page(&[File::new(path, text)], TABLE).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_read_and_told_is_right() {
        assert!(findings("crates/a/src/lib.rs", r#"var("DECK_ONE"); set("DECK_TWO", "DECK_TWO is set")"#).is_empty());
        assert!(findings("scripts/a.sh", "x=${DECK_ONE:-1} y=$DECK_TWO; echo \"DECK_FOUR\"").is_empty());
    }

    #[test]
    fn what_is_read_and_not_told_is_found_where_it_is_read() {
        let found = findings("crates/a/src/lib.rs", r#"["DECK_ONE", "DECK_TWO", "DECK_FOUR", "DECK_E_TYPE"]"#);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/a/src/lib.rs: DECK_FOUR"));
    }

    #[test]
    fn what_is_told_and_not_read_is_found_on_the_page() {
        let found = findings("crates/a/src/lib.rs", r#"var("DECK_ONE")"#);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("docs/environment.md: DECK_TWO"));
    }
}
