//! The bytes of a request, understood or refused.
//!
//! Any process of this host can write them: nothing is believed, and nothing is made as large as a number in them says.

use crate::Answer;

/// Bytes of a request's head, at most.
pub(crate) const HEAD_BYTES_MAX: usize = 16 << 10;
/// Bytes of content that a request may bring along. Nobody reads it, but who sends a little shall get a real answer.
pub const BODY_BYTES_MAX: u64 = 64 << 10;

/// The head of a request.
#[derive(Debug, PartialEq)]
pub(crate) struct Head {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
}

/// Where the content of a request begins in `bytes`, if its head is whole.
pub(crate) fn end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

/// Understands a whole head.
///
/// # Errors
/// The answer that it gets instead.
pub(crate) fn understand(bytes: &[u8]) -> Result<Head, Answer<'static>> {
    let broken = || Answer::text(400, "This is no request of HTTP/1.1.\n");
    let text = str::from_utf8(bytes).map_err(|_| broken())?;
    let mut lines = text.split("\r\n").take_while(|line| !line.is_empty());
    let first: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, version] = first[..] else { return Err(broken()) };
    if method.is_empty() || target.is_empty() || !version.starts_with("HTTP/") {
        return Err(broken());
    }
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return Err(Answer::text(505, "This is served with HTTP/1.1 only.\n"));
    }
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        is_name.then(|| (name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers: Vec<_> = lines.map(header).collect::<Option<_>>().ok_or_else(broken)?;
    let head = Head { method: method.to_owned(), target: target.to_owned(), headers };
    head.check_host()?;
    head.check_content()?;
    Ok(head)
}

impl Head {
    /// The value of the first header of this name, which is in small letters.
    fn header(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers.iter().filter(move |(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// Refuses what was meant for another host: a page of another site could lead its visitors' browsers here under its
    /// own name, and read what they are given. The port may be that of a tunnel.
    fn check_host(&self) -> Result<(), Answer<'static>> {
        for host in self.all("host") {
            let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
            let is_loopback = name == "127.0.0.1" || name.eq_ignore_ascii_case("localhost");
            if !is_loopback || !port.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(Answer::text(
                    421,
                    "This is served to browsers of this host only: ask for it at 127.0.0.1.\n",
                ));
            }
        }
        Ok(())
    }

    /// Refuses content that would be long, or that does not say how long it is.
    fn check_content(&self) -> Result<(), Answer<'static>> {
        if self.header("transfer-encoding").is_some() {
            return Err(Answer::text(411, "Nothing is taken here without a Content-Length.\n"));
        }
        for length in self.all("content-length") {
            if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(Answer::text(400, "Content-Length is no number.\n"));
            }
            // Digits that make no number of 64 bits are too much as well.
            if length.parse().unwrap_or(u64::MAX) > BODY_BYTES_MAX {
                return Err(Answer::text(413, format!("Up to {BODY_BYTES_MAX} bytes may be sent here.\n")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(head: &str) -> String {
        let mut bytes = Vec::new();
        match understand(head.as_bytes()) {
            Ok(_) => return "understood".into(),
            Err(answer) => answer.write(false, &mut bytes).unwrap(),
        }
        String::from_utf8(bytes).unwrap().split(' ').nth(1).unwrap().to_owned()
    }

    #[test]
    fn a_head_is_taken_apart() {
        let bytes = b"GET /strips?from=3 HTTP/1.1\r\nHOST:  localhost:80 \r\nX-Empty:\r\n\r\nbody";
        let head = understand(&bytes[..end(bytes).unwrap()]).unwrap();
        assert_eq!((head.method.as_str(), head.target.as_str()), ("GET", "/strips?from=3"));
        assert_eq!((head.header("host"), head.header("x-empty")), (Some("localhost:80"), Some("")));
        assert_eq!((end(&bytes[..30]), head.header("cookie")), (None, None));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for head in ["", "GET\r\n\r\n", "GET / HTTP/1.1 x\r\n\r\n", "GET  HTTP/1.1\r\n\r\n", "\u{16}\u{3}\u{1}\r\n\r\n"]
        {
            assert_eq!(status(head), "400", "{head:?}");
        }
        for line in ["no colon", ": no name", "two words: x", " folded: x"] {
            assert_eq!(status(&format!("GET / HTTP/1.1\r\n{line}\r\n\r\n")), "400", "{line:?}");
        }
        assert_eq!(status("PRI * HTTP/2.0\r\n\r\n"), "505");
    }

    #[test]
    fn what_was_meant_for_another_host_is_refused() {
        let of = |host: &str| status(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        for host in [
            "evil.example",
            "evil.example:80",
            "127.0.0.1.evil.example:80",
            "localhost:80:80",
            "localhost:a",
            "[::1",
            "",
        ] {
            assert_eq!(of(host), "421", "{host}");
        }
        for host in ["127.0.0.1", "127.0.0.1:8426", "localhost:9000", "LocalHost:80"] {
            assert_eq!(of(host), "understood", "{host}");
        }
        assert_eq!(status("GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"), "421");
    }

    #[test]
    fn content_is_bounded_before_it_is_there() {
        let with = |line: &str| status(&format!("POST / HTTP/1.1\r\n{line}\r\n\r\n"));
        for length in ["65537", "99999999999", "18446744073709551615", "99999999999999999999999"] {
            assert_eq!(with(&format!("Content-Length: {length}")), "413", "{length}");
        }
        for length in ["-1", "+1", "1e3", "", "0x10"] {
            assert_eq!(with(&format!("Content-Length: {length}")), "400", "{length}");
        }
        assert_eq!(with("Transfer-Encoding: chunked"), "411");
        assert_eq!(with("Content-Length: 1\r\nContent-Length: 99999999999"), "413");
        assert_eq!(with("Content-Length: 65536"), "understood");
    }
}
