#!/usr/bin/env python3
"""Makes the parity fixtures of GPT-1's relatives: small random models as `transformers` computes them.

    python relatives_fixtures.py [--out DIR]

README.md describes what is written. Everything is seeded, in f64 on one thread.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BertForPreTraining,
    ErnieConfig,
    ErnieForPreTraining,
    GPT2Config,
    GPT2LMHeadModel,
    RobertaConfig,
    RobertaForMaskedLM,
)

from transformers_fixtures import gradients, token_nll

SIZES = {"vocab_size": 23, "initializer_range": 0.02, "attn_implementation": "eager"}
ENCODER = SIZES | {
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 48,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
MODELS = {
    "bert": lambda: BertForPreTraining(BertConfig(**ENCODER, max_position_embeddings=10, layer_norm_eps=1e-12)),
    "bert-tanh": lambda: BertForPreTraining(BertConfig(**ENCODER, max_position_embeddings=9, hidden_act="gelu_new")),
    "roberta": lambda: RobertaForMaskedLM(
        RobertaConfig(**ENCODER, max_position_embeddings=12, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1)
    ),
    "ernie": lambda: ErnieForPreTraining(ErnieConfig(**(ENCODER | {"intermediate_size": 40}), max_position_embeddings=9, hidden_act="relu")),
    "gpt2": lambda: GPT2LMHeadModel(
        GPT2Config(**SIZES, n_positions=10, n_embd=12, n_layer=2, n_head=3, n_inner=30, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
    ),
}
ROWS, TOKENS = 4, 8
LENGTHS = [8, 5, 7, 8]
NOT_ASKED = -100
PADDING = 1  # RoBERTa's positions skip it, so no other slot may hold it


def random_model(name: str, seed: int) -> torch.nn.Module:
    """In f64, parameters N(0, 0.25), gains N(1, 0.25), each one exactly an f32; rows of padding are 0 as `transformers` has them."""
    rng = np.random.default_rng(seed)
    model = MODELS[name]().double().eval()
    with torch.no_grad():
        for path, p in model.named_parameters():
            gain = p.ndim == 1 and ("norm" in path.lower() or ".ln_" in path) and path.endswith(".weight")
            values = float(gain) + 0.25 * rng.standard_normal(tuple(p.shape))
            p.copy_(torch.from_numpy(values.astype(np.float32)).double())
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None:
                module.weight[module.padding_idx] = 0
    return model


def batch(seed: int, causal: bool) -> dict[str, torch.Tensor]:
    """Tokens, what is asked of them, and where rows end."""
    rng = np.random.default_rng([seed, 1])
    draw = lambda low, high: torch.from_numpy(rng.integers(low, high, (ROWS, TOKENS)))
    ids, asked = draw(2, 23), draw(2, 23)
    if causal:
        return {"input_ids": ids}
    there = torch.arange(TOKENS)[None] < torch.tensor(LENGTHS)[:, None]
    ids[~there] = PADDING
    chosen = (draw(0, 3) == 0) & there
    chosen[0, 0] = True  # the first slot too
    return {
        "input_ids": ids,
        "token_type_ids": (torch.arange(TOKENS)[None] > 3).long().expand(ROWS, -1).contiguous() * there,
        "attention_mask": there.long(),
        "targets": torch.where(chosen, asked, NOT_ASKED),
        "next": torch.from_numpy(rng.integers(0, 2, ROWS)),
    }


def measured(name: str, model: torch.nn.Module, data: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Logits, losses and every gradient of one batch."""
    reads = {key: data[key] for key in ("input_ids", "attention_mask", "token_type_ids") if key in data}
    if name == "roberta":
        reads.pop("token_type_ids")  # it has one segment
    out = model(**reads)
    logits = out.prediction_logits if "prediction_logits" in out else out.logits
    if "targets" in data:
        asked = data["targets"] != NOT_ASKED
        token_loss = -logits.log_softmax(-1)[asked].gather(-1, data["targets"][asked][:, None]).mean()
    else:
        token_loss = token_nll(logits, data["input_ids"]).mean()
    arrays = {"logits": logits, "token_loss": token_loss}
    loss = token_loss
    if "seq_relationship_logits" in out:
        next_loss = -out.seq_relationship_logits.log_softmax(-1).gather(-1, data["next"][:, None]).mean()
        arrays |= {"next_logits": out.seq_relationship_logits, "next_loss": next_loss}
        loss = loss + next_loss
    arrays |= {"loss": loss} | {f"gradient.{path}": g for path, g in gradients(model, loss).items()}
    return {key: a.detach().clone().contiguous() for key, a in arrays.items()}


