#!/usr/bin/env python3
"""Makes the parity fixtures of this folder: small random GPT-1 models as `transformers` computes them.

    python transformers_fixtures.py [--out DIR]

README.md describes what is written. Everything is seeded, in f64 on one thread.
"""

import argparse
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import OpenAIGPTConfig, OpenAIGPTLMHeadModel

STEPS = 10


@dataclass(frozen=True)
class Fixture:
    """One model, the batch it is differentiated on, and whether it is also trained."""

    layers: int
    width: int
    heads: int
    context: int
    vocab: int
    batch: int
    tokens: int  # shorter than the context in some: the unused position rows get gradient 0
    afn: str = "gelu"  # in transformers' OpenAIGPT "gelu" is the tanh form
    epsilon: float = 1e-5
    dropout: float = 0.0  # in one it is not 0: evaluation must not apply it
    trained: bool = False


FIXTURES = {
    "l2-d12-h3": Fixture(2, 12, 3, 10, 17, batch=3, tokens=8, trained=True),
    "l1-d8-h2-epsilon": Fixture(1, 8, 2, 6, 11, batch=2, tokens=6, epsilon=1e-2, trained=True),
    "l3-d16-h4-relu": Fixture(3, 16, 4, 12, 23, batch=2, tokens=12, afn="relu"),
    "l2-d24-h2-dropout": Fixture(2, 24, 2, 9, 31, batch=4, tokens=7, dropout=0.1),
}


@dataclass(frozen=True)
class Recipe:
    """One optimizer with its schedule and clipping. Decay falls on parameters with more than one axis alone."""

    form: str  # a name of UPDATES
    lr: float
    eps: float = 1e-8
    beta1: float = 0.9
    beta2: float = 0.999
    weight_decay: float = 0.0
    schedule: str = "constant"
    warmup: float = 0.0  # share of all updates
    clip: float | None = None  # largest global norm


# ε is 1e-6 where it is added to √v̂: the gradient of a key's bias is 0 but for rounding, and dividing that rounding by
# 1e-8 would put noise into the parameters. The cosine's warm-up is 0.25 so that no x equals it: the code of the paper
# tests x ≤ w, others x < w, and the two agree elsewhere.
RECIPES = {
    "openai": Recipe("openai", 1e-2, weight_decay=0.1, schedule="warmup_linear", warmup=0.2, clip=1.0),
    "adamw": Recipe("adamw", 1e-2, eps=1e-6, weight_decay=0.1, schedule="warmup_cosine", warmup=0.25),
    "paper37": Recipe("paper37", 1e-2, eps=1e-6, weight_decay=0.01, schedule="warmup_cosine", warmup=0.25, clip=1.0),
    "adam_l2": Recipe("adam_l2", 1e-2, eps=1e-6, weight_decay=0.1),
    "sgd": Recipe("sgd", 1e-1, schedule="warmup_linear", warmup=0.2, clip=1.0),
}


def random_model(config: OpenAIGPTConfig, seed: int, spread: float = 0.25) -> OpenAIGPTLMHeadModel:
    """A model in f64 whose parameters are N(0, spread), gains N(1, spread), each one exactly an f32."""
    rng = np.random.default_rng(seed)
    model = OpenAIGPTLMHeadModel(config).double().eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            gain = ".ln_" in name and name.endswith(".weight")
            values = float(gain) + spread * rng.standard_normal(tuple(p.shape))
            p.copy_(torch.from_numpy(values.astype(np.float32)).double())
    return model


