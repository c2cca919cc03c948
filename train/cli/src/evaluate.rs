//! `gradus evaluate`.

mod numbers;
mod task;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use gradus_data::sets::Split;
use gradus_io::numbers::count_of;
use gradus_io::progress::Job;
use gradus_model::{KneserNey, Model, ModelConfig, Tree, checkpoint};
use gradus_tensor::{Real, Tensor};
use gradus_text::{Tokenizer, each_document};
use gradus_train::answers::evaluate::{SlidingWindow, fills_masks, gradients, predicted};
use gradus_train::answers::{self, Answers, AnswersError, Causal, Counts, Masked};
use gradus_train::hyperparameters::{RangeError, require};
use gradus_train::model_dir::{ModelDir, Predictor};
use gradus_train::views::{Corrupt, SpecialTokens};
use serde_json::{Map, Value, json};

use crate::common::{On, Talk, open_model, say_if_headless, within};
use crate::error::CliError;
use crate::ids::read_ids;
use crate::output;
use crate::progress::Display;

/// Measure how well a model predicts a text, or how well a fine-tuned one answers a task.
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Measure how well a model predicts a text: a corpus (--corpus) or one sequence of token ids (--ids); or how \
        well a fine-tuned model answers a task (--task, --data).\n\n\
        Conventions:\n\
        - Each file is one sequence, and windows do not cross files. Every token is predicted exactly once, except the first of \
        each file, which has no context.\n\
        - A window reads T tokens (--context) and predicts the token after each of them. Windows begin every S tokens (--stride, \
        default T: no token is read twice, and the first prediction of each window has one token of history). With S < T windows \
        overlap, and after a file's first window only the last S predictions of each count, so every token is predicted from at \
        least T − S + 1 tokens before it.\n\
        - tokens: number of predicted tokens.\n\
        - nll: mean of −ln P(token | tokens before it in its window) over the predicted tokens, in nats.\n\
        - perplexity: e^nll, per token, not per word.\n\
        - bits_per_byte: sum of −ln P / (ln 2 · bytes of text predicted): the UTF-8 bytes of all files, without Project \
        Gutenberg's licence, less those of each file's first token. Comparable between tokenizers, except for what a tokenizer \
        drops (GPT-1's drops case and spacing). null with --ids.\n\
        - A model that fills masks (BERT, RoBERTa) predicts each token with that token masked, given all others of its window; \
        windows do not overlap. `pseudo_log_likelihood` is the sum of ln P over all tokens, `pseudo_nll` its mean with the other \
        sign, `pseudo_perplexity` e^pseudo_nll. These are not probabilities of the text: compare them only between such models. \
        The text is read as one segment, whether the model was trained on pairs of texts or not.\n\
        - Counts of n-grams (kneser-ney) predict each token from the tokens before it in its file; the output has their \
        `order`.\n\
        - With --targets, `nll` is the mean of −ln P over the predicted tokens, and `token_nll` lists each.\n\
        - Dropout is off. The softmax of the joint form (OpenAI's code) runs over its position rows too.\n\
        - For a task, `score` is its `metric` over the rows read (`examples`), `loss` the mean cross-entropy of its labels; \
        `rows` counts all rows of the files, also those of another split in the same file; `truncated` counts rows with a text \
        cut to the context, `dropped` rows that the data set's rules leave out. With --zero-shot, CoLA's threshold is chosen on \
        all training rows.",
    after_long_help = "Examples:\n  \
        gradus evaluate --model runs/novels --corpus held-out.txt --json\n  \
        gradus evaluate --model runs/novels --corpus held-out.txt --stride 64\n  \
        gradus evaluate --model runs/rte --task rte --data glue/RTE --split dev --json\n  \
        gradus evaluate --model openai-gpt --ids ids.txt --dtype f64 --gradients --json\n  \
        gradus evaluate --model bert --ids ids.txt --targets targets.txt --segments segments.txt --dtype f64 --json"
)]
pub struct Args {
    /// Directory of config.json and model.safetensors, or of a training run whose `best` holds them. --corpus also needs the
    /// model's tokenizer there.
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    #[command(flatten)]
    input: Input,
    /// Folder of the task's files.
    #[arg(long, value_name = "DIR", requires = "task", conflicts_with_all = ["corpus", "ids"])]
    data: Option<PathBuf>,
    /// Split of the task: train, dev, test; MultiNLI also dev-mismatched and test-mismatched [default: dev, or the only one].
    #[arg(long, requires = "task", conflicts_with_all = ["corpus", "ids"])]
    split: Option<Split>,
    /// Labels of a split published without them, as a GLUE submission: `index` and `prediction` separated by a tab, one line per
    /// row, in order. `gradus world --tasks` writes them next to the test sets. Labels of another task are detected only if their
    /// number, ids or names differ.
    #[arg(long, value_name = "FILE", requires = "task", conflicts_with_all = ["corpus", "ids", "zero_shot"])]
    labels: Option<PathBuf>,
    /// Score the language model without a head, by the paper's heuristics (§5): cola, sst-2, race, story-cloze, dprd, wsc273.
    #[arg(long, requires = "task", conflicts_with_all = ["corpus", "ids"])]
    zero_shot: bool,
    /// Token to put before every text, if the model was trained with one (with --zero-shot): <story> in the micro-world.
    #[arg(long, value_name = "TOKEN", requires = "zero_shot", conflicts_with_all = ["corpus", "ids"])]
    opening: Option<String>,
    /// Maximum number of rows of the split, evenly spaced.
    #[arg(long, value_name = "N", requires = "task", conflicts_with_all = ["corpus", "ids"])]
    rows: Option<usize>,
    /// File with the target of each token of --ids: the token that belongs in its place (for a model that predicts the next
    /// token, the one after it), or `-` for none. A masked model needs it: --ids has [MASK]'s id where a token is hidden.
    #[arg(long, value_name = "FILE", requires = "ids", conflicts_with_all = ["corpus", "task"])]
    targets: Option<PathBuf>,
    /// File with the segment of each token of --ids, for a model with segments [default: all 0].
    #[arg(long, value_name = "FILE", requires = "targets", conflicts_with_all = ["corpus", "task"])]
    segments: Option<PathBuf>,
    /// Number of tokens per window, from 1 to the model's context, which is the default.
    #[arg(long, value_name = "T", conflicts_with_all = ["ids", "task"])]
    context: Option<usize>,
    /// Number of tokens from the start of a window to the next, from 1 to the context, which is the default; smaller is slower
    /// and gives every token more history.
    #[arg(long, value_name = "S", conflicts_with_all = ["ids", "task"])]
    stride: Option<usize>,
    /// Precision of the computation [default: f32; f64 for counts]. The weights are read as f32 in both cases.
    #[arg(long, value_enum, conflicts_with = "task")]
    dtype: Option<Dtype>,
    /// Also print `gradient_norms`: the L2 norm of the gradient of the mean nll, by parameter, in Hugging Face's names.
    #[arg(long, conflicts_with = "task")]
    gradients: bool,
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    talk: Talk,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Input {
    /// UTF-8 text: a file, or a folder in which each file is a text.
    #[arg(long, value_name = "PATH")]
    corpus: Option<PathBuf>,
    /// Score a fine-tuned model on this task instead (`gradus tasks` lists them), with --data and --split.
    #[arg(long, value_name = "NAME", requires = "data")]
    task: Option<String>,
    /// File of token ids separated by white space: one sequence, from 2 tokens to the model's context. Needs no tokenizer and
    /// also prints `token_nll`, the nll of each token but the first, in nats.
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Dtype {
    /// Single precision: fast.
    F32,
    /// Double precision: about half as fast.
    F64,
}

impl Dtype {
    fn name(self) -> &'static str {
        if self == Dtype::F64 { "f64" } else { "f32" }
    }
}

/// Token sequences, and the number of bytes of text that their predicted tokens represent.
struct Sequences {
    ids: Vec<Vec<u32>>,
    bytes: Option<usize>,
}

impl Args {
    fn dtype(&self) -> Dtype {
        self.dtype.unwrap_or(Dtype::F32)
    }
}

pub fn run(args: &Args) -> Result<(), CliError> {
    args.talk.start()?;
    if let (Some(task), Some(data)) = (&args.input.task, &args.data) {
        return task::run(args, task, data);
    }
    if args.dtype() == Dtype::F64 {
        args.on.takes_f64()?;
    }
    let dir = open_model(&args.model)?;
    let (model, device) = match (dir.predictor()?, args.on.open()?) {
        (Predictor::Network(model), device) => (*model, device),
        (Predictor::Counts(counts), _) => return print(args, &counted(args, &dir, &counts)?),
    };
    let config = model.config();
    if fills_masks(&model) && model.task_head().is_some() {
        return Err(CliError::of_model(&args.model)(AnswersError::FineTuned));
    }
    say_if_headless(&model);
    if let (Some(ids), Some(targets)) = (&args.input.ids, &args.targets) {
        let sequence = numbers::read(args, ids, targets, &config)?;
        let result = match args.dtype() {
            Dtype::F32 => numbers::measure(args, &model.to(&device)?, &sequence),
            Dtype::F64 => numbers::measure(args, &model.cast::<_, f64>().to(&device)?, &sequence),
        }?;
        return print(args, &result);
    }
    if fills_masks(&model) {
        let (tokenizer, path) = masked_input(args, &dir, &model)?;
        let special = answers::special_tokens(&model, Some(&tokenizer)).map_err(CliError::of_model(&args.model))?;
        let context = args.context.unwrap_or(config.sizes.context);
        within("context", context, Corrupt::SPECIAL_SLOTS + 1..=config.sizes.context, ", the model's context")?;
        let sequences = corpus(path, &tokenizer)?;
        if sequences.ids.iter().all(Vec::is_empty) {
            return Err(CliError::Empty { path: path.to_owned() });
        }
        let result = match args.dtype() {
            Dtype::F32 => pseudo(args, &model.to(&device)?, &sequences, (special, context)),
            Dtype::F64 => pseudo(args, &model.cast::<_, f64>().to(&device)?, &sequences, (special, context)),
        }?;
        return print(args, &result);
    }
    let windows = windows(args, &config)?;
    let sequences = sequences(args, &dir, (config.sizes.vocab, Some(config.sizes.context)))?;
    let result = match args.dtype() {
        Dtype::F32 => measure(args, &model.to(&device)?, &sequences, windows),
        Dtype::F64 => measure(args, &model.cast::<_, f64>().to(&device)?, &sequences, windows),
    }?;
    print(args, &result)
}

/// Reads the sequences for a model that predicts the next token, of this many ids and of this context.
fn sequences(args: &Args, dir: &ModelDir, (vocab, context): (usize, Option<usize>)) -> Result<Sequences, CliError> {
    let path = match (&args.input.ids, &args.input.corpus) {
        (Some(path), _) => return one_sequence(path, vocab, context),
        (None, path) => path.as_deref().expect("clap requires one of the two"),
    };
    let sequences = corpus(path, &dir.required_tokenizer(vocab)?)?;
    if sequences.ids.iter().all(|ids| ids.len() < 2) {
        let tokens = sequences.ids.iter().map(Vec::len).sum();
        return Err(CliError::TooShort { path: path.to_owned(), tokens });
    }
    Ok(sequences)
}

/// Computes the loss of counts of n-grams, each token from the tokens before it in its file.
fn counted(args: &Args, dir: &ModelDir, counts: &KneserNey) -> Result<Value, CliError> {
    let unused = [
        ("targets", args.targets.is_some()),
        ("context", args.context.is_some()),
        ("stride", args.stride.is_some()),
        ("gradients", args.gradients),
        ("dtype f32", args.dtype == Some(Dtype::F32)),
    ];
    if let Some((flag, _)) = unused.into_iter().find(|(_, is_given)| *is_given) {
        let what = "counts of n-grams, without windows, parameters or f32";
        return Err(RangeError::new(flag, "with this model", format!("a network; this one is {what}: leave --{flag} out")).into());
    }
    let sequences = sequences(args, dir, (counts.vocab(), None))?;
    let mut result = measured(args, &sequences, &Counts(counts))?;
    result["order"] = json!(counts.order());
    result["dtype"] = json!(Dtype::F64.name());
    Ok(result)
}

/// Returns the tokenizer and the corpus for a model that fills masks. Returns an error for flags that do not apply to it.
fn masked_input<'a>(args: &'a Args, dir: &ModelDir, model: &Model<Tensor>) -> Result<(Tokenizer, &'a Path), CliError> {
    let refused = |flag: &str, remedy: &str| Err(CliError::Usage(format!("--{flag}: the model fills masks; {remedy}")));
    let Some(path) = &args.input.corpus else {
        return refused("ids", "give the target of each token with --targets, or text with --corpus");
    };
    if args.stride.is_some() {
        return refused("stride", "its windows do not overlap, since it reads both sides: leave --stride out");
    }
    if args.gradients {
        return refused("gradients", "give --ids and --targets with it");
    }
    Ok((dir.required_tokenizer(model.sizes().vocab)?, path))
}

