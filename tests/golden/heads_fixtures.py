#!/usr/bin/env python3
"""Makes the fixtures `heads-*` of this folder: fine-tuning's forward pass, losses and gradients in PyTorch.

    python heads_fixtures.py [--out DIR]

The backbone is `transformers`' OpenAIGPTModel; input transformations, heads and losses are written out here from the
paper (sections 3.2 and 3.3). README.md describes what is written. Everything is seeded, in f64 on one thread, without
dropout.
"""

import argparse
import json
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from transformers import OpenAIGPTConfig, OpenAIGPTForSequenceClassification, OpenAIGPTModel

from transformers_fixtures import STEPS, PlainAdam, Recipe, gradients, random_model, update

PAD = 0  # also a token of the vocabulary, <unk>: neither positions nor masks may be read off it
LAMBDA = 0.5

# OpenAI's fine-tuning, except for a rate of a hundred times 6.25e-5, so that ten steps move something.
RECIPE = Recipe("openai", 6.25e-3, weight_decay=0.01, schedule="warmup_linear", warmup=0.002, clip=1.0)


@dataclass(frozen=True)
class Fixture:
    """One model with its head, and the examples it is differentiated on."""

    seed: int
    transformation: str
    layers: int
    width: int
    heads: int
    context: int
    vocab: int  # the last three rows are start, delimiter, extract
    classes: int  # rows of W_y
    lengths: tuple  # an example's segments in tokens; for `choose`: document, question, (answers)
    labels: tuple  # class, answer, or score from 0 to 5
    bias: bool = False
    soft: bool = False  # labels are scores, targets soft
    trained: bool = False

    @property
    def start(self) -> int:
        return self.vocab - 3

    @property
    def delimiter(self) -> int:
        return self.vocab - 2

    @property
    def extract(self) -> int:
        return self.vocab - 1


# The longest row fills the context in some; in others position rows stay unused. Seeds: those whose predictions vary.
FIXTURES = {
    "classify": Fixture(131, "classify", 2, 8, 2, 9, 20, 2, ((3,), (7,), (1,), (5,)), (0, 1, 1, 0), trained=True),
    "entail": Fixture(102, "entail", 1, 12, 3, 14, 23, 3, ((2, 5), (6, 1), (4, 4), (1, 2)), (2, 0, 1, 1)),
    "similar": Fixture(123, "similar", 2, 8, 2, 13, 19, 2, ((3, 5), (1, 2), (4, 4)), (1, 0, 1), bias=True, trained=True),
    "sts": Fixture(
        104, "similar", 1, 16, 4, 11, 25, 6,
        lengths=((1, 2), (3, 3), (5, 1), (2, 6), (4, 3), (2, 1)), labels=(0.0, 5.0, 3.0, 2.6, 4.25, 1.5), soft=True,
    ),
    "choose-4": Fixture(
        105, "choose", 1, 8, 2, 16, 21, 1,
        lengths=((6, 3, (1, 2, 4, 2)), (2, 2, (3, 1, 1, 2)), (4, 1, (2, 5, 3, 1))), labels=(3, 0, 1),
    ),
    "choose-2": Fixture(  # Story Cloze's form: no question
        106, "choose", 2, 12, 3, 13, 18, 1, lengths=((6, 0, (1, 3)), (4, 0, (2, 2)), (2, 0, (4, 1))), labels=(0, 1, 1), bias=True
    ),
}  # fmt: skip


# Examples and their sequences.


def drawn(f: Fixture, rng: np.random.Generator, lengths, label) -> dict:
    """One example: random segments by name, and its label. The first segment ends in token 0: only a real one, not padding."""
    text = lambda n: rng.integers(0, f.start, n).tolist()
    match f.transformation:
        case "classify":
            example = {"text": text(lengths[0])}
        case "entail":
            example = {"premise": text(lengths[0]), "hypothesis": text(lengths[1])}
        case "similar":
            example = {"first": text(lengths[0]), "second": text(lengths[1])}
        case "choose":
            example = {"document": text(lengths[0]), "question": text(lengths[1]), "answers": [text(n) for n in lengths[2]]}
    next(iter(example.values()))[-1] = PAD
    return example | {"score" if f.soft else "label": label}


