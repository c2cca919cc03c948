//! Tests of the LSTM's dropouts and bits. `whole_model.rs` tests the parts that it shares with the Transformer.

use gradus_autograd::{Real, Tape, Tensor};
use gradus_model::check::{random_batch, shaken, tiny_lstm};
use gradus_model::{
    Body, BodyConfig, DropoutSeed, GradientMode, Hidden, Input, LstmConfig, LstmState, Model, ModelConfig, Sizes, Tree,
};
use gradus_tensor::rng::Philox;

/// Sequences and their length.
const B: usize = 4;
const T: usize = 7;

fn tiny() -> ModelConfig {
    let lstm = tiny_lstm();
    ModelConfig { sizes: Sizes { width: 6, ..lstm.sizes }, ..lstm }
}

fn ids(seed: u64, n: usize, vocab: usize) -> Vec<u32> {
    let mut rng = Philox::new(seed);
    (0..n).map(|_| rng.below(vocab as u64) as u32).collect()
}

/// Both dropouts are drawn, each from its own site.
#[test]
fn each_dropout_acts_alone() {
    let inputs = ids(5, B * T, tiny().sizes.vocab);
    let BodyConfig::Lstm(lstm) = tiny().body else { panic!("an LSTM") };
    let zeros = |embd_dropout, resid_dropout| {
        let config = ModelConfig { body: LstmConfig { embd_dropout, resid_dropout, ..lstm }.into(), ..tiny() };
        let params = Model::init(&config, 3).map(shaken(4));
        let tape = Tape::off();
        let states = params
            .constants(&tape)
            .hidden(&Input::causal(B, &inputs[..]), Some(DropoutSeed::new(11, 1)))
            .states
            .into_value()
            .to_vec();
        (states.iter().filter(|&&s| s == 0.0).count(), states)
    };
    let (none, plain) = zeros(0.0, 0.0);
    let (embedding, embedded) = zeros(0.5, 0.0);
    let (projection, _) = zeros(0.0, 0.5);
    assert_eq!((none, embedding), (0, 0));
    assert_ne!(plain, embedded);
    // 168 tosses of a coin: half, within five standard deviations.
    assert!((52..=116).contains(&projection), "{projection} of {}", plain.len());
}

/// Computes the bits of a gradient, at sizes for which the recurrence, the products and the dropouts share work between threads.
fn gradient_bits<S: Real>(threads: usize) -> Vec<u64> {
    let config = ModelConfig::new(Sizes { vocab: 300, context: T, width: 64 }, LstmConfig { units: 330, ..Default::default() });
    let (b, n) = (9, 9 * T);
    let batch = random_batch(&mut Philox::new(1), config.sizes.vocab, b, vec![1.0 / n as f64; n]);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let model: Model<Tensor<S>> = Model::init(&config, 2);
        let (loss, gradient) = model.gradient(&batch, Some(DropoutSeed::new(1, 1)), GradientMode::Whole);
        let mut bits = vec![loss.item().to_f64().to_bits()];
        gradient.visit(|_, g| bits.extend(g.unwrap().to_vec().iter().map(|x| x.to_f64().to_bits())));
        bits
    })
}

#[test]
fn threads_do_not_change_a_bit() {
    for gradient in [gradient_bits::<f32>, gradient_bits::<f64>] {
        let one = gradient(1);
        for threads in [2, 3] {
            assert!(gradient(threads) == one, "{threads} threads against one");
        }
    }
}

/// Tests more units than one block of the product along k, in both precisions: decoding follows the same chain of additions.
fn decodes<S: Real>() {
    let config = ModelConfig::new(
        Sizes { vocab: 40, context: 12, width: 24 },
        LstmConfig { units: 300, initializer_range: 0.1, ..Default::default() },
    );
    let params: Model<Tensor<S>> = Model::init(&config, 5);
    let ids = ids(3, 2 * 12, 40);
    let tape = Tape::off();
    let model = params.constants(&tape);
    let both = model.logits(&Input::causal(2, &ids[..])).into_value();
    let Body::Lstm(lstm) = &model.body else { panic!("an LSTM") };
    for (s, steps) in [(0, &[1; 12][..]), (1, &[1; 12]), (1, &[2, 0, 1, 1, 8])] {
        let mut state = LstmState::new(lstm.config(), &both);
        for step in steps {
            let read = state.position()..state.position() + step;
            let (states, table) = lstm.decode(&Input::causal(1, &ids[s * 12..][read.clone()]), &mut state);
            let logits = Hidden { states, table, outputs: model.outputs.clone() }.logits().into_value();
            assert_eq!(state.position(), read.end);
            assert!(logits.to_vec() == both.slice(0, s..s + 1).slice(1, read.clone()).to_vec(), "sequence {s}, tokens {read:?}");
        }
    }
}

#[test]
fn decoding_gives_the_bits_of_a_batch() {
    decodes::<f32>();
    decodes::<f64>();
}

#[test]
#[should_panic(expected = "positions 8..10 in a context of 9")]
fn decoding_beyond_the_context_panics() {
    let (params, tape): (Model<Tensor<f64>>, _) = (Model::init(&tiny(), 1), Tape::off());
    let Body::Lstm(model) = params.body.constants(&tape) else { panic!("an LSTM") };
    let mut state = LstmState::new(model.config(), &Tensor::scalar(0.0));
    model.decode(&Input::causal(1, [1; 8]), &mut state);
    model.decode(&Input::causal(1, [1, 2]), &mut state);
}
