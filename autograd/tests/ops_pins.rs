//! Tests beyond the reach of the witnesses: decisions at kinks, extremes, and the operators.

use std::sync::Arc;

use gradus_autograd::check;
use gradus_autograd::derivatives::hvp;
use gradus_autograd::ops::Attention;
use gradus_autograd::trace::Recorder;
use gradus_autograd::{Tape, Tensor, Var};
use gradus_tensor::Mask;
use gradus_tensor::rng::DropoutKey;

fn tensor<const N: usize>(shape: [usize; N], values: &[f64]) -> Tensor<f64> {
    Tensor::new(shape, values.to_vec())
}

/// Returns the gradient of Σ wᵢ f(x)ᵢ with w = 1, 2, 3, ….
fn grad(x: Tensor<f64>, f: impl for<'t> Fn(&Var<'t, f64>) -> Var<'t, f64>) -> Vec<f64> {
    let tape = Tape::new();
    let x = tape.leaf(x);
    let y = f(&x);
    let w = Tensor::new(*y.shape(), (1..=y.value().len()).map(|i| i as f64).collect());
    tape.backward_from(&y, w).of(&x).expect("y depends on x").to_vec()
}

#[test]
fn the_derivative_of_relu_at_its_kink_is_0() {
    let x = tensor([4], &[-1.0, 0.0, -0.0, 2.0]);
    assert_eq!(grad(x.clone(), |x| x.relu()), [0.0, 0.0, 0.0, 4.0]);
    assert_eq!(Tape::off().constant(x).relu().value().to_vec(), [0.0, 0.0, 0.0, 2.0]);
    assert!(Tape::off().constant(Tensor::scalar(f64::NAN)).relu().value().item().is_nan());
}

#[test]
fn the_first_of_several_maxima_gets_the_gradient() {
    let x = tensor([2, 3], &[1.0, 3.0, 3.0, 2.0, 2.0, 2.0]);
    assert_eq!(grad(x.clone(), |x| x.max(1)), [0.0, 1.0, 0.0, 2.0, 0.0, 0.0]);
    assert_eq!(grad(x, |x| x.max(0)), [0.0, 2.0, 3.0, 1.0, 0.0, 0.0]);
}

#[test]
fn select_ignores_unselected_non_finite_values() {
    let tape = Tape::new();
    let (a, b) = (tape.leaf(tensor([2], &[f64::INFINITY, 4.0])), tape.leaf(tensor([2], &[5.0, f64::NAN])));
    let y = a.select(&Tensor::new([2], vec![0.0, 1.0]), &b);
    assert_eq!(y.value().to_vec(), [5.0, 4.0]);
    let g = tape.backward_from(&y, tensor([2], &[1.0, f64::INFINITY]));
    assert_eq!((g.of(&a).unwrap().to_vec(), g.of(&b).unwrap().to_vec()), (vec![0.0, f64::INFINITY], vec![1.0, 0.0]));
}

/// Sequence 0 has two keys, sequence 1 none. A query without keys gives 0; it has no gradient and passes none on.
#[test]
fn a_query_without_keys_gives_0_and_has_no_gradient() {
    let padded = || Attention { lengths: Some([2, 0].into()), scale: Some(1.0), ..Attention::new(Mask::Full) };
    let tape = Tape::new();
    let q = tape.leaf(tensor([2, 1, 1, 1], &[1.0, 5.0]));
    let (k, v) = (tape.leaf(tensor([2, 1, 2, 1], &[0.0; 4])), tape.leaf(tensor([2, 1, 2, 1], &[3.0, 1.0, 7.0, f64::NAN])));
    let bias = tape.leaf(tensor([2, 1, 1, 2], &[0.0, 0.0, 4.0, 4.0]));
    let o = q.attention(&k, &v, Some(&bias), padded());
    assert_eq!(o.value().to_vec(), [2.0, 0.0]); // both keys are equal: the mean of 3 and 1
    let g = tape.backward_from(&o, tensor([2, 1, 1, 1], &[2.0, 9.0]));
    assert_eq!(g.of(&v).unwrap().to_vec(), [1.0, 1.0, 0.0, 0.0]);
    assert_eq!(g.of(&k).unwrap().to_vec(), [1.0, -1.0, 0.0, 0.0]); // p(ō·v − ⟨ō, o⟩)·q = ½(6 − 4), ½(2 − 4)
    assert_eq!(g.of(&q).unwrap().to_vec(), [0.0, 0.0]); // keys are 0
    assert_eq!(g.of(&bias).unwrap().to_vec(), [1.0, -1.0, 0.0, 0.0]); // s̄ itself
}

