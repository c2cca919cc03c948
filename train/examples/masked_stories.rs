//! A small BERT that learns to fill masks in stories, by the library alone.
//!
//! `cargo run --release -p gradus-train --example masked_stories -- [steps]`

use std::collections::HashMap;

use gradus_autograd::{Tape, Tensor};
use gradus_model::{Asks, GptConfig, Model, Parts, Side, Sight, Tree};
use gradus_tensor::rng::Philox;
use gradus_train::optim::{Optimizer, Schedule, ScheduleKind, Warmup};
use gradus_train::trainer::{Recipe, Trainer};
use gradus_train::views::{self, Draw, Keyed, Marks, Masked, Scheme, Shares, Text};
use gradus_world::{Story, World};

/// Stories that a step reads.
const ROWS: usize = 8;

/// Words and marks as ids, in order of appearance.
#[derive(Default)]
struct Words(HashMap<String, u32>);

impl Words {
    fn ids(&mut self, text: &str) -> Vec<u32> {
        let apart = |c: char| if ".,?\"".contains(c) { format!(" {c} ") } else { c.to_lowercase().to_string() };
        let spaced: String = text.chars().map(apart).collect();
        let mut id = |word: &str| {
            let fresh = self.0.len() as u32;
            *self.0.entry(word.to_owned()).or_insert(fresh)
        };
        spaced.split_whitespace().map(&mut id).collect()
    }

    fn text(&mut self, number: usize, text: &str) -> Text {
        let tokens = self.ids(text);
        let stop = self.ids(".")[0];
        let sentences = (1..=tokens.len()).filter(|&at| tokens[at - 1] == stop).collect();
        Text { number: number as u64, epoch: 0, tokens, sentences }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let steps = std::env::args().nth(1).map_or(Ok(2000), |arg| arg.parse())?;
    let world = World::default();
    let mut words = Words::default();
    let mut tell = |stream, n| -> Vec<Text> {
        let stories: Vec<Story> = world.corpus(&mut Philox::with_stream(1, stream), n);
        stories.iter().enumerate().map(|(number, story)| words.text(number, &story.text)).collect()
    };
    let (train, held_out) = (tell(1, steps as usize * ROWS), tell(2, 200));
    let question = "So Mia took [mask] rope to the lake, and Tom brought his key.";
    let question_ids = words.ids(question);
    let vocab = words.0.len() as u32; // [mask] among them, as the question has it
    let marks = Marks { open: vocab, close: vocab + 1, mask: words.ids("[mask]")[0], words: vocab };
    let masked = Masked { marks, rate: 0.15, shares: Shares::EIGHTY, room: 206 };

    let parts = Parts { asks: Asks::Masked, embedding_norm: true, transform: true, ..Parts::default() };
    let tiny = GptConfig::preset("tiny").expect("a preset");
    let sizes = GptConfig { vocab: vocab as usize + 2, context: 208, initializer_range: 0.07, parts, ..tiny };
    let recipe = Recipe {
        optimizer: Optimizer { lr: 1e-3, beta2: 0.98, decay: 0.0, ..Optimizer::default() },
        schedule: Schedule { kind: ScheduleKind::Paper, warmup: Warmup::Share(0.02) },
        ..Recipe::new(steps, 2)
    };
    let model: Model<Tensor> = Model::init(&sizes.with_dropout(0.0).into(), 1);
    let mut trainer = Trainer::new(recipe, model);
    for t in 1..=steps {
        let first = (t - 1) as usize * ROWS;
        let view = |row: usize| {
            let text = &train[first + row];
            masked.view(
                text,
                &mut Draw { rng: Keyed::Dynamic.rng(1, text, t, row), other: &|_| unreachable!("one text is enough") },
            )
        };
        let made = trainer.step(&views::batch(&(0..ROWS).map(view).collect::<Vec<_>>(), 0, false))?;
        if t % (steps / 10).max(1) == 0 {
            println!(
                "step {t}: {:.3} nats per token asked, one word hidden {:.3}",
                made.loss,
                one_hidden(&trainer.params, &held_out, marks)
            );
        }
    }

    let (tokens, asked) = opened(&question_ids, marks);
    let side = Side { sequences: 1, tokens: tokens.into(), segments: None, sight: Sight::Full(None) };
    let logits = trainer.params.constants(&Tape::off()).logits(&side).into_value();
    let slot = logits.slice(1, asked..asked + 1).to_vec();
    let mut order: Vec<(&String, f32)> = words.0.iter().map(|(word, &id)| (word, slot[id as usize])).collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    println!("{question}  {}", order[..3].iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>().join(", "));
    Ok(())
}

/// A text between its marks, and the slot of its mask.
fn opened(ids: &[u32], marks: Marks) -> (Vec<u32>, usize) {
    let tokens = [&[marks.open], ids, &[marks.close]].concat();
    let asked = tokens.iter().position(|&id| id == marks.mask).unwrap_or(0);
    (tokens, asked)
}

/// The mean of −ln P over held-out stories in which one word is hidden, another in each.
fn one_hidden(model: &Model<Tensor>, held_out: &[Text], marks: Marks) -> f64 {
    let view = |text: &Text| {
        let at = (7 * text.number as usize) % text.tokens.len();
        let mut tokens = [&[marks.open], &text.tokens[..], &[marks.close]].concat();
        let hidden = std::mem::replace(&mut tokens[1 + at], marks.mask);
        views::View { segments: vec![0; tokens.len()], tokens, asked: vec![(1 + at, hidden)], class: None }
    };
    let all: Vec<views::View> = held_out.iter().map(view).collect();
    let losses = all.chunks(25).flat_map(|rows| model.token_losses(&views::batch(rows, 0, false)).to_vec());
    losses.map(f64::from).sum::<f64>() / held_out.len() as f64
}
