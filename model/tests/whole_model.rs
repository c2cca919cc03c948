//! Tests of whole models in f64, with every option, head and objective: gradients by four witnesses, and properties of models.

use gradus_autograd::{Tape, Tensor, check};
use gradus_model::check::{Loss, Reads, Sample, properties, samples, shaken, sight, tiny_bert, tiny_gpt, tiny_gpt2, tiny_lstm};
use gradus_model::{
    Activation, Batch, ClassLoss, DropoutSeed, Embedding, Form, GradientMode, HeadConfig, Input, LossTerm, LstmConfig, Model,
    ModelConfig, Objective, Sight, Sizes, Tree,
};

fn parameters(config: &ModelConfig) -> Model<Tensor<f64>> {
    Model::init(config, 3).map(shaken(4))
}

/// Returns every sample and more, each with and without its dropouts, by name.
fn cases() -> Vec<(String, Loss)> {
    let gpt = |activation| tiny_gpt().with_transformer(|c| c.activation = activation);
    let wide = ModelConfig::new(
        Sizes { width: 13, ..tiny_lstm().sizes },
        LstmConfig { units: 4, initializer_range: 0.3, ..Default::default() },
    );
    let two = HeadConfig { bias: true, ..HeadConfig::new(Form::Similar, 2) };
    let more = [
        Sample::new("gelu_erf", gpt(Activation::GeluErf), Objective::TokenMean),
        // Smooth only between its kinks: the h below are small enough to stay within a piece.
        Sample::new("relu", gpt(Activation::Relu), Objective::TokenMean),
        Sample::new("LSTM, more width than units", wide, Objective::TokenMean),
        Sample::under("similarity, with a bias", tiny_gpt(), two, 0.5),
    ];
    let both = |sample: Sample| {
        let loss = sample.loss(3);
        [(format!("{}, no dropout", sample.name), Loss { dropout: None, ..loss.clone() }), (sample.name.to_owned(), loss)]
    };
    samples().into_iter().chain(more).flat_map(both).collect()
}

fn all_hold(witness: check::Witness) -> Vec<check::Report> {
    let seeds = |(name, loss): &(String, Loss)| -> Vec<check::Report> {
        (1..=3).map(|seed| witness(&loss.case(seed)).unwrap_or_else(|e| panic!("{name}: {e}"))).collect()
    };
    cases().iter().flat_map(seeds).collect()
}

/// Compares reverse mode with forward mode, through every layer at once.
#[test]
fn the_gradient_is_the_exact_directional_derivative() {
    all_hold(check::adjoint);
}

#[test]
fn second_derivatives_are_differences_of_gradients() {
    all_hold(check::second_order);
}

/// The error is a V over log h: h² from truncation on one side, rounding/h on the other.
#[test]
fn directional_derivatives_agree_to_1e_8_at_the_best_h() {
    for report in all_hold(check::v_curve) {
        let (first, last, best) = (report.curve[0].1, report.curve[56].1, report.error());
        assert!(first > best && last > best, "not a V: {report}: {:?}", report.curve);
    }
}

/// With a wrong gradient, the remainder would fall as h.
#[test]
fn the_taylor_remainder_falls_with_slope_2() {
    for report in all_hold(check::taylor) {
        let slope = report.worst.expect("a loss is not linear").value;
        assert!((slope - 2.0).abs() <= 0.05, "{report}: {:?}", report.curve);
    }
}

/// Attention, recurrence, batches, padding, caches and shards do not mix what must stay separate.
#[test]
fn every_property_holds() {
    for (name, loss) in cases() {
        let verdicts = properties(&loss);
        let names: Vec<_> = verdicts.iter().map(|(name, _)| *name).collect();
        let expected = match &loss.batch.input.sight {
            Sight::Causal => &["causality", "independence", "padding", "cache", "shards"][..],
            _ => &["blindness", "independence", "padding", "shards"],
        };
        assert_eq!(names, expected);
        for (_, verdict) in verdicts {
            assert_eq!(verdict, Ok(()), "{name}");
        }
        let Loss { model, batch, .. } = &loss;
        let logits = |input: &Input| model.constants(&Tape::off()).logits(input).into_value();
        let vocab = model.sizes().vocab as u32;
        assert_eq!(sight(&batch.input, vocab, logits), Ok(()), "{name}");
    }
}

