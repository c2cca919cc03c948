//! GPT-1: its layers, its objective and its checkpoints in Hugging Face's format.

mod block;
pub mod checkpoint;
pub mod config;
mod decode;
mod gpt;
pub mod layers;
mod noise;
pub mod objectives;
pub mod tree;

pub use block::Block;
pub use config::{Activation, ConfigError, Embedding, GptConfig, Positions};
pub use decode::{Decoder, LayerCache};
pub use gpt::{Batch, Gpt, Hidden, sinusoids};
pub use noise::Noise;
pub use objectives::Objective;
pub use tree::Tree;
