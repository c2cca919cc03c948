#!/usr/bin/env python3
"""The workloads of `gradus bench` in PyTorch, eager, by default on a CPU in f32; one JSON object per run.

    python gpt1_torch.py train --workload small --dropout 0.1 --steps 10 --threads 2
    python gpt1_torch.py generate --workload gpt1 --prompt-tokens 16 --tokens 64
    python gpt1_torch.py gemm --workload gpt1
    python gpt1_torch.py matmul --sizes 512,4096 --workload small --layers --device cuda --dtype bf16

GPT-1 as in the paper: learned positions, post-norm blocks, GELU in its tanh form, tied output. PyTorch's fast paths are
used where they are faster: scaled_dot_product_attention, fused AdamW, gradients set to None, random tokens made beforehand.
`--attention`, `--head`, `--optimizer` and `--compile` select the others, to show what they give on a machine.

With `--masked X` it is a BERT of the same sizes: every slot sees all others, segments and a norm of the embeddings, and a share X of
the slots asked, which alone are gathered before the layer and the matrix of the output.

With `--device cuda`, times end when the GPU is done, and memory is the most that its tensors held. f32 is f32: TF32 is off. With
`--dtype bf16`, training is under autocast (parameters stay f32), generation and products are of bf16 tensors.
"""

import argparse
import contextlib
import json
import math
import resource
import statistics
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# layers, width, heads, context, sequences per batch, vocabulary
WORKLOADS = {
    "tiny": (4, 128, 4, 128, 16, 2_000),
    "small": (6, 384, 6, 256, 8, 8_000),
    "gpt1": (12, 768, 12, 512, 1, 40_478),
}


class Attention(nn.Module):
    """Causal self-attention of H heads."""

    def __init__(self, width: int, heads: int, context: int, p: float, plain: bool, causal: bool):
        super().__init__()
        self.heads, self.p, self.plain, self.causal = heads, p, plain, causal
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        if plain:
            self.register_buffer("hidden", torch.full((context, context), -math.inf if causal else 0.0).triu(1), persistent=False)

    def forward(self, x: Tensor, cache: "Cache | None", layer: int) -> Tensor:
        sequences, length, width = x.shape
        packed = self.c_attn(x).view(sequences, length, 3, self.heads, width // self.heads)
        q, k, v = packed.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, H, T, D)
        if cache is not None:
            k, v = cache.append(layer, k, v)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        elif self.plain and self.p > 0 and self.training:
            scores = (q * (1 / math.sqrt(q.shape[-1]))) @ k.mT + self.hidden[:length, :length]
            y = F.dropout(scores.softmax(-1), self.p) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, dropout_p=self.p if self.training else 0.0)
        return self.c_proj(y.transpose(1, 2).reshape(sequences, length, width))


class Block(nn.Module):
    """n = LN(x + attention(x)), h = LN(n + mlp(n))."""

    def __init__(self, width: int, heads: int, context: int, p: float, plain: bool, causal: bool):
        super().__init__()
        self.attention, self.drop = Attention(width, heads, context, p, plain, causal), nn.Dropout(p)
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_fc, self.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, cache: "Cache | None", layer: int) -> Tensor:
        n = self.ln_1(x + self.drop(self.attention(x, cache, layer)))
        return self.ln_2(n + self.drop(self.c_proj(F.gelu(self.c_fc(n), approximate="tanh"))))


