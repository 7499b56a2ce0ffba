//! Reductions: operations on elements, folded in the order of indexes, wherever the members are.

pub mod folding;
pub mod neighbours;
pub mod operation;
pub mod relay;
