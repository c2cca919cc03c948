#!/usr/bin/env python3
"""A published BERT checkpoint in Gradus and in transformers: tokens, loss and gradients; and fine-tuned here, opened there.

    python3 tests/peers/bert.py --gradus target/release/gradus --model DIR

It wants torch and transformers. The exit status is 0 only where all agree.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertModel

TEXTS = [
    "The capital of France is Paris, and its river is the Seine.",
    "GPT-1 was published in 2018; BERT followed in the same year.",
    "It's a naïve café — 東京! \u200dÅngström's unaffable co-workers...",
]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--gradus", required=True, type=Path, help="the program")
    arguments.add_argument("--model", required=True, type=Path, help="folder of config.json, model.safetensors, tokenizer.json")
    args = arguments.parse_args()
    gradus, model = args.gradus.resolve(), args.model.resolve()

    def run(line, folder):
        done = subprocess.run([str(gradus), *map(str, line)], cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"gradus {' '.join(map(str, line))} ended with {done.returncode}: {done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])

    with tempfile.TemporaryDirectory() as folder:
        figures = [*read(run, folder, model), *tuned(run, folder, model)]
    for name, found, most in figures:
        print(f"{name:<66} {found:9.1e}   at most {most:.0e}   {'yes' if found <= most else 'NO'}")
    sys.exit(0 if all(found <= most for _, found, most in figures) else 1)


def read(run, folder, path):
    """The loss and its gradients, in f64; a body without a language model's head meets the table of its embeddings."""
    theirs = BertModel.from_pretrained(path, dtype=torch.float64).eval()
    tokenizer = AutoTokenizer.from_pretrained(path)
    draw = random.Random(1)
    losses, gradients = 0.0, 0.0
    for text in TEXTS:
        ids = tokenizer(text)["input_ids"]
        targets = [draw.randrange(theirs.config.vocab_size) for _ in ids]
        Path(folder, "ids").write_text(" ".join(map(str, ids)))
        Path(folder, "targets").write_text(" ".join(map(str, targets)))
        line = ["evaluate", "--model", path, "--ids", "ids", "--targets", "targets", "--dtype", "f64", "--gradients", "--json"]
        ours = run(line, folder)
        states = theirs(torch.tensor([ids])).last_hidden_state[0]
        logits = states @ theirs.embeddings.word_embeddings.weight.T
        nll = torch.nn.functional.cross_entropy(logits, torch.tensor(targets), reduction="none")
        theirs.zero_grad()
        nll.mean().backward()
        losses = max(losses, (nll.detach() - torch.tensor(ours["token_nll"], dtype=torch.float64)).abs().max().item())
        named = {f"bert.{name}": p for name, p in theirs.named_parameters() if not name.startswith("pooler.")}
        if set(named) != set(ours["gradient_norms"]):
            sys.exit(f"other parameters: {sorted(set(named) ^ set(ours['gradient_norms']))}")
        for name, norm in ours["gradient_norms"].items():
            expected = named[name].grad.norm().item()
            # The gradient of a key's bias is 0 but for rounding.
            gradients = max(gradients, abs(norm - expected) / max(expected, 1e-6))
    return [("loss of each token, f64", losses, 1e-10), ("norm of each parameter's gradient, f64, relative", gradients, 1e-9)]


def tuned(run, folder, path):
    """Fine-tuned here for an epoch of a few rows, then read there: the same tokens, the same answers, in f32."""
    run(["world", "--tasks", "tasks", "--rows", "24", "--seed", "3", "--json"], folder)
    line = ["finetune", "--model", path, "--task", "rte", "--data", "tasks/rte", "--epochs", "1", "--batch", "8"]
    run([*line, "--out", "tuned", "--quiet", "--json"], folder)
    line = ["predict", "--model", "tuned", "--task", "rte", "--data", "tasks/rte", "--split", "dev", "--quiet", "--json"]
    answers = run(line, folder)["answers"]
    tuned = Path(folder, "tuned")
    theirs, found = AutoModelForSequenceClassification.from_pretrained(tuned, output_loading_info=True)
    if any(found.values()):
        sys.exit(f"transformers misses something: {found}")
    tokenizer = AutoTokenizer.from_pretrained(tuned)
    rows = [line.split("\t") for line in Path(folder, "tasks/rte/dev.tsv").read_text().splitlines()[1:]]
    other, worst = 0, 0.0
    for row, answer in zip(rows, answers, strict=True):
        encoded = tokenizer(row[1], row[2], return_tensors="pt")
        other += encoded["input_ids"][0].tolist() != answer["ids"][0]
        probabilities = torch.softmax(theirs.eval()(**encoded).logits, -1)[0].tolist()
        worst = max(worst, max(abs(a - b) for a, b in zip(probabilities, answer["probabilities"], strict=True)))
    return [("rows of pairs that become other tokens", float(other), 0.0), ("probabilities of a model fine-tuned here, f32", worst, 1e-5)]


if __name__ == "__main__":
    main()
