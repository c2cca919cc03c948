"""Makes the fixtures of WordPiece and byte-level BPE with Hugging Face's own code.

    python tests/golden/relatives_tokenizers.py        (in the environment of README.md; torch is not needed)

Small vocabularies are made here from the corpus of tokenizer.py. `tokenizers` encodes and decodes the cases with each variant, in
`cases.json`, a case on a line; `transformers` 5 writes one directory of each kind. `every_character.txt` pins how each character of
Unicode is cut: by BERT's cased normaliser, and by GPT-2's pattern.
"""

import hashlib
import json
import pathlib
from collections import Counter

from tokenizer import CASES as GPT1_CASES
from tokenizer import CORPUS
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import BertTokenizer, GPT2Tokenizer, RobertaTokenizer

DATA = pathlib.Path(__file__).parents[2] / "train/text/tests/data"

CASES = [
    *GPT1_CASES,
    "It's I'm they've we'll you'd she's don't we're 'tis IT'S I'M 's 't'",
    "'s't're've'm'll'd 'S'T ''s '' s '",
    "   leading, trailing   ",
    "trailing newline\n",
    "a\n\nb\n \nc \n",
    "tab\there\t\ttwo  \t mixed \u00a0 nbsp\u00a0\u00a0x \u3000 y\u3000",
    "x\u2028y \u2029 z\x85w\x1cv\x1d \x1f",
    "½ ² Ⅷ 一 ๓ ٣٤ 𝟘𝟙 ⅷx 1½ a² ¼kg 12,345.67 3rd",
    "e\u0301a\u0300 n\u0303o \u0301 \u200d \u200b\u200c\ufeff",
    "👩\u200d👩\u200d👧\u200d👦 👍🏽 🏳️\u200d🌈 ☕️x 😀😀",
    "हिन्दी ไทย தமிழ் اَلْعَرَبِيَّةُ עִבְרִית 한국어 Tiếng Việt",
    "\x00\x01\x02 \x7f \x80\x9f \xad \ufffd \U0010ffff \ue000",
    "[CLS] the lantern [SEP] the [MASK] burned. [SEP][PAD][UNK]",
    "the[MASK]lantern [mask] [ MASK ] [CLS]",
    "<s>the lantern</s></s>the   <mask>  harbour<mask>\n<mask> \u3000<mask></s><pad><unk>",
    "<|endoftext|>the lantern<|endoftext|> the\n<|endoftext|>\n<|endoftext",
    "a" * 100 + " " + "a" * 101 + " " + "e\u0301" * 100,
    "lanterns harboured burning unlit keeperless",
    "#the ##ing # # ## a#b",
    "Ġthe ĊÃ« Ġ Ā ġ",
]


def cut_words(tokenizer):
    """The words of the corpus with their numbers, by a normaliser and a pre-tokenizer."""
    text = tokenizer.normalizer.normalize_str(CORPUS) if tokenizer.normalizer else CORPUS
    return Counter(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text))


def letters():
    """The visible letter of each byte, by its definition."""
    itself = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    shifted = [b for b in range(256) if b not in itself]
    return {**{b: chr(b) for b in itself}, **{b: chr(0x100 + n) for n, b in enumerate(shifted)}}


def wordpiece_vocabulary(words):
    """Specials, letters at the beginning and within, and common beginnings and ends of words."""
    specials = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    characters = sorted({c for word in words for c in word})
    pieces = Counter()
    for word, n in words.items():
        for i in range(2, len(word) + 1):
            pieces[word[:i]] += n
        for i in range(1, len(word) - 1):
            pieces["##" + word[i:]] += n
    common = [piece for piece, _ in sorted(pieces.items(), key=lambda item: (-item[1], item[0]))[:120]]
    return [*specials, *characters, *("##" + c for c in characters if c.isalpha()), *common]


def byte_merges(words, number):
    tokens = [letter for _, letter in sorted(letters().items())]
    spelled = [(list(word), n) for word, n in words.items()]
    merges = []
    for _ in range(number):
        pairs = Counter()
        for symbols, n in spelled:
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] += n
        pair = max(pairs, key=lambda p: (pairs[p], p))
        merges.append(pair)
        tokens.append("".join(pair))
        for symbols, _ in spelled:
            i = 0
            while i + 1 < len(symbols):
                if (symbols[i], symbols[i + 1]) == pair:
                    symbols[i : i + 2] = ["".join(pair)]
                i += 1
    return tokens, merges


