//! The update rules of the optimizers.
//!
//! With g the clipped gradient, s the schedule's factor, λ the decay (0 on parameters without decay), and
//!
//! ```text
//! m ← β₁m + (1 − β₁)g        m̂ = m/(1 − β₁ᵗ)
//! v ← β₂v + (1 − β₂)g²       v̂ = v/(1 − β₂ᵗ)        (Kingma and Ba 2015, algorithm 1)
//! ```
//!
//! each form's formula is at its [name](OptimizerKind). All four Adams use one kernel,
//! p ← p − step·m/(√v·v_scale + ε) − decay·p with g ← g·clip + l2·p, where
//!
//! ```text
//!            step                       v_scale          decay        l2
//! openai     lr·s·√(1−β₂ᵗ)/(1−β₁ᵗ)      1                step·λ       0        ε outside the correction
//! paper37    lr·s/(1−β₁ᵗ)               1/√(1−β₂ᵗ)       s·λ          0        decay independent of lr
//! adamw      lr·s/(1−β₁ᵗ)               1/√(1−β₂ᵗ)       lr·s·λ       0        decay independent of the correction
//! adam_l2    lr·s/(1−β₁ᵗ)               1/√(1−β₂ᵗ)       0            λ        decay passes through m and v
//! ```

use std::fmt;

use gradus_tensor::operands::AdamStep;
use gradus_tensor::{Real, Tensor};
use serde::{Deserialize, Serialize};

use super::OptimError;

/// The form of the update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum), value(rename_all = "snake_case"))]
#[serde(rename_all = "snake_case")]
pub enum OptimizerKind {
    /// Adam as OpenAI's code has it: decay inside the bias-corrected rate.
    ///
    /// ```text
    /// p ← p − lr·s·√(1−β₂ᵗ)/(1−β₁ᵗ) · (m/(√v + ε) + λp)
    /// ```
    ///
    /// Source: `opt.py` of `openai/finetune-transformer-lm`. ε is outside the bias correction.
    #[default]
    #[serde(rename = "openai")]
    #[cfg_attr(feature = "clap", value(name = "openai"))]
    OpenAi,
    /// The paper's reference 37: decay follows the schedule, not the base rate.
    ///
    /// ```text
    /// p ← p − s·(lr·m̂/(√v̂ + ε) + λp)
    /// ```
    ///
    /// Source: Loshchilov and Hutter, "Fixing Weight Decay Regularization in Adam" (2017), algorithm 2. Its λ is not scaled by
    /// the learning rate, so it must be far smaller than in the other forms.
    Paper37,
    /// PyTorch's AdamW: decay by the plain rate.
    ///
    /// ```text
    /// p ← p − lr·s·λp,   then   p ← p − lr·s·m̂/(√v̂ + ε)
    /// ```
    ///
    /// Source: `torch.optim.AdamW`.
    #[serde(rename = "adamw")]
    #[cfg_attr(feature = "clap", value(name = "adamw"))]
    AdamW,
    /// Adam with L2 in the gradient: not a decay, since Adam divides it by √v̂ too.
    ///
    /// ```text
    /// g ← g + λp,   then Adam:   p ← p − lr·s·m̂/(√v̂ + ε)
    /// ```
    ///
    /// Source: `torch.optim.Adam` with `weight_decay`, the method that reference 37 argues against.
    AdamL2,
    /// Stochastic gradient descent, as the paper names its method (51, Robbins and Monro 1951).
    ///
    /// ```text
    /// p ← p − lr·s·(g + λp)
    /// ```
    ///
    /// For SGD, L2 and decay are equal. SGD has no moments.
    Sgd,
}

impl OptimizerKind {
    /// All forms.
    pub const ALL: [Self; 5] = [Self::OpenAi, Self::Paper37, Self::AdamW, Self::AdamL2, Self::Sgd];

    /// Returns whether the form keeps m and v.
    pub fn has_moments(self) -> bool {
        self != OptimizerKind::Sgd
    }
}

