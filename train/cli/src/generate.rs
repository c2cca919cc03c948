//! `gradus generate`.

use std::path::PathBuf;

use gradus_tensor::rng::Philox;
use gradus_text::Tokenizer;
use gradus_train::answers::Slide;
use gradus_train::answers::generate::{Choice, Continuation, Overflow, generate};
use gradus_train::model_dir::{ModelDir, Predictor};
use serde_json::json;

use crate::common::{On, Threads, open_model, say_if_headless};
use crate::error::CliError;
use crate::ids::read_ids;
use crate::output;

/// Continue a text with a model.
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Continue a text (--prompt) or a sequence of token ids (--ids), one token at a time.\n\n\
        The next token is sampled as follows, in f64: the logits are divided by the temperature; the --top-k largest stay; their \
        softmax is taken; of these, the fewest most probable with a total of at least --top-p stay; one of them is sampled by \
        its probability, with a counter-based generator (Philox) seeded by --seed. The same seed gives the same tokens. With \
        --greedy the largest logit is taken instead. Ties go to the lower id.\n\n\
        Beyond the model's context the window slides: each time the context is full, the model re-reads only its last half and \
        no longer sees what came before. A note on stderr states the first token that is affected. With --no-slide, the prompt \
        and the new tokens together must fit the context.\n\n\
        A model that fills masks (BERT) reads the text and a mask for each token still to be generated, and the next token is \
        sampled at the first of them; where these do not fit the context, fewer masks and the end of the text are read. The text \
        is one segment, whether the model was trained on pairs of texts or not.\n\n\
        Without --json the prompt and its continuation are printed as they come: as text where the model's directory holds a \
        tokenizer, else as ids. Ids that the tokenizer does not have are never sampled.",
    after_long_help = "Examples:\n  \
        gradus generate --model runs/novels --prompt \"It was a dark night\" --tokens 50 --temperature 0.8 --top-k 40\n  \
        gradus generate --model openai-gpt --ids ids.txt --tokens 20 --greedy --json"
)]
pub struct Args {
    /// Directory of config.json and model.safetensors, or of a training run whose `best` holds them. --prompt also needs the
    /// model's tokenizer there.
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    #[command(flatten)]
    input: Input,
    /// Number of tokens to generate.
    #[arg(long, value_name = "N")]
    tokens: usize,
    /// Take the most probable token each time; otherwise tokens are sampled.
    #[arg(long, conflicts_with_all = ["temperature", "top_k", "top_p", "seed"])]
    greedy: bool,
    /// Divisor of the logits, above 0; a divisor below 1 makes probable tokens more probable.
    #[arg(long, value_name = "TAU", default_value_t = 1.0)]
    temperature: f64,
    /// Sample from the K most probable tokens; by default from all.
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Sample from the fewest most probable tokens whose total probability is at least P, above 0 to 1.
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    top_p: f64,
    /// Seed of the sampling.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Continue beyond the context: each time it is full, re-read its last half and drop the rest (the default).
    #[arg(long, overrides_with = "no_slide")]
    slide: bool,
    /// Refuse to go beyond the context.
    #[arg(long, overrides_with = "slide")]
    no_slide: bool,
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    threads: Threads,
    /// Print one JSON object: `ids`, prompt included; `text`, if there is a tokenizer; and `slid`, if the window slid: the first
    /// of `ids`, counted from 0, chosen without seeing the beginning (`at`), and the number of ids it did not see (`unseen`).
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Input {
    /// Text to continue.
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// File of token ids separated by white space, to continue; needs no tokenizer, unless the model fills masks.
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<(), CliError> {
    args.threads.start()?;
    let dir = open_model(&args.model)?;
    let model = dir.predictor()?.to(&args.on.open()?)?;
    let Prompt { mut ids, tokenizer, vocab } = Prompt::read(&args.input, &dir, &model)?;
    let choice = match args.greedy {
        true => Choice::Greedy,
        false => Choice::Sample { temperature: args.temperature, top_k: args.top_k, top_p: args.top_p },
    };
    let overflow = if args.no_slide { Overflow::Refuse } else { Overflow::Slide };
    let own = if tokenizer.is_some() { None } else { dir.tokenizer(model.vocab())? }; // for a masked model and a prompt of ids
    let answers = model.answers(tokenizer.as_ref().or(own.as_ref()), ids.len().saturating_add(args.tokens));
    let answers = answers.map_err(CliError::of_model(dir.path()))?;
    let fills_masks = answers.mask().is_some();
    if fills_masks {
        output::note(
            "this model fills masks and was not trained to continue a text: each token is sampled at the first of as many masks \
             as there are tokens still to be generated, given the text before",
        );
        model.network().iter().for_each(|model| say_if_headless(model));
    }
    let context = model.context().unwrap_or_default(); // a model without one never slides
    let slid = answers.slide(ids.len(), args.tokens).filter(|_| overflow == Overflow::Slide);
    if let Some(Slide { at, .. }) = slid.filter(|_| fills_masks) {
        output::note(&format!(
            "the model's context is {context} tokens, masks included, so from token {} on, prompt included, it no longer sees the \
             beginning: half of the context has masks, and the last tokens of the text fill the rest",
            at + 1
        ));
    } else if let Some(Slide { at, unseen }) = slid {
        output::note(&format!(
            "the model's context is {context} tokens, so the window slides from token {} on, prompt included: the model \
             re-reads only the last {} tokens and no longer sees tokens 1 to {unseen}; this repeats each time the context is full",
            at + 1,
            at - unseen
        ));
    }
    let mut stream = Stream { tokenizer: tokenizer.as_ref(), written: 0 };
    let mut printed = Ok(());
    let mut rng = Philox::new(args.seed);
    let mut each = |ids: &[u32]| {
        if !args.json {
            printed = stream.write(ids, false);
        }
        printed.is_ok()
    };
    let how = Continuation { vocab, tokens: args.tokens, choice, overflow };
    generate(&*answers, &mut ids, how, &mut rng, &mut each)?;
    printed?;
    if !args.json {
        return stream.write(&ids, true);
    }
    let mut result = json!({ "ids": ids });
    if let Some(slid) = slid {
        result["slid"] = json!(slid);
    }
    if let Some(tokenizer) = tokenizer {
        result["text"] = tokenizer.decode(&ids)?.into();
    }
    output::json(&result)
}

/// The sequence to continue.
struct Prompt {
    ids: Vec<u32>,
    /// The tokenizer; `None` if there is no text to print.
    tokenizer: Option<Tokenizer>,
    /// The number of ids that may be drawn.
    vocab: usize,
}

impl Prompt {
    fn read(input: &Input, dir: &ModelDir, model: &Predictor) -> Result<Self, CliError> {
        let rows = model.vocab();
        let (ids, tokenizer) = match (&input.ids, &input.prompt) {
            (Some(path), _) => (read_ids(path, rows, "model")?, dir.tokenizer(rows)?),
            (None, Some(text)) => {
                let tokenizer = dir.required_tokenizer(rows)?;
                (tokenizer.encode(text)?, Some(tokenizer))
            }
            (None, None) => unreachable!("clap requires one of the two"),
        };
        // A model may have more rows than its tokenizer has ids. The extra ids are not drawn, and for a prompt that contains
        // some, ids are printed instead of text.
        let known = tokenizer.as_ref().map_or(rows, |tokenizer| tokenizer.vocab_size().min(rows));
        if ids.iter().all(|&id| (id as usize) < known) {
            return Ok(Prompt { ids, tokenizer, vocab: known });
        }
        output::say(&format!("the prompt holds ids that the tokenizer, of {known} ids, lacks: printing ids, not text"));
        Ok(Prompt { ids, tokenizer: None, vocab: rows })
    }
}

/// A printer of a growing sequence, which prints only the new part each time.
struct Stream<'a> {
    tokenizer: Option<&'a Tokenizer>,
    /// The number of bytes of text, or of ids, written so far.
    written: usize,
}

impl Stream<'_> {
    fn write(&mut self, ids: &[u32], is_end: bool) -> Result<(), CliError> {
        let end = if is_end { "\n" } else { "" };
        let Some(tokenizer) = self.tokenizer else {
            let new: Vec<String> = ids[self.written..].iter().map(u32::to_string).collect();
            let separator = if self.written > 0 && !new.is_empty() { " " } else { "" };
            self.written = ids.len();
            return output::write(&format!("{separator}{}{end}", new.join(" ")));
        };
        let text = tokenizer.decode(ids)?;
        // A character with missing bytes waits for the next token.
        let whole = if is_end { text.as_str() } else { text.trim_end_matches('\u{fffd}') };
        let new = whole.get(self.written..).unwrap_or_default();
        self.written = self.written.max(whole.len());
        output::write(&format!("{new}{end}"))
    }
}
