//! Each system held to its card: what its answers may depend on, and what its probabilities make together.

use std::path::{Path, PathBuf};

use gradus_autograd::{Tape, Tensor};
use gradus_model::{Batch, GptConfig, LstmConfig, Model, ModelConfig, NormPlace, Parts, Side, Tree};
use gradus_train::optim::{Optimizer, Schedule, ScheduleKind, Warmup};
use gradus_train::pretrain::PretrainOptions;
use gradus_train::systems::{self, ALL, Axes, BackboneKind, Card, Density};
use gradus_train::trainer::{Recipe, Trainer};
use gradus_train::views::{self, Marks, View};

/// A system that is on no list.
#[path = "../../train/examples/system_of_my_own.rs"]
mod own;

/// The systems of the house, and one more.
fn all() -> impl Iterator<Item = &'static Card> {
    ALL.into_iter().chain([&own::CARD])
}

/// Words are 0, 1, …; then come the marks.
const MARKS: Marks = Marks { open: 8, close: 9, mask: 10, words: 8 };

/// A tiny model of these axes, of so many tokens.
fn tiny(axes: &Axes, vocab: usize) -> ModelConfig {
    let (context, width) = (12, 8);
    match axes.backbone {
        BackboneKind::Transformer => {
            let (activation, layer_norm_epsilon, parts) = (axes.activation, axes.epsilon, axes.parts);
            let base = GptConfig { vocab, context, width, layers: 2, heads: 2, initializer_range: 0.5, ..GptConfig::default() };
            GptConfig { activation, layer_norm_epsilon, parts, ..base.with_dropout(0.0) }.into()
        }
        BackboneKind::Lstm => {
            let base = LstmConfig { vocab, context, width, units: 12, initializer_range: 0.5, ..LstmConfig::default() };
            LstmConfig { embd_dropout: 0.0, resid_dropout: 0.0, ..base }.into()
        }
    }
}

/// What is asked about the token at `at`: the slots that are read, and the one that answers.
fn ask(axes: &Axes, text: &[u32], at: usize) -> (Side, usize) {
    if axes.view.is_next() { (Side::causal(1, [&[MARKS.open], text].concat()), at) } else { MARKS.hide(text, at) }
}

/// The logits of the answer about the token at `at`.
fn answer(model: &Model<Tensor<f64>>, axes: &Axes, text: &[u32], at: usize) -> Vec<f64> {
    let (side, slot) = ask(axes, text, at);
    let tape = Tape::off();
    let logits = model.constants(&tape).logits(&side).into_value();
    let rows = logits.reshape([side.tokens.len(), logits.shape()[2]]);
    rows.slice(0, slot..slot + 1).to_vec()
}

/// The first place where a network does not see what a picture says; `None` where it sees just that.
fn misdrawn(axes: &Axes, sight: &[(char, &str)]) -> Option<String> {
    let models = [1, 2, 3].map(|seed| Model::init(&tiny(axes, 11), seed));
    let text = [0, 1, 2, 3, 4, 5];
    for &(asked, picture) in sight {
        let at = asked as usize - 'a' as usize;
        for (j, drawn) in picture.chars().enumerate() {
            let mut other = text;
            other[j] = 6;
            let differs = |model| answer(model, axes, &text, at) != answer(model, axes, &other, at);
            let sees = models.iter().any(differs);
            if sees != (drawn != '·') {
                return Some(format!(
                    "{asked} ← {picture}: the network {} token {j}",
                    if sees { "sees" } else { "does not see" }
                ));
            }
        }
    }
    None
}

#[test]
fn networks_see_what_is_drawn() {
    for card in all() {
        assert!(card.sight.iter().all(|(_, picture)| picture.chars().count() == 6), "{}", card.name);
        assert_eq!(misdrawn(&card.axes, card.sight), None, "{}", card.name);
    }
}