class Gpt(nn.Module):
    """Token and position vectors, the blocks, and the output by the token matrix."""

    def __init__(self, workload: str, dropout: float, args: argparse.Namespace):
        super().__init__()
        layers, width, heads, context, _, vocab = WORKLOADS[workload]
        self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.drop, self.head = nn.Dropout(dropout), args.head
        plain, self.masked = args.attention == "plain", args.masked is not None
        self.blocks = nn.ModuleList(Block(width, heads, context, dropout, plain, not self.masked) for _ in range(layers))
        if self.masked:
            self.segments, self.ln_embed = nn.Embedding(2, width), nn.LayerNorm(width)
            self.dense, self.ln, self.bias = nn.Linear(width, width), nn.LayerNorm(width), nn.Parameter(torch.zeros(vocab))
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def hidden(self, ids: Tensor, cache: "Cache | None" = None, first: int = 0) -> Tensor:
        x = self.tokens(ids) + self.positions.weight[first : first + ids.shape[1]]
        if self.masked:
            segments = (torch.arange(ids.shape[1]) >= ids.shape[1] // 2).long()
            x = self.ln_embed(x + self.segments(segments))
        x = self.drop(x)
        for layer, block in enumerate(self.blocks):
            x = block(x, cache, layer)
        return x

    def forward(self, ids: Tensor, targets: Tensor, asked: Tensor | None = None) -> Tensor:
        """The mean of −log P(target), in nats."""
        rows, targets = self.hidden(ids).flatten(0, 1), targets.flatten()
        if asked is not None:
            rows = self.ln(F.gelu(self.dense(rows[asked]), approximate="tanh"))
            return F.cross_entropy(F.linear(rows, self.tokens.weight, self.bias), targets[asked])
        if self.head == "chunked":
            return F.linear_cross_entropy(rows, self.tokens.weight, targets, options=nn.LinearCrossEntropyOptions())
        return F.cross_entropy(F.linear(rows, self.tokens.weight), targets)

    def last_logits(self, ids: Tensor, cache: "Cache", first: int) -> Tensor:
        return F.linear(self.hidden(ids, cache, first)[:, -1], self.tokens.weight)


class Cache:
    """Keys and values of every layer, their memory taken once."""

    def __init__(self, workload: str, dtype: torch.dtype):
        layers, width, heads, context, _, _ = WORKLOADS[workload]
        self.store = torch.zeros(layers, 2, 1, heads, context, width // heads, dtype=dtype)
        self.length = 0

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        end = self.length + k.shape[2]
        keys, values = self.store[layer]
        keys[:, :, self.length : end], values[:, :, self.length : end] = k, v
        if layer == len(self.store) - 1:
            self.length = end
        return keys[:, :, :end], values[:, :, :end]


def asked_of(context: int, masked: float) -> int:
    """Slots asked in a sequence."""
    return min(max(round(masked * context), 1), context)


def training_flops(workload: str, masked: float | None) -> float:
    """FLOPs per token, counted as Gradus does: masked scores too."""
    layers, width, _, context, _, vocab = WORKLOADS[workload]
    output = 6 * width * vocab if masked is None else asked_of(context, masked) / context * 6 * width * (vocab + width)
    return 72 * layers * width**2 + output + 12 * layers * context * width


def peak_rss_mb() -> float:
    """The most memory this process has held, in 10⁶ bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def on_gpu() -> bool:
    return torch.get_default_device().type == "cuda"


def settle() -> None:
    """Waits until the GPU is done; a CPU has nothing outstanding."""
    if on_gpu():
        torch.cuda.synchronize()


def peak_gpu_mb() -> dict:
    """The most memory that tensors held on the GPU, and that was kept for them, in 10⁶ bytes; nothing on a CPU."""
    if not on_gpu():
        return {}
    return {"gpu_peak_mb": torch.cuda.max_memory_allocated() / 1e6, "gpu_held_mb": torch.cuda.max_memory_reserved() / 1e6}


def fastest(work: Callable[[], object], seconds: float = 0.3) -> float:
    """The seconds that `work` takes at best, of repetitions in this time; on a GPU of groups of about 20 ms, after two to warm up."""
    best, group = math.inf, 1
    if on_gpu():
        for _ in range(2):
            start = time.perf_counter()
            work()
            settle()
            best = time.perf_counter() - start
        group = min(max(int(0.02 / best), 1), 1000)
    begin = time.perf_counter()
    while best == math.inf or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        for _ in range(group):
            work()
        settle()
        best = min(best, (time.perf_counter() - start) / group)
    return best


def product_gflops(m: int, k: int, n: int, dtype: torch.dtype = torch.float32, transposed: tuple[bool, bool] = (False, False)) -> float:
    """The best rate of A (m, k) · B (k, n), either of them perhaps a transposed view."""
    a = torch.randn(k, m, dtype=dtype).T if transposed[0] else torch.randn(m, k, dtype=dtype)
    b = torch.randn(n, k, dtype=dtype).T if transposed[1] else torch.randn(k, n, dtype=dtype)
    c = torch.empty(m, n, dtype=dtype)
    return 2 * m * k * n / fastest(lambda: torch.mm(a, b, out=c)) / 1e9


def rows_of_logits(classes: int, device: str) -> int:
    """Rows of logits that Gradus holds at a time: the sizes of its products are compared."""
    return 256 if device == "cpu" else max(64, (16 << 20) // classes // 128 * 128)


def matmul(args: argparse.Namespace) -> dict:
    """The products of `gradus bench matmul`: squares, and with a workload those of its layers, forward and backward."""
    _, d, _, context, sequences, v = WORKLOADS[args.workload]
    n = context * sequences
    all_products = [("square", "forward", (size, size, size), (False, False)) for size in args.sizes]
    if args.layers:
        for name, of, to in [("attn.c_attn", d, 3 * d), ("attn.c_proj", d, d), ("mlp.c_fc", d, 4 * d), ("mlp.c_proj", 4 * d, d)]:
            all_products += [(name, "forward", (n, of, to), (False, False)), (name, "input", (n, to, of), (False, True)),
                             (name, "weights", (of, n, to), (True, False))]
        few = min(n, rows_of_logits(v, args.device))
        all_products += [("output", "forward", (few, d, v), (False, True)), ("output", "input", (few, v, d), (False, False)),
                         ("output", "weights", (v, few, d), (True, False))]
    rates = []
    for name, layout, size, transposed in all_products:
        gflops = product_gflops(*size, args.type, transposed)
        rates.append({"name": name, "layout": layout} | dict(zip("mkn", size)) | {"gflops": gflops})
    return {"products": rates}


def products(workload: str, dtype: torch.dtype) -> dict[str, float]:
    """The rates of 1024³ and of the workload's own shapes: those that `gradus bench train` measures."""
    _, d, _, context, sequences, v = WORKLOADS[workload]
    n = context * sequences
    few = min(n, 256)
    shapes = [(1024, 1024, 1024), (n, d, 3 * d), (n, d, d), (n, d, 4 * d), (n, 4 * d, d), (d, n, 4 * d), (few, d, v), (few, v, d)]
    return {f"{m}x{k}x{n}": product_gflops(m, k, n, dtype) for m, k, n in shapes}


def train(args: argparse.Namespace) -> dict:
    _, _, _, context, sequences, vocab = WORKLOADS[args.workload]
    torch.manual_seed(0)
    model = Gpt(args.workload, args.dropout, args)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=2.5e-4, **{args.optimizer: True})
    everything = list(model.parameters())
    run = torch.compile(model, dynamic=False) if args.compile else model
    half = args.type != torch.float32
    windows = [torch.randint(vocab, (sequences, context + 1)) for _ in range(8)]
    batches = [(w[:, :-1].contiguous(), w[:, 1:].contiguous()) for w in windows]
    if args.masked is not None:
        each = asked_of(context, args.masked)
        asked = (torch.arange(sequences).unsqueeze(1) * context + torch.arange(each) * context // each).flatten()
        batches = [(*batch, asked) for batch in batches]
    times, loss = [], math.nan
    for step in range(args.warm_up + args.steps):
        batch = batches[step % len(batches)]
        settle()
        begin = time.perf_counter()
        with torch.autocast(args.device, args.type) if half else contextlib.nullcontext():
            value = run(*batch)
        value.backward()
        if args.clip > 0:
            nn.utils.clip_grad_norm_(everything, args.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss = value.item()
        settle()
        if step >= args.warm_up:
            times.append(time.perf_counter() - begin)
    peak, gpu = peak_rss_mb(), peak_gpu_mb()  # before the products below use memory themselves
    del run, model, optimizer, everything, decayed, others, groups, value
    rate = sequences * context / statistics.median(times)
    return {
        "choices": {name: getattr(args, name) for name in ("attention", "head", "optimizer", "compile", "clip")},
        "dropout": args.dropout,
        "steps": args.steps,
        "tokens_per_step": sequences * context,
        "tokens_per_second": rate,
        "step_ms": 1e3 * statistics.median(times),
        "peak_rss_mb": peak,
        "gflops": training_flops(args.workload, args.masked) * rate / 1e9,
        "gemm_gflops": max(products(args.workload, args.type).values()),
        "final_loss": loss,
        **gpu,
    }


@torch.inference_mode()
def generate(args: argparse.Namespace) -> dict:
    vocab, context = WORKLOADS[args.workload][5], WORKLOADS[args.workload][3]
    if args.prompt_tokens + args.tokens > context:
        sys.exit(f"--tokens {args.tokens}: expected at most {context - args.prompt_tokens} after the prompt")
    torch.manual_seed(0)
    model = Gpt(args.workload, 0.0, args).eval().to(args.type)
    prompt, ids = torch.randint(vocab, (1, args.prompt_tokens)), torch.randint(vocab, (args.tokens, 1, 1))
    model.last_logits(prompt, Cache(args.workload, args.type), 0)  # warm-up
    settle()
    prompt_times = []
    for _ in range(3):
        cache = Cache(args.workload, args.type)
        begin = time.perf_counter()
        model.last_logits(prompt, cache, 0)
        settle()
        prompt_times.append(time.perf_counter() - begin)
    prompt_ms = 1e3 * sorted(prompt_times)[1]
    times = []
    for i in range(args.tokens):
        begin = time.perf_counter()
        logits = model.last_logits(ids[i], cache, args.prompt_tokens + i)
        settle()
        times.append(time.perf_counter() - begin)
    whole = model.hidden(torch.cat([prompt, ids.view(1, -1)], 1))[:, -1]
    apart = (F.linear(whole, model.tokens.weight) - logits).abs().max().item()
    if apart > (1e-3 if args.type == torch.float32 else 0.1):  # bf16 has 8 bits
        sys.exit(f"cached and uncached logits differ by {apart}")
    read = sum(p.numel() for p in model.parameters()) - model.positions.weight.numel() + model.positions.weight.shape[1]
    seconds = statistics.median(times)
    return {
        "prompt_tokens": args.prompt_tokens,
        "prompt_ms": prompt_ms,
        "tokens": args.tokens,
        "token_ms": 1e3 * seconds,
        "tokens_per_second": 1 / seconds,
        "weight_bytes_per_token": args.type.itemsize * read,
        "weight_gb_per_second": 1e-9 * args.type.itemsize * read / seconds,
        "peak_rss_mb": peak_rss_mb(),
        **peak_gpu_mb(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["train", "generate", "gemm", "matmul"])
    parser.add_argument("--workload", choices=WORKLOADS, default="tiny")
    parser.add_argument("--dropout", type=float, default=0.1, metavar="P")
    parser.add_argument("--masked", type=float, default=None, metavar="X", help="`train` a BERT that predicts this fraction of its slots")
    parser.add_argument("--steps", type=int, default=10, metavar="N", help="steps timed (default 10)")
    parser.add_argument("--warm-up", type=int, default=2, metavar="N", help="steps before (default 2)")
    parser.add_argument("--threads", type=int, default=None, metavar="K", help="default: PyTorch's")
    parser.add_argument("--clip", type=float, default=1.0, metavar="NORM", help="largest norm of the gradient; 0: no clipping")
    parser.add_argument("--attention", choices=["sdpa", "plain"], default="sdpa", help="plain: written out where it drops")
    parser.add_argument("--head", choices=["dense", "chunked"], default="dense", help="all logits at once, or F.linear_cross_entropy")
    parser.add_argument("--optimizer", choices=["fused", "foreach"], default="fused")
    parser.add_argument("--compile", action="store_true", help="torch.compile instead of eager")
    parser.add_argument("--prompt-tokens", type=int, default=16, metavar="N")
    parser.add_argument("--tokens", type=int, default=64, metavar="N")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--sizes", type=lambda text: [int(n) for n in text.split(",") if n], default=[], metavar="N,…", help="squares of `matmul`")
    parser.add_argument("--layers", action="store_true", help="let `matmul` time the products of the workload's layers")
    parser.add_argument("--json", action="store_true", help="the output is JSON in any case")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    args.type = {"f32": torch.float32, "bf16": torch.bfloat16}[args.dtype]
    gpu = {}
    if args.device == "cuda":
        if not torch.cuda.is_available():
            sys.exit("--device cuda: PyTorch finds no CUDA device")
        torch.set_default_device("cuda")
        torch.set_float32_matmul_precision("highest")  # no TF32
        gpu = {"gpu": torch.cuda.get_device_name(), "dtype": args.dtype}
    result = {"train": train, "generate": generate, "gemm": lambda a: products(a.workload, a.type), "matmul": matmul}[args.task](args)
    head = {"peer": "PyTorch", "version": torch.__version__, "workload": args.workload, "threads": torch.get_num_threads()}
    print(json.dumps(head | gpu | result))


if __name__ == "__main__":
    main()