/// Both sides of a witness use the same factor, so none checks its default. The scores are 2·ln 3 and 0, the width is 4.
#[test]
fn scores_are_divided_by_the_root_of_the_width() {
    let tape = Tape::off();
    let rows = |values: &[f64]| tape.constant(tensor([1, 1, values.len() / 4, 4], values));
    let q = rows(&[2.0 * 3f64.ln(), 0.0, 0.0, 0.0]);
    let k = rows(&[1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
    let v = rows(&[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    for (scale, expected) in [(None, 0.75), (Some(1.0), 0.9)] {
        let o = q.attention(&k, &v, None, Attention { scale, ..Attention::new(Mask::Full) });
        let p = o.value().to_vec()[0];
        assert!((p - expected).abs() < 1e-15, "{scale:?}: {p}, expected {expected}");
    }
}

#[test]
fn softplus_is_exact_where_the_exponential_is_not() {
    let x = [-750.0, -40.0, 0.0, 40.0, 750.0];
    let y = Tape::off().constant(tensor([5], &x)).softplus().value().to_vec();
    assert_eq!(y, [(-750f64).exp(), (-40f64).exp(), 2f64.ln(), 40.0 + (-40f64).exp(), 750.0]);
    assert_eq!(grad(tensor([2], &[-750.0, 750.0]), |x| x.softplus()), [0.0, 2.0]);
}

/// Values and gradients have the bits of the two ops that it fuses.
#[test]
fn linear_gelu_is_linear_and_then_gelu() {
    let run = |f: for<'t> fn([&Var<'t, f64>; 3]) -> Var<'t, f64>| {
        let tape = Tape::new();
        let x = tape.leaf(tensor([2, 2], &[0.5, -1.0, 2.0, 90.0]));
        let w = tape.leaf(tensor([2, 3], &[1.0, -0.5, 2.0, 0.25, 0.75, -1.0]));
        let b = tape.leaf(tensor([3], &[0.1, -0.2, 0.3]));
        let y = f([&x, &w, &b]);
        let grads = tape.backward_from(&y, tensor([2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
        let of = |leaf| grads.of(leaf).expect("y depends on it").to_vec();
        [y.value().to_vec(), of(&x), of(&w), of(&b)]
    };
    assert_eq!(run(|[x, w, b]| x.linear_gelu(w, b)), run(|[x, w, b]| x.linear(w, b).gelu()));
}

/// Three rows: the forget gate closed, the input gate closed, the output gate closed; c = 3, g = tanh 0.5.
#[test]
fn each_closed_gate_of_an_lstm_cell_blocks_its_term() {
    let (tape, far) = (Tape::off(), 1e3);
    let z = tensor([3, 4], &[far, -far, 0.5, far, -far, far, 0.5, far, far, far, 0.5, -far]);
    let (h, c) = tape.constant(z).lstm_cell(&tape.constant(tensor([3, 1], &[3.0; 3])));
    let g = 0.5f64.tanh();
    let close = |found: &Var<'_, f64>, exact: [f64; 3]| {
        let found = found.value().to_vec();
        assert!(found.iter().zip(exact).all(|(found, exact)| (found - exact).abs() < 1e-15), "{found:?}, expected {exact:?}");
    };
    close(&c, [g, 3.0, 3.0 + g]);
    close(&h, [g.tanh(), 3f64.tanh(), 0.0]);
}

/// The sum c′ = f∘c + i∘g is a factor of derivatives, so its terms have one sign. The other gates vary, and none saturates.
#[test]
fn terms_do_not_cancel_in_samples_of_an_lstm_cell() {
    let cell = check::subjects().into_iter().find(|op| op.name() == "lstm_cell").expect("an op");
    let (mut signs, mut squares) = ([[0; 2]; 4], Vec::new());
    for case in (0..20).flat_map(|seed| cell.cases(seed, 3)) {
        let (z, c) = (&case.real.inputs[0], &case.real.inputs[1]);
        let units = c.shape()[1];
        for (at, z) in z.to_vec().into_iter().enumerate() {
            let (row, gate) = (at / (4 * units), at / units % 4);
            let c = c.to_vec()[row * units + at % units];
            assert!(gate != 2 || z * c >= 0.0, "{z} · {c}");
            signs[gate][usize::from(z * c > 0.0)] += 1;
            squares.push(z * z);
        }
    }
    assert!([0, 1, 3].iter().all(|&gate| signs[gate].iter().all(|&n| n > 50)), "{signs:?}");
    let variance = squares.iter().sum::<f64>() / squares.len() as f64;
    assert!((variance - 0.25).abs() < 0.03, "{variance}");
}

/// A cell that neither forgets nor takes input carries a gradient through 200 steps unchanged: no product of slopes below 1.
#[test]
fn an_lstm_cell_with_an_open_forget_gate_preserves_its_gradient() {
    let (tape, steps) = (Tape::new(), 200);
    let mut rows = [-1e3, 1e3, 0.0, 1e3].repeat(steps);
    (rows[0], rows[2]) = (1e3, 0.5); // only the first step takes input
    let x = tape.leaf(Tensor::new([steps, 1, 4], rows));
    let y = x.lstm(&tape.constant(Tensor::zeros([1, 4])));
    let last = y.slice(0, steps - 1..steps).sum_all();
    let g = 0.5f64.tanh();
    assert!((last.value().item() - g.tanh()).abs() < 1e-15);
    let gradient = tape.backward(&last).of(&x).expect("the last output depends on it").to_vec();
    let exact = (1.0 - g.tanh().powi(2)) * (1.0 - g * g);
    assert!((gradient[2] - exact).abs() < 1e-15, "{} where {exact} is expected", gradient[2]);
}

#[test]
fn operators_broadcast_and_sum_back() {
    let tape = Tape::new();
    let a = tape.leaf(tensor([2, 2], &[1.0, 2.0, 3.0, 4.0]));
    let b = tape.leaf(tensor([2], &[2.0, 4.0]));
    let c = tape.leaf(tensor([2, 1], &[1.0, 10.0]));
    assert_eq!((&a + &b).value().to_vec(), [3.0, 6.0, 5.0, 8.0]);
    assert_eq!((&a - &c).value().to_vec(), [0.0, 1.0, -7.0, -6.0]);
    assert_eq!((&a * &c).value().to_vec(), [1.0, 2.0, 30.0, 40.0]);
    assert_eq!((&b / &c).value().to_vec(), [2.0, 4.0, 0.2, 0.4]);
    let y = (&a - &b) * &c / &b;
    let g = tape.backward(&y.sum_all());
    // y = (a − b) c/b:  ∂a = c/b,  ∂b = Σ −ac/b²,  ∂c = Σ (a − b)/b
    assert_eq!(g.of(&a).unwrap().to_vec(), [0.5, 0.25, 5.0, 2.5]);
    assert_eq!(g.of(&b).unwrap().to_vec(), [-7.75, -2.625]);
    assert_eq!(g.of(&c).unwrap().to_vec(), [-1.0, 0.5]);
}

#[test]
fn operators_take_numbers_on_either_side() {
    let tape = Tape::off();
    let x = tape.constant(tensor([2], &[2.0, 4.0]));
    let is = |y: Var<'_, f64>, values: [f64; 2]| assert_eq!(y.value().to_vec(), values);
    is(&x + 1.0, [3.0, 5.0]);
    is(1.0 + &x, [3.0, 5.0]);
    is(&x - 1.0, [1.0, 3.0]);
    is(1.0 - &x, [-1.0, -3.0]);
    is(&x * 3.0, [6.0, 12.0]);
    is(3.0 * &x, [6.0, 12.0]);
    is(&x / 2.0, [1.0, 2.0]);
    is(8.0 / &x, [4.0, 2.0]);
    is(-&x, [-2.0, -4.0]);
    is(-(x.clone() + x.clone()) / x.clone() - &x, [-4.0, -6.0]);
    assert_eq!(grad(tensor([2], &[2.0, 4.0]), |x| 8.0 / x), [-2.0, -1.0]);
}

#[test]
fn extremes_do_not_overflow() {
    let tape = Tape::off();
    let x = tape.constant(tensor([1, 3], &[1000.0, 1000.0, -1000.0]));
    assert_eq!(x.softmax().value().to_vec(), [0.5, 0.5, 0.0]);
    // ln 2 is added to 1000 before 1000 is subtracted, hence 1000 ulps.
    let near = |y: Var<'_, f64>, exact: &[f64]| {
        let errors = y.value().zip(&Tensor::new(*y.shape(), exact.to_vec()), |y, e| (y - e).abs()).to_vec();
        assert!(errors.iter().all(|&e| e <= 1000.0 * f64::EPSILON), "{errors:?}");
    };
    let ln2 = std::f64::consts::LN_2;
    near(x.log_softmax(), &[-ln2, -ln2, -2000.0 - ln2]);
    near(x.cross_entropy([2]), &[2000.0 + ln2]);
    let saturated = tape.constant(tensor([2], &[-1000.0, 1000.0])).sigmoid();
    assert_eq!(saturated.value().to_vec(), [0.0, 1.0]);
    assert_eq!(grad(tensor([2], &[-1000.0, 1000.0]), |x| x.sigmoid()), [0.0, 0.0]);
}

/// The gradient of a gradient is computed by a fused op's definition, which must subtract the maximum, as the kernel does.
#[test]
fn definitions_do_not_overflow_either() {
    let second = |f: for<'t> fn(&Var<'t, f64>) -> Var<'t, f64>| {
        hvp(|ins| f(&ins[0]), &[tensor([2, 2], &[900.0, 899.0, -900.0, 0.0])], &[tensor([2, 2], &[1.0, -0.5, 0.25, 2.0])])
    };
    for (name, f) in [
        ("softmax", (|x| (x.softmax() * x).sum_all()) as for<'t> fn(&Var<'t, f64>) -> Var<'t, f64>),
        ("log_softmax", |x| x.log_softmax().sum_all()),
        ("cross_entropy", |x| x.cross_entropy([0, 1]).sum_all()),
        ("linear_cross_entropy", |x| x.linear_cross_entropy(x, None, [0, 1].into(), [0.5, 1.0].into())),
        ("attention", |x| {
            let x = x.reshape([1, 1, 2, 2]);
            x.attention(&x, &x, None, Attention::new(Mask::Full)).sum_all()
        }),
        ("attention of a query without keys", |x| {
            let x = x.reshape([2, 1, 1, 2]);
            x.attention(&x, &x, None, Attention { lengths: Some([1, 0].into()), ..Attention::new(Mask::Full) }).sum_all()
        }),
    ] {
        let found = second(f)[0].to_vec();
        assert!(found.iter().all(|x| x.is_finite()), "{name}: {found:?}");
    }
}

