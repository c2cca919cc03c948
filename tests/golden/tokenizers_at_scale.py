"""Compares the ids of Gradus with those of `tokenizers`, line by line, and their speed on one thread.

    python tests/golden/tokenizers_at_scale.py GRADUS KIND FOLDER TEXT…

GRADUS is the program; KIND is `bert`, `gpt2` or `roberta`; FOLDER holds `tokenizer.json`, or the files that a published checkpoint has
without one (`vocab.txt`; `vocab.json` + `merges.txt`; `encoder.json` + `vocab.bpe`), of which the reference is made here. TEXT are files of
UTF-8, of which each line is encoded, with its blanks; and as many random lines are added as a tenth of them, of all Unicode, with specials
among them. The lines are given to Gradus in one file with a special token between them, by which the ids are cut apart again.
"""

import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers  # noqa: E402

SPECIALS = {
    "bert": ["[SEP]", "[PAD]", "[UNK]", "[CLS]", "[MASK]"],
    "gpt2": ["<|endoftext|>"],
    "roberta": ["</s>", "<s>", "<pad>", "<unk>", "<mask>"],
}


def reference(kind, folder):
    if (folder / "tokenizer.json").exists():
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer
    if kind == "bert":
        lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
        tokenizer = Tokenizer(models.WordPiece({line: i for i, line in enumerate(lines) if line}, unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece()
    else:
        names = ("encoder.json", "vocab.bpe") if (folder / "encoder.json").exists() else ("vocab.json", "merges.txt")
        vocab = json.loads((folder / names[0]).read_text(encoding="utf-8"))
        lines = (folder / names[1]).read_text(encoding="utf-8").split("\n")[1:]
        tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(line.split()) for line in lines if line]))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
    special = lambda name: AddedToken(name, lstrip=name == "<mask>", normalized=False, special=True)
    tokenizer.add_special_tokens([special(name) for name in SPECIALS[kind]])
    return tokenizer


def random_line(rng, others):
    """Characters of all planes, of crowded blocks, of ASCII, white space, and specials."""
    def character():
        which = rng.random()
        if which < 0.35:
            return chr(rng.randrange(0x20, 0x7F))
        if which < 0.5:
            return rng.choice(" \t\r\x0b\x0c\x1c\x85\xa0\u1680\u2003\u2028\u202f\u3000  ")
        if which < 0.55 and others:
            return rng.choice(others)
        if which < 0.6:
            return rng.choice(["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "½", "²", "Ⅷ", "一", "e\u0301", "👩\u200d👧"])
        code = rng.randrange(1, rng.choice([0x250, 0x600, 0x3000, 0x10000, 0x20000, 0x110000]))
        return "x" if 0xD800 <= code < 0xE000 or code == 0x0A else chr(code)

    return "".join(character() for _ in range(rng.randrange(1, 60)))


def ours(gradus, folder, separator, lines):
    """The ids of each line, and the seconds that encoding took."""
    with tempfile.TemporaryDirectory() as place:
        path = pathlib.Path(place) / "lines.txt"
        path.write_text(separator + separator.join(lines), encoding="utf-8", newline="")
        command = [gradus, "tokenizer", "encode", "--tokenizer", folder, "--file", path]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)
    seconds = float(re.search(r" in ([0-9.]+) s", done.stderr).group(1)) if " s (" in done.stderr else float("nan")
    return [int(number) for number in done.stdout.split()], seconds


def main():
    gradus, kind, folder, *files = sys.argv[1:]
    folder = pathlib.Path(folder)
    separator, *others = SPECIALS[kind]
    tokenizer = reference(kind, folder)
    lines = []
    for file in files:
        with open(file, encoding="utf-8", newline="") as text:
            lines += [line for line in text.read().split("\n") if separator not in line and "\0" not in line]
    real = len(lines)
    rng = random.Random(1)
    lines += [line for line in (random_line(rng, others) for _ in range(max(real // 10, 1000))) if separator not in line]
    size = sum(len(line.encode()) for line in lines)
    begin = time.perf_counter()
    theirs = tokenizer.encode_batch_fast(lines, add_special_tokens=False)
    seconds = time.perf_counter() - begin
    flat, our_seconds = ours(gradus, folder, separator, lines)
    end = tokenizer.token_to_id(separator)
    found, line = [], None
    for number in flat:
        if number == end:
            line = []
            found.append(line)
        else:
            line.append(number)
    assert len(found) == len(lines), (len(found), len(lines))
    different = [i for i, encoding in enumerate(theirs) if encoding.ids != found[i]]
    for i in different[:5]:
        print(f"line {i}: {lines[i]!r}\n  tokenizers {theirs[i].ids}\n  gradus     {found[i]}")
    tokens = sum(len(ids) for ids in found)
    print(f"{kind} from {folder.name}: {real} lines of text, {len(lines) - real} random ones, {size} bytes, {tokens} tokens: ", end="")
    print(f"{len(different)} lines differ; tokenizers {size / seconds / 1e6:.1f} MB/s, gradus {size / our_seconds / 1e6:.1f} MB/s")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
