//! Text, data, optimizers, the trainer and the `gradus` program.

pub mod files;
pub mod metrics;
pub mod progress;
pub mod report;
