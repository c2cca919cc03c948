//! `gradus fill`.

use std::path::PathBuf;

use gradus_io::progress::Job;
use gradus_model::Tree;
use gradus_text::Tokenizer;
use gradus_train::evaluate::fills_masks;
use gradus_train::fill::{self, GAP, Gap};
use serde::Serialize;
use serde_json::{Value, json};

use crate::common::{On, Talk, open_model, say_if_headless, within};
use crate::error::CliError;
use crate::output;
use crate::progress::Display;

/// Say what stands in a text's gaps.
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Say what stands in a text's gaps, each marked by [MASK].\n\n\
        A model that fills masks (BERT, RoBERTa) answers in each gap by itself. One that predicts the next token (a GPT, an LSTM) answers \
        by Bayes: the probability of the whole text with each token in its one gap, over the sum of all; that reads what follows the gap \
        once per token of the vocabulary. Where the tokenizer has <story>, which opens the micro-world's stories, it opens the text too.\n\n\
        The text is read as one segment, whether the model was trained on pairs of texts or not. A gap stands for one token: what takes two \
        is never answered.",
    after_long_help = "Examples:\n  \
        gradus fill --text \"So Mia took [MASK] rope to the lake, and Tom brought his key.\"\n  \
        gradus fill --model runs/novels --text \"It was a [MASK] night\" --top 10 --json"
)]
pub struct Args {
    /// Directory of config.json, model.safetensors and the tokenizer, or a training run whose `best` holds them.
    #[arg(long, value_name = "DIR", default_value = "runs/bert")]
    model: PathBuf,
    /// The text, with [MASK] where a token is missing.
    #[arg(long, value_name = "TEXT")]
    text: String,
    /// Number of answers in each gap.
    #[arg(long, value_name = "K", default_value_t = 5)]
    top: usize,
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    talk: Talk,
}

pub fn run(args: &Args) -> Result<(), CliError> {
    args.talk.threads.start()?;
    within("top", args.top, 1..=1_000_000, "")?;
    let dir = open_model(&args.model)?;
    let model = dir.read()?.to(&args.on.open()?)?;
    let tokenizer = dir.required_tokenizer(&model)?;
    let job = Job::new("answering by Bayes", tokenizer.vocab_size() as u64, "tokens");
    let quiet = args.talk.quiet || fills_masks(&model);
    let filled = Display::choose(quiet)
        .during(job, |reach| fill::fill(&model, &tokenizer, &args.text, reach).map_err(|e| CliError::of_model(&args.model, e)))?;
    if filled.by_bayes && !args.talk.quiet {
        output::say(
            "note: the model predicts the next token, so it answers by Bayes: from the probability of the whole text with each token in the gap",
        );
    }
    if filled.is_first && !args.talk.quiet {
        output::say("note: nothing stands before the gap, so all tokens are taken to be equally probable there");
    }
    if !args.talk.quiet {
        say_if_headless(&model);
    }
    let mut gaps = Vec::new();
    for gap in &filled.gaps {
        let answer =
            |(id, probability): (u32, f64)| Ok::<_, CliError>(Answer { id, token: tokenizer.decode(&[id])?, probability });
        gaps.push(gap.top(args.top).into_iter().map(answer).collect::<Result<Vec<_>, _>>()?);
    }
    if args.talk.json {
        let of = |(gap, answers): (&Gap, &Vec<Answer>)| json!({ "at": gap.at, "answers": answers });
        let gaps: Vec<Value> = filled.gaps.iter().zip(&gaps).map(of).collect();
        return output::json(&json!({ "gaps": gaps, "by_bayes": filled.by_bayes, "is_first": filled.is_first }));
    }
    let mut best = gaps.iter().map(|answers| answers[0].inner());
    let pieces = args.text.split(GAP).map(|piece| format!("{piece}{}", best.next().unwrap_or_default()));
    output::line(&pieces.collect::<String>())?;
    for (number, answers) in (1..).zip(&gaps) {
        let gap = if gaps.len() > 1 { format!("{number}. ") } else { String::new() };
        for answer in answers {
            let shown = answer.shown(answers, &tokenizer);
            output::line(&format!("  {gap}{:5.1} %  {shown}", 100.0 * answer.probability))?;
        }
    }
    Ok(())
}

/// A token that may stand in a gap.
#[derive(Serialize)]
struct Answer {
    id: u32,
    /// As text.
    token: String,
    probability: f64,
}

impl Answer {
    /// The text without the blanks that part it from its neighbours; all of it, where it is nothing else.
    fn inner(&self) -> &str {
        let inner = self.token.trim();
        if inner.is_empty() { &self.token } else { inner }
    }

    /// As a line of a list: what cannot be seen in quotes, and what looks like another of these answers with the tokenizer's own name.
    fn shown(&self, among: &[Answer], tokenizer: &Tokenizer) -> String {
        let inner = self.inner();
        let is_seen = !inner.trim().is_empty() && !inner.contains(char::REPLACEMENT_CHARACTER);
        let shown = if is_seen { inner.to_owned() } else { format!("{inner:?}") };
        let is_alone = among.iter().all(|other| other.id == self.id || other.inner() != inner);
        match tokenizer.token(self.id).filter(|_| !is_alone || inner.contains(char::REPLACEMENT_CHARACTER)) {
            Some(name) => format!("{shown} (token {name:?})"),
            None => shown,
        }
    }
}
