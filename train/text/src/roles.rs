//! Roles of special tokens, named as in `transformers`: `cls_token`, `mask_token` and others.

use std::collections::BTreeMap;

/// The template of a pair of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairs {
    /// The number of separator tokens between the texts.
    pub between: usize,
    /// Whether the second text has segment id 1.
    pub segments: bool,
}

impl Pairs {
    /// BERT's template, `[CLS] a [SEP] b [SEP]`, in two segments.
    pub const BERT: Pairs = Pairs { between: 1, segments: true };
    /// RoBERTa's template, `<s> a </s></s> b </s>`, in one segment.
    pub const ROBERTA: Pairs = Pairs { between: 2, segments: false };
}

/// Special tokens by role, such as `mask_token`; empty if no file defines them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// The token of each role.
    pub names: BTreeMap<String, String>,
    /// The template of a pair of texts, if a file defines one.
    pub pairs: Option<Pairs>,
}

impl Roles {
    /// Returns the roles with their tokens.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.names.iter().map(|(role, name)| (role.as_str(), name.as_str()))
    }

    /// Returns the token of a role.
    pub fn get(&self, role: &str) -> Option<&str> {
        self.names.get(role).map(String::as_str)
    }
}
