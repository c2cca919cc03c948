//! Warnings about training that goes wrong although every number is finite.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use gradus_io::numbers::{figure, median};
use gradus_model::Tree;
use gradus_tensor::{GlobalNorm, Real, Tensor};

use super::Gradient;

/// The number of steps without a gradient after which a unit counts as dead, and over which norms are compared.
const WINDOW: usize = 100;
/// The number of steps in a row in which a parameter's gradient must have been 0 everywhere.
const IDLE: usize = 10;
/// The multiple of the median of earlier norms that is an alarm, if the norm is also [far above](RECORD) every earlier one. When
/// training converges the median falls, and a hard batch is no explosion.
const EXPLODES: f64 = 10.0;
/// The multiple of the largest earlier norm that an alarm requires.
const RECORD: f64 = 2.0;
/// The fewest norms of which a median is taken.
const NORMS: usize = 20;
/// The number of steps whose mean loss is compared with the first loss.
const LOSSES: usize = 10;
/// The multiple of the first loss above which training counts as diverging.
const DIVERGES: f64 = 3.0;

/// Statistics of the last steps. They change nothing in training and are not part of a checkpoint: a resumed run starts anew.
#[derive(Clone, Debug, Default)]
pub struct Alarms<T: Real> {
    norms: VecDeque<f64>,
    /// The largest norm so far.
    largest: f64,
    first_loss: Option<f64>,
    losses: VecDeque<f64>,
    /// Whether divergence of the loss has been reported.
    diverged: bool,
    /// The number of steps in a row in which each parameter's gradient was 0 everywhere.
    idle: BTreeMap<String, usize>,
    /// For each parameter with one axis, one element per unit: 1 if it had a gradient in this window.
    alive: BTreeMap<String, Tensor<T>>,
    steps: usize,
    /// The parameters already reported, each once.
    reported: BTreeSet<String>,
    warnings: Vec<String>,
}

impl<T: Real> Alarms<T> {
    /// Observes a step's gradient before clipping. `squares` has the sum of squares of each parameter's gradient, at any scale,
    /// or `None` if it is not trained; `norm` is the global norm. Dead units are detected only if `gradient` has the parameter's
    /// gradient.
    pub(super) fn observe(&mut self, gradient: &Gradient<T>, squares: &[Option<f64>], norm: f64) {
        self.steps += 1;
        let ends = self.steps.is_multiple_of(WINDOW);
        let (mut squares, mut window) = (squares.iter(), Vec::new());
        gradient.as_ref().visit(|name, g| {
            let Some(square) = *squares.next().expect("one for each parameter") else { return };
            let idle = self.idle.entry(name.to_owned()).or_default();
            *idle = if square != 0.0 { 0 } else { *idle + 1 };
            if *idle == IDLE && self.reported.insert(name.to_owned()) {
                self.warnings.push(format!("{name}: its gradient was 0 everywhere in {IDLE} steps; it is not trained"));
            }
            let Some(g) = g.as_ref().filter(|g| g.shape().len() == 1) else { return };
            let alive = self.alive.entry(name.to_owned()).or_insert_with(|| g.zeros_like(*g.shape()));
            alive.zip_assign(g, "select(1.0, x, y == 0.0)", &[], |alive, g| if g == T::zero() { alive } else { T::one() });
            if ends && let Some(alive) = self.alive.remove(name) {
                window.push((name.to_owned(), alive));
            }
        });
        self.report_dead_units(&window);
        let mut norms = Vec::from(self.norms.clone());
        let median = median(&mut norms);
        if norms.len() >= NORMS && norm > EXPLODES * median && norm > RECORD * self.largest {
            let (shown, times, last) = (figure(norm), norm / median, norms.len());
            self.warnings.push(format!("the gradient's norm is {shown}, {times:.0} times the median of the last {last}"));
            self.norms.clear(); // one alarm, until there is a new median
        }
        self.largest = self.largest.max(norm);
        self.norms.push_back(norm);
        if self.norms.len() > WINDOW {
            self.norms.pop_front();
        }
    }

    /// Reports parameters with units that had no gradient in a window; `window` has a 1 for each unit that had one. On a GPU all
    /// are read at once; a fault of the GPU is reported by the next step.
    fn report_dead_units(&mut self, window: &[(String, Tensor<T>)]) {
        let alive: Vec<&Tensor<T>> = window.iter().map(|(_, alive)| alive).collect();
        let Ok(counts) = GlobalNorm::of(&alive, &[]).read() else { return };
        for ((name, alive), count) in window.iter().zip(counts.squares) {
            let (dead, units) = (alive.len() - count as usize, alive.len());
            if dead > 0 && self.reported.insert(name.clone()) {
                self.warnings.push(format!("{name}: {dead} of {units} units had no gradient in {WINDOW} steps; they are dead"));
            }
        }
    }

    /// Observes a step's loss.
    pub(super) fn observe_loss(&mut self, loss: f64) {
        let first = *self.first_loss.get_or_insert(loss);
        self.losses.push_back(loss);
        if self.losses.len() > LOSSES {
            self.losses.pop_front();
        }
        let mean = self.losses.iter().sum::<f64>() / self.losses.len() as f64;
        if self.losses.len() == LOSSES && mean > DIVERGES * first && !self.diverged {
            self.diverged = true;
            self.warnings.push(format!(
                "the loss of the last {LOSSES} steps is {}, the first was {}: training diverges; stop it and begin another run with a \
                 lower --lr or a longer --warmup",
                figure(mean),
                figure(first)
            ));
        }
    }

