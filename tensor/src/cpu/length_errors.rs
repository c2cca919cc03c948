//! Calls with inconsistent arguments. The definition and the fast kernel panic with the same message before they read out of
//! bounds.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::kernels::Kernels;
use crate::operands::{
    AttentionGrads, AttentionOperands, AttentionSpec, Heads, Mask, Mat, MatMut, Onto, OutputGrads, OutputOperands, ScoreBias,
};

/// Returns the panic message of an inconsistent `call`.
fn refused(call: impl Fn(&Kernels<f32>)) -> String {
    let said = [Kernels::NAIVE, Kernels::FAST].map(|kernels| {
        let panic = catch_unwind(AssertUnwindSafe(|| call(&kernels))).expect_err("the call does not fit");
        let said = panic.downcast_ref::<String>().cloned();
        said.unwrap_or_else(|| panic.downcast_ref::<&str>().map_or(String::new(), |said| (*said).to_owned()))
    });
    assert_eq!(said[0], said[1], "by the definition, and by the fast kernel");
    said[0].clone()
}

/// Returns n zeros.
fn z(n: usize) -> Vec<f32> {
    vec![0.0; n]
}

#[test]
fn slices_of_other_lengths() {
    let unequal = |kernel: &str, lens: &[usize]| format!("{kernel}: slices of one length expected, got {lens:?}");
    let says = |expected: String, call: &dyn Fn(&Kernels<f32>)| assert_eq!(refused(call), expected);
    for (x, y) in [(2, 3), (3, 2)] {
        let (a, b) = (&z(x), || z(y));
        says(unequal("exp", &[x, y]), &|k| (k.exp)(a, &mut b()));
        says(unequal("tanh", &[x, y]), &|k| (k.tanh)(a, &mut b()));
        says(unequal("sigmoid", &[x, y]), &|k| (k.sigmoid)(a, &mut b()));
        says(unequal("gelu", &[x, y]), &|k| (k.gelu)(a, &mut b()));
        says(unequal("gelu_vjp", &[x, x, y]), &|k| (k.gelu_vjp)(a, a, &mut b()));
        says(unequal("softmax", &[x, y]), &|k| (k.softmax)(a, &mut b(), 1));
        says(unequal("softmax_vjp", &[x, x, y]), &|k| (k.softmax_vjp)(a, a, &mut b(), 1));
        says(unequal("log_softmax", &[x, y]), &|k| (k.log_softmax)(a, &mut b(), 1));
        says(unequal("log_softmax_vjp", &[x, y, x]), &|k| (k.log_softmax_vjp)(a, &b(), &mut a.clone(), 1));
        says(unequal("accumulate", &[y, x]), &|k| (k.accumulate)(&mut b(), a));
        says(unequal("add", &[x, y, y]), &|k| (k.add)(a, &b(), &mut b()));
        says(unequal("sub", &[x, x, y]), &|k| (k.sub)(a, a, &mut b()));
        says(unequal("mul", &[x, y, x]), &|k| (k.mul)(a, &b(), &mut a.clone()));
        says(unequal("affine", &[x, y]), &|k| (k.affine)(a, 1.0, 2.0, &mut b()));
        says(unequal("sum_rows", &[x, y]), &|k| (k.sum_rows)(&z(6), &mut a.clone(), y));
        says(unequal("sum_cols", &[2 * x, y]), &|k| (k.sum_cols)(&z(2 * x), &mut b(), 1));
    }
    says("softmax: 5 elements are not whole rows of 2".into(), &|k| (k.softmax)(&z(5), &mut z(5), 2));
    says("log_softmax: 5 elements are not whole rows of 2".into(), &|k| (k.log_softmax)(&z(5), &mut z(5), 2));
}

