//! The linear layers that fine-tuning adds (§3.2, §3.3, figure 1): from the hidden state at the extract token to classes.
//!
//! ```text
//! P(y | x¹ … xᵐ) = softmax(hₗᵐ W_y)                                                        (equation 3)
//! L₂(C) = Σ log P(y | x¹ … xᵐ)                                                             (equation 4)
//!
//! classify, entail     z = r W_y                  r = hₗ at the extract token of [start; text; extract] or [start; p; $; h; extract]
//! BERT                 z = tanh(r W_p + b_p) W_y  with a pooler, r = hₗ at the first slot
//! similar              z = (r₁ + r₂) W_y          both orders, added before the linear layer
//! choose               zₖ = rₖ W_y, W_y (d, 1)    one scalar per answer, softmax over answers
//! ```
//!
//! Equation 4 is a log-likelihood; the mean of its negative is minimised, the cross-entropy with the label. Labels are
//! distributions: all on one class, or a graded score shared by its two neighbours (Tai, Socher & Manning 2015, §4.2).
//!
//! The paper's dropout on the classifier applies to r. OpenAI's code draws one mask per example, shared by its answers: separate
//! masks would remove whole features from single answers. With both orders, dropout applies to the sum, once per example.

use std::sync::Arc;

use gradus_autograd::Var;
use gradus_tensor::{Real, Tensor};
use serde::{Deserialize, Serialize};

use crate::batch::ClassLoss;
use crate::config::{ConfigError, ensure};
use crate::dropout::{Dropout, DropoutSeed, Site};
use crate::layers::Linear;
use crate::param::{Param, Serves};
use crate::tree;
use crate::tree::{List, P, Tree};

/// The map from the hidden states of an example's sequences to logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// One sequence per example.
    Classify,
    /// Two sequences, both orders of a pair; their hidden states are added.
    Similar,
    /// One sequence per answer, one logit each.
    Choose,
}

/// The form and options of a head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadConfig {
    /// The map from sequences to logits.
    pub form: Form,
    /// Number of classes C. 1 if each answer has one logit ([`Form::Choose`]) or if the logit is a score (regression).
    pub classes: usize,
    /// Whether W_y has a bias, as in OpenAI's code; the paper and Hugging Face have none.
    pub bias: bool,
    /// Dropout on the hidden state before W_y.
    pub dropout: f64,
    /// The names of the classes, in their order; empty if they have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// BERT's layer between the hidden state and W_y.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pooler: bool,
}

/// The class names of next-sentence prediction (Devlin et al. 2018, §3.1), in the order of `transformers`.
pub const NEXT: [&str; 2] = ["IsNext", "NotNext"];

impl HeadConfig {
    /// Returns whether the head is that of next-sentence prediction.
    pub fn predicts_next(&self) -> bool {
        self.labels == NEXT
    }

    /// Creates the configuration of the paper: no bias, dropout 0.1.
    pub fn new(form: Form, classes: usize) -> Self {
        let classes = if form == Form::Choose { 1 } else { classes };
        HeadConfig { form, classes, bias: false, dropout: 0.1, labels: Vec::new(), pooler: false }
    }

    /// Checks the form and options.
    pub fn check(&self) -> Result<(), ConfigError> {
        let (classes, names) = (self.classes, self.labels.len());
        match self.form {
            Form::Choose => {
                ensure(classes == 1, "classes", classes, "1 for a head that chooses among answers", "another checkpoint")?
            }
            Form::Classify if classes == 1 => {} // a score, learnt by squared error
            Form::Classify | Form::Similar => {
                let fits = (2..=1 << 16).contains(&classes);
                ensure(fits, "classes", classes, "a number from 2 to 65536", "another task")?;
            }
        }
        let expected = format!("{classes}, one per class");
        ensure(names == 0 || names == classes, "labels", format!("{names} names"), expected, "another checkpoint")?;
        let expected = "a probability from 0 to below 1";
        ensure((0.0..1.0).contains(&self.dropout), "classifier dropout", self.dropout, expected, "--classifier-dropout")
    }
}

tree! {
    /// W_y, one row per class.
    pub struct Head<V> {
        /// W_p (d, d) and b_p.
        pooler: Option<Linear<V>>,
        /// W_yᵀ (classes, d).
        weight: P<V>,
        /// The bias (classes), as in OpenAI's code.
        bias: Option<P<V>>,
    } with {
        config: Arc<HeadConfig>,
    }
}

/// The heads of a model, named `score`, `score_1`, `score_2`, …
pub type Heads<V> = List<Head<V>>;

impl<V> Heads<V> {
    /// Creates the list of these heads.
    pub fn new(heads: Vec<Head<V>>) -> Self {
        List(heads, ["score"; 2])
    }
}

