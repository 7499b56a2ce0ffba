//! The page on which the picture grows, served to browsers of this host only.
//!
//! The page asks for the slices that it has not seen (`/slices?from=N`, numbered in order of arrival) until it has all.
//! After the end it is served for as long as anybody asks: [`Watch::linger`].

use std::io::Cursor;
use std::ops::Range;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use deck::{Error, ErrorKind, NodeId, Result};
use tiny_http::{Header, Method, Request, Response, Server};

use crate::palette::Palette;
use crate::problem::Problem;

const PAGE: &str = include_str!("watch.html");
/// Bytes after which an answer leaves the remaining slices for the next one.
const ANSWER_BYTES: usize = 4 << 20;

/// A page that is being served.
pub struct Watch {
    port: u16,
    palette: Palette,
    shared: Arc<Mutex<Shown>>,
    requests: Receiver<()>,
}

/// What the page can be told.
struct Shown {
    problem: Problem,
    start: Instant,
    ended: Option<Duration>,
    /// In order of arrival.
    slices: Vec<Slice>,
}

struct Slice {
    rows: Range<u32>,
    node: NodeId,
    pixels: Arc<[u8]>,
}

fn lock(shared: &Mutex<Shown>) -> MutexGuard<'_, Shown> {
    // Every change of what is shown is one push or one assignment: whole even if its thread panicked afterwards.
    shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Watch {
    /// Serves the page at a port of 127.0.0.1 from a thread of its own; port 0 takes a free one.
    ///
    /// # Errors
    /// [`ErrorKind::System`] if the port is taken.
    pub fn start(port: u16, problem: Problem) -> Result<Watch> {
        let server = Server::http(("127.0.0.1", port)).map_err(|error| {
            Error::new(ErrorKind::System, format!("serving the page at port {port}: {error}"))
                .with_remedy("use --watch 0 to take a free port")
        })?;
        let port = server.server_addr().to_ip().map_or(port, |address| address.port());
        let shown = Shown { problem, start: Instant::now(), ended: None, slices: Vec::new() };
        let shared = Arc::new(Mutex::new(shown));
        let (served, (asked, requests)) = (shared.clone(), mpsc::channel());
        thread::spawn(move || {
            for request in server.incoming_requests() {
                // A browser that went away is no failure of the calculation.
                let _ = answer(request, &served);
                if asked.send(()).is_err() {
                    return;
                }
            }
        });
        Ok(Watch { port, palette: Palette::new(problem.max_iter()), shared, requests })
    }

    /// Where the page is.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Shows a slice that `node` has computed.
    pub fn show(&self, rows: Range<u32>, node: NodeId, counts: &[u32]) {
        let pixels = self.palette.paint(counts).into();
        lock(&self.shared).slices.push(Slice { rows, node, pixels });
    }

    /// Tells the page that the picture is finished, or that no more of it will come.
    pub fn finish(&self) {
        let mut shown = lock(&self.shared);
        shown.ended = Some(shown.start.elapsed());
    }

    /// Blocks until nobody has asked for anything for the time of `quiet`. An open page stops asking when it shows the
    /// finished picture, and keeps it.
    pub fn linger(self, quiet: Duration) {
        while self.requests.recv_timeout(quiet).is_ok() {}
    }
}

fn answer(request: Request, shared: &Mutex<Shown>) -> std::io::Result<()> {
    if *request.method() != Method::Get {
        return request.respond(Response::empty(405));
    }
    let url = request.url().to_owned();
    let (path, query) = url.split_once('?').unwrap_or((&url, ""));
    match path {
        "/" => request.respond(with_type(Response::from_string(PAGE), "text/html; charset=utf-8")),
        "/slices" => {
            let from = query.strip_prefix("from=").and_then(|from| from.parse().ok()).unwrap_or(0);
            let news = lock(shared).news(from);
            request.respond(with_type(Response::from_data(news), "application/octet-stream"))
        }
        _ => request.respond(Response::empty(404)),
    }
}