/// A query-only slot has the logits of a query that is appended to the content, to which no slot attends; the content's logits
/// are those of a run without queries.
#[test]
fn a_query_only_slot_is_an_appended_query() {
    let (content, queries) = ([3, 1, 4, 1, 5], [[2, 0], [2, 3], [7, 1]]); // token and position
    for config in [tiny_bert(), tiny_gpt2()] {
        let model = parameters(&config);
        let logits = |input: &Input| model.constants(&Tape::off()).logits(input).into_value();
        let row = |all: &Tensor<f64>, i: usize| all.slice(1, i..i + 1).to_vec();
        let with = |queries: &[[u32; 2]], sight, query_only| Input {
            positions: Some((0..5).chain(queries.iter().map(|query| query[1])).collect()),
            sight,
            query_only,
            ..Input::causal(1, [&content[..], &queries.iter().map(|query| query[0]).collect::<Vec<_>>()].concat())
        };
        for causal in [false, true] {
            let sight = || if causal { Sight::Causal } else { Sight::Full(None) };
            let (alone, all) = (logits(&with(&[], sight(), 0)), logits(&with(&queries, sight(), 3)));
            (0..5).for_each(|i| assert_near(&row(&all, i), &row(&alone, i)));
            for (k, query) in queries.iter().enumerate() {
                let seen = (0..36).map(|at| at % 6 < 5 && (!causal || at % 6 <= at / 6));
                let appended = logits(&with(&[*query], Sight::Allowed(seen.collect()), 0));
                assert_near(&row(&all, 5 + k), &row(&appended, 5));
            }
        }
    }
}

fn assert_near(found: &[f64], expected: &[f64]) {
    assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?} {expected:?}");
}

/// Frozen features: the head's gradient is that of the whole model, if the backbone drops nothing and no token is predicted.
#[test]
fn the_head_alone_has_the_gradient_it_has_in_the_whole() {
    for (case, Loss { model, batch, dropout }) in cases() {
        if model.heads.0.is_empty() || dropout.is_some() {
            continue;
        }
        let classes = batch.losses.iter().filter(|term| matches!(term, LossTerm::Classes(_)));
        let silent = Batch { losses: classes.cloned().collect(), input: batch.input };
        let gradient = |how| model.gradient(&silent, None, how).1;
        let (whole, alone) = (gradient(GradientMode::Whole), gradient(GradientMode::Head));
        assert_eq!(whole.heads, alone.heads, "{case}");
        alone.body.visit(|name, g| assert!(g.is_none(), "{case}: {name} is a feature"));
    }
}

/// Each dropout is drawn from its own site, and separately for every sequence.
#[test]
fn each_dropout_of_a_gpt_acts_alone() {
    let ids = [3, 1, 4, 1, 5].repeat(2);
    let run = |[embd_dropout, attn_dropout, resid_dropout]: [f64; 3], ids: &[u32], sequences: usize, first: u64| {
        let config = tiny_gpt().with_transformer(|c| {
            (c.embd_dropout, c.attn_dropout, c.resid_dropout) = (embd_dropout, attn_dropout, resid_dropout)
        });
        let model = parameters(&config);
        let tape = Tape::off();
        let seed = DropoutSeed::new(11, 1).from_sequence(first);
        model.constants(&tape).hidden(&Input::causal(sequences, ids), Some(seed)).states.into_value().to_vec()
    };
    let states = |dropouts| {
        let both = run(dropouts, &ids, 2, 0);
        // The second sequence, in a shard of its own, has the same masks as in the batch.
        let alone = run(dropouts, &ids[5..], 1, 1);
        assert!(both[both.len() / 2..].iter().zip(&alone).all(|(a, b)| (a - b).abs() < 1e-12), "{dropouts:?}");
        both
    };
    let halves = |all: &[f64]| (all[..all.len() / 2].to_vec(), all[all.len() / 2..].to_vec());
    let plain = states([0.0; 3]);
    assert_eq!(halves(&plain).0, halves(&plain).1, "one sequence twice");
    let dropped = [[0.5, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 0.5]].map(states);
    for (i, one) in dropped.iter().enumerate() {
        assert_ne!(halves(one).0, halves(one).1, "dropout {i} draws the same for both sequences");
        assert!(
            plain != *one && dropped[..i].iter().all(|other| other != one),
            "dropout {i} drops what another does, or nothing"
        );
    }
}

