//! Whole models in f64, every option, head and objective: their gradients by four witnesses, and what they must not mix.

use gradus_autograd::{Tape, Tensor, check};
use gradus_model::check::{Loss, properties, sight};
use gradus_model::{
    Activation, Backbone, BackboneConfig, Batch, DropoutSeed, Embedding, Form, GptConfig, GradientMode, HeadConfig, Labels,
    LstmConfig, Model, ModelConfig, Objective, Positions, Tree,
};
use gradus_tensor::rng::Philox;
use gradus_tests::{random_batch, shaken};

/// A model, a batch, and the seed of its dropouts.
struct Case {
    name: &'static str,
    model: Model<Tensor<f64>>,
    batch: Batch,
    dropout: Option<DropoutSeed>,
}

fn tiny() -> GptConfig {
    // Weights far wider than 0.02, so that no term of the gradient is negligible.
    GptConfig { vocab: 19, context: 9, width: 12, layers: 2, heads: 3, initializer_range: 0.3, ..GptConfig::default() }
}

/// Random tokens: B = 4 sequences of T = 7, of which the last tokens of some are padding.
fn batch(vocab: usize, objective: Objective, padded: bool) -> Batch {
    let (b, t) = (4, 7);
    let predicted = [7, 3, 5, 1];
    let mask: Vec<f64> = (0..b * t).map(|i| if !padded || i % t < predicted[i / t] { 1.0 } else { 0.0 }).collect();
    random_batch(&mut Philox::new(5), vocab, b, objective.weights(&mask, b))
}

fn parameters(config: &ModelConfig) -> Model<Tensor<f64>> {
    Model::init(config, 3).map(shaken(4))
}