def masks(seed: int) -> dict[str, torch.Tensor]:
    """Which slots (B, T, T) each slot attends to: a prefix at once and the rest from left to right, and any others beside itself."""
    rng = np.random.default_rng([seed, 2])
    prefix = torch.tensor([3, 0, 8, 5])[:, None, None]
    row, column = torch.arange(TOKENS)[None, :, None], torch.arange(TOKENS)[None, None, :]
    drawn = torch.from_numpy(rng.integers(0, 2, (ROWS, TOKENS, TOKENS))) == 1
    return {"prefix": (column <= row) | (column < prefix), "allowed": drawn | (row == column)}


def seen(model: torch.nn.Module, seed: int) -> dict[str, torch.Tensor]:
    """Logits, losses and every gradient under explicit masks and positions."""
    rng = np.random.default_rng([seed, 3])
    ids = torch.from_numpy(rng.integers(2, 23, (ROWS, TOKENS)))
    positions = torch.from_numpy(np.stack([rng.permutation(9)[:TOKENS] for _ in range(ROWS)]))
    arrays = {"input_ids": ids, "position_ids": positions}
    for kind, mask in masks(seed).items():
        model.zero_grad()
        hidden = torch.zeros(mask.shape).double().masked_fill(~mask, torch.finfo(torch.float64).min)[:, None]
        out = model(input_ids=ids, position_ids=positions, attention_mask=hidden)
        logits = out.prediction_logits if "prediction_logits" in out else out.logits
        loss = token_nll(logits, ids).mean()
        found = {"mask": mask.long(), "logits": logits, "loss": loss}
        loss.backward()
        found |= {f"gradient.{path}": p.grad for path, p in model.named_parameters() if p.grad is not None}
        arrays |= {f"{kind}.{key}": a.detach().clone().contiguous() for key, a in found.items()}
    return arrays


def published(folder: Path, name: str) -> None:
    """The same weights as older releases name them."""
    weights = load_file(folder / "model.safetensors")
    if name == "bert":  # LayerNorm's gamma and beta; the tied output and the buffer of positions are there too
        old = {path.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): w for path, w in weights.items()}
        old["cls.predictions.decoder.weight"] = weights["bert.embeddings.word_embeddings.weight"].clone()
        old["bert.embeddings.position_ids"] = torch.arange(10)[None]
        save_file(old, folder / "gamma-beta.safetensors", {"format": "pt"})
    if name == "gpt2":  # no prefix; the causal mask as a buffer
        old = {path.removeprefix("transformer."): w for path, w in weights.items()}
        old |= {f"h.{i}.attn.bias": torch.ones(10, 10).tril()[None, None].clone() for i in range(2)}
        save_file(old, folder / "bare.safetensors", {"format": "pt"})


def make(folder: Path, name: str, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    random_model(name, seed).float().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    published(folder, name)
    data = batch(seed, causal=name == "gpt2")
    expected = data | measured(name, random_model(name, seed), data)
    for path, g in expected.items():
        # What a softmax does not see has no gradient: a key's bias shifts all its scores.
        if path.startswith("gradient.") and not path.endswith("key.bias"):
            assert g.isfinite().all() and g.abs().max() > 1e-3, f"{folder.name}: {path} is nearly 0"
    save_file(expected, folder / "expected.safetensors")
    if name in ("bert", "gpt2"):
        save_file(seen(random_model(name, seed), seed), folder / "masks.safetensors")
    print(f"{folder.name}: loss {expected['loss']:.15f}, {sum(f.stat().st_size for f in folder.iterdir()):,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for seed, name in enumerate(MODELS, start=1):
        make(args.out / f"relative-{name}", name, seed)


if __name__ == "__main__":
    main()