def bert(vocab, specials, **options):
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(**options)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.add_special_tokens(specials)
    return tokenizer


def byte_level(vocab, merges, prefix, specials):
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(specials)
    return tokenizer


def write_cases(folder, variants):
    lines = []
    for text in CASES:
        case = {"text": text}
        for name, tokenizer in variants.items():
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            case[name] = {"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False)}
        lines.append(json.dumps(case))
    (folder / "cases.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


def every_character(pieces):
    digests = []
    for block in range(0, 0x110000, 0x1000):
        codes = [code for code in range(block, block + 0x1000) if not 0xD800 <= code < 0xE000]
        text = "".join("\0".join(pieces(chr(code))) + "\0" for code in codes)
        digests.append(f"{block:06x} {hashlib.sha256(text.encode()).hexdigest()[:16]}\n")
    return "".join(digests)


def wordpiece():
    folder = DATA / "wordpiece"
    folder.mkdir(parents=True, exist_ok=True)
    words = cut_words(bert({"[UNK]": 0}, [], lowercase=True)) + cut_words(bert({"[UNK]": 0}, [], lowercase=False))
    tokens = wordpiece_vocabulary(words)
    vocab = {token: i for i, token in enumerate(tokens)}
    assert len(vocab) == len(tokens)
    (folder / "vocab.txt").write_text("".join(token + "\n" for token in tokens), encoding="utf-8")
    written = BertTokenizer(vocab=vocab)
    written.add_tokens(["Frobnicate"])
    written.save_pretrained(folder)
    specials = [AddedToken(name, special=True, normalized=False) for name in ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]]
    write_cases(folder, {
        "written": written.backend_tokenizer,
        "uncased": bert(vocab, specials, lowercase=True),
        "cased": bert(vocab, specials, lowercase=False),
        "accents": bert(vocab, specials, lowercase=True, strip_accents=False),
        "ideographs": bert(vocab, specials, lowercase=False, handle_chinese_chars=False),
        "raw": bert(vocab, specials, clean_text=False, lowercase=False, strip_accents=True, handle_chinese_chars=False),
    })
    cased = bert(vocab, specials, lowercase=False)

    def pieces(c):
        text = cased.normalizer.normalize_str(f"A{c}b")
        return [word for word, _ in cased.pre_tokenizer.pre_tokenize_str(text)]

    (folder / "every_character.txt").write_text(every_character(pieces))


BACK = {letter: b for b, letter in letters().items()}


def bytes_of(letters_of_bytes):
    return bytes(BACK[c] for c in letters_of_bytes).decode()


def byte_bpe():
    folder = DATA / "byte_level"
    cutter = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words = Counter(word for word, _ in cutter.pre_tokenize_str(CORPUS + "  the   lantern\n\n\n"))
    tokens, merges = byte_merges(words, 120)
    gpt2 = {token: i for i, token in enumerate([*tokens, "<|endoftext|>"])}
    roberta_tokens = ["<s>", "<pad>", "</s>", "<unk>", *reversed(tokens), "<|endoftext|>", "madeupword0000", "<mask>"]
    roberta = {token: i for i, token in enumerate(roberta_tokens)}
    assert len(gpt2) == len(tokens) + 1 and len(roberta) == len(roberta_tokens)
    special = lambda name, **options: AddedToken(name, special=True, normalized=False, **options)
    end, mask = special("<|endoftext|>"), special("<mask>", lstrip=True)
    roberta_specials = [*map(special, ["<s>", "<pad>", "</s>", "<unk>"]), mask]
    for name, cls, vocab, options in [
        ("gpt2", GPT2Tokenizer, gpt2, {}),
        ("roberta", RobertaTokenizer, roberta, {"mask_token": mask, "add_prefix_space": True}),
    ]:
        (folder / name).mkdir(parents=True, exist_ok=True)
        cls(vocab=vocab, merges=merges, **options).save_pretrained(folder / name)
    write_cases(folder, {
        "gpt2": byte_level(gpt2, merges, False, [end]),
        "gpt2-prefix": byte_level(gpt2, merges, True, [end]),
        "roberta": byte_level(roberta, merges, True, roberta_specials),
        "roberta-no-prefix": byte_level(roberta, merges, False, roberta_specials),
    })

    def pieces(c):
        return [bytes_of(piece) for piece, _ in cutter.pre_tokenize_str(f"a{c}a1{c}1!{c}! {c} ")]

    (folder / "every_character.txt").write_text(every_character(pieces))


if __name__ == "__main__":
    wordpiece()
    byte_bpe()