/// Returns a model that drops half of the features before its head, and nothing else.
fn dropping(form: Form, classes: usize) -> Model<Tensor<f64>> {
    let head = HeadConfig { dropout: 0.5, ..HeadConfig::new(form, classes) };
    parameters(&ModelConfig { heads: vec![head], ..tiny_gpt().with_dropout(0.0) })
}

/// Returns the state of a sequence that the head reads (d), and its logits for `b` copies, two per example, in each of 20 steps.
fn of_copies(params: &Model<Tensor<f64>>, b: usize) -> (Vec<f64>, Vec<Vec<f64>>) {
    let ids = [3, 1, 4, 1, 5];
    let last = ids.len() - 1;
    let slots = (0..b).map(|s| (s * ids.len() + last) as u32).collect();
    let classes = ClassLoss { head: 0, slots, group: 2, targets: [].into(), weights: [].into() };
    let tape = Tape::off();
    let model = params.constants(&tape);
    let states = model.hidden(&Input::causal(b, ids.repeat(b)), None).states;
    let head = model.head().unwrap();
    let logits = |step| head.logits(&states, &classes, Some(DropoutSeed::new(3, step))).value().to_vec();
    (states.value().slice(0, 0..1).slice(1, last..last + 1).to_vec(), (1..=20).map(logits).collect())
}

/// Separate masks would remove whole features from single answers.
#[test]
fn answers_of_one_question_share_their_dropout() {
    // Two questions of two equal answers each. Shared masks keep the logits of one question equal.
    let (_, all) = of_copies(&dropping(Form::Choose, 1), 4);
    assert!(all.iter().all(|z| z[0] == z[1] && z[2] == z[3]), "{all:?}");
    assert!(all.iter().any(|z| z[0] != z[2]), "questions have separate masks: {all:?}");
    let different = all.iter().map(|z| z[0].to_bits()).collect::<std::collections::BTreeSet<_>>();
    assert!(different.len() > 10, "features are dropped one by one, not a question at once: {all:?}");
    // With one feature alone, the logit is 0 or twice its value.
    let mut params = dropping(Form::Choose, 1);
    let d = tiny_gpt().sizes.width;
    params.heads.0[0].weight.0 = Tensor::new([1, d], (0..d).map(|i| if i == 2 { 1.0 } else { 0.0 }).collect());
    let (h, all) = of_copies(&params, 4);
    let kept = all.concat().iter().filter(|z| (**z - 2.0 * h[2]).abs() < 1e-12).count();
    assert!((20..=60).contains(&kept) && all.concat().iter().filter(|z| **z == 0.0).count() == 80 - kept, "{all:?}");
}