#[test]
fn norms() {
    let says = |expected: &str, call: &dyn Fn(&Kernels<f32>)| {
        let said = refused(call);
        assert!(said.starts_with(expected), "{said}");
    };
    // Two rows of 3. One length at a time is wrong.
    for wrong in 0..6 {
        let n = |which: usize, right: usize| if which == wrong { right + 1 } else { right };
        says("layer_norm: slices of one length", &|k| {
            if wrong > 4 {
                (k.layer_norm)(&z(6), &z(3), &z(2), 0.1, &mut z(6), &mut z(2), &mut z(2));
            }
            (k.layer_norm)(&z(n(0, 6)), &z(3), &z(n(1, 3)), 0.1, &mut z(n(2, 6)), &mut z(n(3, 2)), &mut z(n(4, 2)));
        });
    }
    for wrong in 0..7 {
        let n = |which: usize, right: usize| if which == wrong { right + 1 } else { right };
        says("layer_norm_vjp: slices of one length", &|k| {
            let [x, mean, rstd, gy] = [z(n(0, 6)), z(n(1, 2)), z(n(2, 2)), z(n(3, 6))];
            let [mut gx, mut ggain, mut gbias] = [z(n(4, 6)), z(n(5, 3)), z(n(6, 3))];
            (k.layer_norm_vjp)(&x, &z(3), &mean, &rstd, &gy, &mut gx, &mut ggain, &mut gbias);
        });
    }
    for wrong in 0..3 {
        let n = |which: usize, right: usize| if which == wrong { right + 1 } else { right };
        says("rms_norm: slices of one length", &|k| (k.rms_norm)(&z(n(0, 6)), &z(3), 0.1, &mut z(n(1, 6)), &mut z(n(2, 2))));
    }
    for wrong in 0..5 {
        let n = |which: usize, right: usize| if which == wrong { right + 1 } else { right };
        says("rms_norm_vjp: slices of one length", &|k| {
            (k.rms_norm_vjp)(&z(n(0, 6)), &z(3), &z(n(1, 2)), &z(n(2, 6)), &mut z(n(3, 6)), &mut z(n(4, 3)));
        });
    }
}

#[test]
fn losses() {
    let says = |expected: &str, call: &dyn Fn(&Kernels<f32>)| assert_eq!(refused(call), expected);
    says("cross_entropy: slices of one length expected, got [2, 3, 2]", &|k| {
        (k.cross_entropy)(&z(6), &[0, 1], &mut z(3), &mut z(2));
    });
    says("cross_entropy: slices of one length expected, got [2, 2, 1]", &|k| {
        (k.cross_entropy)(&z(6), &[0, 1], &mut z(2), &mut z(1));
    });
    says("cross_entropy: 7 logits are not 2 whole rows", &|k| (k.cross_entropy)(&z(7), &[0, 1], &mut z(2), &mut z(2)));
    says("cross_entropy: 7 logits are not 0 whole rows", &|k| (k.cross_entropy)(&z(7), &[], &mut [], &mut []));
    says("cross_entropy: target 3 of row 1 is outside its 3 classes", &|k| {
        (k.cross_entropy)(&z(6), &[2, 3], &mut z(2), &mut z(2));
    });
    says("cross_entropy_vjp: slices of one length expected, got [6, 5]", &|k| {
        (k.cross_entropy_vjp)(&z(6), &[0, 1], &z(2), &z(2), &mut z(5));
    });
    says("cross_entropy_vjp: slices of one length expected, got [2, 3, 2]", &|k| {
        (k.cross_entropy_vjp)(&z(6), &[0, 1], &z(3), &z(2), &mut z(6));
    });
    says("cross_entropy_vjp: target 4 of row 0 is outside its 3 classes", &|k| {
        (k.cross_entropy_vjp)(&z(6), &[4, 1], &z(2), &z(2), &mut z(6));
    });
}