fn cases() -> Vec<Case> {
    let case = |name, config: ModelConfig, objective, padded, dropout| {
        let batch = batch(config.backbone.vocab(), objective, padded);
        Case { name, model: parameters(&config), batch, dropout }
    };
    // λ stands in the weights of the next tokens.
    let under_head = |name, backbone: BackboneConfig, form, classes, bias, lambda: f64, dropout| {
        let batch = batch(backbone.vocab(), Objective::SequenceMean, true);
        let weights = batch.weights.iter().map(|w| lambda * w).collect();
        let batch = Batch { weights, labels: Some(labels(form, classes)), ..batch };
        let config = ModelConfig { backbone, head: Some(HeadConfig { bias, ..HeadConfig::new(form, classes) }) };
        Case { name, model: parameters(&config), batch, dropout }
    };
    let head = |name, form, classes, bias, lambda, dropout| under_head(name, tiny().into(), form, classes, bias, lambda, dropout);
    let gpt = |name, config: GptConfig, objective, padded, dropout| case(name, config.into(), objective, padded, dropout);
    let lstm = || LstmConfig { vocab: 19, context: 9, width: 6, units: 11, initializer_range: 0.3, ..LstmConfig::default() };
    let (mean, per_sequence) = (Objective::TokenMean, Objective::SequenceMean);
    let dropout = Some(DropoutSeed::new(11, 1));
    vec![
        gpt("the paper's", tiny(), mean, false, None),
        gpt("dropout", tiny(), mean, false, dropout),
        gpt("joint embedding", GptConfig { embedding: Embedding::Joint, ..tiny() }, mean, false, None),
        gpt("joint embedding, dropout", GptConfig { embedding: Embedding::Joint, ..tiny() }, mean, false, dropout),
        gpt("sinusoidal", GptConfig { positions: Positions::Sinusoidal, ..tiny() }, mean, false, None),
        gpt("gelu_erf", GptConfig { activation: Activation::GeluErf, ..tiny() }, mean, false, None),
        // Smooth only between its kinks: the h below are small enough to stay within a piece.
        gpt("relu", GptConfig { activation: Activation::Relu, ..tiny() }, mean, false, None),
        gpt("sequence mean, padding", tiny(), per_sequence, true, None),
        gpt("sequence mean, padding, dropout", tiny(), per_sequence, true, dropout),
        head("classify", Form::Classify, 3, true, 0.5, None),
        head("classify, dropout, λ = 0", Form::Classify, 3, false, 0.0, dropout),
        head("similar, soft targets", Form::Similar, 6, false, 0.5, None),
        head("similar, dropout", Form::Similar, 2, true, 0.5, dropout),
        head("choose", Form::Choose, 1, false, 0.5, None),
        head("choose, dropout", Form::Choose, 1, false, 0.5, dropout),
        case("LSTM", lstm().into(), mean, false, None),
        case("LSTM, padding, dropout", lstm().into(), per_sequence, true, dropout),
        case("LSTM, more width than units", LstmConfig { width: 13, units: 4, ..lstm() }.into(), mean, false, dropout),
        under_head("LSTM, classify", lstm().into(), Form::Classify, 3, true, 0.5, dropout),
        under_head("LSTM, choose", lstm().into(), Form::Choose, 1, false, 0.5, None),
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
    fn loss(&self, seed: u64) -> check::Case {
        Loss { config: self.model.config(), batch: self.batch.clone(), dropout: self.dropout }.at(&self.model, seed)
    }
}

fn all_hold(witness: check::Witness) -> Vec<check::Report> {
    let outcome =
        |case: &Case| (1..=3).map(|seed| witness(&case.loss(seed)).unwrap_or_else(|e| panic!("{}: {e}", case.name))).collect();
    cases().iter().flat_map(|case| -> Vec<_> { outcome(case) }).collect()
}

/// Reverse mode against forward mode, through every layer at once.
#[test]
fn the_gradient_is_the_exact_directional_derivative() {
    all_hold(check::adjoint);
}

#[test]
fn second_derivatives_are_differences_of_gradients() {
    all_hold(check::second_order);
}

/// The error is a V over log h: h² from the left out terms on one side, rounding/h on the other.
#[test]
fn directional_derivatives_agree_to_1e_8_at_the_best_h() {
    for report in all_hold(check::v_curve) {
        let (first, last, best) = (report.curve[0].1, report.curve[56].1, report.error());
        assert!(first > best && last > best, "not a V: {report}: {:?}", report.curve);
    }
}

/// With a wrong gradient it would fall as h.
#[test]
fn the_taylor_remainder_falls_with_slope_2() {
    for report in all_hold(check::taylor) {
        let slope = report.worst.expect("a loss is not linear").value;
        assert!((slope - 2.0).abs() <= 0.05, "{report}: {:?}", report.curve);
    }
}

/// What attention, recurrence, batches, padding, caches and shards must not mix.
#[test]
fn every_property_holds() {
    for case in cases() {
        let verdicts = properties(&case.model, &case.batch, case.dropout);
        let names: Vec<_> = verdicts.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["causality", "independence", "padding", "cache", "shards"]);
        for (_, verdict) in verdicts {
            assert_eq!(verdict, Ok(()), "{}", case.name);
        }
        let seen = sight(
            case.model.backbone.sight(),
            &case.batch.inputs,
            case.batch.sequences,
            case.model.backbone.config().vocab() as u32,
            |ids| {
                let tape = Tape::off();
                case.model.constants(&tape).hidden(ids, case.batch.sequences, None).logits().into_value()
            },
        );
        assert_eq!(seen, Ok(()), "{}", case.name);
    }
}

