#!/usr/bin/env python3
"""Times Gradus, PyTorch and candle in alternating runs on the workloads of `gradus bench`, and prints the tables of train/paper/RESULTS.md.

    python tests/peers/compare.py --torch-python .venv/bin/python                            # training, all workloads
    python tests/peers/compare.py --torch-python .venv/bin/python --workloads tiny --dropout 0 --rounds 5
    python tests/peers/compare.py --torch-python .venv/bin/python --precisions f32 bf16      # training also in bf16
    python tests/peers/compare.py --tasks train generate threads --torch-python .venv/bin/python --raw runs.jsonl

A round runs each program once in each precision, one after the other, so that a machine that drifts slows all of them; the ratio
is the median over the rounds of the rates of one round. In bf16, Gradus trains with `--matmul-precision bf16` and PyTorch under
`torch.autocast("cpu", dtype=torch.bfloat16)`; candle is timed only in f32. Progress goes to standard error, Markdown to standard
output. Each run takes 5 to 15 seconds on two cores of 2024. Nothing else should run meanwhile. Needs Python's standard library only.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent

# Steps timed, and before those, of each program: 5 to 15 seconds per run.
STEPS = {
    "Gradus": {"tiny": (60, 5), "small": (8, 2), "gpt1": (4, 1)},
    "PyTorch": {"tiny": (50, 5), "small": (6, 2), "gpt1": (3, 1)},
    "candle": {"tiny": (10, 2), "small": (3, 1), "gpt1": (1, 1)},
}
SIZES = {
    "tiny": "4 layers, d 128, 16×128 tokens, vocabulary 2,000",
    "small": "6 layers, d 384, 8×256, 8,000",
    "gpt1": "12 layers, d 768, 1×512, 40,478",
}
# The flag of each program for another precision of training than f32.
PRECISION_FLAGS = {"Gradus": "--matmul-precision", "PyTorch": "--dtype"}
PRECISIONS = ["f32", "bf16"]
# The names in /proc/cpuinfo of the instructions that products in f32 and in bf16 may use.
CPU_FLAGS = ["fma", "avx2", "avx512f", "avx512_bf16", "amx_bf16"]
# Generation: tokens read together, then generated.
PROMPT = {"tiny": 16, "small": 32, "gpt1": 32}
TOKENS = {"tiny": 96, "small": 160, "gpt1": 160}
# Tells glibc to keep freed memory instead of asking the system for it again at every step.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 34), "MALLOC_TOP_PAD_": str(1 << 28)}


@dataclass(frozen=True)
class Column:
    """A program in one precision."""

    peer: str
    precision: str

    def __str__(self) -> str:
        return f"{self.peer} {self.precision}"


class Programs:
    """How each program is started."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        script = [args.torch_python, str(HERE / "gpt1_torch.py")] if args.torch_python else None
        self.commands = {"Gradus": [args.gradus, "bench"], "PyTorch": script, "candle": [args.candle] if args.candle else None}
        self.raw = open(args.raw, "a", encoding="utf-8") if args.raw else None
        self.versions = {}
        self.warnings = None

    def has(self, peer: str) -> bool:
        return self.commands[peer] is not None

    def run(self, peer: str, task: str, words: list[str], threads: int, precision: str = "f32") -> dict:
        """Runs `peer` once; returns its report."""
        words = words if precision == "f32" else [*words, PRECISION_FLAGS[peer], precision]
        command = [*self.commands[peer], *([task] if peer != "candle" else []), *words]
        if peer == "PyTorch" and task == "train":
            command += self.args.torch_flags.split()
        if peer != "candle":
            command += ["--threads", str(threads), "--json"]
        environment = dict(os.environ, RAYON_NUM_THREADS=str(threads), OMP_NUM_THREADS=str(threads))
        kept = peer in self.args.keep_memory
        if kept:
            environment |= KEEP_MEMORY
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
        if peer == "Gradus" and precision == "bf16" and self.warnings is None:
            self.warnings = [line.removeprefix("warning: ") for line in done.stderr.splitlines() if line.startswith("warning: ")]
        result = json.loads(done.stdout.splitlines()[-1])
        self.versions[peer] = result.get("version", self.versions.get(peer))
        memory = f", {result['peak_rss_mb']:,.0f} MB" if result.get("peak_rss_mb") else ""
        say(f"  {peer:8} {' '.join([task, *words])}: {result['tokens_per_second']:,.1f} tokens/s{memory}")
        if self.raw:
            record = {"peer": peer, "precision": precision, "task": task, "arguments": command[1:], "threads_asked": threads}
            print(json.dumps(record | {"keep_memory": kept, "result": result}), file=self.raw, flush=True)
        return result


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def spread(values: list[float], digits: int = 2) -> str:
    """The median, and the range in brackets."""
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def middle(runs: list[dict], field: str) -> float:
    return median(run[field] for run in runs)


def rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def megabytes(runs: list[dict]) -> str:
    known = [run["peak_rss_mb"] for run in runs if run.get("peak_rss_mb")]
    return f"{median(known):,.0f}" if known else "–"


def ratios(of: list[dict], to: list[dict]) -> list[float]:
    """The ratios of two columns' rates, round by round."""
    return [a["tokens_per_second"] / b["tokens_per_second"] for a, b in zip(of, to)]


def steps_of(args: argparse.Namespace, peer: str, workload: str) -> tuple[int, int]:
    """The steps timed, and those before."""
    steps, warm_up = STEPS[peer][workload]
    return args.steps or steps, warm_up


def share(runs: list[dict]) -> str:
    """The FLOPs of the step over those of the best product of the same process."""
    return f"{100 * median(run['gflops'] / run['gemm_gflops'] for run in runs):.0f} %"


def columns_of(programs: Programs, args: argparse.Namespace) -> list[Column]:
    """The columns of training, in the order of their runs within a round."""
    precisions = [precision for precision in PRECISIONS if precision in args.precisions]
    return [Column(p, precision) for precision in precisions for p in STEPS if programs.has(p) and (precision == "f32" or p in PRECISION_FLAGS)]


def pairs_of(columns: list[Column]) -> list[tuple[Column, Column]]:
    """The columns whose ratios are reported: Gradus to each peer in the same precision, then Gradus in bf16 to f32."""
    pairs = [(Column("Gradus", other.precision), other) for other in columns if other.peer != "Gradus"]
    own = [column for column in columns if column.peer == "Gradus"]
    return pairs + [(column, own[0]) for column in own[1:]]


def training_rounds(
    programs: Programs, args: argparse.Namespace, columns: list[Column], workload: str, words: list[str]
) -> dict[Column, list[dict]]:
    """The reports of each column, round by round."""
    runs = {column: [] for column in columns}
    for turn in range(args.rounds):
        say(f"train {' '.join(words)}, round {turn + 1} of {args.rounds}")
        for column in columns:
            steps, warm_up = steps_of(args, column.peer, workload)
            more = ["--steps", str(steps), "--warm-up", str(warm_up)]
            runs[column].append(programs.run(column.peer, "train", [*words, *more], args.threads, column.precision))
    return runs


def training_notes(args: argparse.Namespace, gemm: dict[Column, list[float]]) -> list[str]:
    """What the table's columns mean; `gemm` has the rates of each column's best product."""
    rates = "; ".join(f"{column} {min(r):.0f}–{max(r):.0f}" for column, r in gemm.items() if r)
    notes = ["Share of GEMM: 72·L·d² + 6·d·V + 12·L·T·d FLOPs per token (of a BERT, a·(6·d·V + 6·d²) for 6·d·V, a being the fraction that "
             f"it predicts) over the rate of the best product of the same process and precision ({rates} GFLOP/s)."]
    if "bf16" in args.precisions:
        notes += ["", "bf16: Gradus with `--matmul-precision bf16`, PyTorch under `torch.autocast(\"cpu\", dtype=torch.bfloat16)`; both keep "
                      "parameters, gradients and Adam's moments in f32."]
    return notes