/// A tied output of two rows of width 3 and four classes.
#[test]
fn tied_output() {
    let (h, w, bias, weights) = (z(6), z(12), z(4), z(2));
    let right = || OutputOperands { h: &h, w: &w, bias: Some(&bias), width: 3, targets: &[1, 3], weights: &weights };
    let says = |expected: &str, call: &dyn Fn(&Kernels<f32>)| {
        assert_eq!(refused(call), format!("linear_cross_entropy: {expected}"));
    };
    let unequal = |x: &OutputOperands<'_, f32>, lens: [usize; 2]| {
        says(&format!("slices of one length expected, got {lens:?}"), &|k| (k.linear_cross_entropy)(x, &mut z(2), None));
    };
    says("the width d must be positive", &|k| {
        (k.linear_cross_entropy)(&OutputOperands { width: 0, ..right() }, &mut z(2), None);
    });
    says("11 elements are not whole rows of 3", &|k| {
        (k.linear_cross_entropy)(&OutputOperands { w: &w[1..], ..right() }, &mut z(2), None);
    });
    unequal(&OutputOperands { weights: &weights[1..], ..right() }, [2, 1]);
    unequal(&OutputOperands { h: &h[1..], ..right() }, [5, 6]);
    unequal(&OutputOperands { bias: Some(&bias[1..]), ..right() }, [4, 3]);
    says("target 4 of row 1 is outside its 4 classes", &|k| {
        (k.linear_cross_entropy)(&OutputOperands { targets: &[1, 4], ..right() }, &mut z(2), None);
    });
    says("slices of one length expected, got [2, 3]", &|k| (k.linear_cross_entropy)(&right(), &mut z(3), None));
    for (sizes, told) in [([5, 12, 4], [6, 5]), ([6, 11, 4], [12, 11]), ([6, 12, 5], [4, 5])] {
        says(&format!("slices of one length expected, got {told:?}"), &|k| {
            let [mut h, mut w, mut bias] = sizes.map(z);
            let grads = OutputGrads { h: &mut h, w: &mut w, bias: Some(&mut bias) };
            (k.linear_cross_entropy)(&right(), &mut z(2), Some(grads));
        });
    }
}

#[test]
fn recurrence() {
    let says = |expected: &str, call: &dyn Fn(&Kernels<f32>)| assert_eq!(refused(call), expected);
    says("lstm_cell: at least one unit", &|k| (k.lstm_cell)(0, &mut [], &[], &mut [], &mut []));
    let cell = |units: usize, [gates, before, c, h]: [usize; 4], told: &str| {
        says(&format!("lstm_cell: {told}"), &|k| (k.lstm_cell)(units, &mut z(gates), &z(before), &mut z(c), &mut z(h)));
    };
    cell(2, [12, 3, 3, 3], "3 elements are not whole rows of 2");
    cell(2, [8, 2, 4, 2], "slices of one length expected, got [2, 4, 2]");
    cell(2, [8, 2, 2, 4], "slices of one length expected, got [2, 2, 4]");
    cell(2, [7, 2, 2, 2], "slices of one length expected, got [8, 7]");
    says("lstm_cell_vjp: slices of one length expected, got [8, 7]", &|k| {
        (k.lstm_cell_vjp)(2, &z(7), &z(2), &z(2), &z(2), &mut z(2), &mut z(8));
    });
    says("lstm_cell_vjp: slices of one length expected, got [2, 2, 2, 3]", &|k| {
        (k.lstm_cell_vjp)(2, &z(8), &z(2), &z(2), &z(2), &mut z(3), &mut z(8));
    });
    let all = |sizes: [usize; 2], [x, w, gates, c, h]: [usize; 5], told: &str| {
        says(&format!("lstm: {told}"), &|k| (k.lstm)(&z(x), &z(w), sizes, &mut z(gates), &mut z(c), &mut z(h)));
    };
    all([1, 3], [12, 35, 12, 3, 3], "slices of one length expected, got [36, 35]");
    all([2, 1], [12, 4, 12, 3, 3], "3 elements are not whole rows of 2");
    all([1, 1], [4, 4, 8, 2, 2], "slices of one length expected, got [8, 4]");
    says("lstm_vjp: slices of one length expected, got [2, 2, 1]", &|k| {
        (k.lstm_vjp)(&z(4), [1, 1], &z(8), &z(2), &z(2), &z(1), &mut z(8), None);
    });
}

