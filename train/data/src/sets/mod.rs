//! The data sets of the paper, read from the files of their original distributions.
//!
//! | task | transformation | the paper | metric | file |
//! |-|-|-|-|-|
//! | MultiNLI, SNLI, SciTail, QNLI, RTE, WNLI | [`Transformation::Entail`] | table 2 (WNLI: GLUE only) | accuracy | [`mnli`], [`snli`], [`scitail`], [`qnli`], [`rte`], [`wnli`] |
//! | RACE, Story Cloze | [`Transformation::Choose`] | table 3 | accuracy | [`race`], [`story_cloze`] |
//! | MRPC, QQP, STS-B | [`Transformation::Similar`] | table 4 | F1, F1, Pearson | [`mrpc`], [`qqp`], [`stsb`] |
//! | CoLA, SST-2 | [`Transformation::Classify`] | table 4 | Matthews, accuracy | [`cola`], [`sst2`] |
//! | DPRD, WSC273 | [`Transformation::Refer`] | figure 2, zero-shot | accuracy | [`dprd`], [`wsc273`] |
//!
//! ```
//! use gradus_data::sets::{Input, Label, Split, Task};
//!
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("dev.tsv"), "sentence\tlabel\na \"fine\" day \t1\nno fun\t0")?;
//! let loaded = Task::named("sst-2")?.load(folder.path(), Split::Dev)?;
//! assert_eq!(loaded.examples.len(), 2);
//! assert_eq!(loaded.examples[0].input, Input::One("a \"fine\" day ".into()));
//! assert_eq!(loaded.examples[0].label, Some(Label::Class(1)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Choices made here:
//!
//! - **Texts** are kept as in the file, including trailing blanks; the tokenizer normalises them.
//! - **A malformed row is an error**, with file, line and column. Rows are skipped for two reasons only, each counted in
//!   [`Loaded::dropped`]: annotators without a majority (SNLI, MultiNLI: label `-`), and the torn rows in GLUE's QQP.
//! - **An empty text** is valid: its row is kept, and the model reads only the special tokens.
//! - **Columns** are found by name if the file has a header, in any order.
//! - **A wrong folder** is detected by its columns and labels, unless these are equal: the unlabelled test files of CoLA and
//!   SST-2 have the same columns, and so do those of RTE and WNLI.
//! - **Without an official dev set** (Story Cloze, DPRD), the end of the training file is held out, never the test set.

pub mod cola;
pub mod dprd;
mod error;
mod file;
mod json;
mod kinds;
mod location;
pub mod mnli;
pub mod mrpc;
pub mod qnli;
pub mod qqp;
pub mod race;
mod reference;
pub mod rte;
pub mod scitail;
pub mod scores;
pub mod snli;
pub mod sst2;
pub mod story_cloze;
pub mod stsb;
pub mod submission;
pub mod task;
#[cfg(test)]
mod testing;
mod tsv;
pub mod wnli;
pub mod wsc273;

pub use error::{SetError, visible};
pub use kinds::{Label, Split};
pub use location::Files;
pub use scores::Metric;
pub use submission::{Submission, label, label_from, submission};
pub use task::{Answer, Dropped, Example, Family, Input, Loaded, Task, Transformation};

/// Every data set, in the order of the paper's tables 2, 3 and 4; the sets of the zero-shot analysis are last.
pub static ALL: [&Task; 15] = [
    &mnli::MNLI,
    &snli::SNLI,
    &scitail::SCITAIL,
    &qnli::QNLI,
    &rte::RTE,
    &wnli::WNLI,
    &story_cloze::STORY_CLOZE,
    &race::RACE,
    &cola::COLA,
    &sst2::SST2,
    &mrpc::MRPC,
    &stsb::STSB,
    &qqp::QQP,
    &dprd::DPRD,
    &wsc273::WSC273,
];

impl Task {
    /// Returns the data set with this name.
    ///
    /// # Errors
    /// Returns an error with all names if there is no such data set ([`SetError::Task`]).
    pub fn named(name: &str) -> Result<&'static Task, SetError> {
        ALL.into_iter()
            .find(|task| task.name == name)
            .ok_or_else(|| SetError::Task { name: name.into(), names: ALL.map(|task| task.name).join(", ") })
    }
}
