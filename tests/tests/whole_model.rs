//! The whole model in f64, every option, head and objective: its gradient against its loss alone, and what attention and batches must not mix.

use gradus_autograd::{Tape, Tensor};
use gradus_model::{
    Activation, Backward, Batch, Embedding, Form, GptConfig, HeadConfig, Labels, Model, ModelConfig, Noise, Objective, Positions,
    Tree,
};
use gradus_tensor::rng::Philox;

/// A model, a batch, and the noise of its dropouts.
struct Case {
    name: &'static str,
    config: ModelConfig,
    params: Model<Tensor<f64>>,
    batch: Batch,
    noise: Option<Noise>,
}

fn tiny() -> GptConfig {
    // Weights far wider than 0.02, so that no term of the gradient is negligible.
    GptConfig { vocab: 19, context: 9, width: 12, layers: 2, heads: 3, initializer_range: 0.3, ..GptConfig::default() }
}

/// Random tokens: B = 4 sequences of T = 7, of which the last tokens of some are padding.
fn batch(config: &GptConfig, objective: Objective, padded: bool) -> Batch {
    let (b, t) = (4, 7);
    let mut rng = Philox::new(5);
    let mut ids = || (0..b * t).map(|_| rng.below(config.vocab as u64) as u32).collect::<Vec<_>>();
    let (inputs, targets) = (ids(), ids());
    let predicted = [7, 3, 5, 1];
    let mask: Vec<f64> = (0..b * t).map(|i| if !padded || i % t < predicted[i / t] { 1.0 } else { 0.0 }).collect();
    Batch {
        sequences: b,
        inputs: inputs.into(),
        targets: targets.into(),
        weights: objective.weights(&mask, b).into(),
        labels: None,
    }
}

/// Every leaf a new one, from random numbers of its own.
fn random(params: &Model<Tensor<f64>>, seed: u64) -> Model<Tensor<f64>> {
    let mut stream = 0;
    params.as_ref().map(|_, p| {
        stream += 1;
        Tensor::normal(*p.shape(), 1.0, &mut Philox::with_stream(seed, stream))
    })
}

/// p + h·v.
fn moved(p: &Model<Tensor<f64>>, h: f64, v: &Model<Tensor<f64>>) -> Model<Tensor<f64>> {
    p.as_ref().zip(v.as_ref()).map(|_, (p, v)| p.zip(v, |p, v| p + h * v))
}

fn dot(a: &Model<Tensor<f64>>, b: &Model<Tensor<f64>>) -> f64 {
    let mut sum = 0.0;
    a.as_ref().zip(b.as_ref()).visit(|_, (a, b)| sum += a.dot(b));
    sum
}

/// Gains and biases moved off 1 and 0, where some gradients would vanish.
fn parameters(config: &ModelConfig) -> Model<Tensor<f64>> {
    let start = Model::init(config, 3);
    moved(&start, 0.1, &random(&start, 4))
}

fn cases() -> Vec<Case> {
    let case = |name, config: GptConfig, objective, padded, noise| {
        let batch = batch(&config, objective, padded);
        let config = config.into();
        Case { name, params: parameters(&config), config, batch, noise }
    };
    // λ stands in the weights of the next tokens.
    let head = |name, form, classes, bias, lambda: f64, noise| {
        let batch = batch(&tiny(), Objective::SequenceMean, true);
        let weights = batch.weights.iter().map(|w| lambda * w).collect();
        let batch = Batch { weights, labels: Some(labels(form, classes)), ..batch };
        let config = ModelConfig { backbone: tiny().into(), head: Some(HeadConfig { bias, ..HeadConfig::new(form, classes) }) };
        Case { name, params: parameters(&config), config, batch, noise }
    };
    let (mean, per_sequence) = (Objective::TokenMean, Objective::SequenceMean);
    let noise = Some(Noise::new(11, 1));
    vec![
        case("the paper's", tiny(), mean, false, None),
        case("dropout", tiny(), mean, false, noise),
        case("joint embedding", GptConfig { embedding: Embedding::Joint, ..tiny() }, mean, false, None),
        case("joint embedding, dropout", GptConfig { embedding: Embedding::Joint, ..tiny() }, mean, false, noise),
        case("sinusoidal", GptConfig { positions: Positions::Sinusoidal, ..tiny() }, mean, false, None),
        case("gelu_erf", GptConfig { activation: Activation::GeluErf, ..tiny() }, mean, false, None),
        // Smooth only between its kinks: the h below are small enough to stay within a piece.
        case("relu", GptConfig { activation: Activation::Relu, ..tiny() }, mean, false, None),
        case("sequence mean, padding", tiny(), per_sequence, true, None),
        case("sequence mean, padding, dropout", tiny(), per_sequence, true, noise),
        head("classify", Form::Classify, 3, true, 0.5, None),
        head("classify, dropout, λ = 0", Form::Classify, 3, false, 0.0, noise),
        head("similar, soft targets", Form::Similar, 6, false, 0.5, None),
        head("similar, dropout", Form::Similar, 2, true, 0.5, noise),
        head("choose", Form::Choose, 1, false, 0.5, None),
        head("choose, dropout", Form::Choose, 1, false, 0.5, noise),
    ]
}

