//! One message to one node.
//!
//! A [`Parcel`] is a message's content with its element types. Over memory that the receiver's node lends ([`segment`])
//! it travels by one of three protocols, all announced through one ring of slots, so that order across protocols costs
//! nothing: *short* (the content is in the slot), *buffered* (copied beside the ring) and *zero-copy* (the buffer
//! itself is handed over, or written straight to where the receiver wants it). Which one is chosen by one function,
//! [`protocol::choose`].
//!
//! Nothing here waits: a full ring is an answer ([`Refusal`]), and what to wait on is told.

pub mod parcel;
pub mod protocol;
pub mod segment;
pub mod traffic;

pub use parcel::Parcel;
pub use protocol::{Budget, Protocol, Thresholds};
pub use segment::baton::Baton;
pub use segment::bells::{Bell, Bells};
pub use segment::receiver::{Glance, Heaps, Receiver};
pub use segment::ring::{RingPlace, Said, Shape};
pub use segment::sender::{Refusal, Sender};
pub use traffic::Traffic;
