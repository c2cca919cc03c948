//! `gradus evaluate`.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use gradus_data::sets::{Split, Task};
use gradus_io::numbers::many;
use gradus_io::progress::{Job, Monitor};
use gradus_model::checkpoint::hugging_face_name;
use gradus_model::{BackboneConfig, Model, Tree};
use gradus_tensor::{Real, Tensor};
use gradus_text::{TextError, Tokenizer, corpus_files, read_text, strip_gutenberg};
use gradus_train::evaluate::{Windows, gradients, predicted, token_losses};
use gradus_train::finetune::{FinetuneError, Reader, evenly, labels, left_out, logits, metrics, score};
use gradus_train::tasks::TaskError;
use gradus_train::zero_shot::ZeroShot;
use serde_json::{Map, Value, json};

use crate::common::{Threads, flag, open_model, warn_of_another_task};
use crate::error::CliError;
use crate::ids::read_ids;
use crate::output;
use crate::progress::Display;

/// Measure how well a model predicts a text, or how well a fine-tuned one answers a task.
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Measure how well a model predicts a text: a corpus (--corpus) or one sequence of token ids (--ids); or how well a \
        fine-tuned model answers a task (--task, --data).\n\n\
        Conventions:\n\
        - Each file is one sequence, and windows do not cross files. Every token is predicted exactly once, except the \
        first of each file, which has nothing before it.\n\
        - A window reads T tokens (--context) and predicts the token after each of them. Windows begin every S tokens \
        (--stride, default T: no token is read twice, and the first prediction of each window sees one token of history). \
        With S < T windows overlap, and after a file's first window only the last S predictions of each count, so every token is \
        predicted from at least T − S + 1 tokens before it.\n\
        - tokens: number of predicted tokens.\n\
        - nll: mean of −ln P(token | tokens before it in its window) over the predicted tokens, in nats.\n\
        - perplexity: e^nll, a token, not a word.\n\
        - bits_per_byte: sum of −ln P / (ln 2 · bytes of text predicted): the UTF-8 bytes of all files, Project Gutenberg's \
        licence taken off, less those of each file's first token. Comparable between tokenizers, up to what a tokenizer \
        does not keep (GPT-1's own drops case and spacing). null with --ids.\n\
        - Dropout is off. The softmax of the joint form (OpenAI's code) runs over its position rows too.\n\
        - Of a task: `score` is its `metric` over the rows that are read, `loss` the mean cross-entropy of its labels; `truncated` counts \
        rows of which a text was cut to the context, `dropped` those of the file that the data set leaves out. --zero-shot asks CoLA \
        above a threshold that is chosen on all training rows.",
    after_long_help = "Examples:\n  \
        gradus evaluate --model runs/novels --corpus held-out.txt --json\n  \
        gradus evaluate --model runs/novels --corpus held-out.txt --stride 64\n  \
        gradus evaluate --model runs/rte --task rte --data glue/RTE --split dev --json\n  \
        gradus evaluate --model openai-gpt --ids ids.txt --dtype f64 --gradients --json"
)]
pub struct Args {
    /// Directory of config.json and model.safetensors, or a training run whose `best` holds them. --corpus also needs its
    /// tokenizer there.
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
    /// Labels of a split that is published without them, as a submission to GLUE has them: `index` and `prediction` with a tab
    /// between, a line for each row in its order. `gradus world --tasks` writes them beside the test sets. Another task's labels are told
    /// only by their number, ids and names.
    #[arg(long, value_name = "FILE", requires = "task", conflicts_with_all = ["corpus", "ids", "zero_shot"])]
    labels: Option<PathBuf>,
    /// Ask the language model itself, without a head, by the paper's heuristics (§5): cola, sst-2, race, story-cloze, dprd, wsc273.
    #[arg(long, requires = "task", conflicts_with_all = ["corpus", "ids"])]
    zero_shot: bool,
    /// A token that opens every text, where the model was trained with one (with --zero-shot): <story> in the micro-world.
    #[arg(long, value_name = "TOKEN", requires = "zero_shot")]
    opening: Option<String>,
    /// At most this many rows of the split, evenly spaced.
    #[arg(long, value_name = "N", requires = "task", conflicts_with_all = ["corpus", "ids"])]
    rows: Option<usize>,
    /// Tokens per window, from 1 to the model's context, which is the default.
    #[arg(long, value_name = "T", conflicts_with_all = ["ids", "task"])]
    context: Option<usize>,
    /// Tokens from the start of a window to the next, from 1 to the context, which is the default; smaller is slower and
    /// gives every token more history.
    #[arg(long, value_name = "S", conflicts_with_all = ["ids", "task"])]
    stride: Option<usize>,
    /// Precision of the computation. The weights are read as f32 either way.
    #[arg(long, value_enum, default_value_t = Dtype::F32, conflicts_with = "task")]
    dtype: Dtype,
    /// Also give `gradient_norms`: the L2 norm of the gradient of the mean nll, by parameter, in Hugging Face's names.
    #[arg(long, conflicts_with = "task")]
    gradients: bool,
    #[command(flatten)]
    threads: Threads,
    /// Say nothing but warnings.
    #[arg(long)]
    quiet: bool,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Input {
    /// UTF-8 text: a file, or a folder whose files are each a text.
    #[arg(long, value_name = "PATH")]
    corpus: Option<PathBuf>,
    /// Score a fine-tuned model on this task instead (`gradus tasks` lists them), with --data and --split.
    #[arg(long, value_name = "NAME", requires = "data")]
    task: Option<String>,
    /// File of token ids separated by white space: one sequence of 2 tokens to the model's context. Needs no tokenizer and
    /// also gives `token_nll`, the nll of each token but the first, in nats.
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Dtype {
    /// Single precision: fast.
    F32,
    /// Double precision: about two times slower.
    F64,
}

/// Token sequences, and the bytes of text that their predicted tokens stand for.
struct Sequences {
    ids: Vec<Vec<u32>>,
    bytes: Option<usize>,
}

pub fn run(args: &Args) -> Result<(), CliError> {
    args.threads.start()?;
    if let (Some(task), Some(data)) = (&args.input.task, &args.data) {
        let task = Task::named(task).map_err(FinetuneError::from)?;
        if args.rows == Some(0) {
            return Err(flag("--rows", 0, "a number from 1"));
        }
        let split = args.split.unwrap_or(if task.splits.contains(&Split::Dev) { Split::Dev } else { task.splits[0] });
        return if args.zero_shot { zero_shot(args, task, data, split) } else { score_task(args, task, data, split) };
    }
    let dir = open_model(&args.model)?;
    let model = dir.load()?;
    let config = model.backbone.config();
    let windows = windows(args, &config)?;
    let sequences = match (&args.input.ids, &args.input.corpus) {
        (Some(path), _) => one_sequence(path, &config)?,
        (None, Some(path)) => corpus(path, &dir.required_tokenizer(&model)?, args.quiet)?,
        (None, None) => unreachable!("clap asks for one of them"),
    };
    let result = match args.dtype {
        Dtype::F32 => measure(args, &model, &sequences, windows),
        Dtype::F64 => measure(args, &model.cast::<_, f64>(), &sequences, windows),
    }?;
    if args.json {
        return output::json(&result);
    }
    let mut text = String::new();
    for (name, value) in &result {
        match value {
            Value::Object(norms) => norms.iter().for_each(|(name, norm)| text += &format!("gradient_norms {name} {norm}\n")),
            Value::Array(values) => {
                let values: Vec<String> = values.iter().map(Value::to_string).collect();
                text += &format!("{name} {}\n", values.join(" "));
            }
            Value::Null => {}
            Value::String(word) => text += &format!("{name} {word}\n"),
            other => text += &format!("{name} {other}\n"),
        }
    }
    output::write(&text)
}

/// Scores a split of a task.
fn score_task(args: &Args, task: &'static Task, folder: &Path, split: Split) -> Result<(), CliError> {
    let reader = Reader::finetuned(&args.model, task)?;
    warn_of_another_task(&args.model, task);
    let data = match &args.labels {
        Some(labels) => reader.read_labelled(task, folder, split, labels)?,
        None => reader.read(task, folder, split)?,
    };
    let data = data.at_most(args.rows);
    data.check_labels().map_err(FinetuneError::from)?;
    let encoded: Vec<_> = data.rows.iter().map(|row| &row.encoded).collect();
    let display = Display::choose(args.quiet || encoded.len() < 1000);
    let mut bar = display.begin(Job::new(task.title, encoded.len() as u64, "examples"));
    let z = logits(&reader.model, &encoded, |done| bar.reach(done as u64));
    bar.finish();
    let scored = score(task, &data.rows, &z).map_err(FinetuneError::from)?;
    let dropped = data.left_out();
    let truncated = data.truncated();
    if args.json {
        return output::json(&json!({
            "task": task.name,
            "split": split.name(),
            "metric": scored.metric,
            "score": scored.score,
            "metrics": scored.metrics,
            "loss": scored.loss,
            "examples": scored.examples,
            "truncated": truncated,
            "dropped": dropped,
            "labels": args.labels.as_ref().map(|path| path.display().to_string()),
        }));
    }
    let mut text = format!("task {}\nsplit {split}\nexamples {}\n", task.name, scored.examples);
    args.labels.iter().for_each(|path| text += &format!("labels {}\n", path.display()));
    scored.metrics.iter().for_each(|(name, value)| text += &format!("{name} {value}\n"));
    text += &format!("loss {}\n", scored.loss);
    if truncated > 0 {
        text += &format!("truncated {truncated}\n");
    }
    dropped.iter().for_each(|(reason, rows)| text += &format!("left out {rows}: {reason}\n"));
    output::write(&text)
}

/// Asks a language model that was never trained for the task.
fn zero_shot(args: &Args, task: &'static Task, folder: &Path, split: Split) -> Result<(), CliError> {
    if !ZeroShot::has(task) {
        return Err(FinetuneError::from(TaskError::NoHeuristic { task: task.name }).into());
    }
    let dir = open_model(&args.model)?;
    let model = dir.load()?;
    let tokenizer = dir.required_tokenizer(&model)?;
    let opening = args
        .opening
        .as_ref()
        .map(|token| tokenizer.token_id(token).ok_or_else(|| flag("--opening", token, "a token of the model's tokenizer")));
    let asked_of = ZeroShot { model: &model, tokenizer: &tokenizer, opening: opening.transpose()? };
    let load = |split| task.load(folder, split).map_err(FinetuneError::from);
    // The threshold is that of all training rows, however few are asked.
    let train = if ZeroShot::needs_train(task) { load(Split::Train)?.examples } else { Vec::new() };
    let loaded = load(split)?;
    let (asked, dropped) = (evenly(loaded.examples, args.rows), left_out(&loaded.dropped));
    labels(&asked).map_err(FinetuneError::from)?; // before the long work
    let answers = asked_of.answers(task, &train, &asked).map_err(FinetuneError::from)?;
    let metrics = metrics(task, &asked, &answers.labels).map_err(FinetuneError::from)?;
    let (name, examples, truncated) = (task.metric.name(), asked.len(), answers.truncated);
    if args.json {
        return output::json(&json!({
            "task": task.name,
            "split": split.name(),
            "zero_shot": true,
            "metric": name,
            "score": metrics[name],
            "metrics": metrics,
            "examples": examples,
            "truncated": truncated,
            "dropped": dropped,
        }));
    }
    let mut text = format!("task {}, zero-shot\nsplit {split}\nexamples {examples}\n", task.name);
    metrics.iter().for_each(|(name, value)| text += &format!("{name} {value}\n"));
    if truncated > 0 {
        text += &format!("truncated {truncated}\n");
    }
    dropped.iter().for_each(|(reason, rows)| text += &format!("left out {rows}: {reason}\n"));
    output::write(&text)
}

fn windows(args: &Args, config: &BackboneConfig) -> Result<Windows, CliError> {
    let context = args.context.unwrap_or(config.context());
    if !(1..=config.context()).contains(&context) {
        return Err(flag("--context", context, format!("1 to {}, the model's context", config.context())));
    }
    let stride = args.stride.unwrap_or(context);
    if !(1..=context).contains(&stride) {
        return Err(flag("--stride", stride, format!("1 to {context}, the context, so that no token is left out")));
    }
    Ok(Windows { context, stride })
}

fn one_sequence(path: &Path, config: &BackboneConfig) -> Result<Sequences, CliError> {
    let ids = read_ids(path, config.vocab(), "model")?;
    if ids.len() < 2 {
        return Err(CliError::TooShort { path: path.to_owned(), tokens: ids.len() });
    }
    if ids.len() > config.context() {
        let expected = format!("at most {}, the model's context; cut the sequence, or give text with --corpus", config.context());
        return Err(flag("--ids", format!("{}: {} tokens", path.display(), ids.len()), expected));
    }
    Ok(Sequences { ids: vec![ids], bytes: None })
}

/// Each file of a corpus as token ids; the files are read one by one.
fn corpus(path: &Path, tokenizer: &Tokenizer, quiet: bool) -> Result<Sequences, CliError> {
    let files = corpus_files(path)?;
    let (mut ids, mut bytes, mut blank) = (Vec::new(), 0, true);
    for file in &files {
        let raw = read_text(file)?;
        let text = strip_gutenberg(&raw);
        blank &= text.trim().is_empty();
        let tokens = tokenizer.encode(&text).map_err(|source| CliError::Encode { path: file.clone(), source: source.into() })?;
        if let Some(first) = tokens.first() {
            bytes += text.len().saturating_sub(tokenizer.decode(&[*first])?.len());
        }
        ids.push(tokens);
    }
    if blank {
        return Err(TextError::Empty { path: path.to_owned() }.into());
    }
    let tokens = ids.iter().map(Vec::len).sum();
    if ids.iter().all(|ids| ids.len() < 2) {
        return Err(CliError::TooShort { path: path.to_owned(), tokens });
    }
    if !quiet {
        output::say(&format!("{}: {} in {}", path.display(), many(tokens, "token"), many(files.len(), "file")));
    }
    Ok(Sequences { ids, bytes: Some(bytes) })
}

fn measure<T: Real>(
    args: &Args,
    model: &Model<Tensor<T>>,
    sequences: &Sequences,
    windows: Windows,
) -> Result<Map<String, Value>, CliError> {
    let ids: Vec<&[u32]> = sequences.ids.iter().map(Vec::as_slice).collect();
    let total = predicted(&ids);
    let progress = |label: &str| Display::choose(args.quiet || total < 10_000).begin(Job::new(label, total as u64, "tokens"));
    let mut bar = progress("evaluate");
    let losses = token_losses(model, &ids, windows, |done, _| bar.reach(done as u64));
    bar.finish();
    let sum: f64 = losses.iter().flatten().sum();
    let nll = sum / total as f64;
    if !nll.is_finite() {
        return Err(CliError::NotFinite { nll });
    }
    let bits_per_byte = sequences.bytes.filter(|&b| b > 0).map(|bytes| sum / (std::f64::consts::LN_2 * bytes as f64));
    let mut result = Map::from_iter([
        ("tokens".to_owned(), json!(total)),
        ("nll".into(), json!(nll)),
        ("perplexity".into(), json!(nll.exp())),
        ("bits_per_byte".into(), json!(bits_per_byte)),
        ("bytes".into(), json!(sequences.bytes)),
        ("context".into(), json!(windows.context)),
        ("stride".into(), json!(windows.stride)),
        ("dtype".into(), json!(if args.dtype == Dtype::F64 { "f64" } else { "f32" })),
    ]);
    if args.input.ids.is_some() {
        result.insert("token_nll".into(), json!(losses[0]));
    }
    if args.gradients {
        let mut bar = progress("gradients");
        let grads = gradients(model, &ids, windows, |done, _| bar.reach(done as u64));
        bar.finish();
        let mut norms = Map::new();
        grads.as_ref().visit(|path, g| {
            norms.insert(hugging_face_name(path), json!(g.dot(g).sqrt()));
        });
        result.insert("gradient_norms".into(), norms.into());
    }
    Ok(result)
}
