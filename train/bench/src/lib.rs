//! Benchmarks: the rates of training, evaluation and generation against the peak rate of matrix products; the cost of a training
//! step, op by op; the growth of cost with the model's sizes.

pub mod cost;
mod evaluate;
mod generate;
mod machine;
mod products;
mod profile;
mod scaling;
mod train;
mod workload;

pub use evaluate::{EvaluateReport, evaluate};
pub use generate::{GenerateReport, generate};
pub use products::{Layout, Product, ProductRate, ProductsReport, products};
pub use profile::{Profile, ShaderRow};
pub use scaling::{Growth, Point, SWEEPS, Sweep, scaling};
pub use train::{GpuStep, Memory, TrainReport, train};
pub use workload::{Workload, default_shards_on};
