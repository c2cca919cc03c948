//! Every witness over the one list of ops, on random inputs in f64.
//!
//! Proptest draws only a seed and a size, so shrinking finds the smallest size that fails. A failure names the op, its sample,
//! the seed and the size; `check::Subject::cases(seed, size)` draws it again.

use gradus_autograd::check::{self, Subject, Witness};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Draws per op; each draw runs all of the op's samples.
const CASES: u32 = 256;

/// Draws extents up to 5, and 2 or 3 more often: a wrong index is detected at 2, and the work grows with a power of the extent.
fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![1 => Just(1usize), 3 => Just(2), 3 => Just(3), 2 => Just(4), 1 => Just(5)]
}

/// Returns the smallest failure found, if any.
fn refusal(witness: Witness, op: &Subject) -> Option<String> {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    // A fixed seed: every run draws the same cases.
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]));
    let verdict = runner.run(&(any::<u64>(), sizes()), |(seed, size)| {
        let holds = |case| witness(&case).map(drop).map_err(|failure| TestCaseError::fail(failure.to_string()));
        op.cases(seed, size).into_iter().try_for_each(holds)
    });
    verdict.err().map(|failure| format!("`{}`: {failure}", op.name()))
}

fn hold_for_all(witness: Witness) {
    let ops = check::subjects();
    assert!(!ops.is_empty());
    let refused: Vec<String> = ops.iter().filter_map(|op| refusal(witness, op)).collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn vjp_equals_forward_mode() {
    hold_for_all(check::forward_mode);
}

#[test]
fn vjp_equals_central_differences() {
    hold_for_all(check::differences);
}

#[test]
fn vjp_is_the_adjoint() {
    hold_for_all(check::adjoint);
}

#[test]
fn second_derivatives_equal_differences_of_the_vjp() {
    hold_for_all(check::second_order);
}

#[test]
fn vjp_equals_central_differences_at_their_best_step() {
    hold_for_all(check::v_curve);
}

#[test]
fn the_taylor_remainder_of_every_op_is_of_second_order() {
    hold_for_all(check::taylor);
}

#[test]
fn fused_ops_equal_their_definitions() {
    hold_for_all(check::fused);
}

#[test]
fn flops_equal_the_counted_operations() {
    hold_for_all(check::audit);
}