/// If each order had its own mask, it would keep features that the other order drops.
#[test]
fn both_orders_of_a_pair_share_one_dropout_mask() {
    let d = tiny_gpt().sizes.width;
    let mut params = dropping(Form::Similar, d);
    // W_y = 1, so that the logits are the features themselves. Both orders are one sequence: their sum is 2h, dropped to 0 or 4h.
    let identity = Tensor::new([d, d], (0..d * d).map(|i| if i % (d + 1) == 0 { 1.0 } else { 0.0 }).collect());
    params.heads.0[0].weight.0 = identity;
    let (h, all) = of_copies(&params, 2);
    let mut kept = 0;
    for z in all {
        for (z, h) in z.iter().zip(&h) {
            assert!(*z == 0.0 || (z - 4.0 * h).abs() < 1e-12, "{z} of a feature of {h}");
            kept += usize::from(*z != 0.0);
        }
    }
    assert!((80..=160).contains(&kept), "half of 240: {kept}");
}

fn joint(dropout: f64) -> ModelConfig {
    tiny_gpt().with_dropout(0.0).with_transformer(|c| (c.embedding, c.embd_dropout) = (Embedding::Joint, dropout))
}

/// In OpenAI's order, a token that occurs twice loses the same features at both positions, and in the output.
#[test]
fn dropout_applies_to_the_joint_matrix_before_lookup() {
    let config = joint(0.5);
    let params = parameters(&config);
    let gpt = params.transformer().unwrap();
    let tape = Tape::off();
    let (model, ids) = (gpt.constants(&tape), [3, 3, 8]);
    let (states, output) = model.embed(&Input::causal(1, ids), 0, Some(DropoutSeed::new(3, 1)));
    let (table, read) = (gpt.tokens_embed.weight.0.to_vec(), output.value().to_vec());
    let dropped = read.iter().filter(|x| **x == 0.0).count();
    assert!((table.len() / 3..table.len() * 2 / 3).contains(&dropped), "{dropped} of {}", table.len());
    assert!(read.iter().zip(&table).all(|(r, x)| *r == 0.0 || (r - 2.0 * x).abs() < 1e-15));
    let (d, h) = (config.sizes.width, states.value().to_vec());
    for (t, &id) in ids.iter().enumerate() {
        for i in 0..d {
            assert_eq!(h[t * d + i], read[id as usize * d + i] + read[(config.sizes.vocab + t) * d + i]);
        }
    }
}

/// OpenAI's softmax has a row for each position, which is no token: the tokens lose the probability of these rows.
#[test]
fn the_joint_softmax_runs_over_positions_too() {
    let config = joint(0.0);
    let params = parameters(&config);
    let ids = [3, 1, 4];
    let tape = Tape::off();
    let logits = params.constants(&tape).logits(&Input::causal(1, ids)).into_value();
    let rows = config.sizes.vocab + config.sizes.context;
    assert_eq!(logits.shape()[..], [1, 3, rows]);
    let last: Vec<f64> = logits.to_vec()[2 * rows..].iter().map(|z| z.exp()).collect();
    let tokens: f64 = last[..config.sizes.vocab].iter().sum::<f64>() / last.iter().sum::<f64>();
    let probability = |target: u32| {
        let batch = Batch::next(1, ids, [1, 4, target], [1.0; 3]);
        (-params.token_losses(&batch).to_vec()[2]).exp()
    };
    let sum: f64 = (0..config.sizes.vocab as u32).map(probability).sum();
    assert!((sum - tokens).abs() < 1e-12 && sum < 0.95, "{sum}, {tokens}");
}

/// A masked batch may have no targets: its loss is 0, and every gradient is 0.
#[test]
fn a_masked_batch_without_targets_has_zero_loss_and_gradient() {
    let Loss { model, batch, .. } = Sample::new("BERT", tiny_bert(), Objective::TokenMean).read(Reads::Masked).loss(3);
    let silent = Batch::of(batch.input).with_tokens(Some([].into()), [], []);
    let (loss, gradient) = model.gradient(&silent, None, GradientMode::Whole);
    assert_eq!(loss.item(), 0.0);
    gradient.visit(|name, g| assert!(g.is_none_or(|g| g.to_vec().iter().all(|x| *x == 0.0)), "{name}"));
}
