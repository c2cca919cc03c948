//! Text, data, optimizers, the trainer and the `gradus` program.

pub mod files;
pub mod metrics;
pub mod optim;
pub mod progress;
pub mod text;
pub mod trainer;
pub mod world;
