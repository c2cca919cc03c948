"""Writes the fixture of tokenizers as published models have them, with the ids of `transformers`.

    python tests/golden/published_tokenizers.py        (in the environment of README.md; torch is not needed)

A case is a directory of files and a text. AutoTokenizer reads the directory, and the case with its ids is written to
`train/text/tests/data/published/cases.json`. `"@name"` stands for a file that several cases share.

The model types of each tokenizer class are written to `train/text/src/files/models.txt`.
"""

import json
import os
import pathlib
import tempfile
from collections import defaultdict

os.environ["HF_HUB_OFFLINE"] = "1"

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer
from transformers.models.auto.tokenization_auto import MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS, TOKENIZER_MAPPING_NAMES

ROOT = pathlib.Path(__file__).parents[2]
OUT = ROOT / "train/text/tests/data/published/cases.json"
MODELS = ROOT / "train/text/src/files/models.txt"

ITSELF = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
SHIFTED = [b for b in range(256) if b not in ITSELF]
LETTERS = {**{b: chr(b) for b in ITSELF}, **{b: chr(0x100 + n) for n, b in enumerate(SHIFTED)}}
MERGES = [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("i", "n"), ("in", "g"), ("Ġ", "k"), ("Ġk", "ing"), ("t", "he")]
END = "<|endoftext|>"
ROBERTAS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
BERTS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [
    *BERTS, "the", "The", "king", "##s", "café", "cafe", "Café", "Cafe", "lantern", "##ing", "b", "##u", "##r", "##n", "##ed",
    "日", "本", "日本", "##本", "ß", "ü", "u", ".", "<", ">", "<unk>", "|", "start", "unk",
]
JAPANESE = [
    *BERTS, "日", "本", "語", "が", "日本", "##語", "##が", "a", "##b", "b", ".", "日本語", "##、", "、", "ガ", "か", "##\u3099", "A",
    "abc", "ABC", "ハ", "ン",
]
GPT = ["<unk>", *"abcdefghijklmnopqrstuvwxyz", *(c + "</w>" for c in "abcdefghijklmnopqrstuvwxyz."), "th", "the</w>"]


def numbered(tokens):
    return {token: i for i, token in enumerate(tokens)}


def lines(tokens):
    return "".join(token + "\n" for token in tokens)


def bytes_vocab(extra=(), without=""):
    kept = [LETTERS[b] for b in range(256) if LETTERS[b] not in without]
    return numbered([*kept, *(a + b for a, b in MERGES), *extra])


MERGES_TXT = "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in MERGES)
GPT_MERGES = "#version: 0.2\nt h\nth e</w>\n"
SHARED = {
    "gpt2": bytes_vocab([END]),
    "bare": bytes_vocab(),
    "roberta": bytes_vocab(ROBERTAS),
    "merges": MERGES_TXT,
    "words": lines(WORDS),
    "gpt": numbered(GPT),
    "gpt-merges": GPT_MERGES,
}
CASES = {}


def case(name, text, files, **config):
    """Adds a case with these options in tokenizer_config.json."""
    assert name not in CASES, name
    if config:
        files = {**files, "tokenizer_config.json": config}
    CASES[name] = {"files": files, "text": text}


