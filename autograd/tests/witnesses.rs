//! Every op through every witness on a few draws: the short form of what the crate of tests does on 256, for whoever changes an op.

use gradus_autograd::check;

#[test]
fn every_op_passes_every_witness() {
    for op in check::subjects() {
        for evidence in check::evidence(&op, 10) {
            assert!(evidence.refused.is_none(), "{}", evidence.refused.unwrap());
        }
    }
}

#[test]
fn a_wrong_gradient_of_any_op_is_seen() {
    check::subjects().iter().for_each(|op| check::teeth(op).unwrap_or_else(|e| panic!("{e}")));
}
