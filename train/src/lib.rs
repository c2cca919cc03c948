//! Text, data, optimizers, the trainer and the `gradus` program.

pub mod bench;
pub mod cli;
pub mod data;
pub mod evaluate;
pub mod files;
pub mod generate;
pub mod metrics;
pub mod model_dir;
pub mod optim;
pub mod pretrain;
pub mod progress;
pub mod report;
pub mod settings;
pub mod text;
pub mod trainer;
pub mod world;