/// Prints a result as JSON, or line by line.
fn print(args: &Args, result: &Value) -> Result<(), CliError> {
    if args.talk.json {
        return output::json(result);
    }
    let mut text = String::new();
    for (name, value) in result.as_object().expect("made as an object") {
        match value {
            Value::Object(norms) => norms.iter().for_each(|(name, norm)| text += &format!("gradient_norms {name} {norm}\n")),
            Value::Array(values) => {
                let values: Vec<String> = values.iter().map(Value::to_string).collect();
                text += &format!("{name} {}\n", values.join(" "));
            }
            Value::Null => {}
            Value::String(word) => text += &format!("{name} {word}\n"),
            number => text += &format!("{name} {number}\n"),
        }
    }
    output::write(&text)
}

fn windows(args: &Args, config: &ModelConfig) -> Result<SlidingWindow, CliError> {
    let context = args.context.unwrap_or(config.sizes.context);
    within("context", context, 1..=config.sizes.context, ", the model's context")?;
    let stride = args.stride.unwrap_or(context);
    within("stride", stride, 1..=context, ", the context, so that no token is left out")?;
    Ok(SlidingWindow { context, stride })
}

fn one_sequence(path: &Path, vocab: usize, context: Option<usize>) -> Result<Sequences, CliError> {
    let ids = read_ids(path, vocab, "model")?;
    if ids.len() < 2 {
        return Err(CliError::TooShort { path: path.to_owned(), tokens: ids.len() });
    }
    let (found, most) = (format!("{}: {} tokens", path.display(), ids.len()), context.unwrap_or(usize::MAX));
    let expected = format!("at most {most}, the model's context; cut the sequence, or give text with --corpus");
    require("ids", found, ids.len() <= most, expected)?;
    Ok(Sequences { ids: vec![ids], bytes: None })
}

