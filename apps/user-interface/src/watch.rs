//! The page on which a picture grows, served to browsers of this host only.
//!
//! The page asks for the strips of the picture that it has not seen (`/strips?from=N`, numbered in order of arrival)
//! until it has all. A strip that comes again for the same rows takes the place of the older one. After the end the
//! page is served for as long as anybody asks: [`close`].
//!
//! An answer is a 32-bit little-endian length, a JSON object of that length (see `Shown::head`), and for each strip
//! three such numbers (first row, rows, node) and its pixels of three bytes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use deck::{Error, NodeId, Result};
use deck_http::{Answer, Request, Server};
use serde_json::{Value, json};

use crate::command_line::{Failure, remark};
use crate::display::Progress;

const PAGE: &str = include_str!("watch.html");
/// How long the page is served after the last request for it.
const LINGER: Duration = Duration::from_secs(5);
/// Bytes after which an answer leaves the remaining strips for the next one.
const ANSWER_BYTES: usize = 4 << 20;

/// What the page is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// Heading and name of the page.
    pub title: String,
    /// What is being made, in a few words.
    pub what: String,
    /// What the nodes' shares are counted in: "slices".
    pub unit: &'static str,
    /// Pixels across and down.
    pub size: (u32, u32),
}

/// A page that is being served.
pub struct Watch {
    port: u16,
    canvas: Canvas,
    /// Notified with each request.
    asked: Arc<Condvar>,
}

/// Where the work puts what the page shows.
#[derive(Clone)]
pub(crate) struct Canvas(Arc<Mutex<Shown>>);

/// What the page can be told.
struct Shown {
    subject: Subject,
    start: Instant,
    /// How long the work took, once it is done.
    took: Option<Duration>,
    progress: Progress,
    /// What the user was told last.
    notice: String,
    /// When somebody asked for something the last time.
    asked: Option<Instant>,
    /// Nothing more comes; and why not, if the work failed.
    end: Option<std::result::Result<(), String>>,
    /// By number of arrival.
    strips: BTreeMap<u64, Strip>,
    /// The number of the strip of these rows.
    newest: BTreeMap<(u32, u32), u64>,
    arrived: u64,
}

struct Strip {
    rows: Range<u32>,
    node: NodeId,
    pixels: Vec<u8>,
}

impl Canvas {
    fn shown(&self) -> MutexGuard<'_, Shown> {
        // A panic in between would cost a strip on the page at most.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows rows that `node` has made.
    pub(crate) fn show(&self, rows: Range<u32>, node: NodeId, pixels: Vec<u8>) {
        let mut shown = self.shown();
        let number = shown.arrived;
        shown.arrived += 1;
        if let Some(older) = shown.newest.insert((rows.start, rows.end), number) {
            shown.strips.remove(&older);
        }
        shown.strips.insert(number, Strip { rows, node, pixels });
    }

    /// Tells how far the work is.
    pub(crate) fn advance(&self, progress: Progress) {
        self.shown().progress = progress;
    }

    /// Says something that the user should know.
    pub(crate) fn notice(&self, text: &str) {
        self.shown().notice = text.to_owned();
    }

    /// The work is done: the clock stands.
    pub(crate) fn stop(&self) {
        let mut shown = self.shown();
        let elapsed = shown.start.elapsed();
        shown.took.get_or_insert(elapsed);
    }
}

impl Watch {
    /// Serves the page at a port of 127.0.0.1 from a thread of its own; port 0 takes a free one.
    ///
    /// # Errors
    /// [`deck::ErrorKind::System`] if the port is taken.
    fn start(port: u16, subject: Subject) -> Result<Watch> {
        let server = Server::bind(port).map_err(|error| {
            Error::io(format!("serving the page at port {port}"), &error)
                .with_remedy("use --watch 0 to take a free port")
        })?;
        let port = server.port();
        let canvas = Canvas(Arc::new(Mutex::new(Shown {
            subject,
            start: Instant::now(),
            took: None,
            progress: Progress::default(),
            notice: String::new(),
            asked: None,
            end: None,
            strips: BTreeMap::new(),
            newest: BTreeMap::new(),
            arrived: 0,
        })));
        let asked = Arc::new(Condvar::new());
        let (served, notified) = (canvas.clone(), asked.clone());
        thread::spawn(move || {
            server.run(|request| {
                served.shown().asked = Some(Instant::now());
                notified.notify_all();
                // A browser that went away is no failure of the calculation.
                let _ = answer(request, &served);
            })
        });
        Ok(Watch { port, canvas, asked })
    }

