//! The bytes of an answer.

use std::borrow::Cow;
use std::io::{self, Write};

/// What a request is answered with.
#[derive(Clone, Debug)]
pub struct Answer<'a> {
    status: u16,
    headers: Vec<(&'a str, &'a str)>,
    body: Cow<'a, [u8]>,
}

impl<'a> Answer<'a> {
    /// An answer without content.
    pub fn empty(status: u16) -> Answer<'a> {
        Answer::of(status, Vec::new())
    }

    /// A sentence for whoever asked.
    pub fn text(status: u16, text: impl Into<String>) -> Answer<'a> {
        Answer::of(status, text.into().into_bytes()).with("Content-Type", "text/plain; charset=utf-8")
    }

    /// Content, of a kind that [`Answer::with`] tells.
    pub fn of(status: u16, body: impl Into<Cow<'a, [u8]>>) -> Answer<'a> {
        Answer { status, headers: Vec::new(), body: body.into() }
    }

    /// Adds a line to the head. Both parts are the program's own words, not a visitor's.
    pub fn with(mut self, name: &'a str, value: &'a str) -> Answer<'a> {
        debug_assert!(!name.chars().chain(value.chars()).any(char::is_control), "{name}: {value}");
        self.headers.push((name, value));
        self
    }

    /// Writes it, for a request that asked for the head alone without the content.
    pub(crate) fn write(&self, head_only: bool, to: &mut impl Write) -> io::Result<()> {
        let mut head = format!("HTTP/1.1 {} {}\r\nConnection: close\r\n", self.status, reason(self.status));
        // An answer of this status has no content, and so no length of it.
        if self.status != 204 {
            head += &format!("Content-Length: {}\r\n", self.body.len());
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        to.write_all(head.as_bytes())?;
        if !head_only {
            to.write_all(&self.body)?;
        }
        to.flush()
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        411 => "Length Required",
        413 => "Content Too Large",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        505 => "HTTP Version Not Supported",
        // The words behind the number are for people; programs read the number.
        _ => "Answer",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(answer: &Answer, head_only: bool) -> String {
        let mut bytes = Vec::new();
        answer.write(head_only, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn the_head_tells_how_long_the_content_is_even_where_that_is_left_out() {
        let answer = Answer::text(200, "four").with("Cache-Control", "no-store");
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\
                    Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\n\r\n";
        assert_eq!(written(&answer, false), format!("{head}four"));
        assert_eq!(written(&answer, true), head);
    }

    #[test]
    fn an_answer_without_content_says_so() {
        assert_eq!(written(&Answer::empty(404), false).lines().nth(2), Some("Content-Length: 0"));
        assert!(!written(&Answer::empty(204), false).contains("Content-Length"));
    }
}
