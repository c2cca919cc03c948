#!/usr/bin/env python3
"""Opens a checkpoint directory with `transformers` and prints what it computes there, as one line of JSON.

    python check_export.py DIR [--ids FILE [--gradients] [--greedy N]] [--text FILE] [--dtype f64|f32]
    python check_export.py DIR --ids FILE --targets FILE [--segments FILE] [--gradients] [--dtype f64|f32]

A directory whose model fills masks opens as `AutoModelForMaskedLM`, any other as `OpenAIGPTLMHeadModel`. --targets has, for each id, the
token that belongs there or `-`: compare with `gradus evaluate` of the same files. Compare `nll`, `token_nll`, `gradient_norms` with `gradus evaluate --ids FILE --dtype f64 --gradients --json`, and
`ids` with `gradus generate --ids FILE --tokens N --greedy --json`. `greedy_margin` is the smallest lead of a chosen
logit over the second: ids may differ only where it is within rounding. `text_ids` is the tokenizer's encoding of --text.
Exits with 1 if a weight is missing, left over or of the wrong shape, or if the tokenizer has ids that the model lacks.
"""

import argparse
import json
import sys
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer, OpenAIGPTLMHeadModel

from transformers_fixtures import gradients, token_nll


def greedy(model: OpenAIGPTLMHeadModel, ids: list[int], count: int) -> tuple[list[int], float]:
    """The prompt with `count` most probable tokens appended, each over the whole prefix, and the smallest lead."""
    ids, margin = list(ids), float("inf")
    with torch.inference_mode():
        for _ in range(count):
            lead = model(torch.tensor([ids])).logits[0, -1].topk(2)
            ids.append(lead.indices[0].item())
            margin = min(margin, (lead.values[0] - lead.values[1]).item())
    return ids, margin


def masked_nll(model: torch.nn.Module, ids: list[int], targets: list[str], segments: list[int]) -> torch.Tensor:
    """-log P of each token that is asked, in its slot."""
    asked = [at for at, target in enumerate(targets) if target != "-"]
    if model.config.model_type == "roberta":  # `transformers` counts no position for a token whose id is that of padding
        inputs = {"position_ids": torch.arange(2, 2 + len(ids))[None]}
    else:
        inputs = {"token_type_ids": torch.tensor([segments])}
    logits = model(torch.tensor([ids]), **inputs).logits[0, asked]
    return -logits.log_softmax(-1).gather(-1, torch.tensor([[int(targets[at])] for at in asked]))[:, 0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path)
    parser.add_argument("--ids", type=Path, help="whitespace-separated token ids: one sequence within the context")
    parser.add_argument("--targets", type=Path, help="what belongs in the place of each id, or `-`: of a model that fills masks")
    parser.add_argument("--segments", type=Path, help="the segment of each id; all 0 without it")
    parser.add_argument("--gradients", action="store_true", help="L2 norms of the mean NLL's gradients")
    parser.add_argument("--greedy", type=int, metavar="N", help="append N most probable tokens to the ids")
    parser.add_argument("--text", type=Path, help="encode this file with the directory's tokenizer")
    parser.add_argument("--dtype", choices=["f64", "f32"], default="f64")
    a = parser.parse_args()

    if not (a.dir / "config.json").is_file():
        sys.exit(f"{a.dir}: no config.json there, expected a checkpoint directory")
    dtype = {"f64": torch.float64, "f32": torch.float32}[a.dtype]
    fills_masks = AutoConfig.from_pretrained(a.dir).model_type in ("bert", "ernie", "roberta")
    if fills_masks != bool(a.targets):
        sys.exit(f"{a.dir}: expected --targets with a model that fills masks, and with no other")
    kind = AutoModelForMaskedLM if fills_masks else OpenAIGPTLMHeadModel
    model, info = kind.from_pretrained(a.dir, dtype=dtype, output_loading_info=True)
    model.eval()
    problems = {key: sorted(map(str, keys)) for key, keys in info.items() if keys}
    # The class that fills masks has no head for pairs, which a BERT's run has.
    head = {f"{name}.{kind}" for name in ("bert.pooler.dense", "cls.seq_relationship") for kind in ("bias", "weight")}
    if fills_masks and set(problems.get("unexpected_keys", [])) == head:
        del problems["unexpected_keys"]
    report = {"parameters": sum(p.numel() for p in model.parameters()), "problems": problems}

    if a.targets:
        ids, targets = [int(word) for word in a.ids.read_text().split()], a.targets.read_text().split()
        segments = [int(word) for word in a.segments.read_text().split()] if a.segments else [0] * len(ids)
        nll = masked_nll(model, ids, targets, segments)
        report |= {"tokens": nll.numel(), "nll": nll.mean().item(), "token_nll": nll.tolist()}
        if a.gradients:
            report["gradient_norms"] = {name: g.norm().item() for name, g in gradients(model, nll.mean()).items()}
    elif a.ids:
        ids = [int(word) for word in a.ids.read_text().split()]
        room = model.config.n_positions - (a.greedy or 0)
        if not 2 <= len(ids) <= room:
            sys.exit(f"{a.ids}: {len(ids)} ids, expected 2 to {room} (the context less --greedy)")
        if not 0 <= min(ids) <= max(ids) < model.config.vocab_size:
            sys.exit(f"{a.ids}: ids from {min(ids)} to {max(ids)}, expected 0 to {model.config.vocab_size - 1}")
        batch = torch.tensor([ids])
        nll = token_nll(model(batch).logits, batch)
        report |= {"tokens": nll.numel(), "nll": nll.mean().item(), "token_nll": nll[0].tolist()}
        if a.gradients:
            norms = {name: g.norm().item() for name, g in gradients(model, nll.mean()).items()}
            report["gradient_norms"] = norms
        if a.greedy:
            report["ids"], report["greedy_margin"] = greedy(model, ids, a.greedy)

    if any((a.dir / name).exists() for name in ("tokenizer.json", "vocab.json")):
        tokenizer = AutoTokenizer.from_pretrained(a.dir)
        report["tokenizer"] = {
            "class": type(tokenizer).__name__,
            "size": len(tokenizer),
            "specials": {t: tokenizer.convert_tokens_to_ids(t) for t in tokenizer.all_special_tokens},
        }
        largest = max(tokenizer.get_vocab().values())
        if largest >= model.config.vocab_size:
            problems["tokenizer"] = [f"id {largest} is outside the model's {model.config.vocab_size} rows"]
        if a.text:
            report["text_ids"] = tokenizer(a.text.read_text(), add_special_tokens=False)["input_ids"]
            report["decoded"] = tokenizer.decode(report["text_ids"])
    elif a.text:
        sys.exit(f"{a.dir}: no tokenizer.json or vocab.json, so --text cannot be encoded")

    print(json.dumps(report))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
