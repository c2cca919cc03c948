//! The stages of a reproduction, their order and their estimated time.

use std::fmt;

use gradus_io::numbers::{count, count_of};
use gradus_study::plan::Plan;
use gradus_study::rule::DecisionRule;
use gradus_tensor::device::MatmulPrecision;
use gradus_train::hyperparameters::{RangeError, require};
use gradus_train::trainer::precision;
use gradus_world::World;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::results::{Body, Variant};
use crate::tasks;

/// The tasks for fine-tuning, each with the tokens of all sequences of an example (estimated from run time, special tokens
/// included).
pub const TASKS: [(&str, f64); 12] = [
    ("mnli", 25.0),
    ("snli", 23.0),
    ("scitail", 21.0),
    ("qnli", 17.0),
    ("rte", 55.0),
    ("story-cloze", 95.0),
    ("race", 230.0),
    ("cola", 13.0),
    ("sst-2", 69.0),
    ("mrpc", 48.0),
    ("sts-b", 47.0),
    ("qqp", 27.0),
];

/// The tasks of the layer-transfer experiment (figure 2, left). The paper uses RACE and MultiNLI; RACE would take too long here.
pub const TRANSFERRED: [&str; 2] = ["mnli", "cola"];
/// The tasks of the experiments that `--full` adds.
pub const EXPERIMENTS: [&str; 3] = ["mnli", "cola", "race"];
/// The divisors of the number of labelled rows in the experiments on the size of the labelled set.
pub const PARTS: [usize; 3] = [8, 4, 2];

/// The primary claims: pre-training helps, the auxiliary objective helps, the Transformer transfers better than an LSTM, each
/// layer transfers useful features, and language modelling without supervision learns tasks.
const PRIMARY: [&str; 5] = ["pre-training", "auxiliary", "transformer", "layers", "zero-shot"];

/// The version of the recipe. It increases with every change of the world, the tasks, the rates or the order of work, because
/// results of two recipes do not mix.
pub const RECIPE: u32 = 5;

/// The sizes of the miniature, which determine every result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// The recipe of these sizes.
    pub(crate) recipe: u32,
    /// The number of seeds.
    pub(crate) seeds: u64,
    /// The first seed.
    pub(crate) first_seed: u64,
    /// The number of steps of pre-training.
    pub(crate) steps: u64,
    /// The maximum number of training rows of a task.
    pub(crate) rows: usize,
    /// The number of epochs of fine-tuning.
    pub(crate) epochs: u64,
    /// The peak rate of fine-tuning the Transformer. The paper's 6.25e-5 is for a model of 117 million parameters.
    pub(crate) lr: f64,
    /// The number of blocks of the Transformer.
    pub(crate) layers: usize,
    /// Whether to run the experiments on the paper's claims in words.
    pub(crate) full: bool,
    /// The factor on steps and rows, from `--scale`.
    pub(crate) scale: f64,
    /// Whether pre-training uses the world with retold stories. The tasks are unchanged.
    pub(crate) retold: bool,
    /// The name of the pre-training world, with its version.
    pub(crate) world: String,
    /// The precision of products in training (`--matmul-precision`).
    #[serde(default, with = "precision::text", skip_serializing_if = "precision::is_f32")]
    pub(crate) matmul_precision: MatmulPrecision,
    /// The decision rule for the claims.
    #[serde(rename = "ruler")]
    pub(crate) rule: DecisionRule,
}

impl Sizes {
    /// Creates the default miniature, scaled by `scale`.
    pub fn new(seeds: u64, first_seed: u64, scale: f64, full: bool) -> Self {
        Sizes {
            recipe: RECIPE,
            seeds,
            first_seed,
            steps: (4000.0 * scale).round().max(20.0) as u64,
            rows: (1000.0 * scale).round().max(16.0) as usize,
            epochs: 7,
            lr: 7e-4,
            layers: 4,
            full,
            scale,
            retold: false,
            world: World::default().name(),
            matmul_precision: MatmulPrecision::F32,
            rule: DecisionRule::of(&PRIMARY),
        }
    }

    /// Returns the sizes with `retold` set: whether pre-training uses retold stories.
    pub fn retold(self, retold: bool) -> Self {
        Sizes { retold, world: World::named(retold).name(), ..self }
    }