def training(programs: Programs, args: argparse.Namespace) -> list[str]:
    columns = columns_of(programs, args)
    pairs, shared = pairs_of(columns), [column for column in columns if column.peer != "candle"]
    header = ["workload", "dropout", *(f"{column}, tokens/s" for column in columns), *(f"{a} / {b}" for a, b in pairs)]
    header += [f"share of GEMM: {' / '.join(map(str, shared))}", f"peak memory, MB: {' / '.join(map(str, columns))}"]
    rows, gemm = [], {column: [] for column in columns}
    of = [(workload, dropout, masked) for workload in args.workloads for dropout in args.dropout for masked in (None, *args.masked)]
    for workload, dropout, masked in of:
        words = ["--workload", workload, "--dropout", f"{dropout:g}", *([] if masked is None else ["--masked", f"{masked:g}"])]
        runs = training_rounds(programs, args, columns, workload, words)
        for column in columns:
            gemm[column] += [run["gemm_gflops"] for run in runs[column] if run.get("gemm_gflops")]
        kind = "" if masked is None else f", a BERT, {masked:g} predicted"
        row = [f"`{workload}`: {SIZES[workload]}{kind}", f"{dropout:g}", *(rate(middle(runs[c], "tokens_per_second")) for c in columns)]
        row += [spread(ratios(runs[a], runs[b])) for a, b in pairs]
        row += [" / ".join(share(runs[column]) for column in shared), " / ".join(megabytes(runs[column]) for column in columns)]
        rows.append(row)
    return ["**Training**: a whole step, forward, backward, clipping, Adam.", "", *table(header, rows), "", *training_notes(args, gemm)]


def generation(programs: Programs, args: argparse.Namespace) -> list[str]:
    peers = [peer for peer in ("Gradus", "PyTorch") if programs.has(peer)]
    rows = []
    for workload in args.workloads:
        runs = {peer: [] for peer in peers}
        for turn in range(args.rounds):
            say(f"generate {workload}, round {turn + 1} of {args.rounds}")
            for peer in peers:
                words = ["--preset" if peer == "Gradus" else "--workload", workload]
                words += ["--prompt-tokens", str(PROMPT[workload]), "--tokens", str(TOKENS[workload])]
                runs[peer].append(programs.run(peer, "generate", words, args.threads))
        row = [f"`{workload}`, {PROMPT[workload]} + {TOKENS[workload]}", *(rate(middle(runs[p], "tokens_per_second")) for p in peers)]
        row += [spread(ratios(runs["Gradus"], runs[peer])) for peer in peers[1:]]
        row += [" / ".join(f"{middle(runs[p], field):.1f}" for p in peers) for field in ("weight_gb_per_second", "prompt_ms")]
        rows.append(row)
    both = " / ".join(peers)
    header = ["workload, prompt + new tokens", *(f"{peer}, tokens/s" for peer in peers), *(f"Gradus / {peer}" for peer in peers[1:])]
    header += [f"weights read, GB/s: {both}", f"prompt, ms: {both}"]
    return ["**Generation**: one token at a time, with a cache of keys and values.", "", *table(header, rows)]