/// Labels for four sequences of seven tokens: four examples, or two of two sequences each; each a distribution of its own.
fn labels(form: Form, classes: usize) -> Labels {
    let per_example = if form == Form::Classify { 1 } else { 2 };
    let (n, classes) = (4 / per_example, if form == Form::Choose { 2 } else { classes });
    let share = |i: usize| if i % classes < 2 { [0.25, 0.75][(i + i / classes) % 2] } else { 0.0 };
    Labels {
        per_example,
        extract: [6, 2, 4, 5].into(),
        targets: (0..n * classes).map(share).collect(),
        weights: vec![1.0 / n as f64; n].into(),
    }
}

impl Case {
    fn loss(&self, params: &Model<Tensor<f64>>) -> f64 {
        let tape = Tape::off();
        params.constants(&tape).loss(&self.config, &self.batch, self.noise.as_ref()).value().item()
    }

    fn gradient(&self) -> Model<Tensor<f64>> {
        let tape = Tape::new();
        let leaves = self.params.leaves(&tape);
        let grads = tape.backward(&leaves.loss(&self.config, &self.batch, self.noise.as_ref()));
        leaves.as_ref().map(|name, leaf| grads.of(leaf).unwrap_or_else(|| panic!("{name}: no gradient")).clone())
    }

    /// A random direction of length 1 over all parameters, and ⟨g, v⟩.
    fn direction(&self, seed: u64) -> (Model<Tensor<f64>>, f64) {
        let v = random(&self.params, seed);
        let length = dot(&v, &v).sqrt();
        let v = v.map(|_, v| v.map(|x| x / length));
        let slope = dot(&self.gradient(), &v);
        (v, slope)
    }
}

/// The error of (L(θ + hv) − L(θ − hv))/2h is a V over log h: h² from the left out terms on one side, rounding/h on the other.
#[test]
fn directional_derivatives_agree_to_1e_8_at_the_best_h() {
    for case in cases() {
        for seed in 1..=3 {
            let (v, slope) = case.direction(seed);
            let error = |h: f64| {
                let [up, down] = [h, -h].map(|h| case.loss(&moved(&case.params, h, &v)));
                ((up - down) / (2.0 * h) - slope).abs() / slope.abs()
            };
            let curve: Vec<f64> = (0..=56).map(|i| error(10f64.powf(-1.0 - 0.125 * f64::from(i)))).collect();
            let best = curve.iter().copied().fold(f64::INFINITY, f64::min);
            assert!(best <= 1e-8, "{}, direction {seed}: {best:e} at best; from h = 0.1 down: {curve:?}", case.name);
            assert!(curve[0] > best && curve[56] > best, "{}: not a V: {curve:?}", case.name);
        }
    }
}

/// |L(θ + hv) − L(θ) − h⟨g, v⟩| falls as h²: with a wrong ⟨g, v⟩ it would fall as h.
#[test]
fn the_taylor_remainder_falls_with_slope_2() {
    for case in cases() {
        let (v, slope) = case.direction(7);
        let here = case.loss(&case.params);
        // From where rounding (1e-15) is 1e-3 of the remainder to where the third derivative begins to show.
        let points: Vec<(f64, f64)> = (0..=8)
            .map(|i| {
                let h = 10f64.powf(-3.0 - 0.25 * f64::from(i));
                let remainder = case.loss(&moved(&case.params, h, &v)) - here - h * slope;
                (h.log10(), remainder.abs().log10())
            })
            .collect();
        let fitted = fit(&points);
        assert!((fitted - 2.0).abs() <= 0.05, "{}: slope {fitted}; (log h, log remainder) = {points:?}", case.name);
    }
}

/// Slope of the line through the points with the least squares.
fn fit(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let (mx, my) = points.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + x / n, b + y / n));
    let (sxy, sxx) = points.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + (x - mx) * (y - my), b + (x - mx) * (x - mx)));
    sxy / sxx
}

