"""Ids of text as OpenAI's code makes them: ftfy, `text_standardize`, spaCy's English tokenizer, lower case, BPE.

    python tests/golden/openai_text.py                       makes train/text/tests/data/openai/cases.json
    python tests/golden/openai_text.py VOCAB MERGES FILE…    prints the ids of each file on a line

(Python 3.11 with spacy==3.8.18 and ftfy==6.3.1.) What `TextEncoder` in text_utils.py of finetune-transformer-lm does is written here
anew, each step by its definition. The fixture's vocabulary is that of tests/golden/tokenizer.py.
"""

import functools
import json
import pathlib
import re
import sys

import ftfy
import spacy

DATA = pathlib.Path(__file__).parents[2] / "train/text/tests/data"

CASES = [
    "",
    " \n ",
    "The lantern burned.",
    "Mira's lantern-light; \"it's late,\" he said... 1918/1945!",
    "Don't STOP\r\n\r\n  the boats —– now…\n\n",
    "“It’s late,” he said; ‘but the lights must burn.’",
    "cafÃ© Ã‰lise crÃ¨me &amp; brÃ»lÃ©e &lt;b&gt;",
    "<p>the &amp; harbour</p>\nthe &amp; harbour",
    "the &amp; harbour\n<p>the &amp; harbour",
    "ﬁve ﬂags Ｆｕｌｌ width \x1b[31mred\x1b[0m \x00 nul \x07 bell",
    "Mr. Darcy (Dr. Watson) left at 10am; U.S. $5.00, 50% :-) http://a.bc/d a@b.cd",
    "line\u2028sep para\u2029sep next\x85line vertical\x0btab form\x0cfeed",
    "non\u00a0breaking thin\u2009space ideographic\u3000space zero\u200bwidth soft\u00adhyphen",
    "a\\b c\\\\d ++ +- -- ---- ~~ !? ?! ;;, )( () [] {} || __ /*x*/",
    "´ ` ' ’ ― — – -",
    "straße ΩΜΕΓΑ Дом İstanbul ΟΔΟΣ 東京",
    "I've we'll they'd can't won't shouldn't've o'clock 'tis y'all",
    "word</w>word \n</w> <unk>",
    "the\n\nlantern\n\n\n\nburned\n",
    "x" * 100 + "\n" + "the" * 30,
]


def standardize(text):
    for old, new in [("—", "-"), ("–", "-"), ("―", "-"), ("…", "..."), ("´", "'")]:
        text = text.replace(old, new)
    # The marks of the original's pattern, which is no raw string: no backslash among them.
    runs = "|".join(re.escape(mark) + "+" for mark in '-~!";?+,)(/*[]}{|_')
    text = re.sub(f"({runs})", r" \1 ", text)
    text = re.sub(r"\s*\n\s*", " \n ", text)
    return re.sub(r"[^\S\n]+", " ", text).strip()


class Encoder:
    def __init__(self, ids, merges):
        self.ids = ids
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        nlp = spacy.blank("en")
        nlp.max_length = 1 << 40
        self.tokens = lambda text: [token.text for token in nlp.tokenizer(text)]

    @functools.cache
    def bpe(self, token):
        symbols = [*token[:-1], token[-1] + "</w>"]
        while len(symbols) > 1:
            pair = min(zip(symbols, symbols[1:]), key=lambda pair: self.ranks.get(pair, float("inf")))
            if pair not in self.ranks:
                break
            merged, i = [], 0
            while i < len(symbols):
                whole = tuple(symbols[i : i + 2]) == pair
                merged.append("".join(pair) if whole else symbols[i])
                i += 2 if whole else 1
            symbols = merged
        joined = " ".join(symbols)
        # As the original: a blank among the symbols makes empty ones, but for that behind a line end.
        return ["\n</w>"] if joined == "\n  </w>" else joined.split(" ")

    def encode(self, text):
        tokens = self.tokens(standardize(ftfy.fix_text(text)))
        return [self.ids.get(symbol, 0) for token in tokens for symbol in self.bpe(token.lower())]


def fixture():
    model = json.loads((DATA / "tokenizer/tokenizer.json").read_text())["model"]
    ids = model["vocab"]
    encoder = Encoder(ids, [tuple(merge) for merge in model["merges"]])
    cases = [{"text": text, "ids": encoder.encode(text)} for text in CASES]
    (DATA / "openai").mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(case) for case in cases)
    (DATA / "openai/cases.json").write_text(f"[\n{lines}\n]\n")


def main():
    if len(sys.argv) < 2:
        return fixture()
    vocabulary, merges, *files = sys.argv[1:]
    lines = pathlib.Path(merges).read_text(encoding="utf-8").split("\n")[1:]
    encoder = Encoder(json.loads(pathlib.Path(vocabulary).read_text(encoding="utf-8")), [tuple(line.split()) for line in lines if line])
    for file in files:
        with open(file, encoding="utf-8", newline="") as text:
            print(*encoder.encode(text.read()))


if __name__ == "__main__":
    main()