fn with_type(response: Response<Cursor<Vec<u8>>>, kind: &str) -> Response<Cursor<Vec<u8>>> {
    [("Content-Type", kind), ("Cache-Control", "no-store")]
        .iter()
        .filter_map(|(name, value)| Header::from_bytes(*name, *value).ok())
        .fold(response, Response::with_header)
}

impl Shown {
    /// Little-endian numbers: width, height, slices, slices that have arrived, milliseconds, 1 if ended; then for each
    /// slice from the `from`th arrival on: first row, rows, node, and its pixels of three bytes.
    fn news(&self, from: usize) -> Vec<u8> {
        let milliseconds = self.ended.unwrap_or_else(|| self.start.elapsed()).as_millis() as u32;
        let mut bytes = Vec::new();
        let put = |bytes: &mut Vec<u8>, number: u32| bytes.extend_from_slice(&number.to_le_bytes());
        for number in [
            self.problem.width(),
            self.problem.height(),
            self.problem.slices(),
            self.slices.len() as u32,
            milliseconds,
            u32::from(self.ended.is_some()),
        ] {
            put(&mut bytes, number);
        }
        for Slice { rows, node, pixels } in self.slices.iter().skip(from) {
            put(&mut bytes, rows.start);
            put(&mut bytes, rows.len() as u32);
            put(&mut bytes, node.0);
            bytes.extend_from_slice(pixels);
            if bytes.len() >= ANSWER_BYTES {
                break;
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Region;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn problem() -> Problem {
        Problem::checked((6, 4), 2, 100, Region::FULL_SET, false).unwrap()
    }

    fn get(watch: &Watch, target: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(("127.0.0.1", watch.port)).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        (String::from_utf8(bytes[..head].to_vec()).unwrap(), bytes[head + 4..].to_vec())
    }

    fn numbers(bytes: &[u8]) -> Vec<u32> {
        bytes.chunks_exact(4).map(|four| u32::from_le_bytes(four.try_into().unwrap())).collect()
    }

    #[test]
    fn the_page_is_served_on_a_free_port_of_the_loopback_address() {
        let watch = Watch::start(0, problem()).unwrap();
        assert!(watch.address().starts_with("http://127.0.0.1:") && watch.port != 0);
        let (head, page) = get(&watch, "/");
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/html"), "{head}");
        assert!(String::from_utf8(page).unwrap().contains("<canvas"));
        assert!(get(&watch, "/etc/passwd").0.starts_with("HTTP/1.1 404"));
    }

    #[test]
    fn slices_are_told_in_order_of_arrival_from_where_the_page_is() {
        let watch = Watch::start(0, problem()).unwrap();
        assert_eq!(numbers(&get(&watch, "/slices?from=0").1)[..4], [6, 4, 2, 0]);
        watch.show(2..4, NodeId(1), &[1; 12]);
        watch.show(0..2, NodeId(0), &[100; 12]);
        watch.finish();
        let (_, bytes) = get(&watch, "/slices?from=0");
        assert_eq!(numbers(&bytes)[..4], [6, 4, 2, 2]);
        assert_eq!(numbers(&bytes)[5..9], [1, 2, 2, 1]);
        assert_eq!(bytes.len(), 24 + 2 * (12 + 36));
        let (_, bytes) = get(&watch, "/slices?from=1");
        assert_eq!(numbers(&bytes)[6..9], [0, 2, 0]);
        assert_eq!(bytes[36..], [0; 36], "inside is black");
        assert_eq!(get(&watch, "/slices?from=2").1.len(), 24);
        assert_eq!(get(&watch, "/slices?from=99999999999").1.len(), 24);
    }

    #[test]
    fn a_taken_port_is_refused_with_the_remedy() {
        let watch = Watch::start(0, problem()).unwrap();
        let error = Watch::start(watch.port, problem()).err().unwrap();
        assert!(error.remedy().contains("--watch 0"));
    }

    #[test]
    fn lingering_ends_when_nobody_asks() {
        let watch = Watch::start(0, problem()).unwrap();
        watch.finish();
        watch.linger(Duration::from_millis(1));
    }
}
