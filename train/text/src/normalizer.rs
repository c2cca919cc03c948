//! Normalizers of `tokenizers`, applied to a text in sequence before it is split into words.

use std::borrow::Cow;

use serde_json::{Value, json};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::basic::{self, Cleaning};

/// A sequence of normalizers; the empty sequence is the identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Normalizer(Vec<Step>);

/// A normalizer of `tokenizers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// `BertNormalizer`.
    Bert(Cleaning),
    /// Canonical composition (NFC).
    Nfc,
    /// Canonical decomposition (NFD).
    Nfd,
    /// Compatibility composition (NFKC).
    Nfkc,
    /// Compatibility decomposition (NFKD).
    Nfkd,
    /// Lower-casing, character by character.
    Lowercase,
    /// Removal of combining marks.
    StripAccents,
    /// BERT's basic tokenizer in Python, as BertJapaneseTokenizer uses it: cleaning, NFC, and, if `lowercase`, lower-casing and
    /// removal of accents. Python lower-cases a whole word, so that Σ at its end becomes ς. `tokenizer.json` has no such step.
    Japanese { lowercase: bool },
}

impl Step {
    /// The normalizers without options, by name.
    const PLAIN: [(&str, Step); 6] = [
        ("NFC", Step::Nfc),
        ("NFD", Step::Nfd),
        ("NFKC", Step::Nfkc),
        ("NFKD", Step::Nfkd),
        ("Lowercase", Step::Lowercase),
        ("StripAccents", Step::StripAccents),
    ];

    fn apply(self, text: &str) -> String {
        match self {
            Step::Bert(cleaning) => basic::normalize_by(text, cleaning),
            Step::Nfc => text.nfc().collect(),
            Step::Nfd => text.nfd().collect(),
            Step::Nfkc => text.nfkc().collect(),
            Step::Nfkd => text.nfkd().collect(),
            Step::Lowercase => text.chars().flat_map(char::to_lowercase).collect(),
            Step::StripAccents => text.chars().filter(|&c| !is_combining_mark(c)).collect(),
            Step::Japanese { lowercase } => {
                let none = Cleaning { clean: false, ideographs: false, accents: false, lowercase: false };
                let composed = basic::normalize_by(text, Cleaning { clean: true, ..none }).nfc().collect::<String>();
                match lowercase {
                    true => basic::normalize_by(&composed.to_lowercase(), Cleaning { accents: true, ..none }),
                    false => composed,
                }
            }
        }
    }

    fn to_json(self) -> Value {
        match self {
            Step::Bert(Cleaning { clean, ideographs, accents, lowercase }) => json!({
                "type": "BertNormalizer",
                "clean_text": clean,
                "handle_chinese_chars": ideographs,
                "strip_accents": if accents == lowercase { Value::Null } else { accents.into() },
                "lowercase": lowercase,
            }),
            plain => json!({ "type": Self::PLAIN.iter().find(|(_, step)| *step == plain).map(|(name, _)| *name) }),
        }
    }
}

impl From<Cleaning> for Normalizer {
    fn from(cleaning: Cleaning) -> Self {
        Normalizer(vec![Step::Bert(cleaning)])
    }
}

impl Normalizer {
    /// Returns the options of `BertNormalizer`, if it is the only step.
    pub(crate) fn bert(&self) -> Option<Cleaning> {
        match self.0[..] {
            [Step::Bert(cleaning)] => Some(cleaning),
            _ => None,
        }
    }

    /// Returns the normalizer of BertJapaneseTokenizer.
    pub(crate) fn japanese(lowercase: bool) -> Self {
        Normalizer(vec![Step::Japanese { lowercase }])
    }

    /// Returns the argument of [`Normalizer::japanese`] if this is its result.
    pub(crate) fn is_japanese(&self) -> Option<bool> {
        match self.0[..] {
            [Step::Japanese { lowercase }] => Some(lowercase),
            _ => None,
        }
    }

