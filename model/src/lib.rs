//! GPT-1 and its relatives: their layers, objectives and checkpoints in Hugging Face's format.
//!
//! A model is a [`Tree`], generic over its leaves: declarations, tensors, tape variables, gradients or moments. So `Model<Param>`
//! declares the parameters, `Model<Tensor>` holds them, `Model<Var>` computes, and traversals are `map` or `visit`. The tree
//! stores the configuration.
//!
//! ```
//! use gradus_autograd::{Tape, Tensor};
//! use gradus_model::{Batch, Model, ModelConfig, Objective, Sizes, Tree};
//!
//! let sizes = Sizes { vocab: 11, context: 4, width: 8 };
//! let config = ModelConfig::gpt(sizes, 2, 2);
//! config.check()?;
//! let gpt: Model<Tensor<f64>> = Model::init(&config, 1);
//!
//! // Two sequences of four tokens; each predicts the token that follows.
//! let (inputs, targets) = ([1, 2, 3, 4, 5, 6, 7, 8], [2, 3, 4, 5, 6, 7, 8, 9]);
//! let batch = Batch::next(2, inputs, targets, Objective::TokenMean.weights(&[1.0; 8], 2));
//! let tape = Tape::new();
//! let leaves = gpt.leaves(&tape);
//! let loss = leaves.loss(&batch, None); // no dropout
//! assert!((loss.value().item() - 11f64.ln()).abs() < 0.1); // an untrained model: about ln 11
//!
//! let grads = tape.backward(&loss);
//! let mut names = Vec::new();
//! leaves.as_ref().visit(|path, leaf| {
//!     assert_eq!(grads.of(leaf).unwrap().shape(), leaf.shape());
//!     names.push(path.to_owned());
//! });
//! assert_eq!(names[2], "h.0.attn.c_attn.weight");
//! # Ok::<(), gradus_model::ConfigError>(())
//! ```

mod batch;
mod body;
pub mod check;
pub mod checkpoint;
pub mod config;
mod decode;
mod dropout;
mod head;
pub mod layers;
mod model;
mod ngram;
pub mod objectives;
mod output;
mod param;
mod recurrent;
mod transfer;
mod transformer;
pub mod tree;

pub use batch::{Batch, ClassLoss, Input, LossTerm, Sight, TokenLoss};
pub use body::{Body, BodyConfig};
pub use config::{Activation, ConfigError, Sizes};
pub use decode::Decoder;
pub use dropout::{Dropout, DropoutSeed, Site};
pub use head::{Form, Head, HeadConfig, Heads, NEXT};
pub use model::{GradientMode, Model, ModelConfig};
pub use ngram::KneserNey;
pub use objectives::Objective;
pub use output::{Hidden, Output, OutputConfig, Outputs, Predicts, Transform, TransformConfig};
pub use param::{Init, Param, Role, Serves};
pub use recurrent::{Lstm, LstmCell, LstmConfig, LstmState};
pub use transfer::Transfer;
pub use transformer::{
    Block, Embedding, LayerCache, NormPlace, Positions, SelfAttention, Transformer, TransformerConfig, sinusoids,
};
pub use tree::Tree;
