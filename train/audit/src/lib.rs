//! Every step, shown and proved: what `gradus audit` prints.
//!
//! | module | |
//! |-|-|
//! | [`catalogue`] | what the files of ops and kernels say |
//! | [`ops`] | every op with its evidence: witnesses, PyTorch's values ([`golden`]), [`mutants`] |
//! | [`model`] | a model's gradients and properties |
//! | [`step`] | one training step, every number of it |
//! | [`systems`] | GPT-1 and its relatives, held to their cards |
//! | [`ledger`] | the paper against the code |

pub mod catalogue;
pub mod golden;
pub mod ledger;
pub mod model;
pub mod mutants;
pub mod ops;
mod pages;
pub mod step;
pub mod systems;