    /// Returns the alarms since the last call.
    pub fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}

#[cfg(test)]
mod tests {
    use gradus_model::{Model, ModelConfig, Sizes, Tree};

    use super::*;

    /// Returns a gradient of ones, except for one parameter.
    fn gradient(but: &str, values: impl Fn(usize) -> f64) -> Gradient<f64> {
        let config = ModelConfig::gpt(Sizes { vocab: 5, context: 3, width: 4 }, 1, 2);
        Model::declare(&config).map(|name, p| {
            let n = p.shape.numel();
            Some(Tensor::new(p.shape, (0..n).map(|i| if name == but { values(i) } else { 1.0 }).collect()))
        })
    }

    fn observe(alarms: &mut Alarms<f64>, gradient: &Gradient<f64>, norm: f64) {
        let mut squares = Vec::new();
        gradient.as_ref().visit(|_, g| squares.push(g.as_ref().map(|g| g.sum_squares())));
        alarms.observe(gradient, &squares, norm);
    }

    #[test]
    fn an_alarm_is_raised_once_and_never_by_sound_gradients() {
        let mut alarms = Alarms::default();
        (0..250).for_each(|_| observe(&mut alarms, &gradient("", |_| 1.0), 1.0));
        assert!(alarms.take().is_empty());

        let weight = "h.0.mlp.c_fc.weight";
        (0..9).for_each(|_| observe(&mut alarms, &gradient(weight, |_| 0.0), 1.0));
        observe(&mut alarms, &gradient(weight, |i| if i == 7 { 1e-30 } else { 0.0 }), 1.0);
        assert!(alarms.take().is_empty(), "nine in a row are no alarm");
        (0..30).for_each(|_| observe(&mut alarms, &gradient(weight, |_| 0.0), 1.0));
        let raised = alarms.take();
        assert!(
            raised.len() == 1 && raised[0].starts_with(&format!("{weight}: ")) && raised[0].contains(" in 10 steps;"),
            "{raised:?}"
        );
    }

    #[test]
    fn dead_units_are_counted_over_a_window() {
        let (mut alarms, bias) = (Alarms::default(), "h.0.mlp.c_fc.bias");
        for t in 0..200 {
            // Unit 3 never has a gradient, unit 5 only occasionally.
            observe(&mut alarms, &gradient(bias, |i| f64::from(u8::from(i != 3 && (i != 5 || t % 90 == 1)))), 1.0);
        }
        let raised = alarms.take();
        assert!(
            raised.len() == 1 && raised[0].starts_with(&format!("{bias}: 1 of 16 ")) && raised[0].contains(" in 100 steps;"),
            "{raised:?}"
        );
    }

    #[test]
    fn a_norm_that_explodes_is_reported_once() {
        let mut alarms = Alarms::default();
        let sound = gradient("", |_| 1.0);
        (0..19).for_each(|i| observe(&mut alarms, &sound, 1.0 + f64::from(i % 3)));
        observe(&mut alarms, &sound, 9.0);
        assert!(alarms.take().is_empty());
        observe(&mut alarms, &sound, 21.0);
        observe(&mut alarms, &sound, 400.0);
        let raised = alarms.take();
        assert!(raised.len() == 1 && raised[0].ends_with(" 21.0, 10 times the median of the last 20"), "{raised:?}");
        // Fine-tuning that converges: norms fall to nothing, and one batch in thirty is still hard.
        let mut alarms = Alarms::default();
        let hard = |t: i32| if t >= 300 && t % 30 == 0 { 20.0 } else { 1.0 };
        (0..600).for_each(|t| observe(&mut alarms, &sound, 5.0 * 0.99f64.powi(t) * hard(t)));
        assert!(alarms.take().is_empty());
        // Exactly ten times the median and exactly twice the largest are not enough.
        let raised = |norms: &[(usize, f64)]| {
            let mut alarms = Alarms::default();
            norms.iter().for_each(|&(times, norm)| (0..times).for_each(|_| observe(&mut alarms, &sound, norm)));
            alarms.take()
        };
        assert_eq!([raised(&[(20, 2.0), (1, 20.0)]), raised(&[(1, 15.0), (25, 1.0), (1, 30.0)])], [[""; 0]; 2]);
        assert_eq!([raised(&[(20, 2.0), (1, 20.1)]).len(), raised(&[(1, 15.0), (25, 1.0), (1, 30.1)]).len()], [1, 1]);
        assert!(raised(&[(150, 1.0), (1, 50.0)])[0].ends_with(" 50 times the median of the last 100"));
    }

    #[test]
    fn a_diverging_loss_is_reported_once() {
        let mut alarms = Alarms::<f64>::default();
        // Neither hard batches nor a loss that rises but stays below three times the first are an alarm.
        (0..100).for_each(|t| alarms.observe_loss(if t % 9 == 8 { 30.0 } else { 3.0 }));
        (0..50).for_each(|_| alarms.observe_loss(5.0));
        assert!(alarms.take().is_empty());
        let mut three_times = Alarms::<f64>::default();
        [1.0].into_iter().chain([3.0; 20]).for_each(|loss| three_times.observe_loss(loss));
        assert!(three_times.take().is_empty());
        (0..50).for_each(|_| alarms.observe_loss(127_270.0));
        let raised = alarms.take();
        // The mean of nine losses of 5 and the first diverging one.
        let expected = "the loss of the last 10 steps is 12,732, the first was 3.00: training diverges";
        assert!(raised.len() == 1 && raised[0].starts_with(expected), "{raised:?}");
    }
}