/// Reads each file of a corpus as token ids.
fn corpus(path: &Path, tokenizer: &Tokenizer) -> Result<Sequences, CliError> {
    let (mut ids, mut bytes) = (Vec::new(), 0);
    each_document(path, |file, text| {
        let tokens = tokenizer.encode(text).map_err(|source| CliError::Encode { path: file.into(), source: source.into() })?;
        if let Some(first) = tokens.first() {
            bytes += text.len().saturating_sub(tokenizer.decode(&[*first])?.len());
        }
        ids.push(tokens);
        Ok::<_, CliError>(())
    })?;
    let tokens = ids.iter().map(Vec::len).sum();
    output::aside(&format!("{}: {} in {}", path.display(), count_of(tokens, "token"), count_of(ids.len(), "file")));
    Ok(Sequences { ids, bytes: Some(bytes) })
}

/// Computes the pseudo-log-likelihood of a text.
fn pseudo<T: Real>(
    args: &Args,
    model: &Model<Tensor<T>>,
    sequences: &Sequences,
    (special, context): (SpecialTokens, usize),
) -> Result<Value, CliError> {
    let ids: Vec<&[u32]> = sequences.ids.iter().map(Vec::as_slice).collect();
    let total: usize = ids.iter().map(|ids| ids.len()).sum();
    let display = Display::choose(args.talk.quiet || total < 1_000);
    let job = Job::new("evaluate", total as u64, "tokens");
    let losses = display.during(job, |reach| Ok(Masked::new(model, special).with_context(context).losses(&ids, reach)))?;
    let sum: f64 = losses.iter().flatten().sum();
    let nll = sum / total as f64;
    if !nll.is_finite() {
        return Err(CliError::NotFinite { nll });
    }
    Ok(json!({
        "tokens": total,
        "pseudo_log_likelihood": -sum,
        "pseudo_nll": nll,
        "pseudo_perplexity": nll.exp(),
        "context": context,
        "dtype": args.dtype().name(),
    }))
}