    /// Returns the sizes with this precision of products in training.
    pub fn with_products(self, matmul_precision: MatmulPrecision) -> Self {
        Sizes { matmul_precision, ..self }
    }

    /// Checks that the sizes are valid for a miniature.
    ///
    /// # Errors
    /// Returns an error if a flag is out of range; the error states the flag and its range.
    pub fn check(&self) -> Result<(), RangeError> {
        let (seeds, first, scale) = (self.seeds, self.first_seed, self.scale);
        require("seeds", seeds, (1..=100).contains(&seeds), "a number from 1 to 100")?;
        let room = first.checked_add(seeds).is_some();
        require("seed", first, room, "a number that leaves room for the number of seeds in --seeds")?;
        require("scale", scale, (0.01..=100.0).contains(&scale), "a number from 0.01 to 100")?;
        precision::check_on_cpu(self.matmul_precision)
    }

    /// Describes a value that differs from every plan this program makes; `None` if there is none.
    fn foreign(&self) -> Option<String> {
        let made = Sizes::new(self.seeds, self.first_seed, self.scale, self.full).retold(self.retold);
        let made = made.with_products(self.matmul_precision);
        let (world, here) = (&self.world, &made.world);
        match () {
            () if world != here => Some(format!("expected the world {here} of this version of gradus, found {world}")),
            () if self.rule != made.rule => Some(
                "expected the decision rule of this version of gradus, since it is fixed before training, found another".into(),
            ),
            () if *self != made => {
                let found = "found other steps, rows, epochs, rate or blocks";
                Some(format!("expected the sizes that the recipe has at scale {}, {found}", self.scale))
            }
            () => None,
        }
    }

    /// Returns sentences on the effects of `--scale`, for the top of a report; `None` at the default scale.
    pub(crate) fn scaled(&self) -> Option<String> {
        let default = Sizes::new(self.seeds, self.first_seed, 1.0, self.full);
        let shorter = if self.scale < 1.0 { " Training this short supports no conclusion about the paper." } else { "" };
        (self.scale != 1.0).then(|| {
            format!(
                "This reproduction was made with `--scale {}`: {} of pre-training instead of {}, and at most {} per task instead of {}.{shorter}",
                self.scale,
                count_of(self.steps as usize, "step"),
                count(default.steps),
                count_of(self.rows, "training row"),
                count(default.rows as u64)
            )
        })
    }

    /// Returns the number of training rows of a task.
    pub fn rows(&self, task: &str) -> usize {
        tasks::training_rows(task, self.rows).expect("a task of the world")
    }

    /// Returns the number of training rows of a task in a variant.
    pub fn rows_of(&self, task: &str, variant: Variant) -> usize {
        match variant {
            Variant::Rows(n) | Variant::NoPretrainingRows(n) => n,
            _ => self.rows(task),
        }
    }

    /// Returns the number of training rows of a task, divided by `part`.
    pub fn part(&self, task: &str, part: usize) -> usize {
        (self.rows(task) / part).max(1)
    }
}

impl Plan for Sizes {
    const WHAT: &'static str = "reproduction";
    const COMMAND: &'static str = "reproduce";

    fn parse(fields: Map<String, Value>) -> Result<Self, String> {
        if let Some(recipe) = fields.get("recipe").filter(|recipe| **recipe != RECIPE) {
            return Err(format!("expected a plan of recipe {RECIPE}, found one of recipe {recipe}"));
        }
        let sizes: Sizes = serde_json::from_value(fields.into()).map_err(|e| e.to_string())?;
        sizes.check().map_err(|e| e.to_string())?;
        sizes.foreign().map_or(Ok(sizes), Err)
    }

    /// Joins this plan with a requested one: the result has the experiments of `--full` if either has them. Returns `None` if
    /// anything else differs. In particular, the number of seeds is fixed: adding seeds until a claim is shown would bias the
    /// verdict.
    fn joined(&self, asked: &Self) -> Option<Self> {
        let both = Sizes { full: self.full || asked.full, ..asked.clone() };
        (Sizes { full: both.full, ..self.clone() } == both).then_some(both)
    }

