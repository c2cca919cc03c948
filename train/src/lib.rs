//! Text, data, optimizers, the trainer and the `gradus` program.

pub mod bench;
pub mod cli;
pub mod evaluate;
pub mod generate;
pub mod model_dir;
pub mod text;
pub mod world;
