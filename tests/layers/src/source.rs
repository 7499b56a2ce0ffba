//! A Rust file taken apart into code and comments, line by line.
//!
//! The rules ask "does the word `unsafe` occur in code" or "which comment stands above". A search in plain text would
//! stumble over strings and comments, a full parser would stumble over macros; this scanner knows just enough of the
//! lexical grammar: comments (nested ones too), strings, raw strings, byte and C strings, characters and lifetimes.

/// One line of a Rust file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// What the compiler sees; the contents of strings and characters are left out, their quotes stay.
    pub code: String,
    /// What stands in comments on this line, with the comment signs.
    pub comment: String,
}

impl Line {
    /// Holds nothing but a comment.
    pub fn is_only_comment(&self) -> bool {
        self.code.trim().is_empty() && !self.comment.is_empty()
    }
}

/// Where the scanner is.
enum State {
    Code,
    LineComment,
    /// Inside `depth` nested block comments.
    BlockComment {
        depth: u32,
    },
    /// Inside a string that ends with a quote and so many `#`; `escapes` says whether a backslash hides a quote.
    String {
        hashes: usize,
        escapes: bool,
    },
}

/// Takes a Rust file apart. A file that does not compile gives some answer, never a panic.
pub fn lines(text: &str) -> Vec<Line> {
    let characters: Vec<char> = text.chars().collect();
    let mut lines = vec![Line::default()];
    let mut state = State::Code;
    let mut at = 0;
    while at < characters.len() {
        let character = characters[at];
        let next = characters.get(at + 1).copied();
        if character == '\n' {
            if matches!(state, State::LineComment) {
                state = State::Code;
            }
            lines.push(Line::default());
            at += 1;
            continue;
        }
        let line = lines.last_mut().expect("there is always a line");
        match &mut state {
            State::Code => match (character, next) {
                ('/', Some('/')) => {
                    state = State::LineComment;
                    line.comment.push_str("//");
                    at += 2;
                }
                ('/', Some('*')) => {
                    state = State::BlockComment { depth: 1 };
                    line.comment.push_str("/*");
                    at += 2;
                }
                ('"', _) => {
                    let (hashes, escapes) = string_form(&line.code);
                    state = State::String { hashes, escapes };
                    line.code.push('"');
                    at += 1;
                }
                ('\'', _) => {
                    line.code.push('\'');
                    at += character_length(&characters[at..]);
                }
                _ => {
                    line.code.push(character);
                    at += 1;
                }
            },
            State::LineComment => {
                line.comment.push(character);
                at += 1;
            }
            State::BlockComment { depth } => {
                line.comment.push(character);
                at += 1;
                let pair = (character, next);
                if pair == ('*', Some('/')) || pair == ('/', Some('*')) {
                    line.comment.extend(next);
                    at += 1;
                    *depth = if character == '*' { *depth - 1 } else { *depth + 1 };
                    if *depth == 0 {
                        state = State::Code;
                    }
                }
            }
            State::String { hashes, escapes } => {
                let closing = *hashes;
                if *escapes && character == '\\' {
                    // A backslash at the end of a line leaves the line break for the next round: lines stay counted.
                    at += if next == Some('\n') { 1 } else { 2 };
                } else if character == '"' && characters[at + 1..].iter().take_while(|&&c| c == '#').count() >= closing
                {
                    line.code.push('"');
                    at += 1 + closing;
                    state = State::Code;
                } else {
                    at += 1;
                }
            }
        }
    }
    lines
}

/// Number of `#` of the string that starts after `code`, and whether it knows escapes: `r#"` has one and knows none.
fn string_form(code: &str) -> (usize, bool) {
    let before = code.trim_end_matches('#');
    let is_raw = before.ends_with('r')
        && !before.trim_end_matches(['r', 'b', 'c']).ends_with(|c: char| c.is_alphanumeric() || c == '_');
    if is_raw { (code.len() - before.len(), false) } else { (0, true) }
}

/// How many characters a `'` begins: the whole literal of a character, only the quote of a lifetime.
fn character_length(rest: &[char]) -> usize {
    match rest {
        ['\'', '\\', _, tail @ ..] => 3 + tail.iter().position(|&c| c == '\'').map_or(0, |end| end + 1),
        ['\'', _, '\'', ..] => 3,
        _ => 1,
    }
}

/// Where `word` stands in `code` as a word of its own, as byte offsets.
pub fn word_offsets<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word)
        .map(|(offset, _)| offset)
        .filter(move |&offset| !code[..offset].ends_with(is_part) && !code[offset + word.len()..].starts_with(is_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Vec<String> {
        lines(text).into_iter().map(|line| line.code).collect()
    }

    #[test]
    fn comments_are_kept_apart_from_code() {
        let found = lines("let a = 1; // one\n/* two /* nested */ still */ let b;");
        assert_eq!(found[0], Line { code: "let a = 1; ".into(), comment: "// one".into() });
        assert_eq!(found[1], Line { code: " let b;".into(), comment: "/* two /* nested */ still */".into() });
    }

    #[test]
    fn contents_of_strings_are_no_code() {
        assert_eq!(code(r#"f("unsafe // not a comment \" still"); g"#), [r#"f(""); g"#]);
        assert_eq!(code(r###"f(r#"a " quote"#); g"###), [r##"f(r#""); g"##]);
        assert_eq!(code("f(b\"x\", c\"y\", br\"\\\"); g"), ["f(b\"\", c\"\", br\"\"); g"]);
        assert_eq!(code("\"one \\\n two\"; x").len(), 2);
    }

    #[test]
    fn a_name_that_ends_in_r_starts_no_raw_string() {
        assert_eq!(code(r#"for"\"";"#), [r#"for"";"#]);
    }

    #[test]
    fn characters_are_no_lifetimes() {
        assert_eq!(
            code("let q = '\"'; let a: &'a str; let e = '\\''; let u = '\\u{1F}'; x"),
            ["let q = '; let a: &'a str; let e = '; let u = '; x"]
        );
    }

    #[test]
    fn words_are_found_whole() {
        assert_eq!(word_offsets("unsafe_code unsafe { not_unsafe }", "unsafe").collect::<Vec<_>>(), [12]);
    }
}
