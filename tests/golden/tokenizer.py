"""Makes the tokenizer fixtures of train/text/tests/data/tokenizer with Hugging Face's own code.

    python tests/golden/tokenizer.py        (in the environment of README.md; torch is not needed)

A small vocabulary is learned here by the definition (count all pairs, merge the commonest, ties to the smaller ids), in the
layout of GPT-1. `OpenAIGPTTokenizer` of transformers 5 then writes it, with specials, and encodes and decodes the cases.
`every_character.txt` pins the word-splitting of every character of Unicode.
"""

import hashlib
import json
import pathlib
from collections import Counter

from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from transformers import OpenAIGPTTokenizer

OUT = pathlib.Path(__file__).parents[2] / "train/text/tests/data/tokenizer"

CORPUS = """
Mira carried the red lantern to the harbour, because the old keeper had asked her to. "It's late," he said; "but the
lights must burn." The boats were coming home: seven of them, slow and low in the water, and the wind was rising. She
lifted the lantern, and waited. Nobody spoke. At last the first boat turned its head to the light, then the second, then
all the others! 'There,' said the keeper, 'that is the whole of the work: to be here, and to be seen.' In 1918, in 1945
and again in 1953 the light had failed. It would not fail tonight? No -- it would not. Mira laughed, and the keeper
laughed too, and the lantern burned until the morning. The children of the harbour came down to see the boats. They
counted them: one, two, three, four, five, six, seven. The largest was called the Élise; the smallest, the Wren.
Crème brûlée was eaten. Ωmega and ωmega, straße, Дом и дом, 東京 and 東. The cost: £7.50 (or €8.20) -- about 60%.
"""

CASES = [
    "",
    " ",
    "\n\t\r\n",
    "the lantern",
    "The LANTERN burned.",
    "Mira's lantern-light; \"it's late,\" he said... 1918/1945!",
    "  two  spaces\nand\r\nline ends\tand tabs  ",
    "café Élise crème brûlée naïve Ångström",
    "cafe\u0301 E\u0301lise (combining marks)",
    "straße STRASSE ΩΜΕΓΑ Дом ДОМ İstanbul ıi ﬁ",
    "東京 is 東 and 京; mixed東with京words",
    "豈 更 (compatibility ideographs) 𠀀𪜀𫝀𫠠",
    "한국어 ひらがな カタカナ ไทย हिन्दी عربى עברית",
    "emoji 😀 👩‍👩‍👧 🇫🇷 ☺️ end",
    "nul \x00 bell \x07 vertical\x0btab form\x0cfeed next\x85line del\x7f",
    "zero\u200bwidth soft\u00adhyphen bom\ufeff replacement\ufffd",
    "no-break\u00a0space thin\u2009space ideographic\u3000space line\u2028sep para\u2029sep",
    "“curly” ‘quotes’ — dash – dash … ¿que? ¡si! «non» ・ 。、",
    "≠ ≤ ∑ √ ± × ÷ ° § ¶ † ‡ • ™ © ® ½ ² ³",
    "`~!@#$%^&*()-_=+[]{}\\|;:'\",.<>/?",
    "private \uf04a \ue000 \uf8ff use",
    "; \u1fef \u2126 \u212a \u212b \u0344 \u0958",
    "\u0903a \u0301\u0327b c\u0327\u0301\u0903d e\u0903\u0301",
    "<unk>",
    "a<unk>b <UNK> < unk >",
    "<start>the lantern<delimiter>the harbour<extract>",
    "<start> the lantern <extract>",
    "<START>the <start",
    "<start><start>",
    "word</w>word </w>",
    "Frobnicate the frobnicated FROBNICATE",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa thethethethe",
    "x" * 200,
    "the\u0301lantern the\u200bharbour",
    "#version: 0.2",
]


def words_of(text):
    text = BertNormalizer(lowercase=True).normalize_str(text)
    return [word for word, _ in BertPreTokenizer().pre_tokenize_str(text)]


def learn(words, merges):
    """GPT-1's layout: <unk>, characters, characters with </w>, merges by rank."""
    characters = sorted({c for word in words for c in word})
    tokens = ["<unk>", *characters, *(c + "</w>" for c in characters)]
    ids = {token: i for i, token in enumerate(tokens)}
    spelled = [([*word[:-1], word[-1] + "</w>"], n) for word, n in words.items()]
    learned = []
    for _ in range(merges):
        pairs = Counter()
        for symbols, n in spelled:
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] += n
        pair = max(pairs, key=lambda p: (pairs[p], -ids[p[0]], -ids[p[1]]))
        assert pairs[pair] >= 2, "the corpus is too small for so many merges"
        learned.append(pair)
        ids.setdefault("".join(pair), len(ids))
        for symbols, _ in spelled:
            i = 0
            while i + 1 < len(symbols):
                if (symbols[i], symbols[i + 1]) == pair:
                    symbols[i : i + 2] = ["".join(pair)]
                i += 1
    return ids, learned


def every_character():
    """What each character becomes between two letters, for all of Unicode: a digest for every 4,096 of them."""
    digests = []
    for block in range(0, 0x110000, 0x1000):
        codes = [code for code in range(block, block + 0x1000) if not 0xD800 <= code < 0xE000]
        lines = "".join(" ".join(words_of(f"a{chr(code)}b")) + "\n" for code in codes)
        digests.append(f"{block:06x} {hashlib.sha256(lines.encode()).hexdigest()[:16]}\n")
    return "".join(digests)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    vocab, merges = learn(Counter(words_of(CORPUS)), 90)
    tokenizer = OpenAIGPTTokenizer(vocab=vocab, merges=merges)
    tokenizer.add_special_tokens({"extra_special_tokens": ["<start>", "<delimiter>", "<extract>"]})
    tokenizer.add_tokens(["Frobnicate"])
    tokenizer.save_pretrained(OUT)
    cases = []
    for text in CASES:
        ids = tokenizer(text).input_ids
        decoded = tokenizer.decode(ids, clean_up_tokenization_spaces=False) if ids else ""
        cases.append({"text": text, "ids": ids, "decoded": decoded})
    dump = lambda value: json.dumps(value, ensure_ascii=True)
    lines = ",\n".join(dump(case) for case in cases)
    (OUT / "cases.json").write_text(f"[\n{lines}\n]\n")
    (OUT / "corpus.txt").write_text(CORPUS)
    (OUT / "every_character.txt").write_text(every_character())


if __name__ == "__main__":
    main()
