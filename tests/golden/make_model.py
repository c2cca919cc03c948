#!/usr/bin/env python3
"""Saves a random GPT-1 as `transformers` saves it, for Gradus to open.

    python make_model.py --layers 2 --width 32 --heads 4 --context 16 --vocab 50 --out DIR [--afn gelu] [--seed 0]
"""

import argparse
from pathlib import Path

from transformers import OpenAIGPTConfig

from transformers_fixtures import random_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for size in ("layers", "width", "heads", "context", "vocab"):
        parser.add_argument(f"--{size}", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--afn", default="gelu", help='"gelu" (the tanh form) or "relu"')
    parser.add_argument("--epsilon", type=float, default=1e-5)
    parser.add_argument("--spread", type=float, default=0.1, help="standard deviation of every parameter")
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    config = OpenAIGPTConfig(
        vocab_size=a.vocab,
        n_positions=a.context,
        n_embd=a.width,
        n_layer=a.layers,
        n_head=a.heads,
        afn=a.afn,
        layer_norm_epsilon=a.epsilon,
    )
    random_model(config, a.seed, a.spread).float().save_pretrained(a.out)


if __name__ == "__main__":
    main()