#[test]
fn rows_of_tables_and_dropout() {
    let says = |expected: &str, call: &dyn Fn(&Kernels<f32>)| assert_eq!(refused(call), expected);
    says("gather: id 4 at position 1 is outside the table's 4 rows", &|k| (k.gather)(&z(8), 2, &[3, 4], &mut z(4)));
    says("gather: slices of one length expected, got [3, 4]", &|k| (k.gather)(&z(8), 2, &[3, 1], &mut z(3)));
    says("gather: 7 elements are not whole rows of 2", &|k| (k.gather)(&z(7), 2, &[1], &mut z(2)));
    says("scatter_add: id 9 at position 0 is outside the table's 4 rows", &|k| {
        (k.scatter_add)(&mut z(8), 2, &[9], &z(2));
    });
    let key = crate::rng::DropoutKey::new(0.5, [1, 2], 3, 4);
    says("dropout: slices of one length expected, got [4, 3]", &|k| (k.dropout)(&key, &z(4), &mut z(3), 1));
    says("dropout: 5 elements are not whole rows of 2", &|k| (k.dropout)(&key, &z(5), &mut z(5), 2));
}

#[test]
fn products() {
    let says = |expected: &str, call: &dyn Fn(&Kernels<f32>)| assert_eq!(refused(call), format!("matmul: {expected}"));
    let (a, b) = (&z(6), &z(15));
    fn c(data: &mut [f32]) -> MatMut<'_, f32> {
        MatMut::dense(data, 2, 5)
    }
    let right = || (Mat::dense(a, 2, 3), Mat::dense(b, 3, 5));
    says("[m,k]·[k,n] → [m,n], got [2, 3]·[4, 5] → [2, 5]", &|k| {
        (k.matmul)(right().0, Mat::dense(&z(20), 4, 5), c(&mut z(10)), Onto::Nothing);
    });
    says("[m,k]·[k,n] → [m,n], got [2, 3]·[3, 5] → [3, 5]", &|k| {
        (k.matmul)(right().0, right().1, MatMut::dense(&mut z(15), 3, 5), Onto::Nothing);
    });
    says("A's strides leave its slice", &|k| (k.matmul)(Mat::dense(&a[1..], 2, 3), right().1, c(&mut z(10)), Onto::Nothing));
    says("B's strides leave its slice", &|k| (k.matmul)(right().0, Mat::dense(&b[1..], 3, 5), c(&mut z(10)), Onto::Nothing));
    says("B's strides leave its slice", &|k| {
        let endless = Mat { row_stride: usize::MAX / 2, ..right().1 };
        (k.matmul)(right().0, endless, c(&mut z(10)), Onto::Nothing);
    });
    says("C's strides leave its slice", &|k| (k.matmul)(right().0, right().1, c(&mut z(9)), Onto::Nothing));
    says("rows of C overlap", &|k| {
        let mut data = z(10);
        (k.matmul)(right().0, right().1, MatMut { row_stride: 4, ..c(&mut data) }, Onto::Nothing);
    });
    says("a row of 4 to add to C of 5 columns", &|k| (k.matmul)(right().0, right().1, c(&mut z(10)), Onto::Row(&z(4))));
}

/// An attention of two sequences, two heads, two queries, three keys, and width 2.
fn spec() -> AttentionSpec {
    AttentionSpec {
        batch: 2,
        heads: 2,
        queries: 2,
        keys: 3,
        width: 2,
        scale: 1.0,
        mask: Mask::Full,
        lengths: None,
        dropout: None,
    }
}

/// Returns `data` as (B, H, T, D) with two heads of width 2.
fn heads(data: &[f32], positions: usize) -> Heads<'_, f32> {
    Heads { data, strides: [4 * positions, 2 * positions, 2] }
}