#[test]
fn a_sum_of_no_elements_is_0() {
    let tape = Tape::off();
    for (shape, axes, sums) in [([2, 0], &[1], 2), ([0, 2], &[0], 2), ([0, 0], &[0], 0), ([0, 0], &[1], 0)] {
        let sum = tape.constant(tensor(shape, &[])).sum(axes);
        assert_eq!(sum.value().to_vec(), vec![0.0; sums], "{shape:?}, {axes:?}");
    }
}

#[test]
fn a_mean_is_the_sum_divided_by_the_number_of_its_terms() {
    let tape = Tape::off();
    let x = tape.constant(tensor([2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 9.0]));
    assert_eq!((x.mean(&[1]).value(), x.mean_last().value()), (&tensor([2, 1], &[2.0, 6.0]), &tensor([2, 1], &[2.0, 6.0])));
    assert_eq!(*x.mean_all().value(), tensor([], &[4.0]));
    assert!(tape.constant(tensor([2, 0], &[])).mean_all().value().item().is_nan(), "a mean of nothing");
}

#[test]
fn gather_adds_the_gradients_of_repeated_ids() {
    let table = tensor([3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let tape = Tape::off();
    let rows = tape.constant(table.clone()).gather([2, 0, 2, 2], [2, 2]);
    assert_eq!(*rows.value(), tensor([2, 2, 2], &[5.0, 6.0, 1.0, 2.0, 5.0, 6.0, 5.0, 6.0]));
    assert_eq!(grad(table, |w| w.gather([2, 0, 2, 2], [2, 2])), [3.0, 4.0, 0.0, 0.0, 13.0, 16.0]);
}

#[test]
fn a_concatenation_returns_its_parts_and_their_gradients() {
    let tape = Tape::new();
    let (a, b) = (tape.leaf(tensor([2, 1], &[1.0, 4.0])), tape.leaf(tensor([2, 2], &[2.0, 3.0, 5.0, 6.0])));
    let y = Var::concat(&[&a, &b], 1);
    assert_eq!(y.value().to_vec(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(*y.slice(1, 1..3).value(), *b.value());
    assert_eq!(a.pad(1, 1, 1).value().to_vec(), [0.0, 1.0, 0.0, 0.0, 4.0, 0.0]);
    let g = tape.backward_from(&y, tensor([2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    assert_eq!((g.of(&a).unwrap(), g.of(&b).unwrap()), (a.value(), b.value()));
}

#[test]
fn dropout_uses_one_mask_forward_and_backward() {
    let key = DropoutKey::new(0.25, [7, 8], 1, 5);
    let ones = Tensor::<f64>::full([2, 4, 16], 1.0);
    let kept: Vec<f64> =
        (0..8).flat_map(|r| (0..16).map(move |c| (r, c))).map(|(r, c)| f64::from(key.keeps(r, c)) / 0.75).collect();
    assert!(kept.contains(&0.0) && kept.contains(&(1.0 / 0.75)));
    let tape = Tape::new();
    let x = tape.leaf(ones.clone());
    let y = x.dropout(key);
    assert_eq!(y.value().to_vec(), kept);
    assert_eq!(tape.backward_from(&y, ones).of(&x).unwrap().to_vec(), kept);
}

#[test]
fn gradients_of_constants_are_not_computed() {
    let tape = Tape::new();
    let (x, w, b) = (Tensor::full([3, 2], 1.0), Tensor::full([2, 2], 2.0), Tensor::full([2], 3.0));
    let (x, w, b) = (tape.constant(x), tape.leaf(w), tape.constant(b));
    let g = tape.backward(&x.linear(&w, &b).sum_all());
    assert_eq!(g.of(&w).unwrap().to_vec(), [3.0; 4]);
    assert!(g.of(&x).is_none() && g.of(&b).is_none());
}

/// w is a factor of a product and is gathered from, some rows twice: the rows' gradients are added to the product's gradient.
#[test]
fn the_gradient_of_gather_is_added_to_an_existing_gradient() {
    let run = |observed: bool| {
        let recorder = Arc::new(Recorder::default());
        let tape = if observed { Tape::observed(recorder.clone()) } else { Tape::new() };
        let w = tape.leaf(tensor([3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
        let y = w.gather([2, 0, 2], [3]).sum_all() + (&w * &w).sum_all();
        let one = Tensor::full(*y.shape(), 1.0);
        let grads = tape.backward_from(&y, one);
        let trace = recorder.trace();
        let summands = trace.first().map_or(&[][..], |w| &w.summands);
        let seen: Vec<_> = summands.iter().map(|s| (trace[s.from.index()].name(), s.value.to_vec())).collect();
        (grads.of(&w).unwrap().to_vec(), seen)
    };
    let expected = [3.0, 5.0, 6.0, 8.0, 12.0, 14.0]; // 2w + the number of times that the row is gathered
    assert_eq!(run(false), (expected.to_vec(), vec![]));
    let (gradient, seen) = run(true);
    assert_eq!(gradient, expected);
    assert_eq!(seen[2], ("gather", vec![1.0, 1.0, 0.0, 0.0, 2.0, 2.0]));
}

/// The cotangent of a sum is a broadcast view, with a stride of 0: X̄ᵢₖ = Σⱼ Wₖⱼ, W̄ₖⱼ = Σᵢ Xᵢₖ.
#[test]
fn the_gradient_of_a_summed_product_matches_its_closed_form() {
    let (m, k, n) = (3, 70, 40);
    let tape = Tape::new();
    let number = |i: usize| (i * 7 % 11) as f32 - 5.0;
    let x = tape.leaf(Tensor::new([m, k], (0..m * k).map(number).collect()));
    let w = tape.leaf(Tensor::new([k, n], (0..k * n).map(number).collect()));
    for axis in [0, 1] {
        let y = x.matmul(&w).sum(&[axis]).sum_all();
        let gw = tape.pullback(&y, &tape.constant(Tensor::full([], 1.0)), &[&x, &w]);
        let [gx, gw] = [0, 1].map(|i| gw[i].as_ref().unwrap().value().to_vec());
        for p in 0..k {
            let of_w: f32 = (0..n).map(|j| number(p * n + j)).sum();
            let of_x: f32 = (0..m).map(|i| number(i * k + p)).sum();
            (0..m).for_each(|i| assert_eq!(gx[i * k + p], of_w));
            (0..n).for_each(|j| assert_eq!(gw[p * n + j], of_x));
        }
    }
}
