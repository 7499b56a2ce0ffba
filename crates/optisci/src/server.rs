//! The browser tool, served to browsers of this host only.
//!
//! The page is embedded in the binary and calculates by itself (the engine is in it, as WebAssembly); the server hands out
//! its files and one model. It listens on 127.0.0.1, answers only requests that were meant for a loopback name (a page of
//! another site could send its visitors' browsers here under its own name), and changes nothing: GET and HEAD only.

use std::io;

use tiny_http::{Header, Method, Request, Response, StatusCode};

/// The built page: names and contents. Empty when the library was built without it.
const PAGE: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// What the page may do: nothing that needs another host.
const POLICY: &str = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; \
                      img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A server that listens and answers when it is told to.
pub struct Server {
    http: tiny_http::Server,
    port: u16,
    model: Option<String>,
}

/// Whether this build has the page.
pub fn has_page() -> bool {
    !PAGE.is_empty()
}

impl Server {
    /// Listens on a port of 127.0.0.1; port 0 takes a free one. The page opens with `model`, a model file's text, or with
    /// its gallery of examples.
    ///
    /// # Errors
    /// When the port is taken or may not be used.
    pub fn bind(port: u16, model: Option<String>) -> io::Result<Server> {
        let http = tiny_http::Server::http(("127.0.0.1", port)).map_err(io::Error::other)?;
        let port = http.server_addr().to_ip().map_or(port, |address| address.port());
        Ok(Server { http, port, model })
    }

    /// Where the page is.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Answers requests until the process ends. Blocks.
    pub fn run(&self) {
        for request in self.http.incoming_requests() {
            // A browser that went away is its own affair.
            let _ = self.answer(request);
        }
    }

    fn answer(&self, request: Request) -> io::Result<()> {
        let host = request.headers().iter().find(|header| header.field.equiv("Host"));
        if !host.is_some_and(|host| is_loopback(host.value.as_str(), self.port)) {
            let text = format!("This is served at {} only.\n", self.address());
            return request.respond(Response::from_string(text).with_status_code(StatusCode(421)));
        }
        if !matches!(request.method(), Method::Get | Method::Head) {
            return request.respond(Response::from_string("GET only.\n").with_status_code(StatusCode(405)));
        }
        let url = request.url().to_owned();
        let path = url.split(['?', '#']).next().unwrap_or_default().trim_start_matches('/');
        if path == "model.json" {
            return match &self.model {
                Some(model) => respond(request, "model.json", model.as_bytes()),
                None => request.respond(Response::empty(204)),
            };
        }
        let name = if path.is_empty() { "index.html" } else { path };
        match PAGE.iter().find(|(file, _)| *file == name) {
            Some((file, content)) => respond(request, file, content),
            None => request.respond(Response::from_string("No such file.\n").with_status_code(StatusCode(404))),
        }
    }
}

/// Whether a `Host` header names this host as the address that is served: loopback, and this port.
fn is_loopback(host: &str, port: u16) -> bool {
    let (name, given) = match host.rsplit_once(':') {
        Some((name, given)) if !given.ends_with(']') => (name, given.parse().ok()),
        _ => (host, Some(80)),
    };
    given == Some(port) && (name == "127.0.0.1" || name.eq_ignore_ascii_case("localhost"))
}

fn respond(request: Request, name: &str, content: &[u8]) -> io::Result<()> {
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
    let response = headers.iter().fold(Response::from_data(content), |response, (field, value)| {
        response.with_header(Header::from_bytes(*field, *value).expect("a header of plain letters"))
    });
    request.respond(response)
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

    /// One request, as bytes; the server answers exactly one.
    fn ask(model: Option<&str>, request: impl FnOnce(u16) -> String) -> String {
        let server = Server::bind(0, model.map(str::to_owned)).unwrap();
        let port = server.port;
        thread::scope(|scope| {
            scope.spawn(|| server.answer(server.http.recv().unwrap()).unwrap());
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.write_all(request(port).as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        })
    }

    fn get(path: &str, host: &str, port: u16) -> String {
        let host = host.replace("PORT", &port.to_string());
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
    }

    #[test]
    fn a_request_under_another_name_is_refused() {
        for host in
            ["evil.example", "evil.example:PORT", "127.0.0.1", "127.0.0.1.evil.example:PORT", "localhost:1", "[::1"]
        {
            let answer = ask(Some("{}"), |port| get("/model.json", host, port));
            assert!(answer.starts_with("HTTP/1.1 421"), "{host}: {answer}");
        }
        let answer = ask(Some("{}"), |_| "GET /model.json HTTP/1.0\r\n\r\n".to_owned());
        assert!(answer.starts_with("HTTP/1.1 421") || answer.starts_with("HTTP/1.0 421"), "{answer}");
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