def finish(tokenizer, decoder, added):
    if decoder:
        tokenizer.decoder = decoder
    for token in added:
        (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
    return {"tokenizer.json": json.loads(tokenizer.to_str())}


def pieces(normalizer=None, added=(), decoder=None):
    tokenizer = Tokenizer(models.WordPiece(numbered(WORDS), unk_token="[UNK]"))
    tokenizer.normalizer = normalizer or normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return finish(tokenizer, decoder or decoders.WordPiece(prefix="##"), added)


def byte_level(extra=(), prefix=False, without="", added=(), normalizer=None, pre=None, decoder=True, **model):
    tokenizer = Tokenizer(models.BPE(vocab=bytes_vocab(extra, without), merges=MERGES, **model))
    tokenizer.pre_tokenizer = pre or pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    if normalizer:
        tokenizer.normalizer = normalizer
    return finish(tokenizer, decoders.ByteLevel() if decoder else None, added)


def special(content, **flags):
    return AddedToken(content, special=True, **flags)


def flagged(content, **flags):
    """Returns a token with its flags as configuration files write it."""
    return {"content": content, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False, **flags}


# Added tokens, wherever a release or a person has put them.
TEXT = "<|startoftext|> the king<|pad|> the<|endoftext|> kings  <x> y <mask> the"
gpt2 = {"vocab.json": "@gpt2", "merges.txt": "@merges"}
GPT2 = {"tokenizer_class": "GPT2Tokenizer"}
case("gpt2", TEXT, gpt2, **GPT2)
case("gpt2 without its special", TEXT, {**gpt2, "vocab.json": "@bare"}, **GPT2)
case("added_tokens.json", TEXT, {**gpt2, "added_tokens.json": {"<|startoftext|>": 265, "<|pad|>": 266}}, **GPT2)
case("added_tokens.json in another order", TEXT, {**gpt2, "added_tokens.json": {"<|startoftext|>": 266, "<|pad|>": 265}}, **GPT2)
of_map = {"pad_token": "<|pad|>", "bos_token": flagged("<|startoftext|>", rstrip=True)}
case("special_tokens_map.json", TEXT, {**gpt2, "special_tokens_map.json": of_map}, **GPT2)
both = {"added_tokens.json": {"<|pad|>": 265}, "special_tokens_map.json": {"pad_token": "<|pad|>"}}
case("added and special", TEXT, {**gpt2, **both}, **GPT2)
case("extra_special_tokens", TEXT, gpt2, extra_special_tokens=["<|pad|>", "<|startoftext|>"], **GPT2)
case("extra_special_tokens by role", TEXT, gpt2, extra_special_tokens={"image_token": "<x>"}, **GPT2)
case("a role of its own", TEXT, gpt2, image_token="<x>", **GPT2)
case("additional_special_tokens", TEXT, gpt2, additional_special_tokens=["<|pad|>", "<x>"], **GPT2)
case("additional in the map", TEXT, {**gpt2, "special_tokens_map.json": {"additional_special_tokens": ["<|pad|>", "<x>"]}}, **GPT2)
case("extra before additional", TEXT, gpt2, additional_special_tokens=["<|pad|>"], extra_special_tokens=["<x>"], **GPT2)
written = {"__type": "AddedToken", **flagged("<x>", lstrip=True, rstrip=True)}
case("additional with flags", TEXT, gpt2, additional_special_tokens=[written], **GPT2)
case("added_tokens_decoder", TEXT, gpt2, added_tokens_decoder={"265": flagged("<x>", lstrip=True, rstrip=True, special=True)}, **GPT2)
two = {"266": {"content": "<x>", "special": True}, "265": {"content": "<|pad|>", "special": False}}
case("added_tokens_decoder in another order", TEXT, gpt2, added_tokens_decoder=two, **GPT2)
one = {"265": {"content": "<x>", "special": True}}
case("added_tokens_decoder before older files", TEXT, {**gpt2, **both}, added_tokens_decoder=one, **GPT2)
listed = [special(END), special("<x>")]
later = {"266": {"content": "<|pad|>", "special": True}}
fast = {"tokenizer_class": "PreTrainedTokenizerFast"}
case("added_tokens_decoder beside tokenizer.json", TEXT, byte_level([END], added=listed), added_tokens_decoder=later, **fast)
roles = {"pad_token": "<|pad|>", "additional_special_tokens": ["<mask>"]}
older = {"added_tokens.json": {"<|startoftext|>": 266}}
case("roles beside tokenizer.json", TEXT, {**byte_level([END], added=listed), **older}, **roles, **fast)
case("tokenizer.json by its class", TEXT, byte_level([END], added=[*listed, AddedToken("<|pad|>", special=False)]), **GPT2)

# Options beside tokenizer.json, which decide, and without a class, which do not.
case("add_prefix_space by its class", TEXT, byte_level([END], added=listed), add_prefix_space=True, **GPT2)
case("no add_prefix_space by its class", TEXT, byte_level([END], prefix=True, added=listed), **GPT2)
case("add_prefix_space without a class", TEXT, byte_level([END], prefix=True, added=listed), **fast)
BERT_TEXT = "The Café [MASK] kings 日本 [cls] ü <unk> zzz lanterning burned. <x>"
BERT = {"tokenizer_class": "BertTokenizer"}
for name, value in [
    ("do_lower_case", False),
    ("strip_accents", False),
    ("strip_accents", True),
    ("tokenize_chinese_chars", False),
    ("unk_token", "<unk>"),
    ("mask_token", "<x>"),
]:
    case(f"{name} {value}", BERT_TEXT, pieces(), **{name: value}, **BERT)
    case(f"{name} {value} beside vocab.txt", BERT_TEXT, {"vocab.txt": "@words"}, **{name: value}, **BERT)
cased = normalizers.BertNormalizer(lowercase=False)
case("a cased file by an uncased class", BERT_TEXT, pieces(cased), **BERT)
case("a cased file without a class", BERT_TEXT, pieces(cased), do_lower_case=True)
case("a cased file by PreTrainedTokenizerFast", BERT_TEXT, pieces(cased), do_lower_case=True, **fast)

# Classes of the same kind, and such as `transformers` does not have.
for name in ["BertTokenizerFast", "DistilBertTokenizer", "ElectraTokenizerFast", "LayoutLMTokenizer", "MPNetTokenizer"]:
    case(name, BERT_TEXT, {"vocab.txt": "@words"}, tokenizer_class=name, do_lower_case=False)
    case(f"{name} beside tokenizer.json", BERT_TEXT, pieces(), tokenizer_class=name, do_lower_case=False)
for name in ["TokenizersBackend", "PreTrainedTokenizer", "OurOwnTokenizer"]:
    case(name, BERT_TEXT, pieces(), tokenizer_class=name, do_lower_case=False)
ROBERTA_TEXT = "<s>the  <mask> king</s> <pad><unk>x <mask>"
roberta = {"vocab.json": "@roberta", "merges.txt": "@merges"}
for name in ["RobertaTokenizer", "BartTokenizer", "LongformerTokenizerFast", "BlenderbotTokenizer"]:
    case(name, ROBERTA_TEXT, roberta, tokenizer_class=name)
    for prefix in [False, True]:
        case(f"{name} {prefix}", ROBERTA_TEXT, roberta, tokenizer_class=name, add_prefix_space=prefix)
    left = [special("<s>"), special("<mask>", lstrip=True)]
    case(f"{name} beside tokenizer.json", ROBERTA_TEXT, byte_level(ROBERTAS, added=left), tokenizer_class=name)
deberta = {"vocab.json": bytes_vocab(BERTS), "merges.txt": "@merges"}
case("DebertaTokenizer", "[CLS]the  [MASK] king[SEP]", deberta, tokenizer_class="DebertaTokenizer")
JAPANESE_TEXT = "日本語が b日本語、がABC ﾊﾝｶｸ ガ が <unk>[MASK]日本"
japanese = {"vocab.txt": lines(JAPANESE)}
case("BertJapaneseTokenizer", JAPANESE_TEXT, japanese, tokenizer_class="BertJapaneseTokenizer")
for kind in ["wordpiece", "character"]:
    for lower in [False, True]:
        options = {"word_tokenizer_type": "basic", "subword_tokenizer_type": kind, "do_lower_case": lower}
        case(f"Japanese {kind} {lower}", JAPANESE_TEXT, japanese, tokenizer_class="BertJapaneseTokenizer", **options)
GPT_TEXT = "The café the. Ü <unk> [UNK]1"
gpt = {"vocab.json": "@gpt", "merges.txt": "@gpt-merges"}
case("OpenAIGPTTokenizer", GPT_TEXT, gpt, tokenizer_class="OpenAIGPTTokenizer")
other = {**gpt, "vocab.json": numbered(["[UNK]", *GPT[1:]])}
case("OpenAIGPTTokenizer with another unk_token", GPT_TEXT, other, tokenizer_class="OpenAIGPTTokenizer", unk_token="[UNK]")
herbert = {**gpt, "vocab.json": numbered([*GPT, "<s>", "</s>", "<pad>", "<mask>", "T", "T</w>"])}
case("HerbertTokenizer", "The café the. Ü <unk><mask> T", herbert, tokenizer_class="HerbertTokenizer")

# Normalizers.
for name, normalizer in {
    "NFC": normalizers.NFC(),
    "NFKC": normalizers.NFKC(),
    "Lowercase": normalizers.Lowercase(),
    "StripAccents": normalizers.StripAccents(),
    "without accents": normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()]),
    "a sequence of one": normalizers.Sequence([cased]),
    "composed first": normalizers.Sequence([normalizers.NFC(), normalizers.BertNormalizer(lowercase=True)]),
}.items():
    text = " The  Cafe\u0301 Café kings ﬁ ① İ.\n"
    case(f"{name}, words", text, pieces(normalizer))
    case(f"{name}, bytes", text, byte_level(normalizer=normalizer))
