//! Every op checked by every witness on a few draws: a quick form of the integration tests, which use 256.

use gradus_autograd::check::{self, Case, Function};
use gradus_autograd::{Real, Tensor, Var};

#[test]
fn every_op_passes_every_witness() {
    for op in check::subjects() {
        for evidence in check::evidence(&op, 10) {
            assert!(evidence.refused.is_none(), "{}", evidence.refused.unwrap());
        }
    }
}

/// The function y = tanh(3000x).
#[derive(Debug)]
struct Sharp;
impl Function for Sharp {
    fn call<'t, T: Real>(&self, ins: &[Var<'t, T>]) -> Var<'t, T> {
        ins[0].affine(3000.0, 0.0).tanh()
    }
}

/// The step ε^⅓ is too long for `Sharp`: h²f‴/6 is 10⁻⁴ of f′ there. Shorter steps are tried, so that the derivative is accepted.
#[test]
fn a_sharply_curved_function_passes_finite_differences() {
    for seed in 0..8 {
        let case = Case::of("sharp", Sharp, &[Tensor::new([3], vec![2e-4, -1e-4, 3e-4])], seed);
        for witness in [check::differences, check::second_order] {
            let report = witness(&case).unwrap_or_else(|e| panic!("{e}"));
            assert!(report.error() > 0.0, "{report}"); // something was compared
        }
    }
}