def token_nll(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """−log P(u_{t+1} | u_1 … u_t) in the logits' own precision: (B, T, V), (B, T) → (B, T − 1)."""
    log_p = logits[:, :-1].log_softmax(-1)
    return -log_p.gather(-1, ids[:, 1:, None]).squeeze(-1)


def gradients(model: torch.nn.Module, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    named = dict(model.named_parameters())  # the tied output embedding appears once, as tokens_embed
    return dict(zip(named, torch.autograd.grad(loss, named.values())))


def measured(model: OpenAIGPTLMHeadModel, ids: torch.Tensor, prefix: str) -> dict[str, torch.Tensor]:
    """Hidden states, logits, losses and every gradient of one batch."""
    out = model(ids, output_hidden_states=True)
    nll = token_nll(out.logits, ids)
    loss = nll.mean()
    arrays = {"logits": out.logits, "token_nll": nll, "loss": loss}
    arrays |= {f"hidden.{i}": h for i, h in enumerate(out.hidden_states)}
    arrays |= {f"gradient.{name}": g for name, g in gradients(model, loss).items()}
    return {prefix + name: a.detach().clone().contiguous() for name, a in arrays.items()}


def rate(recipe: Recipe, t: int) -> float:
    """The schedule's factor for step t = 1 … STEPS, at x = (t − 1) / STEPS."""
    x, w = (t - 1) / STEPS, recipe.warmup
    match recipe.schedule:
        case "constant":
            return 1.0
        case "warmup_linear":
            return (x / w if x <= w else 1.0) * (1.0 - x)
        case "warmup_cosine":
            assert x != w
            return x / w if x < w else 0.5 * (1.0 + math.cos(math.pi * x))
    raise ValueError(recipe.schedule)


class PlainAdam:
    """The two forms PyTorch does not have, from their definitions."""

    def __init__(self, params: list[torch.Tensor], recipe: Recipe):
        self.params, self.recipe = params, recipe
        self.m = [torch.zeros_like(p) for p in params]
        self.v = [torch.zeros_like(p) for p in params]

    @torch.no_grad()
    def step(self, t: int, s: float) -> None:
        r = self.recipe
        c1, c2 = 1.0 - r.beta1**t, 1.0 - r.beta2**t
        for p, m, v in zip(self.params, self.m, self.v):
            m.copy_(r.beta1 * m + (1.0 - r.beta1) * p.grad)
            v.copy_(r.beta2 * v + (1.0 - r.beta2) * p.grad**2)
            decay = r.weight_decay * p if p.ndim > 1 else torch.zeros_like(p)
            if r.form == "openai":  # decay inside the corrected rate, ε outside the correction
                p -= r.lr * s * math.sqrt(c2) / c1 * (m / (v.sqrt() + r.eps) + decay)
            else:  # paper37: decay follows the schedule, not the base rate; ε beside √v̂
                p -= s * (r.lr * (m / c1) / ((v / c2).sqrt() + r.eps) + decay)


class TorchOptimizer:
    """PyTorch's own optimizers behind the same `step`."""

    def __init__(self, params: list[torch.Tensor], recipe: Recipe):
        self.recipe = recipe
        groups = [
            {"params": [p for p in params if p.ndim > 1], "weight_decay": recipe.weight_decay},
            {"params": [p for p in params if p.ndim == 1], "weight_decay": 0.0},
        ]
        adam = {"lr": recipe.lr, "betas": (recipe.beta1, recipe.beta2), "eps": recipe.eps, "foreach": False}
        match recipe.form:
            case "adamw":
                self.inner = torch.optim.AdamW(groups, **adam)
            case "adam_l2":
                self.inner = torch.optim.Adam(groups, **adam)
            case "sgd":
                self.inner = torch.optim.SGD(groups, lr=recipe.lr, foreach=False)

    def step(self, t: int, s: float) -> None:
        for group in self.inner.param_groups:
            group["lr"] = self.recipe.lr * s
        self.inner.step()


UPDATES = {"openai": PlainAdam, "paper37": PlainAdam, "adamw": TorchOptimizer, "adam_l2": TorchOptimizer, "sgd": TorchOptimizer}


def update(model: torch.nn.Module, optimizer, recipe: Recipe, t: int, loss: torch.Tensor) -> tuple[float, float]:
    """Update t of the parameters along the clipped gradient of `loss`; its norm before clipping, and the factor on the rate."""
    grads = gradients(model, loss)
    norm = math.sqrt(sum(g.square().sum().item() for g in grads.values()))
    # TensorFlow's clip_by_global_norm; PyTorch's divides by norm + 1e-6.
    scale = 1.0 if recipe.clip is None else recipe.clip / max(norm, recipe.clip)
    for name, p in model.named_parameters():
        p.grad = grads[name] * scale
    s = rate(recipe, t)
    optimizer.step(t, s)
    return norm, s


def trained(model: OpenAIGPTLMHeadModel, batches: torch.Tensor, recipe: Recipe) -> dict[str, torch.Tensor]:
    """STEPS steps, one batch each: what each step saw, and the parameters after the last."""
    optimizer = UPDATES[recipe.form](list(model.parameters()), recipe)
    losses, norms, rates = [], [], []
    for t, ids in enumerate(batches, start=1):
        loss = token_nll(model(ids).logits, ids).mean()
        norm, s = update(model, optimizer, recipe, t, loss)
        losses.append(loss.item()), norms.append(norm), rates.append(s)
    arrays = {"loss": losses, "gradient_norm": norms, "schedule": rates}
    arrays = {name: torch.tensor(a, dtype=torch.float64) for name, a in arrays.items()}
    return arrays | {f"parameter.{name}": p.detach().clone() for name, p in model.named_parameters()}


def make(folder: Path, fixture: Fixture, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    config = OpenAIGPTConfig(
        vocab_size=fixture.vocab,
        n_positions=fixture.context,
        n_embd=fixture.width,
        n_layer=fixture.layers,
        n_head=fixture.heads,
        afn=fixture.afn,
        layer_norm_epsilon=fixture.epsilon,
        resid_pdrop=fixture.dropout,
        embd_pdrop=fixture.dropout,
        attn_pdrop=fixture.dropout,
    )
    random_model(config, seed).float().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)

    rng = np.random.default_rng([seed, 1])
    draw = lambda *shape: torch.from_numpy(rng.integers(0, fixture.vocab, shape))
    ids = draw(fixture.batch, fixture.tokens)
    expected = {"input_ids": ids} | measured(random_model(config, seed), ids, "f64.")
    expected |= measured(random_model(config, seed).float(), ids, "f32.")
    save_file(expected, folder / "expected.safetensors")

    # No parameter but an unused position row may come out untouched: a fixture without gradients proves nothing.
    for name, g in expected.items():
        if name.startswith("f64.gradient."):
            assert g.isfinite().all() and g.abs().max() > 1e-3, f"{folder.name}: {name} is nearly 0"
    if fixture.trained:
        batches = draw(STEPS, fixture.batch, fixture.tokens)
        steps = {"input_ids": batches}
        for name, recipe in RECIPES.items():
            run = trained(random_model(config, seed), batches, recipe)
            steps |= {f"{name}.{key}": a for key, a in run.items()}
        save_file(steps, folder / "steps.safetensors")
    print(f"{folder.name}: loss {expected['f64.loss']:.15f}, {sum(f.stat().st_size for f in folder.iterdir()):,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for seed, (name, fixture) in enumerate(FIXTURES.items(), start=1):
        make(args.out / name, fixture, seed)
    recipes = {name: asdict(recipe) for name, recipe in RECIPES.items()}
    (args.out / "optimizers.json").write_text(json.dumps({"steps": STEPS, "recipes": recipes}, indent=2) + "\n")


if __name__ == "__main__":
    main()
