//! Rules by which members follow one another in words that all of them see: who may go on, and what may be read by
//! then.
//!
//! Nothing here waits, and nothing here knows what a call is. Each has a model (`crates/deck/tests/loom_*.rs`), which
//! alone sees it from outside.

pub mod ahead;
pub mod course;
pub mod flow;
pub mod once;
pub mod relocation;
pub mod teams;