case("NFC and a blank", "The  Cafe\u0301 the", byte_level(normalizer=normalizers.NFC(), prefix=True))

# Byte-level BPE.
case("bytes without a token", "the xyking thxe  xyx", byte_level(without="xy"))
case("bytes without a token by a class", "the xyking thxe", {**gpt2, "vocab.json": bytes_vocab([END], "xy")}, **GPT2)
case("unk_token", "the xyking thxe  xyx", byte_level(["<unk>"], without="xy", unk_token="<unk>"))
case("fuse_unk", "the xyking thxe  xyx", byte_level(["<unk>"], without="xy", unk_token="<unk>", fuse_unk=True))
case("ignore_merges", "the king kings kin", byte_level(["kin", "Ġkings"], ignore_merges=True))
case("no decoder", "the king", byte_level(decoder=False))
sequence = pre_tokenizers.Sequence([pre_tokenizers.ByteLevel(add_prefix_space=False)])
case("a pre-tokenizer in a sequence", "the king", byte_level(pre=sequence))

# Flags of added tokens.
FLAGS = "<x> a<x>b  <x>  c <x><x> _<x>_ é<x> <x>é '<x>' \n<x>\n"
for flags in [
    {"single_word": True},
    {"rstrip": True},
    {"lstrip": True},
    {"lstrip": True, "rstrip": True},
    {"single_word": True, "lstrip": True, "rstrip": True},
    {"normalized": True},
    {"special": False},
    {"special": False, "normalized": True, "single_word": True},
]:
    name = " and ".join(f"{flag} {value}" for flag, value in flags.items())
    token = [AddedToken("<x>", **{"special": True, **flags})]
    case(f"{name}, words", FLAGS, pieces(added=token))
    case(f"{name}, bytes", FLAGS, byte_level(added=token))

