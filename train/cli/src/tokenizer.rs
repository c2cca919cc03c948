//! `gradus tokenizer`.

use std::path::PathBuf;
use std::time::Instant;

use clap::Subcommand;
use gradus_io::numbers::{count, count_of, figure};
use gradus_io::progress::{Job, Monitor, Progress};
use gradus_text::{BpeTrainer, LONGEST_WORD, Mode, TextError, Tokenizer, Vocabulary, each_document, read_text};
use gradus_train::hyperparameters::require;
use gradus_train::model_dir::tokenizer_file;
use serde_json::json;

use crate::common::{Threads, within};
use crate::error::CliError;
use crate::ids::read_ids;
use crate::output;
use crate::progress::Display;

/// Learn a vocabulary, and turn text into token ids and back.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "Examples:\n  \
    gradus tokenizer train --corpus novels/ --vocab 8000 --out words\n  \
    gradus tokenizer encode --tokenizer words --file page.txt > ids.txt\n  \
    gradus tokenizer decode --tokenizer words --ids ids.txt")]
pub enum Command {
    Train(Train),
    Encode(Encode),
    Decode(Decode),
}

/// Learn byte-pair merges from a corpus.
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Learn byte-pair merges from a corpus, in the form of GPT-1's vocabulary: of words in lower case, with </w> at \
        the end of each.\n\n\
        The vocabulary is <unk>, the corpus's characters twice (within a word and at its end), the merges by rank, then the \
        specials. The most frequent pair is merged first; the result depends on the corpus alone. Writes tokenizer.json and \
        tokenizer_config.json, which `transformers` opens; of mode spacy vocab.json, merges.txt and tokenizer_config.json.",
    after_long_help = "Example:\n  gradus tokenizer train --corpus novels/ --vocab 8000 --special \"<start>\" --out words --json"
)]
pub struct Train {
    /// UTF-8 text: a file, or a folder of files. Project Gutenberg's licence is removed.
    #[arg(long, value_name = "PATH")]
    corpus: PathBuf,
    /// Total number of ids, including special tokens.
    #[arg(long, value_name = "N")]
    vocab: usize,
    /// Directory to write, created if needed. A tokenizer in it is kept unless --overwrite is given.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Special token that no text contains, such as <start>; may be given several times; these tokens get the last ids.
    #[arg(long, value_name = "TOKEN")]
    special: Vec<String>,
    /// Mode of splitting text into words. `basic`: lower case, accents stripped, punctuation apart, as `transformers` does for
    /// openai-gpt. `spacy`: repaired as by ftfy, split as by spaCy, in lower case, with line ends, as OpenAI's code does.
    #[arg(long, default_value_t)]
    mode: Mode,
    /// Merge only pairs that occur at least N times in the corpus.
    #[arg(long, value_name = "N", default_value_t = 2)]
    min_frequency: u64,
    /// Keep only the N most common characters; the others become <unk>. By default all are kept.
    #[arg(long, value_name = "N")]
    max_characters: Option<usize>,
    /// Replace an existing tokenizer in DIR.
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    threads: Threads,
    /// Print one JSON object: `vocab` and `merges` learned, `bytes` of text read, `fingerprint` of the tokenizer.
    #[arg(long)]
    json: bool,
}

/// Turn a text into token ids.
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Turn a text file into token ids, printed on one line. A character that a BPE vocabulary does not hold is <unk>; to a \
        character tokenizer it is an error.",
    after_long_help = "Example:\n  gradus tokenizer encode --tokenizer openai-gpt --mode spacy --file page.txt --json"
)]
pub struct Encode {
    /// Directory of the tokenizer: tokenizer.json, vocab.json + merges.txt, vocab.txt, the files of OpenAI's
    /// releases, or gradus_tokenizer.json; or one of these files.
    #[arg(long, value_name = "DIR")]
    tokenizer: PathBuf,
    /// Mode in which a BPE splits text into words: `basic` as `transformers` does for openai-gpt, `spacy` as OpenAI's code does,
    /// with ftfy and spaCy's rules [default: the mode stored with the tokenizer, else basic].
    #[arg(long)]
    mode: Option<Mode>,
    /// UTF-8 text to encode.
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON object: `ids`.
    #[arg(long)]
    json: bool,
}

/// Turn token ids into text.
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Turn token ids into text. A BPE returns the words as normalised, with one space after each.",
    after_long_help = "Example:\n  gradus tokenizer decode --tokenizer words --ids ids.txt"
)]
pub struct Decode {
    /// Directory of the tokenizer, or its file.
    #[arg(long, value_name = "DIR")]
    tokenizer: PathBuf,
    /// File of token ids separated by white space.
    #[arg(long, value_name = "FILE")]
    ids: PathBuf,
    /// Print one JSON object: `text`.
    #[arg(long)]
    json: bool,
}

