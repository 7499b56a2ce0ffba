pub mod control_groups;
pub(crate) mod cores;
pub(crate) mod maker;
pub(crate) mod stack;
pub mod vectors;
