//! A picture for tests: black, 600 by 600, in 64 slices.

use std::ops::{ControlFlow, Range};

use deck::{Message, Result};

use crate::cut::Cut;
use crate::work::{Failure, Work};
use crate::worker::Lines;

#[derive(Clone)]
pub struct Night(Cut);

impl Night {
    pub fn new() -> Night {
        Night(Cut::checked((600, 600), 64, 1).unwrap())
    }
}

impl Work for Night {
    type Value = u8;
    const VALUES: usize = 1;
    const PROGRAM: &'static str = "night";

    fn cut(&self) -> &Cut {
        &self.0
    }

    fn describe(&self) -> String {
        "600x600".into()
    }

    fn pack(&self, _: &mut Message) -> Result<()> {
        Ok(())
    }

    fn unpack(_: &mut Message) -> Result<Self> {
        Ok(Night::new())
    }

    fn compute(&self, rows: Range<u32>, lines: &mut Lines<'_, Self>) -> std::result::Result<ControlFlow<()>, Failure> {
        let values = vec![0; rows.len() * 600];
        Ok(lines.finish(rows, &values)?)
    }

    fn paint(&self, values: &[u8]) -> Vec<u8> {
        vec![0; values.len() * 3]
    }
}
