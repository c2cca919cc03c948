#!/usr/bin/env python3
"""Writes each op's value and gradients as PyTorch computes them in f64, at one small random input.

    python ops.py [--out FILE]

`train/audit/src/golden.rs` applies the same ops to the same inputs. Dropout has no counterpart: its mask is this project's own.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

rng = np.random.default_rng(20181106)


def normal(*shape):
    return rng.standard_normal(shape)


def positive(*shape):
    return rng.uniform(0.5, 2.0, shape)


def off_zero(*shape):
    return rng.choice([-1.0, 1.0], shape) * rng.uniform(0.2, 2.0, shape)


def lstm_cell(z, c):
    i, f, g, o = z.chunk(4, dim=1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.stack([torch.sigmoid(o) * torch.tanh(c), c])


def lstm(x, w):
    """torch.nn.LSTM, whose pre-activations from the input are x itself."""
    steps, batch, four = x.shape
    module = torch.nn.LSTM(four, four // 4, bias=False).double()
    for p in module.parameters():
        p.requires_grad_(False)
    inner = {"weight_ih_l0": torch.eye(four, dtype=torch.float64), "weight_hh_l0": w.T}
    return torch.func.functional_call(module, inner, (x,))[0]


def self_attention(x, heads):
    b, t, three = x.shape
    q, k, v = (p.reshape(b, t, heads, -1).transpose(1, 2) for p in x.chunk(3, dim=2))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return y.transpose(1, 2).reshape(b, t, three // 3)


def select(a, b):
    return torch.where(torch.tensor([[True, False, True], [False, False, True]]), a, b)


def linear_cross_entropy(h, w):
    losses = F.cross_entropy(h @ w.T, torch.tensor([3, 0, 2]), reduction="none")
    return (losses * torch.tensor([0.5, 0.25, 2.0], dtype=torch.float64)).sum()


IDS = torch.tensor([2, 0, 2, 1])

CASES = {
    "add": ([normal(2, 3), normal(2, 3)], lambda a, b: a + b),
    "affine": ([normal(2, 3)], lambda x: 1.7 * x - 0.3),
    "attention": ([normal(2, 2, 3, 4), normal(2, 2, 3, 4), normal(2, 2, 3, 4)],
                  lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
    "concat": ([normal(2, 3), normal(2, 1)], lambda a, b: torch.cat([a, b], dim=1)),
    "cross_entropy": ([normal(3, 5)], lambda z: F.cross_entropy(z, torch.tensor([4, 0, 2]), reduction="none")),
    "div": ([normal(2, 3), off_zero(2, 3)], lambda a, b: a / b),
    "erf": ([normal(2, 3)], torch.erf),
    "exp": ([normal(2, 3)], torch.exp),
    "expand": ([normal(3, 1)], lambda x: x.expand(2, 3, 4)),
    "gather": ([normal(3, 4)], lambda w: F.embedding(IDS.reshape(2, 2), w)),
    "gelu": ([normal(2, 3)], lambda x: F.gelu(x, approximate="tanh")),
    "layer_norm": ([normal(2, 5), normal(5), normal(5)], lambda x, g, b: F.layer_norm(x, (5,), g, b, eps=1e-5)),
    "linear": ([normal(2, 3), normal(3, 4), normal(4)], lambda x, w, b: F.linear(x, w.T, b)),
    "linear_cross_entropy": ([normal(3, 4), normal(5, 4)], linear_cross_entropy),
    "log": ([positive(2, 3)], torch.log),
    "log_softmax": ([normal(2, 4)], lambda x: F.log_softmax(x, dim=-1)),
    "lstm": ([normal(4, 2, 12), 0.5 * normal(3, 12)], lstm),
    "lstm_cell": ([normal(2, 12), normal(2, 3)], lstm_cell),
    "matmul": ([normal(2, 3, 4), normal(2, 4, 2)], torch.matmul),
    "max": ([normal(3, 4)], lambda x: x.max(dim=1, keepdim=True).values),
    "mul": ([normal(2, 3), normal(2, 3)], lambda a, b: a * b),
    "pad": ([normal(2, 3)], lambda x: F.pad(x, (1, 2))),
    "permute": ([normal(2, 3, 4)], lambda x: x.permute(2, 0, 1)),
    "relu": ([off_zero(2, 3)], torch.relu),
    "reshape": ([normal(2, 6)], lambda x: x.reshape(3, 4)),
    "scatter_add": ([normal(4, 2)], lambda x: torch.zeros(3, 2, dtype=torch.float64).index_add(0, IDS, x)),
    "select": ([normal(2, 3), normal(2, 3)], select),
    "self_attention": ([normal(2, 3, 24)], lambda x: self_attention(x, 2)),
    "sigmoid": ([normal(2, 3)], torch.sigmoid),
    "slice": ([normal(3, 5)], lambda x: x[:, 1:4]),
    "softmax": ([normal(2, 4)], lambda x: F.softmax(x, dim=-1)),
    "sqrt": ([positive(2, 3)], torch.sqrt),
    "sub": ([normal(2, 3), normal(2, 3)], lambda a, b: a - b),
    "sum": ([normal(2, 3, 2)], lambda x: x.sum(dim=(0, 2), keepdim=True)),
    "tanh": ([normal(2, 3)], torch.tanh),
}


def array(t):
    t = torch.as_tensor(t).detach()
    return {"shape": list(t.shape), "values": t.flatten().tolist()}


def case(inputs, f):
    leaves = [torch.tensor(x, requires_grad=True) for x in inputs]
    y = f(*leaves)
    gy = torch.from_numpy(np.asarray(rng.standard_normal(tuple(y.shape))))
    gradients = torch.autograd.grad(y, leaves, gy)
    return {"inputs": [array(x) for x in leaves], "y": array(y), "gy": array(gy), "gradients": [array(g) for g in gradients]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[2] / "train/audit/src/golden.json")
    args = parser.parse_args()
    torch.set_num_threads(1)
    ops = {name: case(*spec) for name, spec in CASES.items()}
    lines = ",\n".join(f'    "{name}": {json.dumps(values)}' for name, values in ops.items())
    args.out.write_text(f'{{\n  "torch": "{torch.__version__.split("+")[0]}",\n  "ops": {{\n{lines}\n  }}\n}}\n')


if __name__ == "__main__":
    main()
