//! Zero-shot answers of a language model that was never trained for the task.

use std::path::Path;

use gradus_data::sets::{Dropped, Example, Split, Task};
use gradus_train::answers::zero_shot::{TaskAnswers, ZeroShot};
use gradus_train::finetune::{FinetuneError, evenly};
use gradus_train::hyperparameters::RangeError;
use gradus_train::model_dir::ModelDirError;
use gradus_train::tasks::TaskError;

use crate::common::{On, open_model};
use crate::error::CliError;
use crate::output;

/// A split's rows and the answers to them.
pub struct Answered {
    pub examples: Vec<Example>,
    pub answers: TaskAnswers,
    /// The number of rows in the files.
    pub file_rows: usize,
    pub dropped: Vec<Dropped>,
}

/// Answers at most `rows` rows of a split. `check` may return an error before the long work.
pub fn answered(
    (model, opening, on): (&Path, Option<&str>, &On),
    (task, folder, split): (&'static Task, &Path, Split),
    rows: Option<usize>,
    check: impl FnOnce(&[Example]) -> Result<(), TaskError>,
) -> Result<Answered, CliError> {
    if !ZeroShot::has(task) {
        return Err(FinetuneError::from(TaskError::NoHeuristic { task: task.name }).into());
    }
    let dir = open_model(model)?;
    let model = dir.predictor()?.to(&on.open()?)?;
    let tokenizer = dir.required_tokenizer(model.vocab())?;
    let model = model.answers(Some(&tokenizer), 0).map_err(CliError::of_model(dir.path()))?;
    if model.mask().is_some() {
        return Err(ModelDirError::Masked { path: dir.path().to_owned() }.into());
    }
    let known =
        |token| tokenizer.token_id(token).ok_or_else(|| RangeError::new("opening", token, "a token of the model's tokenizer"));
    let opening = opening.map(known).transpose()?;
    let load = |split| task.load(folder, split).map_err(FinetuneError::from);
    // The threshold is from all training rows, however few rows are answered.
    let train = if ZeroShot::needs_train(task) { load(Split::Train)?.examples } else { Vec::new() };
    let loaded = load(split)?;
    output::notes(&loaded.notes);
    let file_rows = loaded.rows();
    let examples = evenly(loaded.examples, rows);
    check(&examples).map_err(FinetuneError::from)?;
    let answers = ZeroShot { model: &*model, tokenizer: &tokenizer, opening }.answers(task, &train, &examples);
    Ok(Answered { answers: answers.map_err(FinetuneError::from)?, examples, file_rows, dropped: loaded.dropped })
}
