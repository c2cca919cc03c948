//! Several processes that train one model, on this machine or on several, to the same bits.
//!
//! | module | |
//! |-|-|
//! | [`rendezvous`], [`secret`] | how they find one another, and prove that they belong together |
//! | [`plan`] | who computes which shards, and who adds what |
//! | [`control`] | who lives, and who is at fault |
//! | [`cluster`] | what training asks of them |
//! | [`cost`] | what a step costs on a link |
//!
//! Between them stands the engine, `timely_communication`: one thread holds its channels (`engine`), what comes is checked (`frames`),
//! sorted (`inbox`) and added (`sums`).

pub mod cluster;
pub mod control;
pub mod cost;
mod engine;
mod fault;
mod frames;
mod inbox;
mod line;
mod message;
mod pieces;
pub mod plan;
pub mod rendezvous;
pub mod secret;
mod sums;