    fn line(&self) -> String {
        let full = if self.full { " --full" } else { "" };
        let retold = if self.retold { " --retold" } else { "" };
        let (Sizes { seeds, first_seed, scale, .. }, products) = (self, precision::flag(self.matmul_precision));
        format!("gradus reproduce --seeds {seeds} --seed {first_seed} --scale {scale}{retold}{full}{products} --out DIR")
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seeds, rows) = (count_of(self.seeds as usize, "seed"), count_of(self.rows, "training row"));
        let (steps, epochs) = (count_of(self.steps as usize, "step"), count_of(self.epochs as usize, "epoch"));
        let (first, lr) = (self.first_seed, self.lr);
        write!(
            f,
            "{seeds} from {first} on; {steps} of pre-training in {}; at most {rows} per task, {epochs} at a rate of {lr}",
            self.world
        )
    }
}

/// A unit of work that completes as a whole or has no effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    World,
    /// Pre-training, with zero-shot scores at intervals.
    Pretrain(Body),
    Finetune {
        task: &'static str,
        variant: Variant,
    },
}

impl Stage {
    /// Returns whether the stage is a fine-tuning; these stages are independent of one another.
    pub fn is_fine_tuning(&self) -> bool {
        matches!(self, Stage::Finetune { .. })
    }

    /// Returns the name of the stage's kind.
    pub fn kind(&self) -> &'static str {
        use Variant::{Full, Lstm, NoAux, NoPretraining};
        match self {
            Stage::World => "tasks of the micro-world",
            Stage::Pretrain(_) => "pre-training",
            Stage::Finetune { variant: Full | NoPretraining | NoAux | Lstm, .. } => "fine-tuning: 12 tasks, 4 models each",
            Stage::Finetune { .. } => "layers transferred and other experiments",
        }
    }
}

/// A stage of a seed, with its estimated cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    pub seed: u64,
    pub stage: Stage,
    /// The cost, in tokens of pre-training the Transformer.
    pub tokens: f64,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stage::World => f.write_str("tasks of the micro-world"),
            Stage::Pretrain(Body::Gpt) => f.write_str("pre-training the Transformer"),
            Stage::Pretrain(Body::Lstm) => f.write_str("pre-training the LSTM"),
            Stage::Pretrain(Body::Shuffled) => f.write_str("pre-training on shuffled sentences"),
            Stage::Finetune { task, variant } => write!(f, "{task}, {variant}"),
        }
    }
}

/// The number of stories in a step of pre-training.
pub const STORIES: usize = 8;
/// The mean number of tokens of a story in a batch, padding included.
pub const STORY: usize = 155;
/// The number of tokens in a step of pre-training.
const STEP: f64 = (STORIES * STORY) as f64;
/// The cost of a retold story, relative to a story.
const RETOLD: f64 = 1.2;
/// The cost of writing the tasks' files.
const WORLD: f64 = 500.0;
/// The cost of the probes and evaluations of a pre-training, in tokens of training.
const PROBES: f64 = 120_000.0;
/// The cost of a token for the LSTM, relative to the Transformer.
const LSTM: f64 = 0.9;
/// The cost of a step of the head only, relative to a step of the whole Transformer.
const HEAD: f64 = 0.5;
/// The relative cost of a token in fine-tuning: short sequences are a little slower, and every epoch is scored.
const SHORT: f64 = 1.5;

