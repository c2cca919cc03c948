//! Tests of each system against its card: the inputs of its answers, and the total of its probabilities.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gradus_audit::model::{self, Depth};
use gradus_audit::systems::{answer, audit, tiny};
use gradus_autograd::Tensor;
use gradus_model::check::{Loss, labelled_batch, masked_batch};
use gradus_model::{
    Batch, BodyConfig, DropoutSeed, GradientMode, LstmConfig, Model, ModelConfig, NormPlace, Objective, Sizes, TransformerConfig,
    Tree,
};
use gradus_tensor::Device;
use gradus_tensor::device::MatmulPrecision;
use gradus_train::pretrain::{PretrainOptions, digest};
use gradus_train::systems::{self, ALL, Axes, Card, Density};
use gradus_train::trainer::{Recipe, Trainer};

/// A system outside the list.
#[path = "../../train/examples/system_of_my_own.rs"]
mod own;

/// Returns the library's systems, and one more.
fn all() -> impl Iterator<Item = &'static Card> {
    ALL.iter().copied().chain([&own::CARD])
}

/// Returns the systems that are networks.
fn networks() -> impl Iterator<Item = &'static Card> {
    all().filter(|card| card.axes.body.network().is_some())
}

#[test]
fn systems_agree_with_their_cards() {
    for card in all() {
        assert!(card.sight.iter().all(|(_, picture)| picture.chars().count() == 6), "{}", card.name);
        assert_eq!(audit(card).faults(), [""; 0], "{}", card.name);
    }
}

/// Compares the dependencies observed in the networks with each picture changed at one place, then with other pictures and
/// densities.
#[test]
fn a_wrong_card_is_rejected() {
    for card in all() {
        let audited = audit(card);
        for (line, (output, picture, _)) in audited.sight.iter().enumerate() {
            for (j, letter) in "abcdef".chars().enumerate() {
                let turned = |(i, drawn): (usize, char)| match (i == j, drawn) {
                    (true, '·') => letter,
                    (true, _) => '·',
                    (false, same) => same,
                };
                let mut other = audited.clone();
                other.sight[line].1 = picture.chars().enumerate().map(turned).collect();
                let [fault] = &other.faults()[..] else { panic!("{}: {other:?}", card.name) };
                assert!(fault.contains(&format!("by the card, {output} depends on ")), "{fault}");
            }
        }
    }
    let [gpt, bert] = ["gpt", "bert"].map(card);
    let faults = |card: &Card| audit(card).faults();
    let of_bert = faults(&Card { sight: bert.sight, ..*gpt });
    assert_eq!(of_bert.len(), 5, "the last token sees the same in both: {of_bert:?}");
    assert_eq!(of_bert[0], "gpt: by the card, a depends on ·bcdef; in the network, on ······");
    for (card, density) in [(gpt, Density::Pseudo), (bert, Density::Joint)] {
        let wrong = faults(&Card { density, ..*card });
        assert!(wrong.len() == 1 && wrong[0].contains("they sum to"), "{wrong:?}");
    }
}

/// A card's flags cover all of its axes, and a run with these flags is the system's.
#[test]
fn each_axis_is_a_flag() {
    for card in all() {
        let key = |(flag, value): (String, String)| {
            let bare = value.parse::<f64>().is_ok() || value.parse::<bool>().is_ok();
            format!("{} = {}", flag.replace('-', "_"), if bare { value } else { format!("\"{value}\"") })
        };
        let flags: Vec<String> = card.axes.flags().into_iter().map(key).collect();
        let settings = toml::from_str::<PretrainOptions>(&flags.join("\n")).unwrap().settle().unwrap();
        assert_eq!(settings.axes(), card.axes, "{}", card.name);
    }
}

/// Returns the axes with other options of the Transformer.
fn with(axes: &Axes, change: impl FnOnce(&mut TransformerConfig)) -> Axes {
    let mut config = *axes.body.transformer().expect("a Transformer");
    change(&mut config);
    Axes { body: systems::transformer(config), ..*axes }
}

fn card(name: &str) -> &'static Card {
    systems::named(name).expect("a system")
}