def sequences(f: Fixture, example: dict) -> list[list[int]]:
    """The input transformation (figure 1 of the paper): the token sequences of one example."""
    pair = lambda a, b: [f.start, *a, f.delimiter, *b, f.extract]
    match f.transformation:
        case "classify":
            return [[f.start, *example["text"], f.extract]]
        case "entail":
            return [pair(example["premise"], example["hypothesis"])]
        case "similar":
            return [pair(example["first"], example["second"]), pair(example["second"], example["first"])]
        case "choose":  # no delimiter between document and question
            return [pair(example["document"] + example["question"], answer) for answer in example["answers"]]


def target(f: Fixture, example: dict) -> list[float]:
    """The probability of each class (of each answer for `choose`)."""
    p = [0.0] * (len(example["answers"]) if f.transformation == "choose" else f.classes)
    if f.soft:  # Tai, Socher and Manning 2015: between the floor of the score and the next class
        y = example["score"]
        floor = math.floor(y)
        p[floor] = floor - y + 1.0
        if y > floor:
            p[floor + 1] = y - floor
    else:
        p[example["label"]] = 1.0
    return p


@dataclass(frozen=True)
class Batch:
    input_ids: torch.Tensor  # (S, T), right-padded to the longest row; an example's sequences are neighbours
    lengths: torch.Tensor  # (S), with the specials
    extract: torch.Tensor  # (S), position of the first extract token
    targets: torch.Tensor  # (examples, classes)

    @property
    def real(self) -> torch.Tensor:
        """(S, T): true on tokens, false on padding."""
        return torch.arange(self.input_ids.shape[1]) < self.lengths[:, None]


def assembled(f: Fixture, examples: list[dict], width: int | None = None) -> Batch:
    rows = [row for example in examples for row in sequences(f, example)]
    width = width or max(map(len, rows))
    assert width <= f.context
    return Batch(
        input_ids=torch.tensor([row + [PAD] * (width - len(row)) for row in rows]),
        lengths=torch.tensor([len(row) for row in rows]),
        extract=torch.tensor([row.index(f.extract) for row in rows]),
        targets=torch.tensor([target(f, example) for example in examples], dtype=torch.float64),
    )


# Model and losses.