impl<'t, T: Real> Heads<Var<'t, T>> {
    /// Computes L₂ of one head.
    ///
    /// # Panics
    /// Panics if the model lacks the head.
    pub(crate) fn loss(&self, states: &Var<'t, T>, classes: &ClassLoss, dropout: Option<DropoutSeed>) -> Var<'t, T> {
        let head = self.0.get(classes.head).expect("a batch with classes needs a model with their head");
        states.tape().scope(&self.name(classes.head), || head.loss(states, classes, dropout))
    }
}

impl Head<Param> {
    /// Declares the parameters of a model's head `number` for hidden states of width d: W_y from N(0, std²), bias 0.
    pub fn declare(config: &HeadConfig, number: usize, d: usize, std: f64) -> Self {
        let head = Head {
            pooler: config.pooler.then(|| Linear::declare(d, d, std)),
            weight: P(Param::weight([config.classes, d], std)),
            bias: config.bias.then(|| P(Param::bias(config.classes))),
            config: Arc::new(config.clone()),
        };
        head.map(|_, p| p.serving(Serves::Head(number)))
    }
}

impl<V> Head<V> {
    /// Returns the form and options.
    pub fn config(&self) -> &HeadConfig {
        &self.config
    }
}

impl<T: Real> Head<Tensor<T>> {
    /// Returns the head with its classes permuted and renamed to `labels`: class i of the result is class `order[i]` of `self`.
    ///
    /// # Panics
    /// Panics if `order` is not a permutation of the classes.
    pub fn reordered(self, order: &[usize], labels: Vec<String>) -> Self {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        assert!(
            sorted.into_iter().eq(0..self.config.classes),
            "{order:?} is not a permutation of {} classes",
            self.config.classes
        );
        let rows = |p: P<Tensor<T>>| {
            let rows: Vec<_> = order.iter().map(|&class| p.0.slice(0, class..class + 1)).collect();
            P(Tensor::concat(&rows.iter().collect::<Vec<_>>(), 0))
        };
        let config = Arc::new(HeadConfig { labels, ..(*self.config).clone() });
        Head { weight: rows(self.weight), bias: self.bias.map(rows), config, ..self }
    }
}

impl<'t, T: Real> Head<Var<'t, T>> {
    /// Computes logits (examples, classes), or (examples, answers), from hidden states (B, T, d).
    pub fn logits(&self, states: &Var<'t, T>, classes: &ClassLoss, dropout: Option<DropoutSeed>) -> Var<'t, T> {
        let (b, t, d) = (states.shape()[0], states.shape()[1], states.shape()[2]);
        let each = classes.group;
        let n = b / each;
        let r = states.reshape([b * t, d]).gather(classes.slots.clone(), [b]); // (B, d)
        let r = self.pooler.as_ref().map_or(r.clone(), |pooler| pooler.forward(&r).tanh());
        let dropout = dropout.map(|seed| seed.per_example(each));
        let dropping = Dropout::new(self.config.dropout, Site::Classifier(classes.head));
        let drop = |r: Var<'t, T>| dropping.by_rows(r, 1, dropout);
        let r = match self.config.form {
            Form::Classify => drop(r),
            Form::Similar => drop(r.reshape([n, each, d]).sum(&[1]).reshape([n, d])),
            Form::Choose if dropping.drops(dropout) => {
                let shared = drop(r.constant(r.value().full_like([n, d], T::one()))).reshape([n, 1, d]);
                (r.reshape([n, each, d]) * shared).reshape([b, d])
            }
            Form::Choose => r,
        };
        let z = r.matmul(&self.weight.0.t()); // (N, C), or (B, 1)
        let z = match &self.bias {
            Some(bias) => z + &bias.0,
            None => z,
        };
        if self.config.form == Form::Choose { z.reshape([n, each]) } else { z }
    }

    /// Computes −Σₙ wₙ Σ_c yₙ_c log Pₙ(c): L₂ with the examples' weights.
    pub fn loss(&self, states: &Var<'t, T>, classes: &ClassLoss, dropout: Option<DropoutSeed>) -> Var<'t, T> {
        let log_p = self.logits(states, classes, dropout).log_softmax();
        let n = log_p.shape()[1];
        let weighted = classes.targets.iter().enumerate().map(|(i, y)| T::lit(-y * classes.weights[i / n])).collect();
        let y = log_p.constant(log_p.value().constant(*log_p.shape(), weighted));
        (log_p * y).sum_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reordering_permutes_the_classes_of_weight_and_bias() {
        let config = HeadConfig { bias: true, pooler: true, ..HeadConfig::new(Form::Classify, 3) };
        let count = |n: usize| (0..n).map(|i| i as f64).collect::<Vec<_>>();
        let head = Head::declare(&config, 0, 2, 0.02).map(|_, p| Tensor::new(p.shape, count(p.shape.numel())));
        let names: Vec<String> = ["c", "a", "b"].map(str::to_owned).into();
        let found = head.clone().reordered(&[2, 0, 1], names.clone());
        assert_eq!(found.weight.0.to_vec(), [4., 5., 0., 1., 2., 3.]);
        assert_eq!(found.bias.as_ref().unwrap().0.to_vec(), [2., 0., 1.]);
        assert_eq!(found.config().labels, names);
        assert_eq!(found.pooler, head.pooler);
    }

    #[test]
    fn the_head_of_next_sentence_prediction_is_recognised_by_its_labels() {
        let head = HeadConfig::new(Form::Classify, 2);
        assert!(!head.predicts_next());
        assert!(HeadConfig { labels: NEXT.map(str::to_owned).into(), ..head }.predicts_next());
    }

    #[test]
    fn an_impossible_head_is_rejected() {
        let good = HeadConfig::new(Form::Classify, 3);
        good.check().unwrap();
        HeadConfig { labels: ["a", "b", "c"].map(str::to_owned).into(), ..good.clone() }.check().unwrap();
        HeadConfig { classes: 1, ..good.clone() }.check().unwrap();
        let cases = [
            (HeadConfig { labels: vec!["a".into()], ..good.clone() }, "labels", "1 names", "3, one per class"),
            (HeadConfig { classes: 0, ..good.clone() }, "classes", "0", "from 2"),
            (HeadConfig { form: Form::Choose, ..good.clone() }, "classes", "3", "1 for a head"),
            (HeadConfig { dropout: 1.0, ..good }, "classifier dropout", "1", "below 1"),
        ];
        for (wrong, field, found, expected) in cases {
            let error = wrong.check().unwrap_err();
            assert_eq!((error.field, &*error.found), (field, found));
            assert!(error.expected.contains(expected), "{error}");
        }
    }
}
