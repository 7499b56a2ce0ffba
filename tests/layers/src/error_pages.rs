//! Every error code has a page that tells what happened, why, and what to do.

use std::fs;
use std::path::Path;

use crate::Finding;

/// Where the pages are, from the root of the tree.
pub const FOLDER: &str = "docs/errors";

/// The sections that a page has, in this order.
const SECTIONS: [&str; 3] = ["## What happened", "## Why", "## What to do"];

/// Codes without a page, pages that lack something, pages of codes that are gone, and codes the index forgets.
pub fn pages<'a>(root: &Path, codes: impl IntoIterator<Item = &'a str>) -> Vec<Finding> {
    let codes: Vec<&str> = codes.into_iter().collect();
    let read = |name: &str| fs::read_to_string(root.join(FOLDER).join(name)).ok();
    let index = read("README.md").unwrap_or_default();
    let mut findings = Vec::new();
    for code in &codes {
        let place = format!("{FOLDER}/{code}.md");
        match read(&format!("{code}.md")) {
            None => findings.push(Finding::new(&place, "missing: every error code has a page; write it")),
            Some(page) => findings.extend(defects(code, &page).into_iter().map(|advice| Finding::new(&place, advice))),
        }
        if !index.contains(&format!("({code}.md)")) {
            findings.push(Finding::new(format!("{FOLDER}/README.md"), format!("add a link to {code}.md to the index")));
        }
    }
    findings.extend(stray_pages(root, &codes));
    findings
}

fn defects(code: &str, page: &str) -> Vec<String> {
    let mut defects = Vec::new();
    if !page.lines().next().unwrap_or("").starts_with(&format!("# {code}")) {
        defects.push(format!("begin the page with the heading `# {code}: ...`"));
    }
    let position = |section: &str| page.lines().position(|line| line.trim_end() == section);
    let positions: Vec<_> = SECTIONS.iter().map(|section| position(section)).collect();
    for (section, position) in SECTIONS.iter().zip(&positions) {
        if position.is_none() {
            defects.push(format!("the section `{section}` is missing"));
        }
    }
    if defects.is_empty() && !positions.is_sorted() {
        defects.push(format!("put the sections in this order: {}", SECTIONS.join(", ")));
    }
    defects
}

fn stray_pages(root: &Path, codes: &[&str]) -> Vec<Finding> {
    let Ok(entries) = fs::read_dir(root.join(FOLDER)) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let strays = names.filter(|name| name != "README.md" && !codes.iter().any(|code| *name == format!("{code}.md")));
    strays
        .map(|name| Finding::new(format!("{FOLDER}/{name}"), "no error has this code: rename the page or remove it"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# D0102: timed out\n\n## What happened\na\n\n## Why\nb\n\n## What to do\nc\n";

    #[test]
    fn a_whole_page_has_no_defects() {
        assert!(defects("D0102", GOOD).is_empty());
    }

    #[test]
    fn what_is_missing_is_named() {
        assert!(defects("D0103", GOOD)[0].contains("heading"));
        assert!(defects("D0102", &GOOD.replace("## Why\n", ""))[0].contains("## Why"));
        let turned =
            GOOD.replace("## Why", "## x").replace("## What happened", "## Why").replace("## x", "## What happened");
        assert!(defects("D0102", &turned)[0].contains("order"));
    }

    #[test]
    fn a_code_without_a_page_is_found() {
        let root = crate::tree::root();
        assert!(pages(&root, ["D9999"]).iter().any(|finding| finding.place == "docs/errors/D9999.md"));
    }
}
