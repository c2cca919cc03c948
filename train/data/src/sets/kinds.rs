//! The splits of a data set, and the labels of its examples.

use std::fmt;

/// A part of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Split {
    /// The training set.
    Train,
    /// The validation set; in MultiNLI, with genres of the training set.
    Dev,
    /// In MultiNLI, the validation set with genres that are not in the training set.
    DevMismatched,
    /// The test set, often without labels.
    Test,
    /// In MultiNLI, the test set with genres that are not in the training set.
    TestMismatched,
}

impl Split {
    /// Every split.
    pub const ALL: [Split; 5] = [Split::Train, Split::Dev, Split::DevMismatched, Split::Test, Split::TestMismatched];

    /// Returns the name on the command line: `dev-mismatched`.
    pub fn name(self) -> &'static str {
        match self {
            Split::Train => "train",
            Split::Dev => "dev",
            Split::DevMismatched => "dev-mismatched",
            Split::Test => "test",
            Split::TestMismatched => "test-mismatched",
        }
    }

    /// Returns whether this is a test set, whose labels may be withheld by a benchmark.
    pub fn is_test(self) -> bool {
        matches!(self, Split::Test | Split::TestMismatched)
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The answer to an example.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Label {
    /// A class, or the index of the chosen answer, from 0.
    Class(usize),
    /// A degree of similarity.
    Score(f64),
}

impl Label {
    /// Returns the class or the score as a number.
    pub fn value(self) -> f64 {
        match self {
            Label::Class(class) => class as f64,
            Label::Score(score) => score,
        }
    }
}
