//! Text, data, optimizers, the trainer and the `gradus` program.

pub mod bench;
pub mod cli;
pub mod evaluate;
pub mod files;
pub mod generate;
pub mod metrics;
pub mod model_dir;
pub mod optim;
pub mod progress;
pub mod text;
pub mod trainer;
pub mod world;
