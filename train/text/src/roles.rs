//! What the special tokens of a tokenizer are for, as the classes of `transformers` name it.

use std::collections::BTreeMap;

/// How two texts are framed that are read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairs {
    /// Marks between them.
    pub between: usize,
    /// Is the second one in segment 1, where a model tells segments apart?
    pub segments: bool,
}

impl Pairs {
    /// BERT's: `[CLS] a [SEP] b [SEP]`, in two segments.
    pub const BERT: Pairs = Pairs { between: 1, segments: true };
    /// RoBERTa's: `<s> a </s></s> b </s>`, in one.
    pub const ROBERTA: Pairs = Pairs { between: 2, segments: false };
}

/// The special tokens of a tokenizer by their roles, such as `mask_token`; none where no file tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// The token of each role.
    pub names: BTreeMap<String, String>,
    /// How two texts are framed, where that is told.
    pub pairs: Option<Pairs>,
}

impl Roles {
    /// The token of a role.
    pub fn get(&self, role: &str) -> Option<&str> {
        self.names.get(role).map(String::as_str)
    }
}
