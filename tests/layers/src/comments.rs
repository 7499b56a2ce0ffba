//! Comments end where code does: rustfmt breaks lines of code, and leaves those of comments as they are.

use crate::Finding;
use crate::tree::File;

/// The most characters of a line, as `rustfmt.toml` says for code.
pub const WIDTH: usize = 120;

/// Lines of comments that are longer. Rows of tables, and what stands between fences, may be.
pub fn long_lines(files: &[File]) -> Vec<Finding> {
    let sources = files.iter().filter(|file| file.path.ends_with(".rs"));
    sources
        .flat_map(|file| of_file(file).into_iter().map(|line| Finding::at_line(&file.path, line, advice())))
        .collect()
}

fn of_file(file: &File) -> Vec<usize> {
    let mut is_fenced = false;
    let mut long = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        let Some(text) = comment(line) else {
            is_fenced = false;
            continue;
        };
        is_fenced ^= text.starts_with("```");
        if !is_fenced && !text.starts_with('|') && line.chars().count() > WIDTH {
            long.push(number);
        }
    }
    long
}

/// What a line says that is nothing but a comment.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim_start())
}

fn advice() -> String {
    format!("a comment of more than {WIDTH} characters: go on in the next line")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_comments_are_found_and_code_tables_and_fences_are_not() {
        let long = "x ".repeat(60);
        for (text, lines) in [
            (format!("//! {long}"), vec![0]),
            (format!("fn a() {{\n    // {long}\n}}"), vec![1]),
            (format!("    let a = \"{long}\";"), vec![]),
            (format!("/// | {long} |"), vec![]),
            (format!("/// ```\n/// {long}\n/// ```\n/// {long}"), vec![3]),
            (format!("/// ```\nfn a() {{}}\n/// {long}"), vec![2]),
            (format!("// {}", &long[..117]), vec![]),
        ] {
            assert_eq!(of_file(&File::new("a.rs", &text)), lines, "{text}");
        }
        assert_eq!(long_lines(&[File::new("a.md", format!("// {long}"))]), []);
    }
}
