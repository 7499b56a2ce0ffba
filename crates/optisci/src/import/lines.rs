//! Numbers in the lines of a text: what graph tools write.

use crate::Error;

/// The words of a text one after another, each with its line.
pub(super) struct Words<'a> {
    words: Box<dyn Iterator<Item = (usize, &'a str)> + 'a>,
    /// The line of the last word, counted from 1.
    pub line: usize,
}

impl<'a> Words<'a> {
    pub fn new(text: &'a str) -> Words<'a> {
        let lines = text.lines().enumerate();
        let words = lines.flat_map(|(index, line)| line.split_whitespace().map(move |word| (index + 1, word)));
        Words { words: Box::new(words), line: 1 }
    }

    /// The next word; without one, what was expected there.
    pub fn word(&mut self, expected: &str) -> Result<&'a str, Error> {
        match self.words.next() {
            Some((line, word)) => {
                self.line = line;
                Ok(word)
            }
            None => Err(Error::at_line(self.line, format!("the text ends: expected {expected}"))),
        }
    }

    /// The next word, a whole number from 0 to `most`.
    pub fn number(&mut self, expected: &str, most: u64) -> Result<u64, Error> {
        let word = self.word(expected)?;
        number(word, self.line, expected, most)
    }

    /// Nothing more follows.
    pub fn end(&mut self) -> Result<(), Error> {
        match self.words.next() {
            None => Ok(()),
            Some((line, word)) => Err(Error::at_line(line, format!("\"{}\": expected the end", short(word)))),
        }
    }
}

/// A whole number from 0 to `most`.
pub(super) fn number(word: &str, line: usize, expected: &str, most: u64) -> Result<u64, Error> {
    let number = word.parse().ok().filter(|&number| number <= most);
    number.ok_or_else(|| {
        Error::at_line(line, format!("\"{}\": expected {expected}, a whole number from 0 to {most}", short(word)))
    })
}

/// A word as messages quote it.
pub(super) fn short(word: &str) -> String {
    match word.char_indices().nth(40) {
        Some((end, _)) => format!("{}...", &word[..end]),
        None => word.to_owned(),
    }
}
