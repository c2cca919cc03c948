//! `gradus fill`.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use gradus_io::files::FileError;
use gradus_io::progress::Job;
use gradus_text::{Tokenizer, read_text, utf8};
use gradus_train::answers::fill::{self, Filled, GAP, Gap};
use serde::Serialize;
use serde_json::{Value, json};

use crate::common::{On, Talk, open_model, say_if_headless, within};
use crate::error::CliError;
use crate::output;
use crate::progress::Display;

/// Predict the missing tokens of a text.
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Predict the missing tokens of a text, each marked by [MASK].\n\n\
        A model that fills masks (BERT, RoBERTa) predicts each gap directly. A model that predicts the next token (a GPT, an \
        LSTM, counts of n-grams) fills one gap, by Bayes' rule: the probability of the whole text with a token in the gap, divided by the sum over \
        all tokens. It reads the text after the gap once per token of the vocabulary. If the tokenizer has <story>, which begins \
        every story of the micro-world, the text begins with it too.\n\n\
        The text is read as one segment, whether the model was trained on pairs of texts or not. A gap is one token; a word of \
        two tokens is never predicted.",
    after_long_help = "Examples:\n  \
        gradus fill --text \"So Mia took [MASK] rope to the lake, and Tom brought his key.\"\n  \
        gradus fill --model runs/novels --text \"It was a [MASK] night\" --top 10 --json\n  \
        gradus fill --file gaps.txt --json     # of a file, each line: one object, `texts`, with the `line` of each"
)]
pub struct Args {
    /// Directory of config.json, model.safetensors and the tokenizer, or of a training run whose `best` holds them.
    #[arg(long, value_name = "DIR", default_value = "runs/bert")]
    model: PathBuf,
    /// Text, with [MASK] where a token is missing.
    #[arg(long, value_name = "TEXT", conflicts_with = "file")]
    text: Option<String>,
    /// File with a text on each line; `-` is standard input, which is also read if neither --text nor --file is given.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Number of answers per gap.
    #[arg(long, value_name = "K", default_value_t = 5)]
    top: usize,
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    talk: Talk,
}

pub fn run(args: &Args) -> Result<(), CliError> {
    args.talk.start()?;
    within("top", args.top, 1..=1_000_000, "")?;
    let dir = open_model(&args.model)?;
    let model = dir.predictor()?.to(&args.on.open()?)?;
    let tokenizer = dir.required_tokenizer(model.vocab())?;
    let texts = texts(args)?;
    let mut said = BTreeSet::new();
    model.network().iter().for_each(|model| say_if_headless(model));
    let model = model.answers(Some(&tokenizer), 0).map_err(CliError::of_model(&args.model))?;
    let mut records = Vec::new();
    for (number, Text { line, text }) in texts.iter().enumerate() {
        let job = Job::new("filling the gap by Bayes' rule", tokenizer.vocab_size() as u64, "tokens");
        let quiet = args.talk.quiet || model.mask().is_some() || texts.len() > 1;
        let filled = Display::choose(quiet).during(job, |reach| Ok(fill::fill(&*model, &tokenizer, text, reach)?));
        let filled = filled.map_err(|error| match line {
            Some(line) => CliError::OfLine { path: source(args).to_owned(), line: *line, error: Box::new(error) },
            None => error,
        })?;
        for (words, holds) in notes(&filled) {
            if holds && said.insert(words) {
                output::note(words);
            }
        }
        let mut gaps = Vec::new();
        for gap in &filled.gaps {
            let answer =
                |(id, probability): (u32, f64)| Ok::<_, CliError>(Answer { id, token: tokenizer.decode(&[id])?, probability });
            gaps.push(gap.top(args.top).into_iter().map(answer).collect::<Result<Vec<_>, _>>()?);
        }
        if !args.talk.json {
            if number > 0 {
                output::line("")?;
            }
            print(text, &gaps, &tokenizer)?;
            continue;
        }
        let of = |(gap, answers): (&Gap, &Vec<Answer>)| json!({ "at": gap.at, "answers": answers });
        let gaps: Vec<Value> = filled.gaps.iter().zip(&gaps).map(of).collect();
        let mut record = json!({ "gaps": gaps, "by_bayes": filled.by_bayes, "is_first": filled.is_first });
        if let Some(line) = line {
            record["line"] = json!(line);
        }
        records.push(record);
    }
    match (args.talk.json, args.text.is_some()) {
        (true, true) => output::json(&records[0]),
        (true, false) => output::json(&json!({ "texts": records })),
        (false, _) => Ok(()),
    }
}