#[test]
fn attention() {
    let (q, kv, out) = (z(16), z(24), z(16));
    let says = |expected: &str, spec: &AttentionSpec, short: usize, bias: Option<ScoreBias<'_, f32>>, sizes: [usize; 2]| {
        let of = |which: usize, all: &'static str| if which == short { &all[1..] } else { all }.len();
        let (q, k, v) =
            (&q[..of(0, "0123456789abcdef")], &kv[..of(1, "0123456789abcdefghijklmn")], &kv[..of(2, "0123456789abcdefghijklmn")]);
        let x = AttentionOperands { spec, q: heads(q, 2), k: heads(k, 3), v: heads(v, 3), bias };
        let said = refused(|kernels| (kernels.attention)(&x, &mut z(sizes[0]), &mut z(sizes[1])));
        assert_eq!(said, format!("attention{expected}"));
    };
    const NONE: usize = 9;
    let (right, fits) = (spec(), [16, 8]);
    says(": q (2, 2, 2, 2) leaves its slice", &right, 0, None, fits);
    says(": k (2, 2, 3, 2) leaves its slice", &right, 1, None, fits);
    says(": v (2, 2, 3, 2) leaves its slice", &right, 2, None, fits);
    says(": slices of one length expected, got [15, 16]", &right, NONE, None, [15, 8]);
    says(": slices of one length expected, got [9, 8]", &right, NONE, None, [16, 9]);
    let causal = AttentionSpec { keys: 1, mask: Mask::Causal, ..spec() };
    says(": causal needs Tk ≥ Tq, got 1 keys, 2 queries", &causal, NONE, None, fits);
    for n in [5, 7, 11, 18] {
        let mask = Mask::Allowed(vec![true; n].into());
        let told = format!(": mask (B|1, Tq, Tk) expected, got {n} elements");
        says(&told, &AttentionSpec { mask, ..spec() }, NONE, None, fits);
    }
    let lengths = |lengths: &[usize]| AttentionSpec { lengths: Some(Arc::from(lengths)), ..spec() };
    says(" lengths: slices of one length expected, got [3, 2]", &lengths(&[1, 2, 3]), NONE, None, fits);
    says(": sequence 1 is longer than its 3 keys", &lengths(&[3, 4]), NONE, None, fits);
    let data = z(24);
    let bias = |batch, heads, n: usize| Some(ScoreBias { data: &data[..n], batch, heads });
    says(": bias (B|1, H|1, Tq, Tk) expected, got B = 3, H = 1", &right, NONE, bias(3, 1, 18), fits);
    says(": bias (B|1, H|1, Tq, Tk) expected, got B = 1, H = 0", &right, NONE, bias(1, 0, 0), fits);
    says(" bias: slices of one length expected, got [11, 12]", &right, NONE, bias(1, 2, 11), fits);
    // Consistent arguments are accepted.
    for (mask, bias) in [(6, bias(1, 1, 6)), (12, bias(2, 2, 24)), (12, bias(2, 1, 12)), (6, bias(1, 2, 12))] {
        let spec = AttentionSpec { mask: Mask::Allowed(vec![true; mask].into()), ..lengths(&[3, 0]) };
        let x = AttentionOperands { spec: &spec, q: heads(&q, 2), k: heads(&kv, 3), v: heads(&kv, 3), bias };
        for kernels in [Kernels::NAIVE, Kernels::FAST] {
            (kernels.attention)(&x, &mut z(16), &mut z(8));
        }
    }

    let vjp = |expected: &str, go: usize, grads: usize, packed: bool, bias: bool, gbias: usize| {
        let bias = bias.then(|| ScoreBias { data: &data[..6], batch: 1, heads: 1 });
        let x = AttentionOperands { spec: &right, q: heads(&q, 2), k: heads(&kv, 3), v: heads(&kv, 3), bias };
        let said = refused(|kernels| {
            let (mut all, mut gbias) = (z(grads), z(gbias));
            let gbias = (!gbias.is_empty()).then_some(&mut gbias[..]);
            let grads = AttentionGrads { data: &mut all, packed, gbias };
            (kernels.attention_vjp)(&x, &out, &z(8), heads(&out[..go], 2), grads);
        });
        assert_eq!(said, format!("attention_vjp{expected}"));
    };
    vjp(": the output's gradient leaves its slice", 15, 64, false, false, 0);
    vjp(": a packed gradient needs as many keys as queries", 16, 64, true, false, 0);
    vjp(": slices of one length expected, got [63, 64]", 16, 63, false, false, 0);
    vjp(": the gradient of a bias is asked for, but there is no bias", 16, 64, false, false, 6);
    vjp(" bias: slices of one length expected, got [5, 6]", 16, 64, false, true, 5);
}
