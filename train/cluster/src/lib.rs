//! Data-parallel training of one model by several processes, on one machine or on several, with bit-identical results.
//!
//! | module | contents |
//! |-|-|
//! | [`rendezvous`], [`secret`] | connecting the processes, and authenticating them |
//! | [`plan`] | the assignment of shards and of additions to processes |
//! | [`control`] | failure detection, and the search for the cause |
//! | [`cluster`] | the collective operations that training uses |
//! | [`launch`] | starting the processes of one machine, and restarting them |
//! | [`cost`] | a model of the time of a step over a given link |
//!
//! Messages travel over the engine `timely_communication`. One thread holds its channels (`engine`). Received data is checked
//! (`frames`), sorted (`inbox`) and added (`sums`).

pub mod cluster;
pub mod control;
pub mod cost;
mod engine;
mod fault;
mod frames;
mod inbox;
pub mod launch;
mod line;
mod message;
mod pieces;
pub mod plan;
pub mod rendezvous;
pub mod secret;
mod sums;