    /// Applies all steps to a text.
    pub fn apply<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.0.iter().fold(text.into(), |text, step| step.apply(&text).into())
    }

    /// Returns the `normalizer` field of `tokenizer.json`.
    pub(crate) fn to_json(&self) -> Value {
        match self.0[..] {
            [] => Value::Null,
            [step] => step.to_json(),
            _ => json!({ "type": "Sequence", "normalizers": self.0.iter().map(|step| step.to_json()).collect::<Vec<_>>() }),
        }
    }

    /// Parses the `normalizer` field of `tokenizer.json`; the error is the unsupported value with its JSON pointer.
    pub(crate) fn from_json<'v>(value: &'v Value, place: &str) -> Result<Self, (String, &'v Value)> {
        let mut steps = Vec::new();
        Self::collect(value, place, &mut steps)?;
        Ok(Normalizer(steps))
    }

    fn collect<'v>(value: &'v Value, place: &str, steps: &mut Vec<Step>) -> Result<(), (String, &'v Value)> {
        let name = value["type"].as_str().unwrap_or_default();
        if value.is_null() {
        } else if let Some((_, step)) = Step::PLAIN.iter().find(|(plain, _)| *plain == name) {
            steps.push(*step);
        } else if let (true, Some(all)) = (name == "Sequence", value["normalizers"].as_array()) {
            for (i, one) in all.iter().enumerate() {
                Self::collect(one, &format!("{place}/normalizers/{i}"), steps)?;
            }
        } else if name == "BertNormalizer" {
            let switch = |name: &str| value[name].as_bool().ok_or_else(|| (format!("{place}/{name}"), &value[name]));
            let lowercase = switch("lowercase")?;
            let accents = if value["strip_accents"].is_null() { lowercase } else { switch("strip_accents")? };
            let (clean, ideographs) = (switch("clean_text")?, switch("handle_chinese_chars")?);
            steps.push(Step::Bert(Cleaning { clean, ideographs, accents, lowercase }));
        } else {
            return Err((format!("{place}/type"), if value["type"].is_null() { value } else { &value["type"] }));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_normalizer_survives_the_file() {
        let bert = Step::Bert(Cleaning { accents: false, ..Cleaning::ALL });
        let plain = Step::PLAIN.map(|(_, step)| step);
        for steps in [&[][..], &[bert], &[Step::Nfd], &plain, &[Step::Nfc, bert]] {
            let normalizer = Normalizer(steps.to_vec());
            assert_eq!(Normalizer::from_json(&normalizer.to_json(), "/normalizer"), Ok(normalizer));
        }
        let nested = json!({"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": [{"type": "NFC"}]}, null]});
        assert_eq!(Normalizer::from_json(&nested, "/normalizer"), Ok(Normalizer(vec![Step::Nfc])));
        let other = json!({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Prepend", "prepend": "_"}]});
        assert_eq!(
            Normalizer::from_json(&other, "/normalizer"),
            Err(("/normalizer/normalizers/1/type".into(), &json!("Prepend")))
        );
        let wrong = json!({"type": "BertNormalizer", "lowercase": "yes"});
        assert_eq!(Normalizer::from_json(&wrong, "/normalizer"), Err(("/normalizer/lowercase".into(), &json!("yes"))));
    }

    #[test]
    fn steps_follow_one_another() {
        let of = |steps: &[Step], text| Normalizer(steps.to_vec()).apply(text).into_owned();
        assert_eq!(of(&[], "É ﬁ"), "É ﬁ");
        assert_eq!(of(&[Step::Nfd, Step::Lowercase, Step::StripAccents], "CAFÉ İ"), "cafe i");
        assert_eq!(of(&[Step::StripAccents], "Cafe\u{301} É"), "Cafe É");
        assert_eq!(of(&[Step::Nfkc], "ﬁ ① e\u{301}"), "fi 1 é");
        assert_eq!(of(&[Step::Nfkd, Step::Nfc], "é①"), "é1");
        assert_eq!(of(&[Step::Nfc, Step::Bert(Cleaning::ALL)], "E\u{301}日"), "e 日 ");
        assert_eq!(of(&[Step::Japanese { lowercase: true }], "ΑΣ ΣΑ É\t日\u{200b}本"), "ας σα e 日本");
        assert_eq!(of(&[Step::Japanese { lowercase: false }], "ΑΣ E\u{301}"), "ΑΣ É");
    }
}
