//! What is asked of the machine: cores, limits of control groups and of processes, who made it, stacks, vectors, files.

pub mod control_groups;
pub(crate) mod cores;
pub(crate) mod limit;
pub(crate) mod maker;
pub(crate) mod stack;
pub(crate) mod told;
pub mod vectors;
