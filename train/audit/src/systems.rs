//! Systems checked against their cards, on tiny networks in f64: the tokens that a prediction depends on, found by changing each in
//! turn, and the sum of the probabilities of all short texts.

use gradus_autograd::Tensor;
use gradus_model::{Batch, KneserNey, Model, ModelConfig, Objective, Tree};
use gradus_tensor::rng::Philox;
use gradus_train::answers::{Answers, Causal, Counts, Masked};
use gradus_train::optim::{Optimizer, Schedule, ScheduleKind, Warmup};
use gradus_train::pretrain::PretrainOptions;
use gradus_train::systems::{Axes, Card, Density, SystemBody};
use gradus_train::trainer::{Recipe, Trainer};
use gradus_train::views::{self, Given, SpecialTokens, Text, View};
use serde::Serialize;

/// The special tokens, whose ids follow those of the words, 0 to 7.
const SPECIAL: SpecialTokens = SpecialTokens { open: 8, close: 9, mask: 10, words: 8 };
/// The number of tokens of a text in a system's format, without one mark before and one after.
const ROOM: usize = 10;
/// The number of words and special tokens.
const VOCAB: usize = 11;
/// The text of the sight pictures, `abcdef`.
const TEXT: [u32; 6] = [0, 1, 2, 3, 4, 5];
/// A word that is not in [`TEXT`].
const OTHER: u32 = 6;
/// The seeds of the networks. A dependence missed by one network's parameters is found by another.
const SEEDS: [u64; 3] = [1, 2, 3];
/// The number of steps in which a network learns that texts are 00 or 11.
const STEPS: u64 = 400;

/// A system checked against its card.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AuditedSystem {
    /// The system's name.
    pub name: String,
    /// Each token with the tokens that its prediction depends on: as drawn on the card, and as found.
    pub sight: Vec<(char, String, String)>,
    /// The meaning of the product of the system's probabilities, by its card.
    pub density: Density,
    /// The sum of the probabilities of all texts of five words out of three, before training: 1 for probabilities of texts.
    pub fresh: f64,
    /// The sum of the probabilities of all texts of two words out of two, after learning that the words are equal: 1, or 2 if each
    /// word is predicted from the other.
    pub learnt: f64,
}

impl AuditedSystem {
    /// Returns the differences from the card.
    pub fn faults(&self) -> Vec<String> {
        let name = &self.name;
        let misdrawn = self.sight.iter().filter(|(_, drawn, found)| drawn != found);
        let sight = misdrawn
            .map(|(asked, drawn, found)| format!("{name}: by the card, {asked} depends on {drawn}; in the network, on {found}"));
        let is_joint = (self.fresh - 1.0).abs() < 1e-10 && (self.learnt - 1.0).abs() < 1e-10;
        // Each of four predictions is certain to better than a percent.
        let is_pseudo = (self.learnt - 2.0).abs() < 0.05;
        let holds = if self.density == Density::Joint { is_joint } else { is_pseudo };
        let sums = format!("sum to {} before training and to {} after", self.fresh, self.learnt);
        sight
            .chain((!holds).then(|| format!("{name}: by the card, {}; in the network, they {sums}", self.density.words())))
            .collect()
    }
}

/// Checks a system against its card.
pub fn audit(card: &Card) -> AuditedSystem {
    let axes = &card.axes;
    let sum = |model: Subject, (words, length): (u32, u32)| {
        let answers = model.answers(plainly, axes);
        texts(words, length).iter().map(|text| product(&*answers, text, words as usize)).sum()
    };
    AuditedSystem {
        name: card.name.into(),
        sight: card.sight.iter().map(|&(asked, drawn)| (asked, drawn.into(), seen(axes, asked))).collect(),
        density: card.density,
        fresh: sum(Subject::fresh(axes, SEEDS[0]), (3, 5)),
        learnt: sum(Subject::learnt(axes), (2, 2)),
    }
}

/// A tiny model of a system.
enum Subject {
    Network(Box<Model<Tensor<f64>>>),
    Counts(KneserNey),
}

impl Subject {
    /// Returns a network before training, or counts of random texts.
    fn fresh(axes: &Axes, seed: u64) -> Self {
        let SystemBody::Ngram { order } = axes.body else { return Subject::Network(Model::init(&tiny(axes), seed).into()) };
        let mut rng = Philox::new(seed);
        let texts: Vec<Vec<u32>> =
            (0..20_000).map(|_| TEXT.iter().map(|_| rng.below(u64::from(OTHER) + 1) as u32).collect()).collect();
        Subject::Counts(KneserNey::between(Some(SPECIAL.open), order, texts, VOCAB))
    }

    /// Returns a model that has learnt that texts are 00 or 11. An untrained network predicts nearly uniformly.
    fn learnt(axes: &Axes) -> Self {
        match axes.body {
            SystemBody::Network(_) => Subject::Network(learnt(axes).into()),
            SystemBody::Ngram { order } => {
                Subject::Counts(KneserNey::between(Some(SPECIAL.open), order, [[0, 0], [1, 1]], VOCAB))
            }
        }
    }

    fn answers<'m>(&'m self, format: Format, axes: &'m Axes) -> Box<dyn Answers + 'm> {
        match self {
            Subject::Network(model) => format(model, axes),
            Subject::Counts(counts) => Box::new(Counts(counts)),
        }
    }
}

