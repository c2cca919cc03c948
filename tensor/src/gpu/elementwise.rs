//! Elementwise expressions.

use std::sync::Arc;

use super::{Array, THREADS, word};
use crate::Shape;
use crate::device::{Gpu, Shader};

/// Returns a tensor of `shape` whose elements are `value`.
pub(crate) fn fill(gpu: &Arc<Gpu>, shape: Shape, value: f32) -> Array {
    let out = Array::unwritten(gpu, shape);
    run(false, &out, &[], "a", &[value]);
    out
}

/// Computes the WGSL `expression` of the elements x, y and z of `inputs`, of one shape, and of the constants a, b, c and d.
pub(crate) fn map(inputs: &[Array], expression: &str, constants: &[f32]) -> Array {
    let out = Array::unwritten(inputs[0].gpu(), inputs[0].shape());
    run(false, &out, inputs, expression, constants);
    out
}

/// Computes x ← `expression` of x and of the elements y and z of `others`. x is dense and not shared.
pub(crate) fn assign(x: &Array, others: &[Array], expression: &str, constants: &[f32]) {
    run(true, x, others, expression, constants);
}

fn run(in_place: bool, out: &Array, inputs: &[Array], expression: &str, constants: &[f32]) {
    let n = out.len();
    let dense: Vec<Array> = inputs.iter().map(Array::dense).collect();
    let skipped = usize::from(in_place);
    let mut params = [0; 9];
    params[0] = word(n);
    params[1] = out.at();
    params[2 + skipped..5].iter_mut().zip(&dense).for_each(|(to, x)| *to = x.at());
    params[5..].iter_mut().zip(constants).for_each(|(to, x)| *to = x.to_bits());
    let name = format!("{} {expression}, of {}", if in_place { "x ←" } else { "y =" }, inputs.len());
    let shader = Shader::of_caller(name, || text(in_place, inputs.len(), expression));
    let reads: Vec<_> = dense.iter().map(|x| &*x.buffer).collect();
    out.gpu().dispatch(&shader, &params, &[&out.buffer], &reads, n.div_ceil(THREADS));
}

