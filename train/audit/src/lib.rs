//! The evidence printed by `gradus audit`: every computation shown and checked.
//!
//! | module | contents |
//! |-|-|
//! | [`catalogue`] | the statements in the files of ops and kernels |
//! | [`ops`] | every op with its evidence: witnesses, PyTorch's values ([`golden`]), [`mutants`] |
//! | [`model`] | a model's gradients and properties |
//! | [`step`] | one training step with every number |
//! | [`systems`] | GPT-1 and its relatives, checked against their cards |
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