/// Returns the notes on the answers, each with whether it applies.
fn notes(filled: &Filled) -> [(&'static str, bool); 2] {
    [
        (
            "the model predicts the next token, so the gap is filled by Bayes' rule: from the probability of the whole text with \
             each token in the gap",
            filled.by_bayes,
        ),
        ("the gap is the first token, so all tokens are taken to be equally probable there", filled.is_first),
    ]
}

/// A text with gaps, and the number of its line in the file, counted from 1.
struct Text {
    line: Option<usize>,
    text: String,
}

/// Returns the name of the file of the texts, for messages.
fn source(args: &Args) -> &Path {
    args.file.as_deref().filter(|file| *file != Path::new("-")).unwrap_or(Path::new("standard input"))
}

/// Returns the texts to fill: `--text`, or the non-empty lines of a file or of standard input.
fn texts(args: &Args) -> Result<Vec<Text>, CliError> {
    if let Some(text) = &args.text {
        return Ok(vec![Text { line: None, text: text.clone() }]);
    }
    let path = source(args);
    let whole = if args.file.as_deref() == Some(path) {
        read_text(path)?
    } else {
        if args.file.is_none() && io::stdin().is_terminal() {
            let expected =
                "expected a text with [MASK] where a token is missing: give --text TEXT, --file FILE, or texts on standard input";
            return Err(CliError::Usage(expected.into()));
        }
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map_err(|e| FileError::new("read", path, e))?;
        utf8(path, 0, &bytes)?.to_owned()
    };
    let lines = (1..).zip(whole.lines()).filter(|(_, text)| !text.trim().is_empty());
    let texts: Vec<Text> = lines.map(|(line, text)| Text { line: Some(line), text: text.to_owned() }).collect();
    if texts.is_empty() { Err(CliError::NoTexts { path: path.to_owned() }) } else { Ok(texts) }
}

/// Prints the text with the most probable answers filled in, followed by all answers.
fn print(text: &str, gaps: &[Vec<Answer>], tokenizer: &Tokenizer) -> Result<(), CliError> {
    let mut best = gaps.iter().map(|answers| answers[0].inner());
    let pieces = text.split(GAP).map(|piece| format!("{piece}{}", best.next().unwrap_or_default()));
    output::line(&output::plain(&pieces.collect::<String>()))?;
    for (number, answers) in (1..).zip(gaps) {
        let gap = if gaps.len() > 1 { format!("{number}. ") } else { String::new() };
        for answer in answers {
            let shown = answer.shown(answers, tokenizer);
            output::line(&output::plain(&format!("  {gap}{:5.1} %  {shown}", 100.0 * answer.probability)))?;
        }
    }
    Ok(())
}

/// A token for a gap, with its probability.
#[derive(Serialize)]
struct Answer {
    id: u32,
    /// The token as text.
    token: String,
    probability: f64,
}

impl Answer {
    /// Returns the text without the blanks at its ends, or all of it if it has only blanks.
    fn inner(&self) -> &str {
        let inner = self.token.trim();
        if inner.is_empty() { &self.token } else { inner }
    }

    /// Formats the answer as a line of a list: invisible text in quotes, and ambiguous text with the tokenizer's own name.
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
