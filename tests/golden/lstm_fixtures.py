#!/usr/bin/env python3
"""Makes the fixtures of the LSTM language model, as PyTorch computes it.

    python lstm_fixtures.py [--out DIR]

README.md describes what is written. Everything is seeded, in f64 on one thread.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn


@dataclass(frozen=True)
class Fixture:
    """One model and the batch it is differentiated on."""

    width: int
    units: int
    vocab: int
    batch: int
    tokens: int


FIXTURES = {
    "lstm-d6-h10": Fixture(width=6, units=10, vocab=17, batch=3, tokens=8),
    "lstm-d8-h5": Fixture(width=8, units=5, vocab=11, batch=2, tokens=12),
}


class LanguageModel(nn.Module):
    """One layer of nn.LSTM, projected to the width of the embedding, whose matrix is the output's too."""

    def __init__(self, f: Fixture):
        super().__init__()
        self.embed = nn.Embedding(f.vocab, f.width)
        self.lstm = nn.LSTM(f.width, f.units, batch_first=True)
        self.proj = nn.Linear(f.units, f.width)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        states = self.proj(self.lstm(self.embed(ids))[0])
        return states, states @ self.embed.weight.T


def make(folder: Path, f: Fixture, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    model = LanguageModel(f).double().eval()
    with torch.no_grad():
        for p in model.parameters():  # N(0, 0.5): far wider than a fresh model, so that no gradient is nearly 0
            p.copy_(torch.from_numpy(0.5 * rng.standard_normal(tuple(p.shape))))
    ids = torch.from_numpy(rng.integers(0, f.vocab, (f.batch, f.tokens)))

    states, logits = model(ids)
    nll = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    named = dict(model.named_parameters())
    gradients = dict(zip(named, torch.autograd.grad(nll, named.values())))

    arrays = {"input_ids": ids, "states": states, "logits": logits, "loss": nll}
    arrays |= {f"parameter.{name}": p for name, p in named.items()}
    arrays |= {f"gradient.{name}": g for name, g in gradients.items()}
    for name, g in gradients.items():
        assert g.isfinite().all() and g.abs().max() > 1e-3, f"{folder.name}: {name} is nearly 0"
    save_file({name: a.detach().clone().contiguous() for name, a in arrays.items()}, folder / "fixture.safetensors")
    print(f"{folder.name}: loss {nll:.15f}, {(folder / 'fixture.safetensors').stat().st_size:,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for seed, (name, fixture) in enumerate(FIXTURES.items(), start=11):
        make(args.out / name, fixture, seed)


if __name__ == "__main__":
    main()
