//! The engine of OptiSCI as the browser tool calls it.
//!
//! The page and the `deck` command compute costs with the same crate, `optisci`; this one adds what only a page needs:
//! what the total would be on *every* node while an item is being dragged ([`trial`]), what weighs most and which
//! single moves help ([`explain`]), and the way in and out of WebAssembly memory (`boundary`, on that target only).

pub mod exchange;
pub mod explain;
pub mod numbers;
pub mod session;
pub mod solve;
pub mod trial;
pub mod users;

pub use session::Session;

#[cfg(target_arch = "wasm32")]
mod boundary;