fn text(in_place: bool, inputs: usize, expression: &str) -> String {
    let read = &["x", "y", "z"][usize::from(in_place)..][..inputs];
    let binding = |(i, name)| format!("@group(0) @binding({}) var<storage, read> {name}s: array<f32>;", i + 2);
    let bindings: Vec<String> = read.iter().enumerate().map(binding).collect();
    let mut elements: Vec<String> = read.iter().map(|name| format!("let {name} = {name}s[p.{name}_at + i];")).collect();
    if in_place {
        elements.push("let x = out[p.out_at + i];".into());
    }
    let template = concat!(include_str!("functions.wgsl"), include_str!("elementwise.wgsl"));
    let filled = template.replace("BINDINGS", &bindings.join("\n")).replace("ELEMENTS", &elements.join("\n    "));
    filled.replace("EXPRESSION", expression)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_close, gpu, on};
    use crate::rng::Philox;
    use crate::{Scalar, Tensor};

    /// Returns values of many magnitudes and both signs, with zeros, infinities and NaN.
    fn values() -> Tensor {
        let edges = [0.0, -0.0, 1e-20, -1e-20, 0.5, -0.5, 20.0, -20.0, 80.0, -80.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
        let mut rng = Philox::new(5);
        let drawn = Tensor::<f32>::normal([500], 2.0, &mut rng).to_vec();
        Tensor::new([edges.len() + drawn.len()], [&edges[..], &drawn].concat())
    }

    /// WGSL allows exp an error of 3 + 2|x| ulp: at |x| ≤ 20 that is 43 ulp, 5e-6.
    #[test]
    fn functions_match_the_cpu() {
        let Some(gpu) = gpu() else { return };
        let x = values();
        let there = on(&gpu, &x);
        let small = Tensor::elementwise([&x], "", |[x]| if x.abs() > 20.0 { 0.5 } else { x });
        assert_close("exp", &on(&gpu, &small).exp(), &small.exp(), 5e-6);
        assert_close("tanh", &there.tanh(), &x.tanh(), 1e-6);
        assert_close("sigmoid", &there.sigmoid(), &x.sigmoid(), 1e-6);
        let finite = Tensor::elementwise([&x], "", |[x]| if x.is_infinite() { 3.0 } else { x });
        assert_close("gelu", &on(&gpu, &finite).gelu(), &finite.gelu(), 2e-6);
        let gy = Tensor::elementwise([&finite], "", |[x]| 1.0 - x);
        assert_close("gelu_vjp", &on(&gpu, &finite).gelu_vjp(&on(&gpu, &gy)), &finite.gelu_vjp(&gy), 1e-5);
        assert_close("erf", &Tensor::elementwise([&there], "erf(x)", |_| 0.0), &x.map(|x: f32| Scalar::erf(x)), 1e-6);
        let above = x.map(|x: f32| if x.is_nan() { x } else { x.abs().min(1e30) - 0.75 * f32::from(x.abs() < 1.0) * x.abs() });
        let ln_1p = above.map(|x: f32| Scalar::ln_1p(x));
        assert_close("ln_1p", &Tensor::elementwise([&on(&gpu, &above)], "ln_1p(x)", |_| 0.0), &ln_1p, 2e-6);
    }

    /// Sums, differences and products are rounded once, as on the CPU.
    #[test]
    fn arithmetic_of_views_has_the_same_bits() {
        let Some(gpu) = gpu() else { return };
        let mut rng = Philox::new(6);
        let (x, y) = (Tensor::<f32>::normal([6, 50], 1.0, &mut rng), Tensor::<f32>::normal([7, 50], 1.0, &mut rng));
        let (gx, gy) = (on(&gpu, &x), on(&gpu, &y));
        let views = |x: &Tensor, y: &Tensor| [x.slice(0, 1..5).t(), y.slice(0, 2..6).t()];
        let ([x, y], [gx, gy]) = (views(&x, &y), views(&gx, &gy));
        assert_eq!((&gx + &gy, &gx - &gy, &gx * &gy), (&x + &y, &x - &y, &x * &y));
        assert_eq!(gx.affine(3.0, 0.0), x.affine(3.0, 0.0));
        assert_eq!(gx.select(&gx.full_like(*x.shape(), 0.0), &gy), y);
        let half = Tensor::scalar(0.5f32);
        assert_eq!(gx.scale_by(&on(&gpu, &half)), x.scale_by(&half));
    }

    #[test]
    fn in_place_updates_do_not_change_shared_data() {
        let Some(gpu) = gpu() else { return };
        let mut x = on(&gpu, &Tensor::new([3], vec![1.0f32, 2.0, 3.0]));
        let (seen, y) = (x.clone(), on(&gpu, &Tensor::new([3], vec![10.0f32, 20.0, 30.0])));
        x.add_assign(&y);
        x.add_assign(&y);
        x.set(1, 7.0);
        x.zip_assign(&y, "a * x + b * y", &[2.0, 0.5], |_, _| unreachable!("on a GPU"));
        assert_eq!((x.to_vec(), seen.to_vec()), (vec![47.0, 24.0, 141.0], vec![1.0, 2.0, 3.0]));
        let own = x.clone();
        x.add_assign(&own);
        assert_eq!(x.to_vec(), [94.0, 48.0, 282.0]);
    }

    #[test]
    #[should_panic(expected = "tensors on one device, got cpu, gpu:")]
    fn tensors_on_two_devices_are_rejected() {
        let Some(gpu) = gpu() else { panic!("tensors on one device, got cpu, gpu: (skipped)") };
        let x = Tensor::new([1], vec![1.0f32]);
        let _ = &x + &on(&gpu, &x);
    }
}
