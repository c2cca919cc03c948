//! Text, data, optimizers, the trainer and the `gradus` program.

pub mod data;
pub mod optim;
pub mod text;
pub mod world;