pub fn run(command: &Command) -> Result<(), CliError> {
    match command {
        Command::Train(args) => train(args),
        Command::Encode(args) => encode(args),
        Command::Decode(args) => decode(args),
    }
}

fn train(args: &Train) -> Result<(), CliError> {
    args.threads.start()?;
    within("vocab", args.vocab, 1..=1 << 24, "")?;
    require("min-frequency", 0, args.min_frequency > 0, "at least 1 (a pair that never occurs is not merged)")?;
    require("max-characters", 0, args.max_characters != Some(0), "at least 1 character (leave it out to keep all)")?;
    if let Some(path) = tokenizer_file(&args.out).filter(|_| !args.overwrite) {
        return Err(CliError::Exists { path });
    }
    let trainer = BpeTrainer {
        vocab_size: args.vocab,
        specials: args.special.clone(),
        min_frequency: args.min_frequency,
        max_characters: args.max_characters,
        mode: args.mode,
    };
    let begin = Instant::now();
    let mut words = trainer.word_counts();
    let mut bytes = 0;
    each_document(&args.corpus, |_, text| {
        bytes += text.len();
        words.add(text);
        Ok::<_, TextError>(())
    })?;
    words.note().iter().for_each(|note| output::say(note));
    let too_long = words.too_long();
    if too_long > 0 {
        let (words, bound) = (count_of(too_long, "word"), count(LONGEST_WORD as u64));
        output::note(&format!("{words} of more than {bound} characters contribute characters, but no merges"));
    }
    let mut bar: Option<Box<dyn Progress>> = None;
    let tokenizer = trainer.train(&words, |done, total| {
        let display = Display::choose(total < 1000);
        bar.get_or_insert_with(|| display.begin(Job::new("merges", total as u64, "merges"))).reach(done as u64);
    })?;
    if let Some(mut bar) = bar {
        bar.complete();
        bar.finish();
    }
    let seconds = begin.elapsed().as_secs_f64();
    tokenizer.save(&args.out)?;
    let merges = if let Vocabulary::Bpe(bpe) = tokenizer.vocabulary() { bpe.merges().len() } else { 0 };
    let vocab = tokenizer.vocab_size();
    if vocab < args.vocab {
        let words = match too_long {
            0 => "the corpus has no more pairs that repeat, so the vocabulary is smaller than requested",
            _ => "no more pairs repeat in words of usual length, so the vocabulary is smaller than requested",
        };
        output::say(&format!("{words}: {vocab} of {}", args.vocab));
    }
    let (place, pace) = (args.out.display(), pace(bytes, seconds));
    let [ids, pairs, read] = [vocab, merges, bytes].map(|n| count(n as u64));
    output::say(&format!("{ids} ids and {pairs} merges from {read} bytes{pace} → {place}"));
    if args.json {
        let fingerprint = tokenizer.fingerprint();
        output::json(
            &json!({ "vocab": vocab, "merges": merges, "bytes": bytes, "fingerprint": fingerprint, "out": args.out.display().to_string() }),
        )?;
    }
    Ok(())
}

fn encode(args: &Encode) -> Result<(), CliError> {
    let mut tokenizer = Tokenizer::load(&args.tokenizer)?;
    if let Some(mode) = args.mode {
        tokenizer = tokenizer.with_mode(mode)?;
    }
    let text = read_text(&args.file)?;
    let begin = Instant::now();
    let ids = tokenizer.encode(&text)?;
    let pace = pace(text.len(), begin.elapsed().as_secs_f64());
    output::say(&format!("{} ids from {} bytes{pace}", count(ids.len() as u64), count(text.len() as u64)));
    if args.json {
        return output::json(&json!({ "ids": ids }));
    }
    output::line(&ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" "))
}

/// Formats the rate in 10⁶ bytes per second; empty for texts that are too small to measure it.
fn pace(bytes: usize, seconds: f64) -> String {
    if bytes < 1_000_000 { String::new() } else { format!(" in {seconds:.2} s ({} MB/s)", figure(bytes as f64 / seconds / 1e6)) }
}

fn decode(args: &Decode) -> Result<(), CliError> {
    let tokenizer = Tokenizer::load(&args.tokenizer)?;
    let text = tokenizer.decode(&read_ids(&args.ids, tokenizer.vocab_size(), "tokenizer")?)?;
    if args.json { output::json(&json!({ "text": text })) } else { output::line(&text) }
}
