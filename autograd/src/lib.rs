//! The tape, its ops (one file each), and the checks of every derivative.
//!
//! - [`Tape`] records a computation; [`backward`] is the reverse loop.
//! - [`Op`] is the trait that defines an op; every file of [`ops`] is one op, with its derivation.
//! - [`check`] holds the witnesses that run over the list of ops, [`ops::all`], and on functions of your own.
//! - [`observer`] observes every value as it is computed: [`anomaly`] finds non-finite numbers, [`trace`] records everything.
//! - [`derivatives`] has gradients, Jacobians, Hessians and their products as functions of functions.
//!
//! ```
//! use gradus_autograd::{Tape, Tensor};
//!
//! let tape = Tape::new();
//! let w = tape.leaf(Tensor::new([2, 1], vec![0.5, -1.0])); // a leaf has a gradient
//! let x = tape.constant(Tensor::new([3, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])); // a constant has none
//! let y = x.matmul(&w).tanh().sum_all(); // Σ tanh(xw)
//! let gradient = tape.backward(&y).take(&w).unwrap();
//! assert_eq!(*gradient.shape(), [2, 1].into());
//!
//! // By hand: w̄ = xᵀ(1 − tanh²(xw)), and xw = −1.5, −2.5, −3.5.
//! let s: Vec<f64> = [-1.5f64, -2.5, -3.5].iter().map(|u| 1.0 - u.tanh().powi(2)).collect();
//! assert!((gradient.to_vec()[0] - (s[0] + 3.0 * s[1] + 5.0 * s[2])).abs() < 1e-15);
//! ```

pub mod anomaly;
pub mod check;
pub mod derivatives;
pub mod ops;
mod samples;
#[cfg(feature = "proptest")]
pub mod strategies;
pub mod tape;
pub mod trace;

pub use gradus_tensor::{Real, Shape, ShapeError, Tensor};
pub use samples::Samples;
pub use tape::backward::{self, Grads};
pub use tape::observer;
pub use tape::op::{self, AnyOp, Entry, Evaluated, Op, Sample, Saved, Saves, Want};
pub use tape::{NodeId, Recorded, Site, Tape, Var};
