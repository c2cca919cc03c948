//! The collective operations of the processes that train one model: all-reduce, all-gather, broadcast, gather.
//!
//! ```text
//! process p   its shards → a gradient each ─┐
//!                                           ├─ sums, by the tree of the shards → each process has the sum of all
//! process q   its shards → a gradient each ─┘
//! ```
//!
//! The [tree](AdditionTree) fixes the order of addition, whichever process adds, so a run has the same bits in any number of
//! processes. [`SingleProcess`] implements the operations for a single process.

#![recursion_limit = "256"] // a tensor's types are deep where it may be on a GPU

mod operations;
mod single;
#[cfg(feature = "testing")]
pub mod testing;
mod tree;

pub use operations::{AllGather, Collective, ParamRange, PeerError, Reduction, Sum};
pub use single::SingleProcess;
pub use tree::{AdditionTree, Parent, part};
