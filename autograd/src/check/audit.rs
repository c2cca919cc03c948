//! The audit of an op's stated cost.

use super::report::{Comparison, Ledger, Outcome};
use super::{Case, Count};
use crate::Want;

/// Checks that `flops()` is exactly the number of operations of one evaluation, counted by the scalar itself.
pub fn audit(case: &Case) -> Outcome {
    Ledger::of("audit", case, |mut ledger| {
        let ins: Vec<_> = case.count.inputs.iter().collect();
        let (counted, done) = Count::operations(|| case.count.op.eval(&ins, Want::Value));
        let shapes: Vec<_> = ins.iter().map(|x| x.shape()).collect();
        let (value, expected) = (case.real.op.flops(&shapes, done.out.shape()) as f64, counted as f64);
        ledger.compare(0.0, Comparison { input: None, element: 0, value, expected, scale: 1.0 });
        ledger.close()
    })
}
