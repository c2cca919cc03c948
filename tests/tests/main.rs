//! Tests across crates, in one binary: linking is what takes time. `memory` needs its own allocator, and `browser` a browser.

mod bits;
mod derivatives;
mod gradients;
mod heads_parity;
mod ledger;
mod lstm_parity;
mod ops_page;
mod optimizer_parity;
mod rooms;
mod training;
mod transformers_parity;
mod whole_lstm;
mod whole_model;
