//! What any process of this host may write to the port, and what others see of that: nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use deck_http::{Answer, BODY_BYTES_MAX, Server};

/// A server that says how it was asked. It lives as long as the tests.
fn serve() -> u16 {
    let server = Server::bind(0).unwrap();
    let port = server.port();
    thread::spawn(move || {
        server.run(|request| {
            let said = format!("{} {}", request.method(), request.target());
            request.respond(&Answer::text(200, said)).unwrap();
        })
    });
    port
}

fn send(port: u16, request: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(request).unwrap();
    stream
}

fn answer(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn assert_served(port: u16) {
    let answer = answer(send(port, b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("GET /x"), "{answer}");
}

#[test]
fn content_of_any_announced_length_is_refused_and_serving_goes_on() {
    let port = serve();
    for length in ["99999999999", "18446744073709551615", "18446744073709551616", "65537"] {
        let request = format!("POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\nx");
        let answer = answer(send(port, request.as_bytes()));
        assert!(answer.starts_with("HTTP/1.1 413 "), "{length}: {answer}");
        assert_served(port);
    }
    let chunked = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx";
    assert!(answer(send(port, chunked)).starts_with("HTTP/1.1 411 "));
    assert_served(port);
}

#[test]
fn content_that_never_comes_keeps_nobody_waiting() {
    let port = serve();
    let stream = send(port, b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5000\r\n\r\nx");
    assert!(answer(stream).starts_with("HTTP/1.1 200 "));
    assert_served(port);
}

#[test]
fn who_sends_all_that_may_be_sent_reads_the_answer() {
    let port = serve();
    let mut request = format!("POST / HTTP/1.1\r\nContent-Length: {BODY_BYTES_MAX}\r\n\r\n").into_bytes();
    request.resize(request.len() + BODY_BYTES_MAX as usize, 0);
    assert!(answer(send(port, &request)).starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_head_without_end_is_refused() {
    let port = serve();
    let mut request = b"GET / HTTP/1.1\r\nX: ".to_vec();
    request.resize(32 << 10, b'a');
    assert!(answer(send(port, &request)).starts_with("HTTP/1.1 431 "));
    assert_served(port);
}

#[test]
fn visitors_who_say_nothing_or_half_of_it_are_not_waited_for() {
    let port = serve();
    let silent: Vec<TcpStream> = [&b""[..], b"GET", b"GET / HTTP/1.1\r\n"].map(|part| send(port, part)).into();
    assert_served(port);
    drop(silent);
    assert_served(port);
}

#[test]
fn more_visitors_than_places_are_served_one_after_the_other() {
    let port = serve();
    let silent: Vec<TcpStream> = (0..64).map(|_| send(port, b"")).collect();
    let waiting = send(port, b"GET /y HTTP/1.1\r\n\r\n");
    drop(silent);
    assert!(answer(waiting).ends_with("GET /y"));
}

#[test]
fn the_head_alone_is_answered_without_content() {
    let answer = answer(send(serve(), b"HEAD / HTTP/1.1\r\n\r\n"));
    assert!(answer.contains("Content-Length: 6\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
}