/// A card names the axes that turn it into a relative: with them it is that system, and it has no further axes.
#[test]
fn the_axes_of_a_relative_turn_a_card_into_that_system() {
    for one in all() {
        let key = |flag: &str| flag.replace('-', "_");
        let quoted = |value: &str| {
            let bare = value.parse::<f64>().is_ok() || value.parse::<bool>().is_ok();
            if bare { value.to_owned() } else { format!("\"{value}\"") }
        };
        for relative in one.relatives {
            let other = card(relative);
            let differ = one.against(other);
            assert!(!differ.is_empty());
            // Its own flags, with the relative's value where the two differ, and without those that the relative does not have.
            let own = one.axes.flags().into_iter().filter(|(flag, _)| differ.iter().all(|(it, ..)| it != flag));
            let theirs = differ.iter().filter(|(.., its)| its != "–").map(|(flag, _, its)| (flag.clone(), its.clone()));
            let flags: Vec<String> =
                own.chain(theirs).map(|(flag, value)| format!("{} = {}", key(&flag), quoted(&value))).collect();
            let settings = toml::from_str::<PretrainOptions>(&flags.join("\n")).unwrap().settle().unwrap();
            assert_eq!(settings.axes(), other.axes, "{} and {relative}", one.name);
        }
    }
}

/// RoBERTa is BERT without the second segment: with BERT's parameters, GELU and ε, the answers are the same to the bit.
#[test]
fn roberta_is_bert_with_one_segment() {
    let (bert, roberta) = (card("bert").axes, card("roberta").axes);
    let TransformerConfig { activation, layer_norm_epsilon, .. } = *bert.body.transformer().unwrap();
    let roberta = with(&roberta, |c| (c.activation, c.layer_norm_epsilon) = (activation, layer_norm_epsilon));
    let params: Model<Tensor<f64>> = Model::init(&tiny(&bert), 7);
    let mut theirs = Vec::new();
    params.as_ref().visit(|name, p| theirs.push((name.to_owned(), p.clone())));
    let own: Model<Tensor<f64>> = Model::init(&tiny(&roberta), 8);
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

/// GPT-2 with norms after each branch, without the last norm and without scaled weights, is GPT-1: to the bit, from the same
/// seed.
#[test]
fn gpt_2_without_its_parts_is_gpt_1() {
    let (gpt, gpt2) = (card("gpt").axes, card("gpt2").axes);
    let plain = with(&gpt2, |c| (c.norm, c.final_norm, c.scaled_init) = (NormPlace::After, false, false));
    let text = [5, 4, 3, 2, 1, 0];
    let of = |axes: &Axes| answer(&Model::init(&tiny(axes), 7), axes, &text, 5);
    assert_eq!(of(&plain), of(&gpt));
    let parts: [fn(&mut TransformerConfig); 3] =
        [|c| c.norm = NormPlace::Before, |c| c.final_norm = true, |c| c.scaled_init = true];
    for part in parts {
        let other = with(&gpt, part);
        assert_ne!(of(&other), of(&gpt), "{other:?} is a difference");
    }
}

/// The differences between systems are on their cards and in the names of checkpoints: no other code compares a system's name.
#[test]
fn no_code_compares_the_name_of_a_system() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for krate in ["autograd", "model", "tensor", "train"] {
        gather(&root.join(krate), &mut files);
    }
    assert!(files.len() > 100, "the sources were found: {}", files.len());
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let comparing = code.lines().find(|line| compares_a_name(line));
        assert_eq!(comparing, None, "{}", path.display());
    }
    for line in [
        "if card.name == \"lstm\" {",
        "if \"gpt\" == card.name {",
        "let gpt = systems::named(\"gpt\");",
        "match card.name {",
        "    \"bert\" => masks,",
    ] {
        assert!(compares_a_name(line), "not seen: {line}");
    }
    for line in ["// as \"bert\" does", "let name = card.name;", "Body::Lstm => \"lstm\",", "filter(|t| t.system == card.name)"] {
        assert!(!compares_a_name(line), "{line}");
    }
}

/// Returns whether a line of code compares a system's name. Bodies are called `gpt` and `lstm` too, so these names by themselves
/// do not count.
fn compares_a_name(line: &str) -> bool {
    let line = line.trim_start();
    let quotes = |name: &str| line.contains(&format!("{name:?}"));
    let names = || ALL.iter().map(|card| card.name);
    let compared = |name: &str| [format!("name == {name:?}"), format!("name != {name:?}"), format!("named({name:?})")];
    let turned = |name: &str| [format!("{name:?} == card"), format!("{name:?} != card")];
    let found = |all: &[String]| all.iter().any(|it| line.contains(it));
    let compares = line.contains("match card.name") || names().any(|name| found(&compared(name)) || found(&turned(name)));
    !line.starts_with("//") && (compares || names().filter(|name| !["gpt", "lstm"].contains(name)).any(quotes))
}