/// Returns all stages in the order of execution.
pub fn plan(sizes: &Sizes) -> Vec<Planned> {
    let mut all = Vec::new();
    for seed in sizes.first_seed..sizes.first_seed + sizes.seeds {
        let mut add = |stage: Stage, tokens: f64| {
            // With few rows, the half and the quarter may be equal.
            if !all.iter().any(|p: &Planned| (p.seed, &p.stage) == (seed, &stage)) {
                all.push(Planned { seed, stage, tokens });
            }
        };
        let step = if sizes.retold { STEP * RETOLD } else { STEP };
        let pretraining = sizes.steps as f64 * step + PROBES;
        add(Stage::World, WORLD);
        add(Stage::Pretrain(Body::Gpt), pretraining);
        add(Stage::Pretrain(Body::Lstm), LSTM * pretraining);
        if sizes.full {
            add(Stage::Pretrain(Body::Shuffled), pretraining);
        }
        let mut fine_tune = |task: &'static str, variant: Variant, rows: usize| {
            let (_, tokens) = TASKS.iter().find(|(name, _)| *name == task).expect("a task of the list");
            let factor = match variant {
                Variant::Lstm => LSTM,
                Variant::Frozen => HEAD,
                _ => 1.0,
            };
            let cost = (SHORT * rows as f64 * tokens * sizes.epochs as f64).max(2000.0);
            add(Stage::Finetune { task, variant }, factor * cost);
        };
        for variant in [Variant::Full, Variant::NoPretraining, Variant::NoAux, Variant::Lstm] {
            TASKS.into_iter().for_each(|(task, _)| fine_tune(task, variant, sizes.rows(task)));
        }
        for task in TRANSFERRED {
            (0..sizes.layers).for_each(|n| fine_tune(task, Variant::Layers(n), sizes.rows(task)));
        }
        for task in EXPERIMENTS.into_iter().filter(|_| sizes.full) {
            for rows in PARTS.map(|part| sizes.part(task, part)) {
                fine_tune(task, Variant::Rows(rows), rows);
                fine_tune(task, Variant::NoPretrainingRows(rows), rows);
            }
            fine_tune(task, Variant::Shuffled, sizes.rows(task));
            fine_tune(task, Variant::Frozen, sizes.rows(task));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_has_every_task_in_every_ablation() {
        let count = |sizes: &Sizes| plan(sizes).len();
        assert_eq!(count(&Sizes::new(1, 1, 1.0, false)), 3 + 4 * 12 + 2 * 4);
        assert_eq!(count(&Sizes::new(3, 1, 1.0, false)), 3 * (3 + 4 * 12 + 2 * 4));
        assert_eq!(count(&Sizes::new(1, 1, 1.0, true)), 4 + 4 * 12 + 2 * 4 + 3 * 8);
    }

    #[test]
    fn a_scale_other_than_the_default_is_described() {
        let scaled = |scale| Sizes::new(1, 1, scale, false).scaled();
        assert_eq!(scaled(1.0), None);
        let words = "This reproduction was made with `--scale 0.01`: 40 steps of pre-training instead of 4,000, and at most 16 training rows per \
                     task instead of 1,000. Training this short supports no conclusion about the paper.";
        assert_eq!(scaled(0.01).as_deref(), Some(words));
        assert!(scaled(2.0).is_some_and(|words| words.ends_with("2,000 training rows per task instead of 1,000.")));
    }

    #[test]
    fn a_plan_can_be_extended_but_not_changed() {
        let [plain, full] = [false, true].map(|full| Sizes::new(2, 5, 1.0, full));
        assert_eq!(plain.joined(&plain), Some(plain.clone()));
        assert_eq!([plain.joined(&full), full.joined(&plain)], [Some(full.clone()), Some(full.clone())]);
        let others = [Sizes::new(3, 5, 1.0, false), Sizes::new(2, 4, 1.0, false), Sizes::new(2, 5, 2.0, false)];
        assert_eq!(others.map(|other| plain.joined(&other)), [None, None, None]);
        assert_eq!(plain.joined(&plain.clone().retold(true)), None, "another world");
    }

    #[test]
    fn parts_are_fractions_of_the_tasks_rows() {
        let sizes = Sizes::new(1, 1, 1.0, true);
        assert_eq!((sizes.rows("mnli"), sizes.part("mnli", 8)), (1000, 125));
        assert_eq!((sizes.rows("race"), sizes.part("race", 2)), (150, 75));
    }

    #[test]
    fn stages_follow_those_they_depend_on() {
        let all = plan(&Sizes::new(2, 5, 0.1, true));
        for seed in [5, 6] {
            let place = |stage: Stage| all.iter().position(|p| p.seed == seed && p.stage == stage).unwrap();
            let first_task = all.iter().position(|p| p.seed == seed && p.stage.is_fine_tuning()).unwrap();
            for body in [Body::Gpt, Body::Lstm, Body::Shuffled] {
                assert!(place(Stage::World) < place(Stage::Pretrain(body)) && place(Stage::Pretrain(body)) < first_task);
            }
        }
        assert!(all.iter().all(|p| p.tokens > 0.0));
        let at_full_scale = plan(&Sizes::new(1, 1, 1.0, true)).into_iter().find(|p| p.stage == Stage::Pretrain(Body::Gpt));
        assert_eq!(at_full_scale.expect("planned").tokens, 4000.0 * 8.0 * 155.0 + 120_000.0);
    }
}
