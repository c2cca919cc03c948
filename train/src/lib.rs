//! Optimizers, the trainer, pre-training and fine-tuning.
//!
//! ```
//! use std::sync::Arc;
//!
//! use gradus_data::{Memory, RandomWindows};
//! use gradus_model::{Batch, Model, ModelConfig, Objective, Sizes};
//! use gradus_train::optim::{Optimizer, Schedule, ScheduleKind, Warmup};
//! use gradus_text::Tokenizer;
//! use gradus_train::trainer::{Recipe, Trainer};
//!
//! // Text → tokens → windows.
//! let text = "the cat sat on the mat. ".repeat(20);
//! let tokenizer = Tokenizer::characters([text.as_str()]);
//! let vocab = tokenizer.vocab_size();
//! let tokens = Memory::new(tokenizer.encode(&text)?, text.len() as u64, vocab)?;
//! let windows = RandomWindows::new(Arc::new(tokens), 0..text.len(), 16, 1)?;
//!
//! // A model, and the recipe of its training.
//! let sizes = Sizes { vocab, context: 16, width: 16 };
//! let config = ModelConfig::gpt(sizes, 1, 2).with_dropout(0.0);
//! let recipe = Recipe {
//!     optimizer: Optimizer { lr: 1e-2, ..Optimizer::default() },
//!     schedule: Schedule { kind: ScheduleKind::Paper, warmup: Warmup::Steps(5) },
//!     ..Recipe::new(60, 2)
//! };
//! let mut trainer: Trainer = Trainer::new(recipe, Model::init(&config, 1));
//! let mut losses = Vec::new();
//! for t in 1..=60 {
//!     let rows = windows.batch(t, 0..4); // four windows: a function of the seed and t
//!     let weights = Objective::TokenMean.weights(&[1.0; 4 * 16], 4);
//!     losses.push(trainer.step(&Batch::next(4, rows.inputs, rows.targets, weights))?.loss);
//! }
//! assert!(losses[59] < 0.7 * losses[0]); // nats per token
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | |
//! |-|-|
//! | [`optim`], [`trainer`] | one training step |
//! | [`run`] | training on disk: directory, loop, resume |
//! | [`systems`] | GPT-1 and related models, one card each |
//! | [`views`] | inputs and targets of objectives other than the next token |
//! | [`pretrain`], [`finetune`], [`tasks`] | training of a language model on text, and of a head on a task |
//! | [`model_dir`] | a model with its tokenizer |
//! | [`answers`] | the predictions of a model: filled masks, generated text, losses, and answers to tasks without training |

#![cfg_attr(test, recursion_limit = "256")] // the types of GPU tensors are nested deeply

pub mod answers;
pub mod finetune;
pub mod hyperparameters;
pub mod model_dir;
pub mod optim;
pub mod pretrain;
pub mod run;
pub mod systems;
pub mod tasks;
pub mod trainer;
pub mod views;