/// ∂logitsᵢ/∂xⱼ = 0 for j > i, exactly: another token at j leaves every bit before it as it was, and changes what follows.
#[test]
fn no_position_sees_a_later_one() {
    for case in cases() {
        let (b, t) = (case.batch.sequences, case.batch.inputs.len() / case.batch.sequences);
        let logits = |ids: &[u32]| {
            let tape = Tape::off();
            let noise = case.noise.as_ref();
            case.params.constants(&tape).hidden(&case.config, ids, b, noise).logits().into_value().to_vec()
        };
        let before = logits(&case.batch.inputs);
        let (rows, vocab) = (before.len() / (b * t), case.config.backbone.vocab() as u32);
        for j in 0..t {
            let mut ids = case.batch.inputs.to_vec();
            (0..b).for_each(|s| ids[s * t + j] = (ids[s * t + j] + 1) % vocab);
            let after = logits(&ids);
            for (i, (old, new)) in before.chunks(rows).zip(after.chunks(rows)).enumerate() {
                let same = old.iter().zip(new).all(|(a, b)| a.to_bits() == b.to_bits());
                assert_eq!(same, i % t < j, "{}: token {j} changed, logits at {}", case.name, i % t);
            }
        }
    }
}

/// A sequence's losses do not depend on where in the batch it stands, nor on its neighbours.
#[test]
fn permuting_the_batch_permutes_the_losses() {
    for case in cases() {
        let t = case.batch.inputs.len() / case.batch.sequences;
        let losses = |order: &[usize]| {
            let take = |ids: &[u32]| order.iter().flat_map(|&s| ids[s * t..][..t].to_vec()).collect::<Vec<_>>();
            let Batch { inputs, targets, .. } = &case.batch;
            let weights = vec![1.0; order.len() * t].into();
            let batch = Batch {
                sequences: order.len(),
                inputs: take(inputs).into(),
                targets: take(targets).into(),
                weights,
                labels: None,
            };
            case.params.token_losses(&case.config, &batch).to_vec()
        };
        let all = losses(&[0, 1, 2, 3]);
        for order in [&[2, 0, 3, 1][..], &[3, 1], &[2]] {
            for (row, &s) in losses(order).chunks(t).zip(order) {
                for (a, b) in row.iter().zip(&all[s * t..]) {
                    assert!((a - b).abs() <= 1e-13 * b.abs(), "{}: sequence {s} in {order:?}: {a} against {b}", case.name);
                }
            }
        }
    }
}

/// Frozen features: the head's gradient is the whole one's, where the backbone drops nothing and no token is predicted.
#[test]
fn the_head_alone_has_the_gradient_it_has_in_the_whole() {
    for case in cases().iter().filter(|case| case.config.head.is_some() && case.noise.is_none()) {
        let silent = Batch { weights: vec![0.0; case.batch.inputs.len()].into(), ..case.batch.clone() };
        let gradient = |how| case.params.gradient(&case.config, &silent, None, how).1;
        let (whole, alone) = (gradient(Backward::Whole), gradient(Backward::Head));
        assert_eq!(whole.score, alone.score, "{}", case.name);
        alone.backbone.visit(|name, g| assert!(g.is_none(), "{}: {name} is a feature", case.name));
    }
}

/// A mask of its own for each answer would take whole features from single choices.
#[test]
fn answers_of_one_question_share_their_dropout() {
    let config = ModelConfig {
        backbone: tiny().with_dropout(0.0).into(),
        head: Some(HeadConfig { dropout: 0.5, ..HeadConfig::new(Form::Choose, 1) }),
    };
    let params = parameters(&config);
    // One sequence four times: two questions of two answers each. Shared masks keep the logits of one question equal.
    let (t, b) = (5, 4);
    let labels = Labels {
        per_example: 2,
        extract: vec![t as u32 - 1; b].into(),
        targets: [1.0, 0.0, 1.0, 0.0].into(),
        weights: [0.5; 2].into(),
    };
    let tape = Tape::off();
    let model = params.constants(&tape);
    let ids = [3, 1, 4, 1, 5].repeat(b);
    let hidden = model.hidden(&config, &ids, b, None);
    let (score, head) = (model.score.unwrap(), config.head.unwrap());
    let logits = |update| score.logits(&head, &hidden.states, &labels, Some(&Noise::new(3, update))).value().to_vec();
    let all: Vec<_> = (1..=20).map(logits).collect();
    assert!(all.iter().all(|z| z[0] == z[1] && z[2] == z[3]), "{all:?}");
    assert!(all.iter().any(|z| z[0] != z[2]), "questions have masks of their own: {all:?}");
}
