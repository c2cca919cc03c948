"""Writes fixtures of checkpoints with properties that those of `transformers_fixtures.py` and `relatives_fixtures.py` lack.

    python tests/golden/published_checkpoints.py        (in the environment of README.md)

Each directory has a small random model as `save_pretrained` writes it, and `expected.json`: `input_ids`, and the `logits` of the
model in f64. In `published-roberta`, the padding token is 3, which also occurs inside the texts, and there are two segments. In
`published-score`, a BERT has one output, a score, as `run_glue.py` trains it for STS-B. `published-own-output-gpt2` and
`published-own-output-bert` have `tie_word_embeddings: false` and an output's matrix of their own. The files of the others are edited before
`transformers` reads them, and `expected.json` is of the edited ones:

- `published-gpt2`: sizes under their aliases (`attribute_map`), a wrong `n_ctx`, and `gelu_fast`;
- `published-gpt2-classes`: a classifier with `tie_word_embeddings: false` and without `architectures`;
- `published-untied`: a RoBERTa with `tie_word_embeddings: false`, an output's matrix that equals the embedding, and a bias
  (`lm_head.decoder.bias`) that differs from `lm_head.bias`; without `type_vocab_size`, and with `gelu_python`.
"""

import json
import pathlib

import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, GPT2Config, GPT2ForSequenceClassification, GPT2LMHeadModel
from transformers import RobertaConfig, RobertaForMaskedLM

GOLDEN = pathlib.Path(__file__).parent
SIZES = {
    "vocab_size": 24,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def edit(folder, remove=(), tensors=lambda all: {}, **fields):
    """Removes fields of config.json and sets others, and adds tensors, given those that are there."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config = {name: value for name, value in config.items() if name not in remove} | fields
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    path = folder / "model.safetensors"
    all = load_file(path)
    save_file(all | {name: tensor.clone() for name, tensor in tensors(all).items()}, path, {"format": "pt"})


def write(name, model, input_ids, **edits):
    torch.manual_seed(sum(map(ord, name)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    folder = GOLDEN / name
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if edits:
        edit(folder, **edits)
        model = type(model).from_pretrained(folder)
    with torch.no_grad():
        logits = model.double().eval()(input_ids=torch.tensor(input_ids), attention_mask=torch.ones(len(input_ids), len(input_ids[0]))).logits
    (folder / "expected.json").write_text(json.dumps({"input_ids": input_ids, "logits": logits.tolist()}) + "\n")


def main():
    roberta = RobertaConfig(**SIZES, pad_token_id=3, bos_token_id=0, eos_token_id=2, max_position_embeddings=14, type_vocab_size=2)
    texts = [[0, 5, 3, 7, 9, 3, 3, 11, 2, 3], [3, 3, 8, 4, 21, 6, 3, 10, 12, 2], [0, 5, 6, 7, 8, 9, 10, 11, 12, 2]]
    write("published-roberta", RobertaForMaskedLM(roberta), texts)
    score = BertConfig(**SIZES, max_position_embeddings=12, num_labels=1)
    write("published-score", BertForSequenceClassification(score), [[2, 5, 9, 7, 3], [2, 4, 4, 10, 3]])

    sizes = {"vocab_size": 24, "n_positions": 10, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_inner": 16}
    aliases = {"max_position_embeddings": 10, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    gpt2 = GPT2Config(**sizes, activation_function="gelu_fast", bos_token_id=0, eos_token_id=0)
    own = ["n_positions", "n_embd", "n_layer", "n_head"]
    write("published-gpt2", GPT2LMHeadModel(gpt2), [[0, 5, 9, 7, 3, 11]], remove=own, n_ctx=5, **aliases)
    classes = GPT2Config(**sizes, num_labels=3, pad_token_id=1, tie_word_embeddings=False, bos_token_id=0, eos_token_id=0)
    write("published-gpt2-classes", GPT2ForSequenceClassification(classes), [[2, 5, 9, 7, 3], [2, 4, 4, 10, 3]], remove=["architectures"])
    own_output = GPT2Config(**sizes, tie_word_embeddings=False, bos_token_id=0, eos_token_id=0)
    write("published-own-output-gpt2", GPT2LMHeadModel(own_output), [[0, 5, 9, 7, 3, 11]])
    own_output = BertConfig(**SIZES, max_position_embeddings=12, tie_word_embeddings=False)
    write("published-own-output-bert", BertForMaskedLM(own_output), [[2, 5, 9, 7, 3]])
    untied = RobertaConfig(**SIZES, max_position_embeddings=12, hidden_act="gelu_python")
    write(
        "published-untied",
        RobertaForMaskedLM(untied),
        [[0, 5, 9, 7, 3, 11, 2]],
        remove=["type_vocab_size"],
        tie_word_embeddings=False,
        tensors=lambda all: {
            "lm_head.decoder.weight": all["roberta.embeddings.word_embeddings.weight"],
            "lm_head.decoder.bias": all["lm_head.bias"] * 2,
        },
    )


if __name__ == "__main__":
    main()
