//! The tokenizer classes of `transformers` 5, by their name in `tokenizer_config.json`. A class builds its own normalizer and
//! pre-tokenizer, ignoring those of `tokenizer.json`, and has special tokens of its own.

use crate::roles::Pairs;

/// The pipeline that a class builds around a vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// WordPiece over BERT's words.
    WordPiece,
    /// WordPiece or characters over the words of BERT's basic tokenizer, after NFC.
    Japanese,
    /// GPT-1's BPE over BERT's words; `folds`: whether text is lower-cased and accents are removed.
    Gpt { folds: bool },
    /// Byte-level BPE; `prefix`: the default of `add_prefix_space`.
    Bytes { prefix: bool },
}

/// A class that Gradus reads.
#[derive(Debug)]
pub(super) struct Class {
    /// The class's name, and the names of equal classes.
    pub names: &'static [&'static str],
    pub form: Form,
    /// The class's special tokens, by role.
    pub specials: &'static [(&'static str, &'static str)],
    /// `lstrip` of the mask token.
    pub mask_left: bool,
    /// The template of a pair of texts, if the class has one.
    pub pairs: Option<Pairs>,
}

const BERTS: [(&str, &str); 5] =
    [("unk_token", "[UNK]"), ("sep_token", "[SEP]"), ("pad_token", "[PAD]"), ("cls_token", "[CLS]"), ("mask_token", "[MASK]")];
const ROBERTAS: [(&str, &str); 7] = of_each_role(["<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"]);

/// Returns the special tokens of a class that has every role.
const fn of_each_role([bos, eos, unk, sep, pad, cls, mask]: [&'static str; 7]) -> [(&'static str, &'static str); 7] {
    [
        ("bos_token", bos),
        ("eos_token", eos),
        ("unk_token", unk),
        ("sep_token", sep),
        ("pad_token", pad),
        ("cls_token", cls),
        ("mask_token", mask),
    ]
}

pub(super) const BERT: Class = Class {
    names: &[
        "BertTokenizer",
        "DistilBertTokenizer",
        "ElectraTokenizer",
        "LayoutLMTokenizer",
        "LxmertTokenizer",
        "MobileBertTokenizer",
        "SqueezeBertTokenizer",
    ],
    form: Form::WordPiece,
    specials: &BERTS,
    mask_left: false,
    pairs: Some(Pairs::BERT),
};

pub(super) const GPT: Class = Class {
    names: &["OpenAIGPTTokenizer"],
    form: Form::Gpt { folds: true },
    specials: &[("unk_token", "<unk>")],
    mask_left: false,
    pairs: None,
};

pub(super) const GPT2: Class = Class {
    names: &["GPT2Tokenizer"],
    form: Form::Bytes { prefix: false },
    specials: &[("bos_token", "<|endoftext|>"), ("eos_token", "<|endoftext|>"), ("unk_token", "<|endoftext|>")],
    mask_left: false,
    pairs: None,
};

pub(super) const ROBERTA: Class = Class {
    names: &["RobertaTokenizer", "BartTokenizer", "LEDTokenizer", "LongformerTokenizer", "MvpTokenizer"],
    form: Form::Bytes { prefix: false },
    specials: &ROBERTAS,
    mask_left: false,
    pairs: Some(Pairs::ROBERTA),
};

const ALL: [&Class; 9] = [
    &BERT,
    &GPT,
    &GPT2,
    &ROBERTA,
    &Class {
        names: &["MPNetTokenizer"],
        specials: &of_each_role(["<s>", "</s>", "[UNK]", "</s>", "<pad>", "<s>", "<mask>"]),
        mask_left: true,
        pairs: Some(Pairs::ROBERTA),
        ..BERT
    },
    &Class { names: &["BertJapaneseTokenizer"], form: Form::Japanese, ..BERT },
    &Class {
        names: &["HerbertTokenizer"],
        form: Form::Gpt { folds: false },
        specials: &[
            ("unk_token", "<unk>"),
            ("sep_token", "</s>"),
            ("pad_token", "<pad>"),
            ("cls_token", "<s>"),
            ("mask_token", "<mask>"),
        ],
        mask_left: false,
        pairs: Some(Pairs::BERT),
    },
    &Class { names: &["BlenderbotTokenizer"], form: Form::Bytes { prefix: true }, mask_left: true, ..ROBERTA },
    &Class {
        names: &["DebertaTokenizer"],
        specials: &of_each_role(["[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"]),
        ..ROBERTA
    },
];

impl Class {
    /// Returns the class's special token in a role.
    pub(super) fn special(&self, role: &str) -> Option<&'static str> {
        self.specials.iter().find(|(name, _)| *name == role).map(|(_, token)| *token)
    }
}

/// The classes of `transformers` with their model types, one line per class (tests/golden/published_tokenizers.py). `!`: with
/// this type a class of another name is ignored.
const OF_MODELS: &str = include_str!("models.txt");

/// Returns the class of a model type, and whether a class of another name is ignored.
fn of_model(model_type: &str) -> Option<(&'static str, bool)> {
    OF_MODELS.lines().find_map(|line| {
        let (class, types) = line.split_once(": ")?;
        let found = types.split(' ').find(|own| own.strip_suffix('!').unwrap_or(own) == model_type)?;
        Some((class, found.ends_with('!')))
    })
}

