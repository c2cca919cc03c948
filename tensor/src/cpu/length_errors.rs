//! Calls with inconsistent arguments. The definition and the fast kernel panic with the same message instead of reading out of
//! bounds. The tests in `bits` give each slice of each kernel a wrong length; the tests here cover other mistakes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::bits::{Call, Drawn, WrongLength};
use crate::kernels::Kernels;
use crate::operands::{
    AttentionGrads, AttentionOperands, AttentionSpec, Heads, Mask, Mat, MatMut, Onto, OutputOperands, ScoreBias,
};

/// Returns the panic message of `call`, which must be the same for both tables, or `None` if both accept it.
#[track_caller]
fn message(call: impl Fn(&Kernels<f32>)) -> Option<String> {
    let [naive, fast] = [Kernels::NAIVE, Kernels::FAST].map(|kernels| {
        let panic = catch_unwind(AssertUnwindSafe(|| call(&kernels))).err()?;
        let text = panic.downcast_ref::<String>().cloned();
        Some(text.unwrap_or_else(|| panic.downcast_ref::<&str>().map_or(String::new(), |&text| text.to_owned())))
    });
    assert_eq!(naive, fast, "by the definition, and by the fast kernel");
    naive
}

/// Asserts that `call` panics with a message of the kernel if one of its slices is one element shorter or longer. Slices that are
/// read or written through strides may be longer, and a single slice may have any length.
pub(super) fn assert_lengths_checked(kernel: &str, call: Call<f32>) {
    let strided = match kernel {
        "matmul" | "attention" => 3,
        "attention_vjp" => 4,
        _ => 0,
    };
    for seed in 0..48 {
        let drawn = |which, by| {
            let wrong = WrongLength { which, by, ..WrongLength::default() };
            Drawn { pool: vec![0.5], seed, sizes: [3, 4, 6], wrong }
        };
        let right = drawn(0, 0);
        assert_eq!(message(|k| drop(call(k, &right))), None, "{kernel}");
        let slices = right.wrong.taken.into_inner() / 2; // of two calls
        for (by, may_be_longer) in [(-1, 0), (1, strided)] {
            let messages: Vec<_> = (0..slices).filter_map(|which| message(|k| drop(call(k, &drawn(which, by))))).collect();
            let accepted = if slices == 1 { 1 } else { may_be_longer };
            assert_eq!(messages.len() + accepted, slices, "{kernel}, seed {seed}, by {by}: {messages:?}");
            for message in messages {
                let name = message.split([':', ' ']).next();
                assert!(
                    name == Some(kernel) || [kernel, name.unwrap_or_default()] == ["attention_vjp", "attention"],
                    "{kernel}: {message}"
                );
            }
        }
    }
}

/// Returns n zeros.
fn z(n: usize) -> Vec<f32> {
    vec![0.0; n]
}

#[track_caller]
fn assert_message(expected: &str, call: impl Fn(&Kernels<f32>)) {
    assert_eq!(message(call).as_deref(), Some(expected));
}

#[test]
fn wrong_row_lengths_and_sizes_panic() {
    let key = crate::rng::DropoutKey::new(0.5, [1, 2], 3, 4);
    assert_message("add: slices of one length expected, got [2, 3, 4]", |k| (k.add)(&z(2), &z(3), &mut z(4)));
    assert_message("softmax: 5 elements are not whole rows of 2", |k| (k.softmax)(&z(5), &mut z(5), 2));
    assert_message("softmax_vjp: 5 elements are not whole rows of 2", |k| (k.softmax_vjp)(&z(5), &z(5), &mut z(5), 2));
    assert_message("log_softmax: 5 elements are not whole rows of 2", |k| (k.log_softmax)(&z(5), &mut z(5), 2));
    assert_message("log_softmax_vjp: 5 elements are not whole rows of 2", |k| (k.log_softmax_vjp)(&z(5), &z(5), &mut z(5), 2));
    assert_message("dropout: 5 elements are not whole rows of 2", |k| (k.dropout)(&key, &z(5), &mut z(5), 2));
    assert_message("lstm_cell: 3 elements are not whole rows of 2", |k| {
        (k.lstm_cell)(2, &mut z(12), &z(3), &mut z(3), &mut z(3));
    });
    assert_message("lstm_cell: at least one unit", |k| (k.lstm_cell)(0, &mut [], &[], &mut [], &mut []));
    assert_message("lstm: 3 elements are not whole rows of 2", |k| {
        (k.lstm)(&z(12), &z(4), [2, 1], &mut z(12), &mut z(3), &mut z(3));
    });
    let product = |b: [usize; 2], c: [usize; 2], strides: [usize; 2]| {
        move |k: &Kernels<f32>| {
            let (right, mut data) = (z(b[0] * b[1]), z(c[0] * c[1]));
            let b = Mat { row_stride: strides[0], ..Mat::dense(&right, b[0], b[1]) };
            let c = MatMut { row_stride: strides[1], ..MatMut::dense(&mut data, c[0], c[1]) };
            (k.matmul)(Mat::dense(&z(6), 2, 3), b, c, Onto::Nothing);
        }
    };
    assert_message("matmul: [m,k]·[k,n] → [m,n], got [2, 3]·[4, 5] → [2, 5]", product([4, 5], [2, 5], [5, 5]));
    assert_message("matmul: [m,k]·[k,n] → [m,n], got [2, 3]·[3, 5] → [3, 5]", product([3, 5], [3, 5], [5, 5]));
    assert_message("matmul: B's strides leave its slice", product([3, 5], [2, 5], [usize::MAX / 2, 5]));
    assert_message("matmul: rows of C overlap", product([3, 5], [2, 5], [5, 4]));
}