/// Frozen features: the head's gradient is the whole one's, where the backbone drops nothing and no token is predicted.
#[test]
fn the_head_alone_has_the_gradient_it_has_in_the_whole() {
    for case in cases().iter().filter(|case| case.model.score.is_some() && case.dropout.is_none()) {
        let silent = Batch { weights: vec![0.0; case.batch.inputs.len()].into(), ..case.batch.clone() };
        let gradient = |how| case.model.gradient(&silent, None, how).1;
        let (whole, alone) = (gradient(GradientMode::Whole), gradient(GradientMode::Head));
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
    let hidden = model.hidden(&ids, b, None);
    let score = model.score.unwrap();
    let logits = |update| score.logits(&hidden.states, &labels, Some(DropoutSeed::new(3, update))).value().to_vec();
    let all: Vec<_> = (1..=20).map(logits).collect();
    assert!(all.iter().all(|z| z[0] == z[1] && z[2] == z[3]), "{all:?}");
    assert!(all.iter().any(|z| z[0] != z[2]), "questions have masks of their own: {all:?}");
    let different = all.iter().map(|z| z[0].to_bits()).collect::<std::collections::BTreeSet<_>>();
    assert!(different.len() > 10, "features are dropped one by one, not a question at once: {all:?}");
}

/// Two orders that drop features of their own would let through what the other order took away.
#[test]
fn both_orders_of_a_pair_are_dropped_as_one() {
    let d = tiny().width;
    let config = ModelConfig {
        backbone: tiny().with_dropout(0.0).into(),
        head: Some(HeadConfig { dropout: 0.5, ..HeadConfig::new(Form::Similar, d) }),
    };
    let mut params = parameters(&config);
    // W_y = 1, so that the logits are the features themselves. Both orders are one sequence: their sum is 2h, and dropped 0 or 4h.
    let identity = Tensor::new([d, d], (0..d * d).map(|i| if i % (d + 1) == 0 { 1.0 } else { 0.0 }).collect());
    params.score.as_mut().unwrap().weight.0 = identity;
    let (t, ids) = (5, [3, 1, 4, 1, 5].repeat(2));
    let labels =
        Labels { per_example: 2, extract: vec![t as u32 - 1; 2].into(), targets: vec![0.0; d].into(), weights: [1.0].into() };
    let tape = Tape::off();
    let model = params.constants(&tape);
    let hidden = model.hidden(&ids, 2, None);
    let score = model.score.unwrap();
    let h = hidden.states.value().to_vec()[(t - 1) * d..t * d].to_vec();
    let mut kept = 0;
    for update in 1..=20 {
        let z = score.logits(&hidden.states, &labels, Some(DropoutSeed::new(3, update))).value().to_vec();
        for (z, h) in z.iter().zip(&h) {
            assert!(*z == 0.0 || (z - 4.0 * h).abs() < 1e-12, "{z} of a feature of {h}");
            kept += usize::from(*z != 0.0);
        }
    }
    assert!((80..=160).contains(&kept), "half of 240: {kept}");
}

fn joint(dropout: f64) -> GptConfig {
    GptConfig { embedding: Embedding::Joint, embd_dropout: dropout, ..tiny().with_dropout(0.0) }
}

/// OpenAI's order: a token that comes twice has lost the same features in both places, and in the output.
#[test]
fn the_joint_matrix_is_dropped_before_it_is_read() {
    let config = joint(0.5);
    let params = parameters(&config.clone().into());
    let Backbone::Gpt(gpt) = &params.backbone else { panic!("a GPT") };
    let tape = Tape::off();
    let (model, ids) = (gpt.constants(&tape), [3, 3, 8]);
    let hidden = model.embed(&ids, 1, 0, Some(DropoutSeed::new(3, 1)));
    let (table, read) = (gpt.tokens_embed.weight.0.to_vec(), hidden.output.value().to_vec());
    let dropped = read.iter().filter(|x| **x == 0.0).count();
    assert!((table.len() / 3..table.len() * 2 / 3).contains(&dropped), "{dropped} of {}", table.len());
    assert!(read.iter().zip(&table).all(|(r, x)| *r == 0.0 || (r - 2.0 * x).abs() < 1e-15));
    let (d, h) = (config.width, hidden.states.value().to_vec());
    for (t, &id) in ids.iter().enumerate() {
        for i in 0..d {
            assert_eq!(h[t * d + i], read[id as usize * d + i] + read[(config.vocab + t) * d + i]);
        }
    }
}

/// OpenAI's softmax has a row for each position, which no token is: what it gives to them is lost to the tokens.
#[test]
fn the_joint_softmax_runs_over_positions_too() {
    let config = joint(0.0);
    let params = parameters(&config.clone().into());
    let Backbone::Gpt(gpt) = &params.backbone else { panic!("a GPT") };
    let ids = [3, 1, 4];
    let tape = Tape::off();
    let logits = gpt.constants(&tape).logits(&ids, 1).value().clone();
    let rows = config.vocab + config.context;
    assert_eq!(logits.shape()[..], [1, 3, rows]);
    let last: Vec<f64> = logits.to_vec()[2 * rows..].iter().map(|z| z.exp()).collect();
    let tokens: f64 = last[..config.vocab].iter().sum::<f64>() / last.iter().sum::<f64>();
    let probability = |target: u32| {
        let batch =
            Batch { sequences: 1, inputs: ids.into(), targets: [1, 4, target].into(), weights: [1.0; 3].into(), labels: None };
        (-params.token_losses(&batch).to_vec()[2]).exp()
    };
    let sum: f64 = (0..config.vocab as u32).map(probability).sum();
    assert!((sum - tokens).abs() < 1e-12 && sum < 0.95, "{sum}, {tokens}");
}