/// Each picture with one place the other way round, and the pictures of others.
#[test]
fn a_picture_that_is_wrong_is_refused() {
    for card in all() {
        for &(asked, picture) in card.sight {
            for (j, letter) in "abcdef".chars().enumerate() {
                let turned = |(i, drawn): (usize, char)| match (i == j, drawn) {
                    (true, '·') => letter,
                    (true, _) => '·',
                    (false, same) => same,
                };
                let wrong: String = picture.chars().enumerate().map(turned).collect();
                assert!(misdrawn(&card.axes, &[(asked, &wrong)]).is_some(), "{}: {asked} ← {wrong}", card.name);
            }
        }
    }
    let [gpt, bert] = ["gpt", "bert"].map(|name| systems::named(name).unwrap());
    let told = misdrawn(&gpt.axes, bert.sight).unwrap();
    assert_eq!(told, "a ← ·bcdef: the network does not see token 1");
}

/// All texts of `length` words out of the first `words`.
fn texts(words: u32, length: u32) -> Vec<Vec<u32>> {
    let digits = |number: u32| (0..length).map(|i| number / words.pow(i) % words).collect();
    (0..words.pow(length)).map(digits).collect()
}

/// Πᵢ P(xᵢ | what the system sees), among these words.
fn product(model: &Model<Tensor<f64>>, axes: &Axes, text: &[u32], words: usize) -> f64 {
    let p = |at: usize| {
        let z = &answer(model, axes, text, at)[..words];
        let most = z.iter().copied().fold(f64::MIN, f64::max);
        (z[text[at] as usize] - most).exp() / z.iter().map(|z| (z - most).exp()).sum::<f64>()
    };
    (0..text.len()).map(p).product()
}

/// A tiny model that has learnt that texts are 00 or 11.
fn learnt(axes: &Axes) -> Model<Tensor<f64>> {
    let recipe = Recipe {
        optimizer: Optimizer { lr: 1e-2, ..Optimizer::default() },
        schedule: Schedule { kind: ScheduleKind::Constant, warmup: Warmup::Steps(0) },
        ..Recipe::new(400, 1)
    };
    let mut trainer: Trainer = Trainer::new(recipe, Model::init(&tiny(axes, 11), 1));
    let masked = |text: [u32; 2], at: usize| {
        let (side, slot) = MARKS.hide(&text, at);
        View { segments: vec![0; side.tokens.len()], tokens: side.tokens.to_vec(), asked: vec![(slot, text[at])], class: None }
    };
    let batch = if axes.view.is_next() {
        Batch::next(2, [8, 0, 8, 1], [0, 0, 1, 1], [0.25; 4])
    } else {
        let all = [masked([0, 0], 0), masked([0, 0], 1), masked([1, 1], 0), masked([1, 1], 1)];
        views::batch(&all, 0, axes.parts.segments > 0)
    };
    for _ in 0..400 {
        trainer.step(&batch).unwrap();
    }
    trainer.params.cast()
}

/// Fresh parameters are blind: 3⁵ products of whatever answers sum to nearly 1 where each is nearly uniform. Trained ones are not.
#[test]
fn probabilities_make_together_what_the_card_claims() {
    for card in all() {
        let fresh = Model::init(&tiny(&card.axes, 11), 1);
        let sum = texts(3, 5).iter().map(|text| product(&fresh, &card.axes, text, 3)).sum::<f64>();
        let trained = learnt(&card.axes);
        let learnt: f64 = texts(2, 2).iter().map(|text| product(&trained, &card.axes, text, 2)).sum();
        match card.density {
            Density::Joint => {
                assert!((sum - 1.0).abs() < 1e-10, "{}: {sum}", card.name);
                assert!((learnt - 1.0).abs() < 1e-10, "{}: {learnt}", card.name);
            }
            // Each of four answers is certain to better than a percent.
            Density::Pseudo => assert!((learnt - 2.0).abs() < 0.05, "{}: 00 and 11 are each certain: {learnt}", card.name),
        }
    }
}

/// A card's flags say all of its axes, and a run that is begun with them is the system's.
#[test]
fn each_axis_is_a_flag() {
    for card in all() {
        let key = |(flag, value): (&str, String)| {
            let bare = value.parse::<f64>().is_ok() || value.parse::<bool>().is_ok();
            format!("{} = {}", flag.replace('-', "_"), if bare { value } else { format!("\"{value}\"") })
        };
        let said: Vec<String> = card.axes.flags().into_iter().map(key).collect();
        let settings = toml::from_str::<PretrainOptions>(&said.join("\n")).unwrap().settle().unwrap();
        assert_eq!(settings.axes(), card.axes, "{}", card.name);
    }
}