fn measure<T: Real>(
    args: &Args,
    model: &Model<Tensor<T>>,
    sequences: &Sequences,
    windows: SlidingWindow,
) -> Result<Value, CliError> {
    let mut result = measured(args, sequences, &Causal::with_windows(model, windows))?;
    result["context"] = json!(windows.context);
    result["stride"] = json!(windows.stride);
    result["dtype"] = json!(args.dtype().name());
    if args.gradients {
        let ids: Vec<&[u32]> = sequences.ids.iter().map(Vec::as_slice).collect();
        let (total, mut norms) = (predicted(&ids), Map::new());
        let display = Display::choose(args.talk.quiet || total < 10_000);
        let work = |reach: &mut dyn FnMut(usize)| Ok(gradients(model, &ids, windows, reach));
        let grads = display.during(Job::new("gradients", total as u64, "tokens"), work)?;
        for (name, g) in checkpoint::theirs(&grads) {
            norms.insert(name, json!(g.dot(&g).sqrt()));
        }
        result["gradient_norms"] = norms.into();
    }
    Ok(result)
}

/// Computes the loss of a model that predicts the next token.
fn measured(args: &Args, sequences: &Sequences, model: &dyn Answers) -> Result<Value, CliError> {
    let ids: Vec<&[u32]> = sequences.ids.iter().map(Vec::as_slice).collect();
    let total = predicted(&ids);
    let display = Display::choose(args.talk.quiet || total < 10_000);
    let losses = display.during(Job::new("evaluate", total as u64, "tokens"), |reach| Ok(model.losses(&ids, reach)))?;
    let sum: f64 = losses.iter().flatten().sum();
    let nll = sum / total as f64;
    if !nll.is_finite() {
        return Err(CliError::NotFinite { nll });
    }
    let bits_per_byte = sequences.bytes.filter(|&b| b > 0).map(|bytes| sum / (std::f64::consts::LN_2 * bytes as f64));
    let mut result = json!({
        "tokens": total,
        "nll": nll,
        "perplexity": nll.exp(),
        "bits_per_byte": bits_per_byte,
        "bytes": sequences.bytes,
    });
    if args.input.ids.is_some() {
        result["token_nll"] = json!(losses[0]);
    }
    Ok(result)
}
