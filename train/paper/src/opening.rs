//! The opening of the report: a story, a question about another story, and the learning curves of the models.

use std::path::PathBuf;

use gradus_io::numbers::{count_of, scientific};
use gradus_report::metrics::{self, Record, SampleRecord, VALIDATION};
use gradus_report::svg::{Curve, Ink};
use gradus_report::{Block, Link, PretrainReport, Row};
use gradus_tensor::rng::Philox;
use gradus_train::run::METRICS_FILE;
use gradus_world::World;

use crate::plan::Sizes;
use crate::results::Body;
use crate::stage::Paths;
use crate::tasks;

/// The number of samples shown, evenly spaced from the first to the last.
const SAMPLES: usize = 4;

/// The metrics and pages of the first seed's pre-training runs.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    gpt: Vec<Record>,
    lstm: Vec<Record>,
    /// The links to the runs' pages.
    pages: Vec<Link>,
    /// The page of the Transformer.
    page: Option<PathBuf>,
}

impl Opening {
    /// Reads the metrics and finds the pages; missing ones are left out.
    pub fn read(paths: &Paths, sizes: &Sizes) -> Self {
        let first = sizes.first_seed;
        let records = |body| metrics::read(&paths.body(first, body).join(METRICS_FILE)).unwrap_or_default();
        let page = |body: Body| {
            let to = format!("seed-{first}/{}/report.html", body.name());
            paths.0.join(&to).exists().then(|| Link { text: to.clone(), to })
        };
        let transformer = page(Body::Gpt);
        Opening {
            gpt: records(Body::Gpt),
            lstm: records(Body::Lstm),
            page: transformer.as_ref().map(|link| paths.0.join(&link.to)),
            pages: transformer.into_iter().chain(page(Body::Lstm)).collect(),
        }
    }

    /// Returns the page of the first seed's Transformer.
    pub fn page(&self) -> Option<PathBuf> {
        self.page.clone()
    }

    /// Returns the loss curves with the exact limit, links to the runs' pages, and samples of the Transformer.
    pub fn learning(&self, sizes: &Sizes) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut plot = PretrainReport { records: self.gpt.clone(), ..PretrainReport::default() }.loss_plot();
        let lstm: Vec<(f64, f64)> =
            metrics::evaluations(&self.lstm, VALIDATION).map(|found| (found.at.tokens as f64, found.nll)).collect();
        let end = lstm.last().map_or(String::new(), |(_, loss)| format!(": {loss:.3}"));
        plot.curves.push(Curve { name: format!("LSTM{end}"), points: lstm, ink: Ink::Baseline, dots: true });
        if !plot.is_empty() {
            let caption = format!(
                "Seed {}. The Transformer's loss at each step (faint), its moving mean, and its loss on held-out stories (dots), \
                 beside the LSTM's. No model's expected loss is below the exact limit, the loss of the world's own \
                 probabilities.",
                sizes.first_seed
            );
            blocks.push(Block::Plots(vec![plot], caption));
        }
        if !self.pages.is_empty() {
            blocks.push(Block::Files("All about these runs:".into(), self.pages.clone()));
        }
        let all: Vec<&SampleRecord> = metrics::samples(&self.gpt).collect();
        let shown = all.len().min(SAMPLES);
        let picked: Vec<SampleRecord> = (0..shown).map(|i| all[i * (all.len() - 1) / (shown - 1).max(1)].clone()).collect();
        if !picked.is_empty() {
            blocks.push(Block::Text("Stories that it generated during training, from the first to the last:".into()));
            blocks.push(Block::Samples(picked));
        }
        blocks
    }
}

/// Returns a story of the world, and a row of a task with its answer. Both depend only on the first seed and the world.
pub fn story(sizes: &Sizes) -> Vec<Block> {
    let world = World::named(sizes.retold);
    let told = world.story(&mut Philox::with_stream(sizes.first_seed, 2));
    let words = told.text.split(' ').count();
    let nats = -told.log_prob;
    let facts = format!(
        "No model was trained on this story, the first of those held out in seed {}. Its probability in the world is {}: a loss of {:.3} nats for \
         each of its {}. No model can expect a lower one.",
        sizes.first_seed,
        scientific(-nats, 1),
        nats / words as f64,
        count_of(words, "word")
    );
    let (texts, right) = tasks::question(sizes.first_seed);
    let [article, question, answers @ ..] = &texts[..] else { return Vec::new() };
    let answer = |(at, answer): (usize, &String)| {
        let own = at == right;
        Row { own, ..Row::new(if own { "right" } else { "wrong" }, [answer]) }
    };
    let rows = [Row::new("text", [article]), Row::new("question", [question])].into_iter();
    let rows = rows.chain(answers.iter().enumerate().map(answer)).collect();
    vec![
        Block::Text(format!("“{}”", told.text)),
        Block::Text(facts),
        Block::Words(vec!["RACE".into(), "a training row; the task is to choose the answer".into()], rows),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The committed pages begin with the story of their first seed and its probability.
    #[test]
    fn generated_pages_begin_with_the_story_of_their_seed() {
        for (retold, page) in [(false, include_str!("../MINIATURE.md")), (true, include_str!("../MINIATURE-RETOLD.md"))] {
            let blocks = story(&Sizes::new(8, 101, 1.0, false).retold(retold));
            let texts: Vec<&String> =
                blocks.iter().filter_map(|block| if let Block::Text(text) = block { Some(text) } else { None }).collect();
            assert_eq!(texts.len(), 2, "the story and what it costs");
            for text in texts {
                assert!(page.contains(&**text), "not in the page: {text}");
            }
        }
    }
}