fn card(name: &str) -> &'static Card {
    systems::named(name).expect("a system")
}

/// RoBERTa is BERT without the second segment: with BERT's parameters, the answers are the same to the bit.
#[test]
fn roberta_is_bert_with_one_segment() {
    let (bert, roberta) = (card("bert").axes, card("roberta").axes);
    let roberta = Axes { activation: bert.activation, epsilon: bert.epsilon, ..roberta };
    let params: Model<Tensor<f64>> = Model::init(&tiny(&bert, 11), 7);
    let mut theirs = Vec::new();
    params.as_ref().visit(|name, p| theirs.push((name.to_owned(), p.clone())));
    let own: Model<Tensor<f64>> = Model::init(&tiny(&roberta, 11), 8);
    let own = own.map(|name, p| {
        let (_, its) = theirs.iter().find(|(path, _)| path == name).expect("the same names");
        if its.shape() == p.shape() { its.clone() } else { its.slice(0, 0..1).dense() }
    });
    let text = [0, 1, 2, 3, 4, 5];
    (0..6).for_each(|at| assert_eq!(answer(&params, &bert, &text, at), answer(&own, &roberta, &text, at)));
    // Control: a segment's row is read.
    let mut other = own;
    other.as_mut().visit(|name, p| {
        if name.contains("segments_embed") {
            p.set(0, 3.0)
        }
    });
    assert_ne!(answer(&params, &bert, &text, 0), answer(&other, &roberta, &text, 0));
}

/// GPT-2 with norms after each branch, without the last one and without scaled weights, is GPT-1: to the bit, from the same seed.
#[test]
fn gpt_2_without_its_parts_is_gpt_1() {
    let (gpt, gpt2) = (card("gpt").axes, card("gpt2").axes);
    let plain = Axes { parts: Parts { norm: NormPlace::After, final_norm: false, scaled_init: false, ..gpt2.parts }, ..gpt2 };
    let text = [5, 4, 3, 2, 1, 0];
    let of = |axes: &Axes| answer(&Model::init(&tiny(axes, 11), 7), axes, &text, 5);
    assert_eq!(of(&plain), of(&gpt));
    for part in [
        Parts { norm: NormPlace::Before, ..Parts::NONE },
        Parts { final_norm: true, ..Parts::NONE },
        Parts { scaled_init: true, ..Parts::NONE },
    ] {
        assert_ne!(of(&Axes { parts: part, ..gpt }), of(&gpt), "{part:?} is a difference");
    }
}

/// What distinguishes systems is on their cards, and in how checkpoints name things: no code elsewhere asks for a system's name.
#[test]
fn no_code_asks_for_the_name_of_a_system() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for krate in ["autograd", "model", "tensor", "train"] {
        gather(&root.join(krate), &mut files);
    }
    assert!(files.len() > 100, "the sources were found: {}", files.len());
    // Bodies are called so too.
    let names =
        ALL.map(|card| card.name).into_iter().filter(|name| !["gpt", "lstm"].contains(name)).map(|name| format!("{name:?}"));
    let names: Vec<String> = names.collect();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            assert!(!names.iter().any(|name| line.contains(name.as_str())), "{}: {line}", path.display());
        }
    }
}

/// The sources below a folder, but for the cards and the dialects.
fn gather(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !["systems", "dialect", "tests", "examples", "target"].contains(&&*name) {
            gather(&path, files);
        } else if path.extension().is_some_and(|ext| ext == "rs") && name != "tests.rs" {
            files.push(path);
        }
    }
}

/// SYSTEMS.md is what the cards say.
#[test]
fn the_page_of_systems_is_that_of_the_cards() {
    let committed = include_str!("../../train/src/systems/SYSTEMS.md");
    let (head, page) = committed.split_once("\n\n").expect("where it comes from, and the page");
    assert!(head.contains("gradus systems --markdown train/src/systems/SYSTEMS.md --overwrite"), "{head}");
    assert!(page == systems::page().markdown(), "make it again with the command in its first line");
}
