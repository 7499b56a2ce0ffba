//! What accesses cost, and what a placement costs altogether.

pub mod access;
pub mod contention;
pub mod evaluation;
pub mod explanation;

use crate::model::{Model, Op};
use crate::topology::Node;

pub use access::Terms;
pub use contention::{Changes, Crossings, Spending, Transfer};
pub use evaluation::{Evaluation, ProcessCost, Violation};
pub use explanation::{Contribution, Item, Move};

/// The costs of a model. Costs of accesses are computed where they are asked for: a few multiplications each.
///
/// A search that needs them again and again keeps [`table`](Costs::table)s: one per operation and size.
#[derive(Clone, Copy, Debug)]
pub struct Costs<'a> {
    model: &'a Model,
}

impl<'a> Costs<'a> {
    /// The costs of `model`.
    pub fn new(model: &'a Model) -> Costs<'a> {
        Costs { model }
    }

    /// The model.
    pub fn model(&self) -> &'a Model {
        self.model
    }

    /// One access of `size` bytes by a process on `a` to a segment on `b`, in ns.
    #[inline]
    pub fn access_ns(&self, op: Op, size: u64, a: Node, b: Node) -> f64 {
        access::access_ns(self.model, op, size, a, b)
    }

    /// One message of `size` bytes from a process on `a` to a process on `b`, in ns.
    #[inline]
    pub fn message_ns(&self, size: u64, a: Node, b: Node) -> f64 {
        if a == b { 0.0 } else { self.access_ns(Op::Write, size, a, b) }
    }

    /// The same access from every node to every node: row after row, the process's node first.
    pub fn table(&self, op: Op, size: u64) -> Vec<f64> {
        let nodes = self.model.nodes() as Node;
        (0..nodes).flat_map(|a| (0..nodes).map(move |b| self.access_ns(op, size, a, b))).collect()
    }

    /// One message from every node to every node: row after row, the sender's node first.
    pub fn message_table(&self, size: u64) -> Vec<f64> {
        let nodes = self.model.nodes() as Node;
        (0..nodes).flat_map(|a| (0..nodes).map(move |b| self.message_ns(size, a, b))).collect()
    }

    /// What an access of this model weighs: how often it is paid.
    #[inline]
    pub fn weight(&self, count: u64) -> f64 {
        self.model.weight(count) as f64
    }
}