# Lines of vocab.txt, and ids that no token has.
behind = ["  \t", "\u3000", ""]
for name, text in {
    "white space behind tokens": "".join(f"{word}{behind[i % 3]}\n" for i, word in enumerate(WORDS)),
    "white space before a token": lines([" king" if word == "king" else word for word in WORDS]),
    "a blank last line": lines([*WORDS, ""]),
    "blank lines": lines([*WORDS[:7], "", *WORDS[7:], "", ""]),
    "tokens twice": lines([*WORDS, "king", "the"]),
    "carriage returns": "".join(word + "\r\n" for word in WORDS),
    "no last line end": lines(WORDS)[:-1],
}.items():
    case(name, BERT_TEXT, {"vocab.txt": text}, **BERT)
case("a blank last line and a token more", BERT_TEXT, {"vocab.txt": lines([*WORDS, ""])}, additional_special_tokens=["<x>"], **BERT)
holes = {token: i if i < 250 else i + 5 for token, i in bytes_vocab([END]).items()}
case("holes", TEXT, {**gpt2, "vocab.json": holes}, **GPT2)


# The class of config.json, and of its model type.
for model in ["bert", "ernie", "distilbert", "", "of our own"]:
    case(f"a cased file of a model {model!r}", BERT_TEXT, {**pieces(cased), "config.json": {"model_type": model}})
    case(f"vocab.txt of a model {model!r}", BERT_TEXT, {"vocab.txt": "@words", "config.json": {"model_type": model}}, **BERT)