/// Returns a tiny network of these axes.
///
/// # Panics
/// Panics if the system has no network.
pub fn tiny(axes: &Axes) -> ModelConfig {
    assert!(axes.body.network().is_some(), "a system with a network");
    let options = PretrainOptions {
        context: Some(12),
        width: Some(8),
        dropout: Some(0.0),
        init_std: Some(0.5),
        layers: Some(2),
        heads: Some(2),
        units: Some(12),
        ..PretrainOptions::default()
    };
    ModelConfig { heads: Vec::new(), ..options.model(&ModelConfig::default(), axes) }.with_vocab(VOCAB)
}

/// A function that returns the answers of a network in one format.
type Format = for<'m> fn(&'m Model<Tensor<f64>>, &'m Axes) -> Box<dyn Answers + 'm>;

/// Presents a text as one sequence.
fn plainly<'m>(model: &'m Model<Tensor<f64>>, axes: &'m Axes) -> Box<dyn Answers + 'm> {
    if axes.view.is_next() { Box::new(Causal::new(model)) } else { Box::new(Masked::new(model, SPECIAL)) }
}

/// Presents a text in the system's format: for a system of pairs, in two halves.
fn in_its_format<'m>(model: &'m Model<Tensor<f64>>, axes: &'m Axes) -> Box<dyn Answers + 'm> {
    if axes.view.is_next() {
        return plainly(model, axes);
    }
    let scheme = axes.view.scheme(None, Some(SPECIAL), ROOM);
    let hide = move |tokens: &[u32], at: &[usize]| {
        let text = Text { number: 0, epoch: 0, tokens: tokens.into(), sentences: vec![tokens.len() / 2, tokens.len()] };
        scheme.eval_view(&text, at, Given::All)
    };
    Box::new(Masked::new(model, SPECIAL).viewed_by(axes.body.segments() > 0, hide))
}

/// Returns the logits of the prediction of the token at `at`, of words below 8.
pub fn answer(model: &Model<Tensor<f64>>, axes: &Axes, text: &[u32], at: usize) -> Vec<f64> {
    answer_of(&*plainly(model, axes), text, at)
}

fn answer_of(model: &dyn Answers, text: &[u32], at: usize) -> Vec<f64> {
    let words: Vec<u32> = (0..SPECIAL.words).collect();
    match model.mask() {
        Some(_) => model.cloze(text, &[at], &words, &mut |_| {}).remove(0),
        None => model.along(&[&[SPECIAL.open], text].concat())[at][..words.len()].to_vec(),
    }
}

/// Returns the tokens that the prediction of a token of `abcdef` depends on, in the notation of the cards: changing a visible token
/// changes a network's logits. If the result differs between formats, returns both.
fn seen(axes: &Axes, asked: char) -> String {
    let models = SEEDS.map(|seed| Subject::fresh(axes, seed));
    let at = asked as usize - 'a' as usize;
    let seen_by = |format: Format| -> String {
        let answers = models.each_ref().map(|model| model.answers(format, axes));
        let mark = |(j, letter): (usize, char)| {
            let mut other = TEXT;
            other[j] = OTHER;
            let differs = |model: &dyn Answers| answer_of(model, &TEXT, at) != answer_of(model, &other, at);
            if answers.iter().any(|model| differs(&**model)) { letter } else { '·' }
        };
        "abcdef".chars().enumerate().map(mark).collect()
    };
    let (plain, own) = (seen_by(plainly), seen_by(in_its_format));
    if plain == own { plain } else { format!("{plain}, and in its own format {own}") }
}

/// Returns all texts of `length` words out of the first `words`.
fn texts(words: u32, length: u32) -> Vec<Vec<u32>> {
    let digits = |number: u32| (0..length).map(|i| number / words.pow(i) % words).collect();
    (0..words.pow(length)).map(digits).collect()
}

/// Returns Πᵢ P(xᵢ | the tokens that the system sees), with P normalised over these words.
fn product(model: &dyn Answers, text: &[u32], words: usize) -> f64 {
    let p = |at: usize| {
        let z = &answer_of(model, text, at)[..words];
        let most = z.iter().copied().fold(f64::MIN, f64::max);
        (z[text[at] as usize] - most).exp() / z.iter().map(|z| (z - most).exp()).sum::<f64>()
    };
    (0..text.len()).map(p).product()
}

/// Returns a tiny network that has learnt that texts are 00 or 11.
fn learnt(axes: &Axes) -> Model<Tensor<f64>> {
    let recipe = Recipe {
        optimizer: Optimizer { lr: 1e-2, ..Optimizer::default() },
        schedule: Schedule { kind: ScheduleKind::Constant, warmup: Warmup::Steps(0) },
        ..Recipe::new(STEPS, 1)
    };
    let mut trainer: Trainer = Trainer::new(recipe, Model::init(&tiny(axes), SEEDS[0]));
    let masked = |text: [u32; 2], at: usize| {
        let (input, slot) = SPECIAL.hide(&text, at);
        View {
            segments: vec![0; input.tokens.len()],
            tokens: input.tokens.to_vec(),
            targets: vec![(slot, text[at])],
            ..View::default()
        }
    };
    let batch = if axes.view.is_next() {
        Batch::next(2, [SPECIAL.open, 0, SPECIAL.open, 1], [0, 0, 1, 1], [0.25; 4])
    } else {
        let all = [masked([0, 0], 0), masked([0, 0], 1), masked([1, 1], 0), masked([1, 1], 1)];
        views::batch(&all, 0, axes.body.segments() > 0, Objective::TokenMean)
    };
    for _ in 0..STEPS {
        trainer.step(&batch).expect("a step of a tiny model");
    }
    trainer.params.cast()
}