class FineTuned(torch.nn.Module):
    """The backbone, the tied language model, and the new linear layer W_y. `score.weight` is [classes, d]."""

    def __init__(self, f: Fixture, backbone: OpenAIGPTModel):
        super().__init__()
        self.transformation, self.transformer = f.transformation, backbone
        self.score = torch.nn.Linear(f.width, f.classes, bias=f.bias).double()

    def forward(self, batch: Batch, attention_mask: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        hidden = self.transformer(batch.input_ids, attention_mask=attention_mask).last_hidden_state
        lm_logits = hidden @ self.transformer.tokens_embed.weight.T
        at_extract = hidden[torch.arange(len(hidden)), batch.extract]
        representation = at_extract
        if self.transformation == "similar":  # both orders, added before the linear layer
            representation = at_extract[0::2] + at_extract[1::2]
        logits = self.score(representation)
        if self.transformation == "choose":  # one scalar per sequence, softmax over an example's answers
            logits = logits.view(batch.targets.shape)
        return {"lm_logits": lm_logits, "at_extract": at_extract, "representation": representation, "logits": logits}


def classification_loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """L2: cross-entropy against the targets' probabilities, mean over examples."""
    return -(targets * logits.log_softmax(-1)).sum(-1).mean()


def language_model_loss(lm_logits: torch.Tensor, batch: Batch, mean: str) -> torch.Tensor:
    """L1: −log P of each token after the first up to extract, given those before it, over all sequences of the batch."""
    log_p = lm_logits[:, :-1].log_softmax(-1)
    nll = -log_p.gather(-1, batch.input_ids[:, 1:, None]).squeeze(-1)
    mask = batch.real[:, 1:].double()
    match mean:
        case "sequence_mean":  # OpenAI's: within each sequence, then over sequences
            return ((nll * mask).sum(1) / mask.sum(1)).mean()
        case "token_mean":  # Hugging Face's: over all tokens alike
            return (nll * mask).sum() / mask.sum()
    raise ValueError(mean)


MEANS = ("sequence_mean", "token_mean")


def combined_loss(out: dict[str, torch.Tensor], batch: Batch, mean: str | None) -> dict[str, torch.Tensor]:
    """L3 = L2 + λ·L1 as `loss`, and its parts; without a mean λ is 0."""
    l2 = classification_loss(out["logits"], batch.targets)
    if mean is None:
        return {"loss": l2, "l2": l2}
    l1 = language_model_loss(out["lm_logits"], batch, mean)
    return {"loss": l2 + LAMBDA * l1, "l1": l1, "l2": l2}


def measured(model: FineTuned, batch: Batch, mask: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
    """Outputs, then losses and every gradient for λ = 0 and for both means."""
    out = model(batch, mask)
    arrays = {name: out[name] for name in ("at_extract", "representation", "logits")}
    for run, mean in (("lambda0", None), *zip(MEANS, MEANS)):
        losses = combined_loss(model(batch, mask), batch, mean)
        arrays |= {f"{run}.{name}": loss for name, loss in losses.items()}
        arrays |= {f"{run}.gradient.{name}": g for name, g in gradients(model, losses["loss"]).items()}
    return {name: a.detach().clone().contiguous() for name, a in arrays.items()}


def prediction(f: Fixture, logits: torch.Tensor) -> torch.Tensor:
    """The most probable class or answer; for soft targets the expected score Σ i·pᵢ."""
    if f.soft:
        return logits.softmax(-1) @ torch.arange(f.classes, dtype=torch.float64)
    top = logits.topk(2).values
    assert (top[:, 0] - top[:, 1]).min() > 1e-3, "a prediction depends on rounding"
    return logits.argmax(-1).double()


def random_head(f: Fixture, config: OpenAIGPTConfig) -> FineTuned:
    """A model in f64 whose parameters are N(0, 0.25), gains N(1, 0.25), each one exactly an f32."""
    rng = np.random.default_rng([f.seed, 2])
    model = FineTuned(f, random_model(config, f.seed).transformer).eval()
    with torch.no_grad():
        for p in model.score.parameters():
            p.copy_(torch.from_numpy((0.25 * rng.standard_normal(tuple(p.shape))).astype(np.float32)).double())
    return model


# What must hold before anything is written.


def close(a: torch.Tensor, b: torch.Tensor, what: str) -> None:
    assert a.shape == b.shape and (a - b).abs().max() <= 1e-12, f"{what}: apart by {(a - b).abs().max():e}"


def check_padding(f: Fixture, model: FineTuned, batch: Batch, expected: dict, rng: np.random.Generator) -> None:
    """Causality suffices: neither a mask, nor the padding's tokens, nor the padding itself changes anything that counts."""
    assert not batch.real.all(), "no padding in the fixture"
    masked = measured(model, batch, batch.real.long())
    # Random tokens in place of padding, extract among them: the first extract token is meant, not the last.
    noise = torch.from_numpy(rng.integers(0, f.vocab, tuple(batch.input_ids.shape)))
    noise[:, -1] = f.extract
    noisy_batch = replace(batch, input_ids=torch.where(batch.real, batch.input_ids, noise))
    assert ((noisy_batch.input_ids == f.extract).int().argmax(1) == batch.extract).all()
    noisy = measured(model, noisy_batch)
    for name, a in expected.items():
        close(a, masked[name], f"with a mask: {name}")
        close(a, noisy[name], f"with noise for padding: {name}")
    for row, n, h in zip(batch.input_ids, batch.lengths, expected["at_extract"]):
        close(h, model.transformer(row[None, :n]).last_hidden_state[0, -1], "a row alone")


def check_against_transformers(f: Fixture, folder: Path, batch: Batch, expected: torch.Tensor) -> None:
    """OpenAIGPTForSequenceClassification opens the directory and gives the same logits.

    It takes the last token that is not `pad_token_id`: with padding on the right and extract, never the padding id, at
    the end of each row, that is the extract token, whatever zeros are within the text. Its logits are one row per
        sequence. W_y without bias being linear, those of both orders add up to ours.
    """
    model, info = OpenAIGPTForSequenceClassification.from_pretrained(folder, dtype=torch.float64, output_loading_info=True)
    assert not any(info.values()), info
    assert model.config.pad_token_id == PAD
    logits = model.eval()(batch.input_ids).logits
    if f.transformation == "similar":
        logits = logits[0::2] + logits[1::2]
    close(expected, logits.view(expected.shape), "transformers")


# Files.


def trained(f: Fixture, model: FineTuned, rng: np.random.Generator) -> dict[str, torch.Tensor]:
    """STEPS steps as OpenAI's code takes them, λ and mean by sequences included, one batch each."""
    width = model.transformer.config.n_positions
    batches = []
    for _ in range(STEPS):
        labels = rng.permutation(f.labels).tolist()
        lengths = [f.lengths[i] for i in rng.permutation(len(f.lengths))]
        batches.append(assembled(f, [drawn(f, rng, n, label) for n, label in zip(lengths, labels)], width))
    optimizer = PlainAdam(list(model.parameters()), RECIPE)
    series = {name: [] for name in ("loss", "l1", "l2", "gradient_norm", "schedule")}
    for t, batch in enumerate(batches, start=1):
        losses = combined_loss(model(batch), batch, "sequence_mean")
        norm, s = update(model, optimizer, RECIPE, t, losses["loss"])
        values = {name: loss.item() for name, loss in losses.items()} | {"gradient_norm": norm, "schedule": s}
        for name, value in values.items():
            series[name].append(value)
    assert max(series["gradient_norm"]) > RECIPE.clip, "nothing is clipped"
    arrays = {name: torch.tensor(values, dtype=torch.float64) for name, values in series.items()}
    arrays |= {f"parameter.{name}": p.detach().clone() for name, p in model.named_parameters()}
    inputs = {name: torch.stack([getattr(b, name) for b in batches]) for name in ("input_ids", "lengths", "extract", "targets")}
    return inputs | {f"openai.{name}": a for name, a in arrays.items()}


def write_segments(path: Path, f: Fixture, examples: list[dict]) -> None:
    """The examples before their transformation, one per line."""
    keys = ("transformation", "start", "delimiter", "extract", "bias")
    fields = {key: getattr(f, key) for key in keys} | {"pad": PAD, "lambda": LAMBDA}
    rows = ",\n".join("    " + json.dumps(example) for example in examples)
    path.write_text(json.dumps(fields, indent=2)[:-2] + f',\n  "examples": [\n{rows}\n  ]\n}}\n')


def make(folder: Path, f: Fixture) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    config = OpenAIGPTConfig(
        vocab_size=f.vocab,
        n_positions=f.context,
        n_embd=f.width,
        n_layer=f.layers,
        n_head=f.heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        num_labels=f.classes,
        pad_token_id=PAD,
        architectures=["OpenAIGPTLMHeadModel" if f.bias else "OpenAIGPTForSequenceClassification"],
        dtype="float32",
    )
    model = random_head(f, config)
    config.save_pretrained(folder)
    single = {name: p.detach().float().contiguous() for name, p in model.named_parameters()}
    save_file(single, folder / "model.safetensors", metadata={"format": "pt"})

    rng = np.random.default_rng([f.seed, 1])
    examples = [drawn(f, rng, lengths, label) for lengths, label in zip(f.lengths, f.labels)]
    write_segments(folder / "segments.json", f, examples)
    batch = assembled(f, examples)
    found = measured(model, batch)
    check_padding(f, model, batch, found, np.random.default_rng([f.seed, 3]))
    if not f.bias:
        check_against_transformers(f, folder, batch, found["logits"])

    expected = {name: getattr(batch, name) for name in ("input_ids", "lengths", "extract", "targets")}
    expected["sequences_per_example"] = torch.tensor(len(batch.lengths) // len(examples))
    expected |= found | {"prediction": prediction(f, found["logits"])}
    assert expected["prediction"].unique().numel() > 1, "all predictions are the same"
    save_file(expected, folder / "expected.safetensors")

    # A gradient that is nearly 0 proves nothing. But what shifts the scores of all answers alike has gradient 0.
    last = f"transformer.h.{f.layers - 1}.ln_2.bias"
    for name, g in expected.items():
        if f.transformation == "choose" and name.endswith((".score.bias", f"lambda0.gradient.{last}")):
            assert g.abs().max() < 1e-15, name
        elif ".gradient." in name:
            assert g.isfinite().all() and g.abs().max() > 1e-3, f"{folder.name}: {name} is nearly 0"
    assert (expected["sequence_mean.l1"] - expected["token_mean.l1"]).abs() > 1e-3, "the two means agree"
    if f.trained:
        save_file(trained(f, random_head(f, config), rng), folder / "steps.safetensors")
        recipes = {"steps": STEPS, "recipes": {"openai": asdict(RECIPE)}}
        (folder / "optimizers.json").write_text(json.dumps(recipes, indent=2) + "\n")
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{folder.name}: loss {expected['sequence_mean.loss']:.15f}, {size:,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.logging.set_verbosity_error()  # it warns of padding without a mask, which is the point
    transformers.logging.disable_progress_bar()
    for name, fixture in FIXTURES.items():
        make(args.out / f"heads-{name}", fixture)


if __name__ == "__main__":
    main()