roberta_model = {"config.json": {"model_type": "roberta"}}
for model in ["roberta", "bart", "gpt2"]:
    case(f"a pair of a model {model!r}", ROBERTA_TEXT, {**roberta, "config.json": {"model_type": model}})
case("bytes of a model", ROBERTA_TEXT, {**byte_level(ROBERTAS, prefix=True), **roberta_model})
case("bytes of a model by PreTrainedTokenizerFast", ROBERTA_TEXT, {**byte_level(ROBERTAS, prefix=True), **roberta_model}, **fast)
case("another class than the model's", BERT_TEXT, {**pieces(cased), **roberta_model}, **BERT)
case("a model without a class of its own", BERT_TEXT, {**pieces(cased), "config.json": {"model_type": "modernbert"}}, **BERT)
of_config = {"model_type": "bert", "tokenizer_class": "BertJapaneseTokenizer"}
options = {"word_tokenizer_type": "basic", "subword_tokenizer_type": "character"}
case("the class of config.json", JAPANESE_TEXT, {**japanese, "config.json": of_config}, **options)
of_config = {"model_type": "bert", "tokenizer_class": "GPT2Tokenizer"}
case("the class before the class of config.json", BERT_TEXT, {"vocab.txt": "@words", "config.json": of_config}, **BERT)
case("numbers as Python writes them", BERT_TEXT, {**pieces(cased), "config.json": '{"model_type": "bert", "max": Infinity}'})
case("bytes by LlamaTokenizer", TEXT, byte_level([END], added=listed), tokenizer_class="LlamaTokenizerFast")

# The order of roles, and null.
case("roles in the file's order", TEXT, gpt2, z_token="<|pad|>", a_token="<x>", **GPT2)
case("roles in the other order", TEXT, gpt2, a_token="<x>", z_token="<|pad|>", **GPT2)
case("extra roles in the file's order", TEXT, gpt2, extra_special_tokens={"z_token": "<|pad|>", "a_token": "<x>"}, **GPT2)
case("a role without an ending", TEXT, gpt2, extra_special_tokens={"image": "<|pad|>"}, **GPT2)
case("roles before extra ones", TEXT, gpt2, extra_special_tokens=["<|pad|>"], a_token="<x>", **GPT2)
case("roles that transformers writes", TEXT, gpt2, model_specific_special_tokens={"z_token": "<|pad|>", "a_token": "<x>"}, **GPT2)
case("mask_token null", BERT_TEXT, {"vocab.txt": "@words"}, mask_token=None, **BERT)
none = dict(bos_token=None, eos_token=None, unk_token=None)
case("no special token", TEXT, gpt2, **none, **GPT2)
null_of_map = {**gpt2, "special_tokens_map.json": {"pad_token": None, "bos_token": None}}
case("null in the map", TEXT, null_of_map, pad_token="<x>", **GPT2)
case("a role in both files", TEXT, {**gpt2, "special_tokens_map.json": {"pad_token": "<x>"}}, pad_token="<|pad|>", **GPT2)
case("a role of its own in the map", TEXT, {**gpt2, "special_tokens_map.json": {"image_token": "<x>"}}, **GPT2)
with_flags = {"image_token": flagged("<x>", lstrip=True)}
case("a role of its own with flags in the map", TEXT, {**gpt2, "special_tokens_map.json": with_flags}, **GPT2)
case("a role of its own without a type", TEXT, gpt2, **with_flags, **GPT2)
typed = {"image_token": {"__type": "AddedToken", **with_flags["image_token"]}, "a_token": "<|pad|>"}
case("a role of its own with a type", TEXT, gpt2, **typed, **GPT2)

