//! How fast this machine trains, evaluates and generates, against what its matrix products could do; what a training step costs,
//! op by op; how cost grows with the model.

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