/// The name in files and on the command line: `adam_l2`.
impl fmt::Display for OptimizerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// An optimizer: its form and its hyperparameters. It holds no state: m, v and t belong to the trainer and its checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Optimizer {
    /// The form.
    #[serde(rename = "optimizer")]
    pub name: OptimizerKind,
    /// Base learning rate, before the schedule.
    pub lr: f64,
    /// β₁, the fraction of m that is kept.
    pub beta1: f64,
    /// β₂, the fraction of v that is kept.
    pub beta2: f64,
    /// ε.
    pub eps: f64,
    /// λ.
    pub decay: f64,
}

impl Default for Optimizer {
    /// Returns the optimizer of the paper's pre-training (§4.1), in the form of its code.
    fn default() -> Self {
        Optimizer { name: OptimizerKind::OpenAi, lr: 2.5e-4, beta1: 0.9, beta2: 0.999, eps: 1e-8, decay: 0.01 }
    }
}

/// The quantities that differ between steps but not between parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepFactors {
    /// The number of the step, from 1.
    pub t: u64,
    /// s, the schedule's factor on the rate.
    pub schedule: f64,
}

impl Optimizer {
    /// Updates one parameter in place by its gradient `g` times `clip`, of one element ([`clip::factor`](super::clip::factor)).
    /// If `clip` is NaN, nothing changes. `decays` states whether λ applies to the parameter, as to all but biases and gains
    /// (§4.1, `Role::decays` of gradus-model). `moments` are m and v, zero before the first step; [`Sgd`](OptimizerKind::Sgd)
    /// ignores them. Apart from `clip`, all tensors have one shape.
    ///
    /// # Panics
    /// Panics if shapes differ, if t is 0, or if an Adam gets no moments.
    pub fn update<T: Real>(
        &self,
        at: StepFactors,
        clip: &Tensor<T>,
        decays: bool,
        p: &mut Tensor<T>,
        moments: Option<(&mut Tensor<T>, &mut Tensor<T>)>,
        g: &Tensor<T>,
    ) {
        assert!(at.t > 0, "steps count from 1: at t = 0 the bias corrections 1 − βᵗ are 0");
        let lambda = if decays { self.decay } else { 0.0 };
        if self.name == OptimizerKind::Sgd {
            // p ← p − rate·(clip·g + λp)
            let factors = [self.lr * at.schedule, lambda];
            let [rate, lambda] = factors.map(T::lit);
            let step = |p, g: T| if g.to_f64().is_nan() { p } else { p - rate * (g + lambda * p) };
            return p.zip_assign(&g.scale_by(clip), "select(x, fma(-a, fma(b, x, y), x), is_number(y))", &factors, step);
        }
        let (m, v) = moments.unwrap_or_else(|| panic!("optimizer {}: needs the moments m and v, got none", self.name));
        p.adam(&self.adam_step(at, lambda), clip, m, v, g);
    }

    /// Computes a row of the table at the head of this file.
    fn adam_step(&self, at: StepFactors, lambda: f64) -> AdamStep {
        let t = i32::try_from(at.t).unwrap_or(i32::MAX); // βᵗ is 0 long before
        let (c1, c2) = (1.0 - self.beta1.powi(t), 1.0 - self.beta2.powi(t));
        let rate = self.lr * at.schedule;
        let (step, v_scale) = match self.name {
            OptimizerKind::OpenAi => (rate * c2.sqrt() / c1, 1.0),
            _ => (rate / c1, 1.0 / c2.sqrt()),
        };
        let (decay, l2) = match self.name {
            OptimizerKind::OpenAi => (step * lambda, 0.0),
            OptimizerKind::Paper37 => (at.schedule * lambda, 0.0),
            OptimizerKind::AdamW => (rate * lambda, 0.0),
            OptimizerKind::AdamL2 | OptimizerKind::Sgd => (0.0, lambda),
        };
        AdamStep { beta1: self.beta1, beta2: self.beta2, step, v_scale, eps: self.eps, decay, l2 }
    }

