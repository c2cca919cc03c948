//! Witnesses: seven independent tests of a derivative, and an audit of an op's stated cost.
//!
//! | witness          | claim                                                   | tolerance, and relative to what        |
//! |------------------|---------------------------------------------------------|----------------------------------------|
//! | [`forward_mode`] | x̄ = Σⱼ ȳⱼ ∂yⱼ/∂x, derivatives by [`Dual`] through eval  | 1e-13 of Σ \|terms\|                   |
//! | [`differences`]  | the same, derivatives by central differences            | 1e-6 of Σ \|ȳⱼ\|·(\|∂yⱼ/∂x\| + \|yⱼ\|) |
//! | [`adjoint`]      | ⟨u, Jv⟩ = ⟨Jᵀu, v⟩                                      | 1e-12 of Σ \|terms\|                   |
//! | [`second_order`] | derivatives of the VJP, against its central differences | 1e-6 of Σ \|terms\| and of the VJP     |
//! | [`v_curve`]      | ⟨Jᵀu, v⟩, against differences at the best of 57 steps   | 1e-8 of Σ \|terms\|                    |
//! | [`taylor`]       | the remainder after the linear term falls as h²         | slope at least 2 − 0.05                |
//! | [`fused`]        | kernel and VJP of a fused op equal its definition's     | 1e-12 and 1e-10 of the largest element |
//! | [`audit`]        | `flops()` equals the number that [`Count`] counts       | exact                                  |
//!
//! [`teeth`] checks the checks: on an op's samples, they must detect an error of 0.1 % in its VJP.
//!
//! Each check works on a [`Case`]: one op on one draw of inputs. Cotangents and directions are random, never all ones, because a
//! sum of a gradient's elements hides errors that cancel. The integration tests run the checks over the list of ops. To check one
//! op (for your own, with `Subject::of::<YourOp>()`):
//!
//! ```
//! use gradus_autograd::check;
//! let gelu = check::subjects().into_iter().find(|s| s.name() == "gelu").unwrap();
//! for case in gelu.cases(17, 3) {
//!     for (_, witness) in check::WITNESSES {
//!         let report = witness(&case)?; // the largest error, its place, and the seed of the draw
//!         assert!(report.error() <= report.tolerance);
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`function()`] checks a function of tensors: a formula of your own or a whole model. Its errors are relative to the largest Σ
//! |terms| among the ops that the function applies. [`application()`] checks one VJP inside a running model, at the model's
//! values. [`devices()`] compares an op on a GPU with the same op on the CPU. [`adjoint_on()`] tests an op using only the GPU.

mod adjoint;
mod adjoint_on;
mod application;
mod audit;
mod case;
mod count;
mod devices;
mod differences;
mod dual;
mod evidence;
mod forward_mode;
mod function;
mod fused;
mod line;
mod report;
mod second_order;
mod taylor;
mod teeth;
mod terms;
mod v_curve;

pub use adjoint::adjoint;
pub use adjoint_on::adjoint_on;
pub use application::application;
pub use audit::audit;
pub use case::{Case, Subject, subjects};
pub use count::Count;
pub use devices::devices;
pub use differences::differences;
pub use dual::Dual;
pub use evidence::{Evidence, draws, evidence};
pub use forward_mode::forward_mode;
pub use function::{DERIVATIVES, Function, function};
pub use fused::fused;
pub use report::{Comparison, Failure, Outcome, Report};
pub use second_order::second_order;
pub use taylor::{taylor, taylor_on};
pub use teeth::{Toothless, teeth, teeth_on};
pub use v_curve::{v_curve, v_curve_at};

/// A check of one op on one draw of inputs.
pub type Witness = fn(&Case) -> Outcome;

/// The seven witnesses and the audit, by name; the witnesses in [`DERIVATIVES`] come first.
pub const WITNESSES: [(&str, Witness); 8] = [
    ("forward_mode", forward_mode),
    ("differences", differences),
    ("adjoint", adjoint),
    ("second_order", second_order),
    ("v_curve", v_curve),
    ("taylor", taylor),
    ("fused", fused),
    ("audit", audit),
];

/// The step of central differences, ε^⅓.
///
/// ```text
/// (f(x + h) − f(x − h))/2h = f′(x) + h²f‴/6 + O(ε f/h):        both errors are of the order ε^⅔ ≈ 4·10⁻¹¹ at h = ε^⅓
/// ```
const STEP: f64 = 6.055_454_452_393_343e-6;

/// The tolerance of central differences: four digits above their error of about ε^⅔ ≈ 4·10⁻¹¹, for large higher derivatives.
const DIFFERENCES: f64 = 1e-6;

/// Compares with central differences at h = [`STEP`]. If they disagree, retries with h/10 and h/100: the third derivative of a
/// function such as a deep model's loss may be too large for h. A wrong derivative is wrong at every step.
fn at_best_step(compare: impl Fn(f64) -> Comparison) -> Comparison {
    let mut best = compare(STEP);
    for h in [STEP / 10.0, STEP / 100.0] {
        if best.error() <= DIFFERENCES {
            break;
        }
        let finer = compare(h);
        if finer.error() < best.error() {
            best = finer;
        }
    }
    best
}
