//! Text, data, optimizers, the trainer and the `gradus` program.

pub mod optim;