usual = {"sep_token": "<x>", "eos_token": "<|pad|>", "i_token": "<mask>"}
case("usual roles in an object", TEXT, gpt2, extra_special_tokens=usual, **GPT2)
case("usual roles beside others in an object", TEXT, gpt2, additional_special_tokens=usual, a_token="y", **GPT2)
control = {**gpt, "vocab.json": numbered([*GPT, "<s>", "[CLS]"])}
case("OpenAIGPTTokenizer with control tokens", GPT_TEXT, control, tokenizer_class="OpenAIGPTTokenizer")

# Which of the lists counts.
of_list = {"special_tokens_map.json": {"additional_special_tokens": ["<x>"]}}
for name, value in [("extra", ["<|pad|>"]), ("extra", []), ("extra", {}), ("extra", {"i_token": "<|pad|>"}), ("additional", ["<|pad|>"])]:
    case(f"{name} {value} before the map's", TEXT, {**gpt2, **of_list}, **{f"{name}_special_tokens": value}, **GPT2)
of_list = {"special_tokens_map.json": {"extra_special_tokens": ["<x>", "<|pad|>"]}}
case("extra of both files", TEXT, {**gpt2, **of_list}, extra_special_tokens=["<|pad|>"], **GPT2)
case("additional and the map's extra", TEXT, {**gpt2, **of_list}, additional_special_tokens=["<|pad|>"], **GPT2)
by_role = {"special_tokens_map.json": {"extra_special_tokens": {"i_token": "<x>"}}}
case("an object in the map", TEXT, {**gpt2, **by_role}, extra_special_tokens=["<|pad|>"], **GPT2)
case("an empty extra and additional", TEXT, gpt2, extra_special_tokens={}, additional_special_tokens=["<x>"], **GPT2)

# Tokens that are added again, with other options.
again = {**flagged("<x>", lstrip=True, rstrip=True), "special": True}
for name in ["PreTrainedTokenizerFast", "GPT2Tokenizer"]:
    files = byte_level([END], added=[special(END), special("<x>")])
    case(f"other options by {name}", TEXT, files, tokenizer_class=name, added_tokens_decoder={"265": again})
case("a token that is not special any more", FLAGS, pieces(added=[special("<x>")]), added_tokens_decoder={"34": {"content": "<x>", "normalized": True}}, **fast)
case("an older file beside tokenizer.json", TEXT, {**byte_level([END], added=listed), "added_tokens.json": {"<x>": 265}}, **fast)
case("special by the map", TEXT, {**gpt2, "added_tokens.json": {"<X>": 265}, "special_tokens_map.json": {"pad_token": "<X>"}}, **GPT2)
split = [special("<x>"), AddedToken("<|pad|>", special=False), special("<x> y")]
case("split_special_tokens", TEXT, gpt2, split_special_tokens=True, **GPT2)
case("split_special_tokens beside tokenizer.json", TEXT, byte_level([END], added=split), split_special_tokens=True, **fast)

