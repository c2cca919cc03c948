"""Writes fixtures of checkpoints with properties that those of `transformers_fixtures.py` and `relatives_fixtures.py` lack.

    python tests/golden/published_checkpoints.py        (in the environment of README.md)

Each directory has a small random model as `save_pretrained` writes it, and `expected.json`: `input_ids`, and the `logits` of the
model in f64. In `published-roberta`, the padding token is 3, which also occurs inside the texts, and there are two segments. In
`published-score`, a BERT has one output, a score, as `run_glue.py` trains it for STS-B.
"""

import json
import pathlib

import torch
from transformers import BertConfig, BertForSequenceClassification, RobertaConfig, RobertaForMaskedLM

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


def write(name, model, input_ids):
    torch.manual_seed(sum(map(ord, name)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    folder = GOLDEN / name
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    with torch.no_grad():
        logits = model.double().eval()(input_ids=torch.tensor(input_ids), attention_mask=torch.ones(len(input_ids), len(input_ids[0]))).logits
    (folder / "expected.json").write_text(json.dumps({"input_ids": input_ids, "logits": logits.tolist()}) + "\n")


def main():
    roberta = RobertaConfig(**SIZES, pad_token_id=3, bos_token_id=0, eos_token_id=2, max_position_embeddings=14, type_vocab_size=2)
    texts = [[0, 5, 3, 7, 9, 3, 3, 11, 2, 3], [3, 3, 8, 4, 21, 6, 3, 10, 12, 2], [0, 5, 6, 7, 8, 9, 10, 11, 12, 2]]
    write("published-roberta", RobertaForMaskedLM(roberta), texts)
    score = BertConfig(**SIZES, max_position_embeddings=12, num_labels=1)
    write("published-score", BertForSequenceClassification(score), [[2, 5, 9, 7, 3], [2, 4, 4, 10, 3]])


if __name__ == "__main__":
    main()
