//! Messages over memory that the receiver's node lends to the sender's.

pub mod baton;
pub mod bells;
pub mod packed;
pub mod packet;
pub mod receiver;
pub mod ring;
pub mod sender;