# Ids in vocabularies with unused ones.
case("the next id with holes", TEXT, {**gpt2, "vocab.json": holes}, extra_special_tokens=["<x>", "<|pad|>"], **GPT2)
case("the next id with tokens twice", BERT_TEXT, {"vocab.txt": lines([*WORDS, "king", "the"])}, extra_special_tokens=["<x>"], **BERT)
blank = lines([*WORDS[:7], "", *WORDS[7:], "", ""])
case("the next id with blank lines", BERT_TEXT, {"vocab.txt": blank}, extra_special_tokens=["<x>"], **BERT)
case("the next id with a blank line", BERT_TEXT, {"vocab.txt": lines([*WORDS[:7], "", *WORDS[7:]])}, extra_special_tokens=["<x>"], **BERT)

# White space of two tokens.
case("white space of two tokens", "a<x>    b  c", byte_level(added=[special("<x>", rstrip=True), special("  ")]))

# BertJapaneseTokenizer.
def of_japan(name, text, words=JAPANESE, **options):
    for kind in ["wordpiece", "character"]:
        files = {"vocab.txt": words if isinstance(words, str) else lines(words)}
        options = {"tokenizer_class": "BertJapaneseTokenizer", "subword_tokenizer_type": kind, **options}
        case(f"{name}, {kind}", text, files, **options)


of_japan("a carriage return ends a line", JAPANESE_TEXT, lines(JAPANESE).replace("\n", "\r"))
of_japan("white space behind a token", JAPANESE_TEXT, lines(["語 " if word == "語" else word for word in JAPANESE]))
of_japan("the end of a word", "ΑΣ Σ ΣΑΣ αΣ.", [*JAPANESE, "α", "σ", "ς", "##σ", "##ς", "ας", "σα", "##α"], do_lower_case=True)
decoder = {str(len(JAPANESE)): {"content": "<X>", "special": False}}
of_japan("raw text", "日<X>本 <x> <X>語[MASK] ABC", do_lower_case=True, added_tokens_decoder=decoder)
of_japan("any id", "日<X>本 <x>語", added_tokens_decoder={"40": decoder[str(len(JAPANESE))]}, extra_special_tokens=["<x>"])
of_japan("extra", "日<X>本 <x>語", [*JAPANESE, "語"], extra_special_tokens=["<x>", "<X>"])


def ids(files, text):
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            content = SHARED[content[1:]] if isinstance(content, str) and content.startswith("@") else content
            content = content if isinstance(content, str) else json.dumps(content)
            pathlib.Path(folder, name).write_text(content, encoding="utf-8", newline="")
        return AutoTokenizer.from_pretrained(folder)(text, add_special_tokens=False)["input_ids"]


def model_types():
    """Returns the model types of each tokenizer class, a line per class. `!`: no other class counts."""
    types = defaultdict(list)
    for name, tokenizer in TOKENIZER_MAPPING_NAMES.items():
        tokenizer = (tokenizer or "SentencePieceBackend").removesuffix("Fast")
        is_alone = name in MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS and tokenizer != "TokenizersBackend"
        types[tokenizer].append(name + "!" * is_alone)
    return "".join(f"{tokenizer}: {' '.join(sorted(names))}\n" for tokenizer, names in sorted(types.items()))


def main():
    MODELS.write_text(model_types())
    OUT.parent.mkdir(parents=True, exist_ok=True)
    for case in CASES.values():
        case["ids"] = ids(**case)
        # The order of a configuration's fields counts, so it is kept as text where it is not the alphabet's.
        for name, content in case["files"].items():
            is_config = name in ["tokenizer_config.json", "special_tokens_map.json"]
            if is_config and json.dumps(content) != json.dumps(content, sort_keys=True):
                case["files"] = {**case["files"], name: json.dumps(content)}
    entries = lambda of: ",\n".join(f"{json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}" for name, value in of.items())
    OUT.write_text(f'{{"shared": {{\n{entries(SHARED)}\n}},\n"cases": {{\n{entries(CASES)}\n}}}}\n')


if __name__ == "__main__":
    main()
