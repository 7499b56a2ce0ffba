//! The rules of the source tree, held against the tree as it is.

use std::fmt::Write;

use deck_layers::arrows::{self, Package};
use deck_layers::tree::{self, File};
use deck_layers::{
    Finding, aliases, atomics, comments, error_pages, fences, links, names, partners, unsafe_code, variables,
};
use deck_sync::ErrorKind;

fn packages() -> Vec<Package> {
    arrows::packages(&tree::root()).unwrap_or_else(|sentence| panic!("{sentence}"))
}

fn files() -> Vec<File> {
    tree::source_files(&tree::root())
}

/// Fails with one line per finding: where, what is wrong, what to do.
#[track_caller]
fn expect_none(findings: Vec<Finding>) {
    let list = findings.iter().fold(String::new(), |mut list, finding| {
        let _ = write!(list, "\n  {finding}");
        list
    });
    assert!(findings.is_empty(), "{} to put right:{list}", findings.len());
}

#[test]
fn a_crate_uses_only_what_stands_above_it() {
    expect_none(arrows::against_the_order(&packages()));
}

#[test]
fn every_crate_has_a_place_among_the_layers() {
    expect_none(arrows::without_a_place(&packages()));
}

#[test]
fn every_crate_is_named_after_its_folder() {
    expect_none(names::packages_named_otherwise(&packages()));
}

#[test]
fn no_file_is_a_drawer_for_everything() {
    expect_none(names::empty_names(&files()));
}

#[test]
fn no_file_holds_more_than_one_idea() {
    expect_none(names::long_files(&files()));
}

#[test]
fn comments_end_where_code_does() {
    expect_none(comments::long_lines(&files()));
}

#[test]
fn unsafe_code_stands_only_where_it_is_allowed() {
    expect_none(unsafe_code::outside_allowed_crates(&files()));
}

#[test]
fn every_other_crate_forbids_unsafe_code() {
    expect_none(unsafe_code::without_forbid(&packages(), &files()));
}

#[test]
fn every_unsafe_block_says_why_it_is_right() {
    expect_none(unsafe_code::without_reason(&files()));
}

#[test]
fn atomics_come_through_one_door() {
    expect_none(atomics::raw_atomics(&files()));
}

#[test]
fn every_ordering_has_its_partner() {
    expect_none(partners::without_partner(&files()));
}

#[test]
fn every_ordering_names_its_partner() {
    expect_none(partners::without_label(&files()));
}

#[test]
fn only_those_who_look_again_use_a_fence_that_may_miss_a_core() {
    expect_none(fences::that_may_miss_a_core(&files()));
}

#[test]
fn every_error_code_has_a_page() {
    expect_none(error_pages::pages(&tree::root(), ErrorKind::ALL.iter().map(|kind| kind.code())));
}

#[test]
fn every_variable_stands_in_the_table_and_every_line_of_it_is_read() {
    let page = std::fs::read_to_string(tree::root().join(variables::PAGE)).expect("the page of variables is there");
    expect_none(variables::unlike_the_page(&files(), &page));
}

#[test]
fn every_function_of_c_is_found_by_its_name_in_rust() {
    expect_none(aliases::unlike_the_header(&files()));
}

#[test]
fn every_link_of_the_documentation_leads_somewhere() {
    let root = tree::root();
    expect_none(links::dead(&tree::pages(&root), |path| root.join(path).exists()));
}

#[test]
fn every_source_file_that_the_documentation_names_is_there() {
    expect_none(links::unknown_files(&tree::pages(&tree::root()), &files()));
}