/// Returns the class that AutoTokenizer takes: that of the model's type if no file gives a class, if it uses `tokenizer.json`
/// unchanged, or if the type has a `!`; otherwise the given class.
pub(super) fn chosen<'a>(given: Option<&'a str>, model_type: &str) -> Option<&'a str> {
    match (given, of_model(model_type)) {
        (Some(own), Some((class, is_alone))) if plain(own) != class && (is_alone || is_of_the_file(class)) => Some(class),
        (None, of_model) => of_model.map(|(class, _)| class),
        (given, _) => given,
    }
}

/// Returns the name of a class without the suffix of older releases.
pub(super) fn plain(name: &str) -> &str {
    name.strip_suffix("Fast").unwrap_or(name)
}

/// Classes that use the pipeline of `tokenizer.json` unchanged.
const OF_THE_FILE: [&str; 4] = ["PreTrainedTokenizerFast", "PreTrainedTokenizer", "TokenizersBackend", "PythonBackend"];

/// Other classes of `transformers`, without the suffix `Tokenizer`. Each builds its own pipeline, so another class would give
/// other ids for its files.
const OTHERS: &str = "Albert Barthez Bartpho BertGeneration Bertweet BigBird BioGpt BlenderbotSmall ByT5 Camembert Canine \
    Clvp CodeGen CodeLlama Cohere ConvBert Cpm CpmAnt CTRL CLIP DPRContextEncoder DPRQuestionEncoder DPRReader DebertaV2 Dia Ernie4_5 Esm \
    Esmc FNet FSMT FastSpeech2Conformer Flaubert Funnel GPTNeoX GPTNeoXJapanese GPTSw3 Gemma Lasr LayoutLMv2 LayoutLMv3 LayoutXLM Llama \
    Luke M2M100 MBart MBart50 MLuke MT5 Marian MarkupLM Mgpstr MistralCommon Moshi Musicgen MyT5 Nllb Nougat Parakeet Pegasus Perceiver \
    Phobert PLBart Pop2Piano ProphetNet Qwen2 Qwen3_5 Rag Reformer RemBert RoCBert RoFormer SeamlessM4T Siglip Siglip2 Speech2Text \
    SpeechT5 Splinter T5 Tapas Tipsv2 Udop VideoPrism Vits Wav2Vec2CTC Wav2Vec2Phoneme Wav2Vec2PhonemeCTC Whisper XGLM XLM XLMRoberta \
    XLNet XLMProphetNet SentencePieceBackend";

/// Returns whether a class uses the pipeline of `tokenizer.json` unchanged.
pub(super) fn is_of_the_file(name: &str) -> bool {
    OF_THE_FILE.contains(&name)
}

/// Returns the class of this name; `None` for one that uses `tokenizer.json` unchanged. The error is the name of a class that
/// Gradus does not read.
pub(super) fn named(name: &str) -> Result<Option<&'static Class>, &str> {
    if is_of_the_file(name) {
        return Ok(None);
    }
    let plain = plain(name);
    if let Some(class) = ALL.into_iter().find(|class| class.names.contains(&plain)) {
        return Ok(Some(class));
    }
    let stem = plain.strip_suffix("Tokenizer").unwrap_or(plain);
    // For an unknown class, `transformers` uses `tokenizer.json` unchanged.
    if OTHERS.split_whitespace().any(|other| other == stem) { Err(name) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tokenizer_class_follows_from_the_model_type() {
        let of = |given, model_type| chosen(given, model_type).unwrap_or("none");
        assert_eq!(
            (of(None, ""), of(None, "bert"), of(None, "gpt2"), of(None, "bart")),
            ("none", "BertTokenizer", "GPT2Tokenizer", "RobertaTokenizer")
        );
        assert_eq!((of(Some("BertJapaneseTokenizer"), "bert"), of(Some("X"), "of our own")), ("BertJapaneseTokenizer", "X"));
        assert_eq!(
            (of(Some("BertTokenizerFast"), "modernbert"), of(None, "modernbert")),
            ("TokenizersBackend", "TokenizersBackend")
        );
        assert_eq!(
            (of(Some("BertTokenizer"), "qwen2"), of(Some("Qwen2TokenizerFast"), "qwen2")),
            ("Qwen2Tokenizer", "Qwen2TokenizerFast")
        );
        let classes = OF_MODELS.lines().map(|line| line.split_once(": ").unwrap().0);
        assert_eq!(
            classes.filter(|class| named(class).is_ok_and(|class| class.is_none())).collect::<Vec<_>>(),
            ["TokenizersBackend"],
            "all others are known"
        );
    }

    #[test]
    fn each_class_is_supported_rejected_or_defined_by_its_file() {
        let of = |name| named(name).map(|class| class.map(|class| class.names[0]));
        assert_eq!(of("BertTokenizerFast"), Ok(Some("BertTokenizer")));
        assert_eq!(of("DistilBertTokenizer"), Ok(Some("BertTokenizer")));
        assert_eq!(of("BartTokenizerFast"), Ok(Some("RobertaTokenizer")));
        assert_eq!(of("PreTrainedTokenizerFast"), Ok(None));
        assert_eq!(of("OurOwnTokenizer"), Ok(None));
        for name in
            ["Qwen2TokenizerFast", "CLIPTokenizer", "CTRLTokenizer", "FlaubertTokenizer", "FunnelTokenizer", "T5Tokenizer"]
        {
            assert_eq!(of(name), Err(name));
        }
        let others: Vec<&str> = OTHERS.split_whitespace().collect();
        let read = |other: &&str| ALL.iter().any(|class| class.names.contains(&&*format!("{other}Tokenizer")));
        assert_eq!(others.into_iter().filter(read).collect::<Vec<_>>(), [""; 0], "no class is in both lists");
    }
}
