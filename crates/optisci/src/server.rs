//! The browser tool, served to browsers of this host only.
//!
//! The page is embedded in the binary and calculates by itself (the engine is in it, as WebAssembly); the server hands
//! out its files and one model, and changes nothing: GET and HEAD only.

use std::io;

use deck_http::{Answer, Request};

/// The built page: names and contents. Empty when the library was built without it.
const PAGE: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// What the page may do: nothing that needs another host.
const POLICY: &str = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; \
                      img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A server that listens and answers when it is told to.
pub struct Server {
    http: deck_http::Server,
    model: Option<String>,
}

/// Whether this build has the page.
pub fn has_page() -> bool {
    !PAGE.is_empty()
}

impl Server {
    /// Listens on a port of 127.0.0.1; port 0 takes a free one. The page opens with `model`, a model file's text, or
    /// with its gallery of examples.
    ///
    /// # Errors
    /// When the port is taken or may not be used.
    pub fn bind(port: u16, model: Option<String>) -> io::Result<Server> {
        Ok(Server { http: deck_http::Server::bind(port)?, model })
    }

    /// Where the page is.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/", self.http.port())
    }

    /// Answers requests until the process ends. Blocks.
    pub fn run(&self) -> ! {
        self.http.run(|request| {
            // A browser that went away is its own affair.
            let _ = self.answer(request);
        })
    }

    fn answer(&self, request: Request) -> io::Result<()> {
        if !matches!(request.method(), "GET" | "HEAD") {
            return request.respond(&Answer::text(405, "GET only.\n").with("Allow", "GET, HEAD"));
        }
        let path = request.target().split(['?', '#']).next().unwrap_or_default().trim_start_matches('/');
        let answer = match path {
            "model.json" => match &self.model {
                Some(model) => file("model.json", model.as_bytes()),
                None => Answer::empty(204),
            },
            "" => page("index.html"),
            name => page(name),
        };
        request.respond(&answer)
    }
}

fn page(name: &str) -> Answer<'static> {
    match PAGE.iter().find(|(known, _)| *known == name) {
        Some((name, content)) => file(name, content),
        None => Answer::text(404, "No such file.\n"),
    }
}

fn file<'a>(name: &str, content: &'a [u8]) -> Answer<'a> {
    // Files below assets/ have a digest of their content in their names.
    let keep = if name.starts_with("assets/") { "max-age=31536000, immutable" } else { "no-store" };
    let headers = [
        ("Content-Type", kind(name)),
        ("Cache-Control", keep),
        ("Content-Security-Policy", POLICY),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
    ];
    headers.iter().fold(Answer::of(200, content), |answer, (name, value)| answer.with(name, value))
}

fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "wasm" => "application/wasm",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::thread;

    use super::*;

    /// One request, as bytes, to a server of its own.
    fn ask(model: Option<&str>, request: impl FnOnce(u16) -> String) -> String {
        let server = Server::bind(0, model.map(str::to_owned)).unwrap();
        let port = server.http.port();
        // It serves for as long as the tests run.
        thread::spawn(move || server.run());
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(request(port).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn get(path: &str, host: &str, port: u16) -> String {
        let host = host.replace("PORT", &port.to_string());
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
    }

    #[test]
    fn a_request_under_another_name_is_refused() {
        let answer = ask(Some("{}"), |port| get("/model.json", "evil.example:PORT", port));
        assert!(answer.starts_with("HTTP/1.1 421"), "{answer}");
    }

    #[test]
    fn the_model_is_served_or_there_is_none() {
        for host in ["127.0.0.1:PORT", "localhost:PORT", "LocalHost:PORT"] {
            let answer = ask(Some("{\"a\": 1}"), |port| get("/model.json", host, port));
            assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("{\"a\": 1}"), "{answer}");
            assert!(answer.contains("application/json") && answer.contains("default-src 'self'"), "{answer}");
        }
        assert!(ask(None, |port| get("/model.json", "127.0.0.1:PORT", port)).starts_with("HTTP/1.1 204"));
    }

    #[test]
    fn only_files_of_the_page_are_there() {
        for path in ["/../Cargo.toml", "/etc/passwd", "/assets/", "/nothing"] {
            let answer = ask(None, |port| get(path, "127.0.0.1:PORT", port));
            assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
        }
        let answer = ask(None, |port| {
            format!("POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        });
        assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
        if has_page() {
            let answer = ask(None, |port| get("/?x=1", "localhost:PORT", port));
            assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("<title>OptiSCI"), "{answer}");
        }
    }
}