    /// Where the page is.
    fn address(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    pub(crate) fn canvas(&self) -> Canvas {
        self.canvas.clone()
    }

    /// Tells the page that nothing more comes, and why not if that is a failure.
    fn end(&self, end: &Result<()>) {
        self.canvas.stop();
        self.canvas.shown().end = Some(end.as_ref().map_err(Error::to_string).copied());
    }

    /// Somebody has asked for something within the time of `quiet`.
    fn is_looked_at(&self, quiet: Duration) -> bool {
        self.canvas.shown().asked.is_some_and(|asked| asked.elapsed() < quiet)
    }

    /// Blocks until nobody has asked for anything for the time of `quiet`. An open page stops asking when it shows the
    /// end, and keeps it.
    fn linger(&self, quiet: Duration) {
        let mut shown = self.canvas.shown();
        loop {
            let last = shown.asked;
            let waited = self.asked.wait_timeout_while(shown, quiet, |shown| shown.asked == last);
            let (since, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            if waited.timed_out() {
                return;
            }
            shown = since;
        }
    }
}

/// Serves the page of `program` if it was asked for at a port, and tells the user where to watch what happens: "the
/// picture grow".
///
/// # Errors
/// [`deck::ErrorKind::System`] if the port is taken.
pub fn open(program: &str, happens: &str, port: Option<u16>, subject: Subject) -> Result<Option<Watch>> {
    let watch = port.map(|port| Watch::start(port, subject)).transpose()?;
    if let Some(watch) = &watch {
        let stays = format!("until nobody has looked for {} s", LINGER.as_secs());
        remark(program, format_args!("watch {happens}, {stays}, at {}", watch.address()));
    }
    Ok(watch)
}

/// How the work of `program` has ended, for the page if there is one, which is served for as long as anybody looks at
/// it; the same for the caller. A failure is said before that, and ends the page if nobody looks.
///
/// # Errors
/// That one.
pub fn close(program: &str, watch: Option<Watch>, end: Result<()>) -> std::result::Result<(), Failure> {
    close_after(LINGER, program, watch, end)
}

fn close_after(
    quiet: Duration,
    program: &str,
    watch: Option<Watch>,
    end: Result<()>,
) -> std::result::Result<(), Failure> {
    let Some(watch) = watch else { return Ok(end?) };
    watch.end(&end);
    let said = match end {
        Ok(()) => Ok(()),
        Err(error) if !watch.is_looked_at(quiet) => return Err(error.into()),
        Err(error) => {
            remark(program, error);
            Err(Failure::Said)
        }
    };
    watch.linger(quiet);
    said
}

fn answer(request: Request, canvas: &Canvas) -> std::io::Result<()> {
    if !["GET", "HEAD"].contains(&request.method()) {
        return request.respond(&Answer::text(405, "There is nothing to send here.\n").with("Allow", "GET, HEAD"));
    }
    let (path, query) = request.target().split_once('?').unwrap_or((request.target(), ""));
    let from = if query.is_empty() { Some(0) } else { query.strip_prefix("from=").and_then(|from| from.parse().ok()) };
    let answer = match (path, from) {
        ("/", _) => with_type(Answer::of(200, PAGE.as_bytes()), "text/html; charset=utf-8"),
        ("/strips", Some(from)) => with_type(Answer::of(200, canvas.shown().news(from)), "application/octet-stream"),
        ("/strips", None) => Answer::text(400, "Ask for /strips?from=N, where N is a number.\n"),
        _ => Answer::text(404, "The page is at /.\n"),
    };
    request.respond(&answer)
}

fn with_type<'a>(answer: Answer<'a>, kind: &'a str) -> Answer<'a> {
    answer.with("Content-Type", kind).with("Cache-Control", "no-store")
}

impl Shown {
    fn head(&self, next: u64) -> Value {
        let Progress { done, total, words, shares, lost } = &self.progress;
        let Subject { title, what, unit, size: (width, height) } = &self.subject;
        json!({
            // A page that was open at this address before sees that this is another calculation.
            "calculation": std::process::id(),
            "title": title,
            "what": what,
            "unit": unit,
            "width": width,
            "height": height,
            "done": done,
            "total": total,
            "words": words,
            "shares": shares,
            "lost": lost,
            "notice": self.notice,
            "milliseconds": self.took.unwrap_or_else(|| self.start.elapsed()).as_millis() as u64,
            "ended": self.end.is_some(),
            "failure": self.end.as_ref().and_then(|end| end.as_ref().err()),
            "next": next,
            "more": next < self.arrived,
        })
    }

    /// The answer for a page that has seen the strips before number `from`.
    fn news(&self, from: u64) -> Vec<u8> {
        let (mut strips, mut next) = (Vec::new(), self.arrived);
        for (number, Strip { rows, node, pixels }) in self.strips.range(from..) {
            for number in [rows.start, rows.len() as u32, node.0] {
                strips.extend_from_slice(&number.to_le_bytes());
            }
            strips.extend_from_slice(pixels);
            if strips.len() >= ANSWER_BYTES {
                next = number + 1;
                break;
            }
        }
        let head = self.head(next).to_string();
        [&(head.len() as u32).to_le_bytes(), head.as_bytes(), &strips].concat()
    }
}

#[cfg(test)]
mod tests {
    use deck::ErrorKind;

    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn subject() -> Subject {
        Subject { title: "A `<picture>`".into(), what: "6 × 4 pixels".into(), unit: "slices", size: (6, 4) }
    }

    fn get(watch: &Watch, target: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(("127.0.0.1", watch.port)).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        (String::from_utf8(bytes[..head].to_vec()).unwrap(), bytes[head + 4..].to_vec())
    }

    /// The head of an answer and the first rows, rows and nodes of its strips, with the first byte of each.
    fn strips(watch: &Watch, from: u64) -> (Value, Vec<[u32; 4]>) {
        let (_, bytes) = get(watch, &format!("/strips?from={from}"));
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let mut at = 4 + number(0) as usize;
        let head = serde_json::from_slice(&bytes[4..at]).unwrap();
        let mut strips = Vec::new();
        while at < bytes.len() {
            let [first, rows, node] = [number(at), number(at + 4), number(at + 8)];
            strips.push([first, rows, node, bytes[at + 12].into()]);
            at += 12 + (rows * 6 * 3) as usize;
        }
        (head, strips)
    }

    #[test]
    fn the_page_is_served_on_a_free_port_of_the_loopback_address() {
        let watch = Watch::start(0, subject()).unwrap();
        assert!(watch.address().starts_with("http://127.0.0.1:") && watch.port != 0);
        let (head, page) = get(&watch, "/");
        let page = String::from_utf8(page).unwrap();
        assert!(head.contains(" 200 ") && head.contains("text/html"), "{head}");
        assert!(page.contains("<canvas") && !page.contains("picture>`"), "what a file is called gets into no page");
        assert_eq!(strips(&watch, 0).0["title"], "A `<picture>`");
        for (target, status) in [("/etc/passwd", " 404 "), ("/strips?from=x", " 400 "), ("/strips?from=-1", " 400 ")] {
            let (head, sentence) = get(&watch, target);
            assert!(head.contains(status) && sentence.ends_with(b".\n"), "{target}: {head}");
        }
    }

    #[test]
    fn a_request_that_announces_a_huge_body_is_refused_and_the_page_is_still_served() {
        let watch = Watch::start(0, subject()).unwrap();
        for length in ["99999999999", "18446744073709551615"] {
            let mut stream = TcpStream::connect(("127.0.0.1", watch.port)).unwrap();
            write!(stream, "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\nx").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 413 "), "{length}: {answer}");
            assert!(get(&watch, "/").0.contains(" 200 "));
        }
    }

    #[test]
    fn strips_are_told_in_order_of_arrival_from_where_the_page_is() {
        let watch = Watch::start(0, subject()).unwrap();
        let (head, none) = strips(&watch, 0);
        assert_eq!(
            (&head["width"], &head["height"], &head["ended"], none.len()),
            (&json!(6), &json!(4), &json!(false), 0)
        );
        watch.canvas.show(2..4, NodeId(1), vec![7; 36]);
        watch.canvas.show(0..2, NodeId(0), vec![9; 36]);
        watch.canvas.advance(Progress { done: 2, total: 2, words: "2 of 2".into(), shares: vec![1, 1], lost: vec![1] });
        watch.canvas.notice("node 1 was lost");
        watch.end(&Ok(()));
        let (head, all) = strips(&watch, 0);
        assert_eq!(all, [[2, 2, 1, 7], [0, 2, 0, 9]]);
        assert_eq!((&head["done"], &head["words"], &head["ended"]), (&json!(2), &json!("2 of 2"), &json!(true)));
        assert_eq!((&head["next"], &head["more"]), (&json!(2), &json!(false)));
        assert_eq!((&head["notice"], &head["lost"]), (&json!("node 1 was lost"), &json!([1])));
        assert_eq!(head["failure"], Value::Null);
        assert_eq!(strips(&watch, 1).1, [[0, 2, 0, 9]]);
        assert_eq!(strips(&watch, 2).1.len() + strips(&watch, u64::MAX).1.len(), 0);
    }

    #[test]
    fn the_newest_strip_of_the_same_rows_is_the_only_one() {
        let watch = Watch::start(0, subject()).unwrap();
        for shade in 1..=3 {
            watch.canvas.show(0..2, NodeId(0), vec![shade; 36]);
        }
        assert_eq!(strips(&watch, 0).1, [[0, 2, 0, 3]]);
    }

    #[test]
    fn an_answer_that_would_be_long_leaves_the_rest_for_the_next_one() {
        let watch = Watch::start(0, Subject { size: (6, 1 << 20), ..subject() }).unwrap();
        watch.canvas.show(0..1 << 18, NodeId(0), vec![1; 18 << 18]);
        watch.canvas.show(1 << 18..1 << 19, NodeId(0), vec![2; 18 << 18]);
        let (head, first) = strips(&watch, 0);
        assert_eq!((first.len(), &head["next"], &head["more"]), (1, &json!(1), &json!(true)));
        let (head, second) = strips(&watch, 1);
        assert_eq!((second[0][3], &head["more"]), (2, &json!(false)));
    }

    #[test]
    fn a_taken_port_is_refused_with_the_remedy() {
        let watch = Watch::start(0, subject()).unwrap();
        let error = Watch::start(watch.port, subject()).err().unwrap();
        assert!(error.remedy().contains("--watch 0"));
    }

    #[test]
    fn a_page_that_is_open_is_told_why_the_work_failed() {
        let watch = Watch::start(0, subject()).unwrap();
        let why = "node 2 was lost, and its part of the slab with it";
        let end = || Err(Error::new(ErrorKind::PeerLost, why).with_remedy("start the job again"));
        watch.end(&end());
        let (head, _) = strips(&watch, 0);
        assert_eq!(head["ended"], json!(true));
        assert!(head["failure"].as_str().is_some_and(|failure| failure.contains(why)), "{head}");
        // Whoever looks has time to see it, and the user has heard of it by then.
        assert!(watch.is_looked_at(Duration::MAX) && !watch.is_looked_at(Duration::ZERO));
        watch.canvas.shown().asked = Some(Instant::now() + LINGER);
        assert!(matches!(close_after(Duration::from_millis(1), "idle", Some(watch), end()), Err(Failure::Said)));
        let unseen = Watch::start(0, subject()).unwrap();
        assert!(matches!(close("idle", Some(unseen), end()), Err(Failure::Error(_))), "it would stay for 5 s");
        assert!(matches!(close("idle", None, end()), Err(Failure::Error(_))));
    }
}
