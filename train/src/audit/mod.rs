//! Every step shown, and proved: what `gradus audit` prints.

pub mod cost;
pub mod golden;
pub mod ledger;
pub mod model;
pub mod mutants;
pub mod ops;
pub mod step;
