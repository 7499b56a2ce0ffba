//! How a process learns its job, and how processes are started so that they can learn it. Nothing more.
//!
//! * [`place`](place()) answers where this process belongs: it was started by `deck run` (which left it one end of a
//!   socket), it was told the name of a job, or it is alone. A process that a foreign manager started as one of many
//!   gets an error instead of a job of its own: N processes that each believe to be alone compute N times the same
//!   thing.
//! * [`Launch`] starts the processes of `deck run`; [`signals`] and [`split`](split()) are what a launcher needs to
//!   look after them to the end and nobody offers without unsafe code.
//!
//! Joining itself, that is talking through the socket or finding the other nodes of a named job, is not done here.

mod manager;
mod place;
mod run;
pub mod signals;
mod split;

pub use place::{
    JOB_NAME_LIMIT, JOB_VARIABLE, LAUNCH_VARIABLE, ORDER_VARIABLE, Place, TERMINAL_VARIABLE, check_job_name, place,
    place_from,
};
pub use run::{Launch, Started, Stream};
pub use split::{Half, split};
