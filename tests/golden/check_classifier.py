#!/usr/bin/env python3
"""Opens a fine-tuned classifier that Gradus wrote with `transformers` and compares its logits, in f64.

    python check_classifier.py DIR ROWS.jsonl [--no-tokenizer]

A line of ROWS is one sequence: {"ids": [start, …, extract], "logits": [one per class]}, as Gradus computed it.
OpenAIGPTForSequenceClassification gets each row alone and, if config.json has a `pad_token_id`, all of them as one
batch padded on the right; the worst difference is printed as JSON. Exits with 1 if that is above 1e-4, if a weight is
missing, left over or of the wrong shape, if the number of classes differs, or if the tokenizer does not fit: each row
must begin with its `<start>` and have its first `<extract>` at the end.
"""

import argparse
import json
import sys
from pathlib import Path

import torch
import transformers
from transformers import AutoTokenizer, OpenAIGPTForSequenceClassification

TOLERANCE = 1e-4


def read_rows(path: Path, model: OpenAIGPTForSequenceClassification) -> list[dict]:
    """The rows, each checked against the model's sizes."""
    config, rows = model.config, []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        row = json.loads(line)
        ids, logits = row["ids"], row["logits"]
        if not 1 <= len(ids) <= config.n_positions:
            sys.exit(f"{path}: line {number}: {len(ids)} ids, expected 1 to {config.n_positions} (the context)")
        if not 0 <= min(ids) <= max(ids) < config.vocab_size:
            sys.exit(f"{path}: line {number}: ids from {min(ids)} to {max(ids)}, expected 0 to {config.vocab_size - 1}")
        if len(logits) != config.num_labels:
            sys.exit(f"{path}: line {number}: {len(logits)} logits, expected {config.num_labels} (id2label in config.json)")
        rows.append(row)
    if not rows:
        sys.exit(f"{path}: no rows, expected one JSON object per line")
    return rows


def worst(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference; NaN counts as infinite."""
    return (found - expected).abs().nan_to_num(nan=float("inf")).max().item()


def tokenizer_problems(folder: Path, vocab: int, rows: list[dict]) -> list[str]:
    """What is wrong with the directory's tokenizer, or with the places of its specials in the rows."""
    if not any((folder / name).exists() for name in ("tokenizer.json", "vocab.json")):
        return ["no tokenizer.json or vocab.json"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer.get_vocab()
    problems = [f"no {token}" for token in ("<start>", "<delimiter>", "<extract>") if token not in ids]
    if max(ids.values()) >= vocab:
        problems.append(f"id {max(ids.values())} is outside the model's {vocab} rows")
    if not problems:
        for number, row in enumerate(rows, start=1):
            if row["ids"][0] != ids["<start>"]:
                problems.append(f"row {number} begins with {row['ids'][0]}, expected <start>, {ids['<start>']}")
            if ids["<extract>"] not in row["ids"] or row["ids"].index(ids["<extract>"]) != len(row["ids"]) - 1:
                problems.append(f"row {number}: its first <extract>, {ids['<extract>']}, must be its end")
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--no-tokenizer", action="store_true", help="DIR has none")
    a = parser.parse_args()
    transformers.logging.set_verbosity_error()  # what it would warn about is checked here
    transformers.logging.disable_progress_bar()

    if not (a.dir / "config.json").is_file():
        sys.exit(f"{a.dir}: no config.json there, expected a checkpoint directory")
    model, info = OpenAIGPTForSequenceClassification.from_pretrained(
        a.dir, dtype=torch.float64, output_loading_info=True, ignore_mismatched_sizes=True
    )
    model.eval()
    problems = {key: sorted(map(str, keys)) for key, keys in info.items() if keys}
    rows = read_rows(a.rows, model)
    if not a.no_tokenizer:
        if found := tokenizer_problems(a.dir, model.config.vocab_size, rows):
            problems["tokenizer"] = found

    expected = torch.tensor([row["logits"] for row in rows], dtype=torch.float64)
    with torch.inference_mode():
        alone = torch.cat([model(torch.tensor([row["ids"]])).logits for row in rows])
        differences = {"alone": worst(alone, expected)}
        pad = model.config.pad_token_id
        if pad is not None:
            width = max(len(row["ids"]) for row in rows)
            batch = torch.tensor([row["ids"] + [pad] * (width - len(row["ids"])) for row in rows])
            differences["padded"] = worst(model(batch).logits, expected)
    if max(differences.values()) > TOLERANCE:
        problems["logits"] = [f"apart by up to {max(differences.values()):.3e}, allowed {TOLERANCE}"]
    labels = [model.config.id2label[i] for i in range(model.config.num_labels)]
    print(json.dumps({"rows": len(rows), "labels": labels, "worst": differences, "problems": problems}))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
