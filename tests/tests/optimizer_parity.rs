//! Ten steps of the real [`Trainer`] against ten of `transformers` with PyTorch's optimizers, for each of the five forms.
//!
//! The fixtures come from `tests/golden/transformers_fixtures.py`; the two closest forms end 3e-3 apart.

use gradus_autograd::Tensor;
use gradus_model::{Model, Objective, Tree, checkpoint};
use gradus_tests::{Arrays, assert_ten_steps_agree, golden, golden_models, next_tokens};
use gradus_train::optim::{Optimizer, OptimizerKind, Schedule, ScheduleKind, Warmup};
use gradus_train::trainer::{Recipe, Trainer};
use serde::Deserialize;

#[derive(Deserialize)]
struct Recipes {
    steps: u64,
    recipes: std::collections::BTreeMap<String, Written>,
}

/// A recipe as `optimizers.json` writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    form: OptimizerKind,
    lr: f64,
    eps: f64,
    beta1: f64,
    beta2: f64,
    weight_decay: f64,
    schedule: ScheduleKind,
    warmup: f64,
    clip: Option<f64>,
}

impl Written {
    fn recipe(&self, steps: u64) -> Recipe {
        let &Written { form: name, lr, eps, beta1, beta2, weight_decay: decay, schedule: kind, warmup, clip } = self;
        let optimizer = Optimizer { name, lr, beta1, beta2, eps, decay };
        Recipe { optimizer, schedule: Schedule { kind, warmup: Warmup::Share(warmup) }, clip, ..Recipe::new(steps, 1) }
    }
}

#[test]
fn ten_steps_of_every_form_agree_to_1e_9() {
    let text = std::fs::read(golden().join("optimizers.json")).unwrap();
    let Recipes { steps, recipes } = serde_json::from_slice(&text).unwrap();
    assert_eq!((steps, recipes.len()), (10, 5));
    let trained: Vec<_> = golden_models().into_iter().filter(|dir| dir.join("steps.safetensors").exists()).collect();
    assert!(trained.len() >= 2, "trained fixtures, found {trained:?}");
    for dir in trained {
        let start = checkpoint::load(&dir).unwrap();
        let config = start.config().with_dropout(0.0);
        let start: Model<Tensor<f64>> = start.with_config(&config).cast();
        let expected = Arrays::read(&dir.join("steps.safetensors"));
        let (ids, shape) = expected.ids("input_ids");
        let (b, width) = (shape[1], shape[2]);
        let batch = |t: usize| next_tokens(&ids[t * b * width..][..b * width], &vec![width as u32; b], Objective::TokenMean);
        for (name, written) in &recipes {
            assert_ten_steps_agree(Trainer::new(written.recipe(steps), start.clone()), batch, &expected, name);
        }
    }
}