    /// Returns an error for the first hyperparameter that no run can use.
    pub fn validate(&self) -> Result<(), OptimError> {
        let check = |field, value: f64, fits: bool, expected, remedy| match fits {
            true => Ok(()),
            false => Err(OptimError { field, expected, found: value.to_string(), remedy }),
        };
        let beta = |field, value: f64| {
            let remedy = "It is the fraction of the moment that a step keeps; at 1 the model would not learn";
            check(field, value, (0.0..1.0).contains(&value), "a number from 0 to below 1", remedy)
        };
        let Optimizer { lr, eps, decay, .. } = *self;
        let remedy = "The paper pre-trains at 2.5e-4 and fine-tunes at 6.25e-5";
        check("lr", lr, lr > 0.0 && lr.is_finite(), "a learning rate above 0", remedy)?;
        beta("beta1", self.beta1)?;
        beta("beta2", self.beta2)?;
        let remedy = "It keeps Adam from dividing by 0; the paper's is 1e-8";
        check("adam_eps", eps, eps > 0.0 && eps.is_finite(), "a number above 0", remedy)?;
        let remedy = "The paper's is 0.01; 0 switches it off";
        check("decay", decay, decay >= 0.0 && decay.is_finite(), "a decay of 0 or more", remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use OptimizerKind::*;

    const STEPS: u64 = 10;

    fn settings(name: OptimizerKind) -> Optimizer {
        Optimizer { name, lr: 1e-2, beta1: 0.8, beta2: 0.99, eps: 1e-3, decay: 0.1 }
    }

    /// Returns the gradient of step t at a parameter; any function will do.
    fn gradient(t: u64, p: f64) -> f64 {
        p.sin() + 0.3 * t as f64 - 1.0
    }

    fn at(t: u64) -> StepFactors {
        StepFactors { t, schedule: (t - 1) as f64 / 7.0 } // the first rate is 0, as after a warm-up's start
    }

    /// Returns the clipping factor.
    fn clip<T: Real>(t: u64) -> T {
        T::lit(1.0 / t as f64)
    }

    /// Computes each form directly from the formula of its source.
    fn restated(o: &Optimizer, decays: bool, mut p: f64) -> f64 {
        let (mut m, mut v) = (0.0, 0.0);
        let lambda = if decays { o.decay } else { 0.0 };
        for t in 1..=STEPS {
            let StepFactors { schedule: s, .. } = at(t);
            let mut g = clip::<f64>(t) * gradient(t, p);
            if o.name == AdamL2 {
                g += lambda * p;
            }
            m = o.beta1 * m + (1.0 - o.beta1) * g;
            v = o.beta2 * v + (1.0 - o.beta2) * g * g;
            let (c1, c2) = (1.0 - o.beta1.powf(t as f64), 1.0 - o.beta2.powf(t as f64));
            let (m_hat, v_hat) = (m / c1, v / c2);
            match o.name {
                OpenAi => p -= o.lr * c2.sqrt() / c1 * s * (m / (v.sqrt() + o.eps) + lambda * p),
                Paper37 => p -= s * (o.lr * m_hat / (v_hat.sqrt() + o.eps) + lambda * p),
                AdamW => {
                    p *= 1.0 - o.lr * s * lambda;
                    p -= o.lr * s * m_hat / (v_hat.sqrt() + o.eps);
                }
                AdamL2 => p -= o.lr * s * m_hat / (v_hat.sqrt() + o.eps),
                Sgd => p -= o.lr * s * (g + lambda * p),
            }
        }
        p
    }

    fn run<T: Real>(o: &Optimizer, decays: bool, start: &[f64]) -> Vec<f64> {
        let mut p = Tensor::new([start.len()], start.iter().map(|&x| T::lit(x)).collect());
        let (mut m, mut v) = (Tensor::zeros([p.len()]), Tensor::zeros([p.len()]));
        for t in 1..=STEPS {
            let g = p.map(|p| T::lit(gradient(t, p.to_f64())));
            o.update(at(t), &Tensor::scalar(clip(t)), decays, &mut p, o.name.has_moments().then_some((&mut m, &mut v)), &g);
        }
        p.cast::<f64>().to_vec()
    }

    #[test]
    fn every_form_is_its_formula_for_ten_steps() {
        let start: Vec<f64> = (0..37).map(|i| (f64::from(i) * 0.7).cos() * 2.0).collect();
        for name in OptimizerKind::ALL {
            for decays in [false, true] {
                let (o, expected) = (settings(name), start.iter().map(|&p| restated(&settings(name), decays, p)));
                let (double, single) = (run::<f64>(&o, decays, &start), run::<f32>(&o, decays, &start));
                for (i, e) in expected.enumerate() {
                    // The tolerance allows ten steps of a few roundings each, of numbers of order 1.
                    assert!((double[i] - e).abs() < 1e-14, "{name} {decays} [{i}]: {} for {e}", double[i]);
                    assert!((single[i] - e).abs() < 5e-6, "{name} {decays} [{i}] in f32: {} for {e}", single[i]);
                }
            }
        }
    }

    #[test]
    fn the_forms_differ_and_decay_applies_only_to_decaying_parameters() {
        for name in OptimizerKind::ALL {
            let o = settings(name);
            let (with, without) = (run::<f64>(&o, true, &[1.5])[0], run::<f64>(&o, false, &[1.5])[0]);
            assert!((with - without).abs() > 1e-7, "{name}: decay has no effect");
            let zero = Optimizer { decay: 0.0, ..o };
            assert_eq!(run::<f64>(&zero, true, &[1.5])[0], without, "{name}");
            for other in OptimizerKind::ALL.into_iter().filter(|&n| n != name) {
                assert!((run::<f64>(&settings(other), true, &[1.5])[0] - with).abs() > 1e-7, "{name} = {other}");
            }
        }
    }

    #[test]
    fn a_schedule_of_0_updates_only_the_moments() {
        for name in OptimizerKind::ALL.into_iter().filter(|n| n.has_moments()) {
            let one = |x: f64| Tensor::new([1], vec![x]);
            let (mut p, mut m, mut v) = (one(2.0), one(0.0), one(0.0));
            let still = StepFactors { t: 1, schedule: 0.0 };
            Optimizer { decay: 0.0, ..settings(name) }.update(still, &one(1.0), true, &mut p, Some((&mut m, &mut v)), &one(1.0));
            assert_eq!(p.item(), 2.0);
            assert!((m.item() - 0.2).abs() < 1e-15 && (v.item() - 0.01).abs() < 1e-15, "{name}: {m:?} {v:?}");
        }
    }

    /// A non-finite gradient has a NaN norm, and so a NaN factor.
    #[test]
    fn a_factor_of_nan_changes_nothing() {
        for name in OptimizerKind::ALL {
            let one = |x: f64| Tensor::new([1], vec![x]);
            let (mut p, mut m, mut v) = (one(2.0), one(0.5), one(0.25));
            settings(name).update(at(2), &one(f64::NAN), true, &mut p, Some((&mut m, &mut v)), &one(1.0));
            assert_eq!((p.item(), m.item(), v.item()), (2.0, 0.5, 0.25), "{name}");
        }
    }

    #[test]
    fn optimizer_names_are_the_documented_ones() {
        assert_eq!(OptimizerKind::ALL.map(|kind| kind.to_string()), ["openai", "paper37", "adamw", "adam_l2", "sgd"]);
        assert_eq!(toml::from_str::<Optimizer>("").unwrap(), Optimizer::default());
        let partial: Optimizer = toml::from_str("optimizer = 'adamw'\nlr = 1e-3").unwrap();
        assert_eq!(partial, Optimizer { name: AdamW, lr: 1e-3, ..Optimizer::default() });
    }

    #[test]
    fn numbers_out_of_range_are_rejected_by_name() {
        let o = Optimizer::default();
        assert_eq!(o.validate(), Ok(()));
        let wrong = [
            ("lr", "0", Optimizer { lr: 0.0, ..o }),
            ("lr", "NaN", Optimizer { lr: f64::NAN, ..o }),
            ("beta1", "1", Optimizer { beta1: 1.0, ..o }),
            ("beta2", "-0.1", Optimizer { beta2: -0.1, ..o }),
            ("adam_eps", "0", Optimizer { eps: 0.0, ..o }),
            ("decay", "inf", Optimizer { decay: f64::INFINITY, ..o }),
        ];
        for (field, found, o) in wrong {
            let error = o.validate().unwrap_err();
            assert_eq!((error.field, &*error.found), (field, found));
        }
    }

    #[test]
    #[should_panic(expected = "needs the moments")]
    fn adam_without_moments_panics() {
        let one = Tensor::scalar(1.0);
        Optimizer::default().update(at(1), &one, true, &mut one.clone(), None, &one);
    }
}