#[test]
fn ids_and_targets_out_of_range_panic() {
    assert_message("gather: id 4 at position 1 is outside the table's 4 rows", |k| (k.gather)(&z(8), 2, &[3, 4], &mut z(4)));
    assert_message("scatter_add: id 9 at position 0 is outside the table's 4 rows", |k| {
        (k.scatter_add)(&mut z(8), 2, &[9], &z(2));
    });
    assert_message("cross_entropy: 7 logits are not 0 whole rows", |k| (k.cross_entropy)(&z(7), &[], &mut [], &mut []));
    assert_message("cross_entropy: target 3 of row 1 is outside its 3 classes", |k| {
        (k.cross_entropy)(&z(6), &[2, 3], &mut z(2), &mut z(2));
    });
    assert_message("cross_entropy_vjp: target 4 of row 0 is outside its 3 classes", |k| {
        (k.cross_entropy_vjp)(&z(6), &[4, 1], &z(2), &z(2), &mut z(6));
    });
    // A tied output of two rows of width 3 and four classes.
    let tied = |width, targets: &'static [u32]| {
        move |k: &Kernels<f32>| {
            let x = OutputOperands {
                h: &z(6),
                w: &z(12),
                w_form: crate::operands::Form::Elements,
                bias: None,
                width,
                targets,
                weights: &z(2),
            };
            (k.linear_cross_entropy)(&x, &mut z(2), None);
        }
    };
    assert_message("linear_cross_entropy: the width d must be positive", tied(0, &[1, 3]));
    assert_message("linear_cross_entropy: target 4 of row 1 is outside its 4 classes", tied(3, &[1, 4]));
}

/// Returns two sequences of two heads of width 2, with all q, k and v in `data`.
fn attended<'a>(spec: &'a AttentionSpec, data: &'a [f32], bias: Option<ScoreBias<'a, f32>>) -> AttentionOperands<'a, f32> {
    let heads = |positions: usize| Heads { data, strides: [4 * positions, 2 * positions, 2] };
    AttentionOperands { spec, q: heads(2), k: heads(3), v: heads(3), bias }
}

#[test]
fn invalid_attention_options_panic() {
    let (data, full) = (z(24), Mask::Full);
    let spec =
        AttentionSpec { batch: 2, heads: 2, queries: 2, keys: 3, width: 2, scale: 1.0, mask: full, lengths: None, dropout: None };
    let attend = |spec: &AttentionSpec, bias| {
        let x = attended(spec, &data, bias);
        message(|k| (k.attention)(&x, &mut z(16), &mut z(8)))
    };
    let refused = |spec: &AttentionSpec, bias, expected: &str| assert_eq!(attend(spec, bias).as_deref(), Some(expected));
    let causal = AttentionSpec { keys: 1, mask: Mask::Causal, ..spec.clone() };
    refused(&causal, None, "attention: causal needs Tk ≥ Tq, got 1 keys, 2 queries");
    let masked = |n: usize| AttentionSpec { mask: Mask::Allowed(vec![true; n].into()), ..spec.clone() };
    for n in [5, 7, 11, 18] {
        refused(&masked(n), None, &format!("attention: mask (B|1, Tq, Tk) expected, got {n} elements"));
    }
    let lengths = |lengths: [usize; 2], n| AttentionSpec { lengths: Some(Arc::from(lengths)), ..masked(n) };
    refused(&lengths([3, 4], 6), None, "attention: sequence 1 is longer than its 3 keys");
    let bias = |batch, heads| Some(ScoreBias { data: &data[..6 * batch * heads], batch, heads });
    refused(&spec, bias(3, 1), "attention: bias (B|1, H|1, Tq, Tk) expected, got B = 3, H = 1");
    refused(&spec, bias(1, 0), "attention: bias (B|1, H|1, Tq, Tk) expected, got B = 1, H = 0");
    for (n, bias) in [(6, bias(1, 1)), (12, bias(2, 2)), (12, bias(2, 1)), (6, bias(1, 2))] {
        assert_eq!(attend(&lengths([3, 0], n), bias), None);
    }
    let vjp = |k: &Kernels<f32>, packed, gbias: Option<&mut [f32]>| {
        let x = attended(&spec, &data, None);
        (k.attention_vjp)(&x, &z(16), &z(8), x.q, AttentionGrads { data: &mut z(64), packed, gbias });
    };
    assert_message("attention_vjp: a packed gradient needs as many keys as queries", |k| vjp(k, true, None));
    assert_message("attention_vjp: the gradient of a bias is requested, but there is no bias", |k| {
        vjp(k, false, Some(&mut z(6)))
    });
}
