"""Makes tests/golden/openai-release: GPT-1 as OpenAI released it, small and random, and what `transformers` makes of it.

    python3 -m venv .venv4 && .venv4/bin/pip install numpy==2.4.6 torch==2.15.0 safetensors==0.8.0 transformers==4.57.6
    .venv4/bin/python tests/golden/openai_release.py

`load_tf_weights_in_openai_gpt` went away with version 5.0; 4.57 is the last that has it.

The layout is that of github.com/openai/finetune-transformer-lm, `model/`: NumPy writes the arrays, Python the two JSON files.
"""

import json
import pathlib
import tempfile

import numpy as np
from safetensors.torch import save_file
from transformers import OpenAIGPTConfig, OpenAIGPTModel
from transformers.models.openai.modeling_openai import load_tf_weights_in_openai_gpt

OUT = pathlib.Path(__file__).parent / "openai-release"
LAYERS, D, HEADS, CONTEXT = 2, 8, 2, 6

CHARACTERS = "thea.né"
MERGES = [("t", "h"), ("th", "e</w>"), ("a", "n</w>"), ("t", "e")]


def vocabulary() -> dict[str, int]:
    """The published order: ids 1 and up, the unknown token's entry last though its id is 0."""
    tokens = [*CHARACTERS, *(c + "</w>" for c in CHARACTERS), *(a + b for a, b in MERGES), "\n</w>"]
    return {token: i for i, token in enumerate(tokens, 1)} | {"<unk>": 0}


def main() -> None:
    OUT.mkdir(exist_ok=True)
    encoder = vocabulary()
    (OUT / "encoder_bpe_40000.json").write_text(json.dumps(encoder))
    (OUT / "vocab_40000.bpe").write_text("\n".join(["#version: 0.2", *(f"{a} {b}" for a, b in MERGES), ""]), "utf-8")

    block = [[1, D, 3 * D], [3 * D], [1, D, D], [D], [D], [D], [1, D, 4 * D], [4 * D], [1, 4 * D, D], [D], [D], [D]]
    shapes = [[CONTEXT, D], [len(encoder), D], *block * LAYERS]
    (OUT / "params_shapes.json").write_text(json.dumps(shapes))
    flat = np.random.default_rng(1).normal(0, 0.5, sum(int(np.prod(shape)) for shape in shapes)).astype(np.float32)
    for n, piece in enumerate(np.array_split(flat, 10)):
        np.save(OUT / f"params_{n}.npy", piece)

    # The names of OpenAI's variables in the order in which train.py makes them; `we` stands for both tables.
    parts = ["attn/c_attn/w", "attn/c_attn/b", "attn/c_proj/w", "attn/c_proj/b", "ln_1/g", "ln_1/b"]
    parts += ["mlp/c_fc/w", "mlp/c_fc/b", "mlp/c_proj/w", "mlp/c_proj/b", "ln_2/g", "ln_2/b"]
    names = ["model/we:0", *(f"model/h{layer}/{part}:0" for layer in range(LAYERS) for part in parts)]
    config = OpenAIGPTConfig(vocab_size=len(encoder), n_positions=CONTEXT, n_embd=D, n_layer=LAYERS, n_head=HEADS)
    with tempfile.TemporaryDirectory() as folder:
        for file in OUT.glob("params_*"):
            (pathlib.Path(folder) / file.name).write_bytes(file.read_bytes())
        (pathlib.Path(folder) / "parameters_names.json").write_text(json.dumps(names))
        model = load_tf_weights_in_openai_gpt(OpenAIGPTModel(config), config, folder)
    parameters = {name: p.detach().contiguous() for name, p in model.named_parameters()}
    save_file(parameters, OUT / "converted.safetensors", {"format": "pt"})


if __name__ == "__main__":
    main()
