//! The tape, its ops one file each, and the checks that prove every derivative.
//!
//! - [`Tape`] records what is computed; [`backward`] is the reverse loop.
//! - [`Op`] is what an op states; every file of [`ops`] is one op, with its derivation.
//! - [`check`] holds the witnesses that run over the list of ops, [`ops::all`].

pub mod backward;
pub mod check;
pub mod op;
pub mod ops;
mod samples;
pub mod tape;
mod var;

pub use backward::{Grads, Summand};
pub use gradus_tensor::{Real, Shape, ShapeError, Tensor};
pub use op::{Declared, Entry, Evaluated, Op, Sample, Saved, Saves, Want};
pub use samples::Samples;
pub use tape::{NodeId, Site, Step, Tape};
pub use var::Var;
