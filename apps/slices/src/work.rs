//! What an application says about its picture; the rest of this crate is the same for all.

use std::ops::{ControlFlow, Range};

use deck::{Element, Error, Message, Result};

use crate::cut::Cut;
use crate::worker::Lines;

/// A picture that can be made slice by slice.
///
/// What a pixel becomes may depend on the pixel alone: then the picture is the same, bit for bit, for every number of
/// nodes, threads and slices.
pub trait Work: Clone + Send + Sync + 'static {
    /// What pixels are made of: iteration counts, shares of colours.
    type Value: Element + Default + Send;
    /// How many of them a pixel has.
    const VALUES: usize;
    /// Name of the program, for its messages and mail box. All nodes of a job run the same one.
    const PROGRAM: &'static str;
    /// Computing threads for each core of a node's share, if the user does not say how many.
    const THREADS_FOR_A_CORE: u32 = 1;

    /// Size and slices.
    fn cut(&self) -> &Cut;

    /// What is made, for the last line of the program: "600x600, 17500 iterations".
    fn describe(&self) -> String;

    /// Looks, in node 0 and before anything else, whether this can be made, and at what all workers have to know of it.
    ///
    /// # Errors
    /// Why it cannot be made, with the remedy.
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// Writes into a message what a worker has to know.
    ///
    /// # Errors
    /// Those of [`Message::pack`].
    fn pack(&self, message: &mut Message) -> Result<()>;

    /// Reads and checks what [`Work::pack`] wrote.
    ///
    /// # Errors
    /// Those of [`Message::unpack`], and of whatever makes a valid work of numbers.
    fn unpack(message: &mut Message) -> Result<Self>;

    /// Makes the rows of one slice: [`Lines::deliver`] for lines that are ready before the others, as often as is
    /// useful, and [`Lines::finish`] at the end, whose answer is the answer of this function. After a `Break`, which it
    /// passes on as its own answer, nobody wants the rest.
    ///
    /// # Errors
    /// A [`Failure`]; those of [`Lines`] become one with `?`.
    fn compute(&self, rows: Range<u32>, lines: &mut Lines<'_, Self>) -> std::result::Result<ControlFlow<()>, Failure>;

    /// Three bytes (red, green, blue) for each pixel.
    fn paint(&self, values: &[Self::Value]) -> Vec<u8>;
}

/// Why a slice could not be made.
#[derive(Clone, Debug)]
pub enum Failure {
    /// Nobody can make this picture. It is the end of the job, and told by the master alone.
    Impossible {
        /// What is wrong with it.
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// This worker cannot go on; its slice goes to another one.
    Worker(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Worker(error)
    }
}
