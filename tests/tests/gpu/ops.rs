//! Every op.

use gradus_autograd::{check, ops};

/// Draws of each op's samples.
const DRAWS: u64 = 10;

#[test]
fn values_and_gradients_of_every_op_are_the_cpus() {
    let Some(gpu) = crate::gpu() else { return };
    let mut compared = 0;
    let mut wrong = Vec::new();
    for op in ops::all() {
        for (seed, size) in check::draws(DRAWS) {
            for outcome in check::devices(&op, &gpu, seed, size) {
                match outcome {
                    Ok(report) => compared += report.compared,
                    Err(failure) => wrong.push(failure.to_string()),
                }
            }
        }
    }
    println!("{compared} numbers of {} ops", ops::all::<f32>().len());
    assert!(wrong.is_empty(), "{} samples disagree:\n{}", wrong.len(), wrong.join("\n"));
}
