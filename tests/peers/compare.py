#!/usr/bin/env python3
"""Times Gradus, PyTorch and candle in alternating runs on the workloads of `gradus bench`, and prints the tables of train/paper/RESULTS.md.

    python tests/peers/compare.py --torch-python .venv/bin/python                            # training, all workloads
    python tests/peers/compare.py --torch-python .venv/bin/python --workloads tiny --dropout 0 --rounds 5
    python tests/peers/compare.py --tasks train generate threads --torch-python .venv/bin/python --raw runs.jsonl

A round runs each program once, one after the other, so that a machine that drifts slows all of them; the ratio is the median
over the rounds of the rates of one round. Progress goes to standard error, Markdown to standard output. Each run takes 5 to
15 seconds on two cores of 2024. Nothing else should run meanwhile. Needs Python's standard library only.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
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
# Generation: tokens read together, then generated.
PROMPT = {"tiny": 16, "small": 32, "gpt1": 32}
TOKENS = {"tiny": 96, "small": 160, "gpt1": 160}
# Tells glibc to keep freed memory instead of asking the system for it again at every step.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 34), "MALLOC_TOP_PAD_": str(1 << 28)}


class Programs:
    """How each program is started."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        script = [args.torch_python, str(HERE / "gpt1_torch.py")] if args.torch_python else None
        self.commands = {"Gradus": [args.gradus, "bench"], "PyTorch": script, "candle": [args.candle] if args.candle else None}
        self.raw = open(args.raw, "a", encoding="utf-8") if args.raw else None
        self.versions = {}

    def has(self, peer: str) -> bool:
        return self.commands[peer] is not None

    def run(self, peer: str, task: str, words: list[str], threads: int) -> dict:
        """Runs `peer` once; returns its report."""
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
        result = json.loads(done.stdout.splitlines()[-1])
        self.versions[peer] = result.get("version", self.versions.get(peer))
        memory = f", {result['peak_rss_mb']:,.0f} MB" if result.get("peak_rss_mb") else ""
        say(f"  {peer:8} {' '.join([task, *words])}: {result['tokens_per_second']:,.1f} tokens/s{memory}")
        if self.raw:
            record = {"peer": peer, "task": task, "arguments": command[1:], "threads_asked": threads, "keep_memory": kept, "result": result}
            print(json.dumps(record), file=self.raw, flush=True)
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


def ratios(runs: dict[str, list[dict]], peer: str) -> list[float]:
    """Gradus's rate over the peer's, round by round."""
    return [a["tokens_per_second"] / b["tokens_per_second"] for a, b in zip(runs["Gradus"], runs[peer])]


def share(runs: list[dict]) -> str:
    """The FLOPs of the step over those of the best product of the same process."""
    return f"{100 * median(run['gflops'] / run['gemm_gflops'] for run in runs):.0f} %"


def training(programs: Programs, args: argparse.Namespace) -> list[str]:
    peers = [peer for peer in STEPS if programs.has(peer)]
    others = peers[1:]
    header = ["workload", "dropout", *(f"{peer}, tokens/s" for peer in peers), *(f"Gradus / {peer}" for peer in others)]
    header += [f"share of GEMM, {peer}" for peer in peers if peer != "candle"] + [f"peak memory, MB: {' / '.join(peers)}"]
    rows, gemm = [], {peer: [] for peer in peers}
    of = [(workload, dropout, masked) for workload in args.workloads for dropout in args.dropout for masked in (None, *args.masked)]
    for workload, dropout, masked in of:
        runs = {peer: [] for peer in peers}
        kind = "" if masked is None else f", a BERT, {masked:g} predicted"
        for turn in range(args.rounds):
            say(f"train {workload}{kind}, dropout {dropout:g}, round {turn + 1} of {args.rounds}")
            for peer in peers:
                steps, warm_up = STEPS[peer][workload]
                words = ["--workload", workload, "--dropout", f"{dropout:g}", "--steps", str(steps), "--warm-up", str(warm_up)]
                words += [] if masked is None else ["--masked", f"{masked:g}"]
                runs[peer].append(programs.run(peer, "train", words, args.threads))
        for peer in peers:
            gemm[peer] += [run["gemm_gflops"] for run in runs[peer] if run.get("gemm_gflops")]
        row = [f"`{workload}`: {SIZES[workload]}{kind}", f"{dropout:g}", *(rate(middle(runs[p], "tokens_per_second")) for p in peers)]
        row += [spread(ratios(runs, peer)) for peer in others]
        row += [share(runs[peer]) for peer in peers if peer != "candle"]
        rows.append(row + [" / ".join(megabytes(runs[peer]) for peer in peers)])
    rates = "; ".join(f"{peer} {min(r):.0f}–{max(r):.0f}" for peer, r in gemm.items() if r)
    return ["**Training**: a whole step, forward, backward, clipping, Adam.", "", *table(header, rows), "",
            "Share of GEMM: 72·L·d² + 6·d·V + 12·L·T·d FLOPs per token (of a BERT, a·(6·d·V + 6·d²) for 6·d·V, a being the share asked) over the rate of the best f32 product of the same process "
            f"({rates} GFLOP/s)."]


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
        row += [spread(ratios(runs, peer)) for peer in peers[1:]]
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
                    steps, warm_up = STEPS["Gradus"][workload]
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


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = dict(line.split(":", 1) for line in lines if ":" in line)
    return {key.strip(): value.strip() for key, value in named.items()}.get("model name", platform.machine())


def conditions(programs: Programs, args: argparse.Namespace, load: float) -> list[str]:
    """The machine, versions, the day, and whether it was quiet."""
    gradus = subprocess.run([args.gradus, "--version"], capture_output=True, text=True, check=False).stdout.split()
    commit = subprocess.run(["git", "-C", str(HERE), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    versions = [f"Gradus {gradus[-1] if gradus else ''} ({commit.stdout.strip() or 'no git'})"]
    versions += [f"{peer} {version}" for peer, version in programs.versions.items() if version]
    kept = f"; glibc told to keep freed memory for {', '.join(args.keep_memory)}" if args.keep_memory else ""
    quiet = "" if load < 0.5 else f" **The machine was not quiet: a load of {load:.1f} before the first run.**"
    return [f"{cpu_model()}, {os.cpu_count()} cores, {args.threads} threads; {'; '.join(versions)}; {platform.system()} {platform.machine()}, "
            f"{datetime.date.today().isoformat()}. Medians of {args.rounds} alternating runs, in brackets the range{kept}.{quiet}"]


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
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="runs of each program (default 3)")
    parser.add_argument("--threads", type=int, default=2, metavar="K", help="default 2")
    parser.add_argument("--keep-memory", nargs="*", choices=["PyTorch", "candle"], default=["candle"],
                        help="peers whose glibc is told to keep freed memory (default: candle, which gains most)")
    parser.add_argument("--torch-flags", default="", metavar="FLAGS",
                        help="more flags of gpt1_torch.py train, to try its other paths: --torch-flags='--head chunked'")
    parser.add_argument("--raw", metavar="FILE", help="append every run's report to this file, one JSON object per line")
    args = parser.parse_args()
    if args.rounds < 1 or args.threads < 1:
        parser.error("--rounds and --threads: expected at least 1")
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
