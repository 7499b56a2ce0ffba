//! Pages for browsers of this host: as much of HTTP/1.1 as that takes.
//!
//! A connection carries one request, without a body that anybody reads, and is closed behind its answer. Whatever comes
//! in is bounded, in bytes, in time and in connections at once, before anything is stored or waited for: a job that
//! shows its picture must not end, and not stand still, because of what some process of this host writes to its port.
//! Nor is it shown to pages of other sites that browsers of this host visit.
//!
//! | file | idea |
//! |---|---|
//! | `server` | connections: a thread for each, not too many, none for ever |
//! | `head` | the bytes of a request, understood or refused |
//! | `answer` | the bytes of an answer |
#![forbid(unsafe_code)]

mod answer;
mod head;
mod server;

pub use answer::Answer;
pub use head::BODY_BYTES_MAX;
pub use server::{Request, Server};