def threads(programs: Programs, args: argparse.Namespace) -> list[str]:
    rows = []
    for workload in args.workloads:
        for dropout in args.dropout:
            runs = {1: [], args.threads: []}
            for turn in range(args.rounds):
                say(f"threads {workload}, dropout {dropout:g}, round {turn + 1} of {args.rounds}")
                for count, done in runs.items():
                    steps, warm_up = steps_of(args, "Gradus", workload)
                    steps = max(2, steps * count // args.threads)
                    words = ["--workload", workload, "--dropout", f"{dropout:g}", "--steps", str(steps), "--warm-up", str(warm_up)]
                    done.append(programs.run("Gradus", "train", words, count))
            one, many = runs[1], runs[args.threads]
            gains = [b["tokens_per_second"] / a["tokens_per_second"] for a, b in zip(one, many)]
            rates = [rate(middle(done, "tokens_per_second")) for done in (one, many)]
            rows.append([f"`{workload}`", f"{dropout:g}", *rates, spread(gains)])
    header = ["workload", "dropout", "1 thread, tokens/s", f"{args.threads} threads, tokens/s", "ratio"]
    return [f"**Threads**: Gradus by itself, a training step on 1 and on {args.threads}.", "", *table(header, rows)]


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = [header, ["-"] * len(header), *rows]
    return ["| " + " | ".join(line) + " |" if line[0] != "-" else "|" + "-|" * len(line) for line in lines]


def cpu_facts() -> dict[str, str]:
    """The fields of /proc/cpuinfo; empty where the system has no such file."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    named = dict(line.split(":", 1) for line in lines if ":" in line)
    return {key.strip(): value.strip() for key, value in named.items()}


def cpu() -> str:
    """The CPU's name, and the flags of its instructions for products."""
    facts = cpu_facts()
    has = facts.get("flags", "").split()
    flags = " ".join(flag for flag in CPU_FLAGS if flag in has)
    return facts.get("model name", platform.processor() or platform.machine()) + (f" ({flags})" if flags else "")


def conditions(programs: Programs, args: argparse.Namespace, load: float) -> list[str]:
    """The machine, versions, the day, and whether it was quiet."""
    gradus = subprocess.run([args.gradus, "--version"], capture_output=True, text=True, check=False).stdout.split()
    commit = subprocess.run(["git", "-C", str(HERE), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    versions = [f"Gradus {gradus[-1] if gradus else ''} ({commit.stdout.strip() or 'no git'})"]
    versions += [f"{peer} {version}" for peer, version in programs.versions.items() if version]
    keep = [peer for peer in args.keep_memory if programs.has(peer)]
    kept = f"; glibc keeps freed memory for {', '.join(keep)}" if keep else ""
    quiet = "" if load < 0.5 else f" **The machine was not quiet: a load of {load:.1f} before the first run.**"
    lines = [f"{cpu()}, {os.cpu_count()} cores, {args.threads} threads; {'; '.join(versions)}; {platform.system()} {platform.machine()}, "
             f"{datetime.date.today().isoformat()}. Medians over {args.rounds} rounds of alternating runs, in brackets the range{kept}.{quiet}"]
    return lines + [f"\nGradus in bf16: {warning}" for warning in programs.warnings or []]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gradus", default="target/release/gradus", metavar="PATH", help="default: %(default)s")
    parser.add_argument("--torch-python", metavar="PATH", help="a Python that imports torch; without it PyTorch is left out")
    parser.add_argument("--candle", metavar="PATH", help="the program of tests/peers/candle; without it candle is left out")
    parser.add_argument("--tasks", nargs="+", choices=["train", "generate", "threads"], default=["train"])
    parser.add_argument("--workloads", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--dropout", nargs="+", type=float, default=[0.1, 0.0], metavar="P")
    parser.add_argument("--masked", nargs="+", type=float, default=[], metavar="X",
                        help="also a BERT of each workload's sizes that predicts this fraction of its tokens (not of candle)")
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=["f32"],
                        help="of the task train; the other tasks are timed in f32 (default: f32)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="runs of each program in each precision (default 3)")
    parser.add_argument("--steps", type=int, metavar="N",
                        help="training steps timed in each run (default: 1 to 60, by program and workload; 1 shows only that all programs run)")
    parser.add_argument("--threads", type=int, default=2, metavar="K", help="default 2")
    parser.add_argument("--keep-memory", nargs="*", choices=["PyTorch", "candle"], default=["candle"],
                        help="peers for which glibc keeps freed memory (default: candle, which gains most)")
    parser.add_argument("--torch-flags", default="", metavar="FLAGS",
                        help="more flags of gpt1_torch.py train, to try its other paths: --torch-flags='--head chunked'")
    parser.add_argument("--raw", metavar="FILE", help="append every run's report to this file, one JSON object per line")
    args = parser.parse_args()
    if args.rounds < 1 or args.threads < 1:
        parser.error("--rounds and --threads: expected at least 1")
    if args.steps is not None and args.steps < 1:
        parser.error(f"--steps {args.steps}: expected at least 1; leave it out to time the usual number")
    for flag, path in (("--gradus", args.gradus), ("--torch-python", args.torch_python), ("--candle", args.candle)):
        if path and not os.access(path, os.X_OK):
            parser.error(f"{flag} {path}: expected a program; tests/peers/README.md says how to build it")
    if "threads" in args.tasks and args.threads == 1:
        parser.error("--tasks threads: expected --threads above 1 to compare with 1")
    load = os.getloadavg()[0]
    programs = Programs(args)
    tasks = {"train": training, "generate": generation, "threads": threads}
    parts = [tasks[task](programs, args) for task in args.tasks]
    for part in [*parts, conditions(programs, args, load)]:
        print("\n".join(part) + "\n")


if __name__ == "__main__":
    main()
