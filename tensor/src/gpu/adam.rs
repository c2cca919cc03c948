//! One step of Adam.

use super::{Array, THREADS, word};
use crate::cpu::same_len;
use crate::device::shader;
use crate::operands::AdamStep;

/// Updates p, m and v by the gradient g times `clip`, which has one element. p, m and v are dense and not shared. If `clip` is
/// NaN, nothing changes.
pub(crate) fn adam(step: &AdamStep, clip: &Array, [p, m, v]: [&Array; 3], g: &Array) {
    same_len("adam", &[p.len(), m.len(), v.len(), g.len()]);
    same_len("adam", &[clip.len(), 1]);
    let g = g.dense();
    let AdamStep { beta1, beta2, step, v_scale, eps, decay, l2 } = *step;
    let factors = [beta1, 1.0 - beta1, beta2, 1.0 - beta2, l2, step, v_scale, eps, decay].map(|x| (x as f32).to_bits());
    let params = [&[word(p.len()), p.at(), m.at(), v.at(), g.at(), clip.at()][..], &factors].concat();
    let writes = [p, m, v].map(|x| &*x.buffer);
    p.gpu().dispatch(&shader!("adam"), &params, &writes, &[&g.buffer, &clip.buffer], p.len().div_ceil(THREADS));
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_close, gpu, on};
    use crate::Tensor;
    use crate::operands::AdamStep;
    use crate::rng::Philox;

    /// A quotient of 2.5 ulp, a root, and sums that may be fused: errors of a few units in the last place, for a step of 0.1.
    #[test]
    fn adam_steps_match_the_cpu() {
        let Some(gpu) = gpu() else { return };
        let step = AdamStep { beta1: 0.9, beta2: 0.999, step: 0.1, v_scale: 1.5, eps: 1e-8, decay: 0.01, l2: 0.001 };
        let mut rng = Philox::new(7);
        for n in [0, 1, 65, 1000] {
            let mut draw = || Tensor::<f32>::normal([n], 1.0, &mut rng);
            let mut here = [draw(), draw(), draw()];
            here[2] = &here[2] * &here[2];
            let mut there = here.clone().map(|x| on(&gpu, &x));
            let before = there.clone();
            let start = here.clone();
            for _ in 0..3 {
                let g = draw();
                let [p, m, v] = &mut here;
                p.adam(&step, &Tensor::scalar(0.7), m, v, &g);
                let [p, m, v] = &mut there;
                p.adam(&step, &on(&gpu, &Tensor::scalar(0.7)), m, v, &on(&gpu, &g));
            }
            for (name, (there, here)) in ["p", "m", "v"].into_iter().zip(there.iter().zip(&here)) {
                assert_close(name, there, here, 2e-6);
            }
            assert_eq!(before.map(|x| x.to_vec()), start.map(|x| x.to_vec()), "what is shared stays");
        }
    }

    /// After the first step p, m and v are not shared, so they are updated in place.
    #[test]
    fn parameters_and_moments_are_updated_in_place() {
        let Some(gpu) = gpu() else { return };
        let step = AdamStep { beta1: 0.5, beta2: 0.75, step: 2.0, v_scale: 3.0, eps: 1.0, decay: 0.25, l2: 0.25 };
        let tensor = |x: f32| on(&gpu, &Tensor::new([1], vec![x]));
        let (mut p, mut m, mut v) = (tensor(4.0), tensor(2.0), tensor(9.0));
        let places = [&p, &m, &v].map(|x| std::sync::Arc::as_ptr(&x.array().expect("there").buffer));
        p.adam(&step, &tensor(0.5), &mut m, &mut v, &tensor(4.0)); // computed by hand in cpu/adam.rs
        assert_eq!((m.item(), v.item()), (2.5, 9.0));
        assert!((p.item() - 2.5).abs() < 1e-6, "{p:?}");
        p.adam(&step, &tensor(f32::NAN), &mut m, &mut v, &tensor(4.0));
        assert_eq!((m.item(), v.item()), (2.5, 9.0), "a factor of NaN changes nothing");
        assert_eq!(places, [&p, &m, &v].map(|x| std::sync::Arc::as_ptr(&x.array().expect("there").buffer)));
    }
}