/// Collects the sources below a folder, except the cards and the dialects.
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

/// SYSTEMS.md agrees with the cards.
#[test]
fn the_page_of_systems_agrees_with_the_cards() {
    let committed = include_str!("../../train/src/systems/SYSTEMS.md");
    let (head, page) = committed.split_once("\n\n").expect("where it comes from, and the page");
    assert!(head.contains("gradus systems --markdown train/src/systems/SYSTEMS.md --overwrite"), "{head}");
    assert!(page == systems::page().markdown(), "make it again with the command in its first line");
}

/// Returns random tokens with this system's targets.
fn batch(config: &ModelConfig, axes: &Axes, (rows, length): (usize, usize), seed: u64) -> Batch {
    let batch = labelled_batch(config, Objective::TokenMean, 1.0, (rows, length), seed);
    if axes.view.is_next() { batch } else { masked_batch(batch, config, 1.0) }
}

/// Checks, as `gradus audit model` does: every gradient by differences, forward mode and second order; causality, batch, padding,
/// cache and shards.
#[test]
fn the_audit_of_every_system_finds_no_fault() {
    for card in networks() {
        let config = tiny(&card.axes);
        let (depth, model) = (Depth { coordinates: 2, seed: 1 }, Model::init(&config, 1));
        let dropout = Some(DropoutSeed::new(1, 1));
        let loss = Loss { model, batch: batch(&config, &card.axes, (4, 8), 1), dropout };
        assert_eq!(model::audit(card.name, &loss, depth, |_| {}).faults(), [""; 0], "{}", card.name);
    }
}

/// Returns a configuration with dropout, large enough that products and norms share their work between threads.
fn larger(axes: &Axes) -> ModelConfig {
    let config = tiny(axes);
    let body: BodyConfig = match config.body {
        BodyConfig::Transformer(gpt) => TransformerConfig { heads: 4, ..gpt }.into(),
        BodyConfig::Lstm(lstm) => LstmConfig { units: 100, ..lstm }.into(),
    };
    let sizes = Sizes { vocab: 700, context: 64, width: 96 };
    ModelConfig { sizes, body: body.with_dropout(0.1), ..config }
}

/// Returns the digest of the parameters after some steps on this many threads; with `stop`, saved and read back in between.
fn trained(axes: &Axes, device: &Device, threads: usize, backward: GradientMode, stop: bool) -> String {
    let recipe = || Recipe { backward, seed: 9, ..Recipe::new(4, 2) };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let config = larger(axes);
        let mut trainer: Trainer = Trainer::new(recipe(), Model::init(&config, 4));
        trainer.place(device).unwrap();
        for t in 1..=4 {
            trainer.step(&batch(&config, axes, (8, 40), t)).unwrap();
            if stop && t == 2 {
                let dir = tempfile::tempdir().unwrap();
                let path = dir.path().join("state");
                trainer.save(&path, "").unwrap();
                trainer = Trainer::load(&path, config.clone(), recipe()).unwrap().0;
                trainer.place(device).unwrap();
            }
        }
        digest(&trainer.params).unwrap()
    })
}

#[test]
fn no_system_depends_on_threads_stops_or_recomputing() {
    let mut found = BTreeSet::new();
    for (card, precision) in networks().flat_map(|card| [MatmulPrecision::F32, MatmulPrecision::BF16].map(|it| (card, it))) {
        let run = |threads, backward, stop| trained(&card.axes, &Device::Cpu(precision), threads, backward, stop);
        let whole = run(1, GradientMode::Whole, false);
        assert_eq!(run(3, GradientMode::Whole, false), whole, "{} in {precision} on three threads", card.name);
        assert_eq!(run(2, GradientMode::Whole, true), whole, "{} in {precision}, saved and read back", card.name);
        assert_eq!(run(2, GradientMode::Recompute, false), whole, "{} in {precision}, recomputed", card.name);
        assert!(found.insert(whole), "{} in {precision} has results of its own", card.name);
    }
}
