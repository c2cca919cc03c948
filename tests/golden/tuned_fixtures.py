#!/usr/bin/env python3
"""Makes the fixtures `tuned-*` of this folder: what `transformers` computes of BERT and RoBERTa under a task's head.

    python tuned_fixtures.py [--out DIR]

Models and losses are `transformers`'; rows are written out here from the papers. README.md describes what is written. Everything is
seeded, in f64 on one thread, without dropout.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import (
    BertConfig,
    BertForMultipleChoice,
    BertForSequenceClassification,
    RobertaConfig,
    RobertaForMultipleChoice,
    RobertaForSequenceClassification,
)

from transformers_fixtures import gradients

WORDS = 20
OPEN, CLOSE, MASK = WORDS, WORDS + 1, WORDS + 2  # [CLS], [SEP], [MASK], or <s>, </s>, <mask>
VOCAB = WORDS + 3


@dataclass(frozen=True)
class Fixture:
    """One model, and the texts that it reads."""

    model: type
    task: str  # one of Gradus' with such texts and labels
    layers: int
    width: int
    heads: int
    context: int
    lengths: tuple  # a pair's texts in tokens; of a choice: document, question, (answers)
    labels: tuple
    act: str = "gelu"

    @property
    def roberta(self) -> bool:
        return self.model.__name__.startswith("Roberta")

    @property
    def choice(self) -> bool:
        return self.model.__name__.endswith("MultipleChoice")

    @property
    def classes(self) -> int:
        return 3 if self.task == "mnli" else 2

    @property
    def padding(self) -> int:
        return 1 if self.roberta else 0  # RoBERTa counts positions past its padding, so no text may hold it


# The longest row fills the context in some; in others position rows stay unused.
FIXTURES = {
    "bert": Fixture(BertForSequenceClassification, "mnli", 2, 8, 2, 12, ((3, 4), (5, 4), (1, 2), (2, 6)), (2, 0, 1, 1), "gelu_new"),
    "bert-choice": Fixture(BertForMultipleChoice, "race", 1, 8, 2, 14, ((4, 2, (1, 2, 4, 2)), (2, 2, (3, 1, 1, 5))), (3, 0)),
    "roberta": Fixture(RobertaForSequenceClassification, "mrpc", 1, 8, 4, 13, ((3, 4), (5, 4), (1, 2)), (1, 0, 1)),
    "roberta-choice": Fixture(RobertaForMultipleChoice, "story-cloze", 1, 8, 2, 16, ((6, 0, (1, 3)), (4, 0, (2, 2)), (2, 0, (4, 1))), (0, 1, 1)),
}  # fmt: skip


def drawn(f: Fixture, rng: np.random.Generator, lengths: tuple) -> dict:
    """One example's texts. BERT's first text ends in token 0, which is its padding too; RoBERTa's texts lack token 1."""
    text = lambda n: rng.integers(2, WORDS, n).tolist()
    if f.choice:
        example = {"document": text(lengths[0]), "question": text(lengths[1]), "answers": [text(n) for n in lengths[2]]}
    else:
        example = {"first": text(lengths[0]), "second": text(lengths[1])}
    next(iter(example.values()))[-1] = 0
    return example


def row(f: Fixture, first: list[int], second: list[int]) -> tuple[list[int], list[int]]:
    """[CLS] a [SEP] b [SEP] and its segments (Devlin et al. 2018, figure 4); <s> a </s></s> b </s> (fairseq)."""
    a = [OPEN, *first, CLOSE] + [CLOSE] * f.roberta
    b = [*second, CLOSE]
    return a + b, [0] * len(a) + [0 if f.roberta else 1] * len(b)


def rows(f: Fixture, example: dict) -> list[tuple[list[int], list[int]]]:
    if f.choice:
        return [row(f, example["document"] + example["question"], answer) for answer in example["answers"]]
    return [row(f, example["first"], example["second"])]


