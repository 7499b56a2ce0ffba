//! placeholder
pub use deck_mudeck::*;
