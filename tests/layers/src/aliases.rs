//! Whoever knows a function of C finds what does the same in Rust, by searching the documentation for its name.

use std::collections::BTreeSet;

use crate::Finding;
use crate::tree::File;

/// The header of the C API, from the root of the tree.
pub const HEADER: &str = "crates/c/include/deck.h";

/// Functions of the header that are the alias of nothing in Rust, and aliases of functions that are not there.
pub fn unlike_the_header(files: &[File]) -> Vec<Finding> {
    let header = files.iter().find(|file| file.path == HEADER).map_or("", |file| file.text.as_str());
    let (functions, types) = (functions(header), types(header));
    // The snippets that this rule is tested with are no documentation.
    let sources = files.iter().filter(|file| file.is_rust() && !file.is_in("tests/layers"));
    let aliases: Vec<(&str, &str)> =
        sources.flat_map(|file| aliases(&file.text).map(|alias| (alias, file.path.as_str()))).collect();
    let without = functions.iter().filter(|function| !aliases.iter().any(|(alias, _)| alias == *function));
    let stray = aliases.iter().filter(|(alias, _)| !functions.contains(alias) && !types.contains(alias));
    without
        .map(|function| {
            let advice = format!("{function}: say `#[doc(alias = \"{function}\")]` at what does the same in Rust");
            Finding::new(HEADER, advice)
        })
        .chain(stray.map(|(alias, path)| Finding::new(*path, format!("the alias {alias} is nothing in {HEADER}"))))
        .collect()
}

/// What is declared: not what comments speak of.
fn functions(header: &str) -> BTreeSet<&str> {
    let declarations = header.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_alphabetic()));
    declarations.filter_map(|line| ours(line.split_once('(')?.0)).collect()
}

fn types(header: &str) -> BTreeSet<&str> {
    let ends = header.lines().filter(|line| line.starts_with("typedef") || line.starts_with('}'));
    ends.filter_map(|line| ours(line.strip_suffix(';')?)).collect()
}

/// The name with which a piece of C ends, if it is one of DECK's.
fn ours(piece: &str) -> Option<&str> {
    piece.rsplit([' ', '*']).next().filter(|name| name.starts_with("deck_"))
}

fn aliases(text: &str) -> impl Iterator<Item = &str> {
    text.split("#[doc(alias = \"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: &str = "\
/* deck_in_a_comment() */
typedef struct deck_box deck_box_t;
typedef enum {
  DECK_A = 1
} deck_kind_t;
int deck_box_create(deck_box_t **b);
const char *deck_version(void);
   deck_box_create(&b);
";

    fn findings(aliases: &[&str]) -> Vec<String> {
        let rust: String = aliases.iter().map(|alias| format!("#[doc(alias = \"{alias}\")]\n")).collect();
        let files = [File::new(HEADER, DECLARED), File::new("crates/a/src/lib.rs", rust)];
        unlike_the_header(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_function_is_to_be_found_under_its_name() {
        assert_eq!(findings(&["deck_box_create", "deck_version", "deck_box_t", "deck_kind_t"]), Vec::<String>::new());
        let found = findings(&["deck_box_create"]);
        assert!(matches!(&found[..], [one] if one.starts_with("crates/c/include/deck.h: deck_version: ")), "{found:?}");
    }

    #[test]
    fn an_alias_of_nothing_is_found_where_it_stands() {
        let found = findings(&["deck_box_create", "deck_version", "deck_in_a_comment"]);
        assert!(
            matches!(&found[..], [one] if one.starts_with("crates/a/src/lib.rs: the alias deck_in_a")),
            "{found:?}"
        );
    }
}