def batch(f: Fixture, examples: list[dict]) -> dict[str, torch.Tensor]:
    """All rows, padded to the longest."""
    every = [row for example in examples for row in rows(f, example)]
    width = max(len(ids) for ids, _ in every)
    assert width <= f.context and min(len(ids) for ids, _ in every) < width, "no padding in the fixture"
    padded = lambda values, pad: values + [pad] * (width - len(values))
    return {
        "input_ids": torch.tensor([padded(ids, f.padding) for ids, _ in every]),
        "token_type_ids": torch.tensor([padded(segments, 0) for _, segments in every]),
        "attention_mask": torch.tensor([padded([1] * len(ids), 0) for ids, _ in every]),
        "labels": torch.tensor(f.labels),
    }


def config(f: Fixture):
    sizes = {
        "vocab_size": VOCAB,
        "hidden_size": f.width,
        "num_hidden_layers": f.layers,
        "num_attention_heads": f.heads,
        "intermediate_size": 4 * f.width,
        "hidden_act": f.act,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": f.context + 2 * f.roberta,
        "pad_token_id": f.padding,
        "attn_implementation": "eager",
    }
    if not f.choice:
        sizes["num_labels"] = f.classes
    return RobertaConfig(**sizes, type_vocab_size=1, layer_norm_eps=1e-5) if f.roberta else BertConfig(**sizes)


def random_model(f: Fixture, seed: int) -> torch.nn.Module:
    """In f64, parameters N(0, 0.25), gains N(1, 0.25), each one exactly an f32."""
    rng = np.random.default_rng(seed)
    model = f.model(config(f)).double().eval()
    with torch.no_grad():
        for path, p in model.named_parameters():
            gain = p.ndim == 1 and "norm" in path.lower() and path.endswith(".weight")
            values = float(gain) + 0.25 * rng.standard_normal(tuple(p.shape))
            p.copy_(torch.from_numpy(values.astype(np.float32)).double())
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            module.padding_idx = None  # PyTorch would leave out the gradient of a token that is padding elsewhere
    return model


def measured(f: Fixture, model: torch.nn.Module, data: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Logits, the mean cross-entropy, and every gradient."""
    reads = {key: data[key] for key in ("input_ids", "attention_mask", "token_type_ids")}
    if f.roberta:
        reads.pop("token_type_ids")  # it has one segment
    if f.choice:
        reads = {key: a.view(len(f.labels), -1, a.shape[1]) for key, a in reads.items()}
    out = model(**reads, labels=data["labels"])
    loss = -out.logits.log_softmax(-1).gather(-1, data["labels"][:, None]).mean()
    assert abs(loss - out.loss) < 1e-6
    arrays = {"logits": out.logits, "loss": loss} | {f"gradient.{path}": g for path, g in gradients(model, loss).items()}
    return {key: a.detach().clone().contiguous() for key, a in arrays.items()}


def make(folder: Path, f: Fixture, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng([seed, 1])
    examples = [drawn(f, rng, lengths) for lengths in f.lengths]
    random_model(f, seed).float().save_pretrained(folder)
    data = batch(f, examples)
    expected = measured(f, random_model(f, seed), data)
    for path, g in expected.items():
        # What a softmax does not see has no gradient: a key's bias shifts all its scores, a choice's bias all answers.
        unseen = path.endswith("key.bias") or f.choice and path == "gradient.classifier.bias"
        if path.startswith("gradient.") and not unseen:
            assert g.isfinite().all() and g.abs().max() > 1e-4, f"{folder.name}: {path} is nearly 0"
    save_file(data | expected, folder / "expected.safetensors")
    lines = ",\n".join("    " + json.dumps(e | {"label": label}) for e, label in zip(examples, f.labels))
    (folder / "texts.json").write_text(f'{{\n  "task": "{f.task}",\n  "examples": [\n{lines}\n  ]\n}}\n')
    print(f"{folder.name}: loss {expected['loss']:.15f}, {sum(p.stat().st_size for p in folder.iterdir()):,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for seed, (name, fixture) in enumerate(FIXTURES.items(), start=1):
        make(args.out / f"tuned-{name}", fixture, seed)


if __name__ == "__main__":
    main()
