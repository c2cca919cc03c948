//! The LSTM against PyTorch's `nn.LSTM`, `nn.Linear` and a tied output: states, logits, loss and every parameter's gradient.
//!
//! The fixtures come from `tests/golden/lstm_fixtures.py`.

use gradus_autograd::{Real, Tape, Tensor};
use gradus_model::{Body, Input, LstmConfig, Model, ModelConfig, Objective, Role, Sizes, Tree};
use gradus_tests::{Arrays, golden, next_tokens, worst};

/// The names of the parameters here and in PyTorch, whose matrices are [out, in].
const NAMES: [(&str, &str); 6] = [
    ("tokens_embed.weight", "embed.weight"),
    ("cell.weight_ih", "lstm.weight_ih_l0"),
    ("cell.weight_hh", "lstm.weight_hh_l0"),
    ("cell.bias", "lstm.bias_ih_l0"),
    ("c_proj.weight", "proj.weight"),
    ("c_proj.bias", "proj.bias"),
];

/// Returns the fixture's array for a parameter under `kind`, in the library's layout.
fn stored(arrays: &Arrays, kind: &str, path: &str, role: Role) -> Tensor<f64> {
    let name = NAMES.iter().find(|(ours, _)| *ours == path).unwrap_or_else(|| panic!("{path} has a name in PyTorch")).1;
    let array = arrays.get(&format!("{kind}.{name}"));
    if role == Role::Weight { array.permute(&[1, 0]).dense() } else { array }
}

fn model(arrays: &Arrays) -> Model<Tensor<f64>> {
    let (embed, projection) = (arrays.get("parameter.embed.weight"), arrays.get("parameter.proj.weight"));
    let (vocab, width, units) = (embed.shape()[0], embed.shape()[1], projection.shape()[1]);
    let config = ModelConfig::new(Sizes { vocab, context: 16, width }, LstmConfig { units, ..Default::default() });
    let mut params = Model::declare(&config).map(|path, declared| {
        let array = stored(arrays, "parameter", path, declared.role);
        assert_eq!(*array.shape(), declared.shape, "{path}");
        array
    });
    // PyTorch adds two biases.
    let Body::Lstm(lstm) = &mut params.body else { panic!("an LSTM") };
    lstm.cell.bias.0 = lstm.cell.bias.0.zip(&arrays.get("parameter.lstm.bias_hh_l0"), |a, b| a + b);
    params
}

fn compare<T: Real>(tolerance: f64) {
    for dir in ["lstm-d6-h10", "lstm-d8-h5"] {
        let arrays = Arrays::read(&golden().join(dir).join("fixture.safetensors"));
        let params: Model<Tensor<T>> = model(&arrays).cast();
        let (ids, shape) = arrays.ids("input_ids");
        let tape = Tape::new();
        let leaves = params.leaves(&tape);
        let hidden = leaves.hidden(&Input::causal(shape[0], &ids[..]), None);
        arrays.assert_agrees("states", hidden.states.value(), tolerance);
        arrays.assert_agrees("logits", hidden.logits().value(), tolerance);
        // The mean of −log P over the predictions of all positions except the last.
        let batch = next_tokens(&ids, &vec![shape[1] as u32; shape[0]], Objective::TokenMean);
        let loss = hidden.loss(batch.tokens().next().unwrap());
        arrays.assert_agrees("loss", loss.value(), tolerance);
        let grads = tape.backward(&loss);
        let mut compared = 0;
        Model::declare(&params.config()).zip(leaves).visit(|path, (declared, leaf)| {
            let gradient = grads.of(&leaf).unwrap_or_else(|| panic!("{path} has no gradient"));
            let error = worst(&gradient.cast(), &stored(&arrays, "gradient", path, declared.role));
            assert!(error <= tolerance, "d = {}: {path}: {error:e} of its largest entry", params.sizes().width);
            compared += 1;
            if path == "cell.bias" {
                // The gradient of the sum is the gradient of each of its two terms.
                arrays.assert_agrees("gradient.lstm.bias_hh_l0", gradient, tolerance);
                compared += 1;
            }
        });
        let all = arrays.names().iter().filter(|n| n.starts_with("gradient.")).count();
        assert_eq!(compared, all, "every parameter of PyTorch's");
    }
}

#[test]
fn f64_agrees_to_1e_10() {
    compare::<f64>(1e-10);
}

/// f32 arithmetic, against the f64 values: a dozen steps lose about 1e-6.
#[test]
fn f32_agrees_to_1e_4() {
    compare::<f32>(1e-4);
}
