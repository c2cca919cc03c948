#!/usr/bin/env python3
"""Measures Gradus on a GPU beside PyTorch, and prints the tables as Markdown.

    tests/peers/gpu.sh target/release/gradus --torch-python .venv/bin/python     # until the exit status is 0
    tests/peers/gpu.sh target/release/gradus --device gpu:nvidia --out results --minutes 4
    tests/peers/gpu.sh target/release/gradus --device gpu:llvmpipe --quick       # a smoke test: ignore the figures

GRADUS is a program built with `--features wgpu`; neither toolchain nor network is needed. Each measurement is kept in a file of
--out as soon as it is made, and one that is there is not made again: what failed is repeated once its file is deleted. A call ends
after --minutes at the latest; the same call again goes on. Tables of what there is so far are printed each time, on standard
output; progress goes to standard error.

Exit status: 0, everything is measured; 3, something is left; 1, an error; 2, wrong usage. Needs Python's standard library only.
PyTorch, where there is one, runs f32 with TF32 off, and bf16: training under autocast, generation and products of bf16 tensors.
"""

import argparse
import datetime
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent

SIZES = [512, 1024, 2048, 4096, 8192]
WORKLOADS = ["tiny", "small", "gpt1"]
# Steps timed, and before those.
STEPS = {"tiny": (50, 10), "small": (30, 10), "gpt1": (20, 10)}
# Generation: tokens read together, then generated.
PROMPT = {"tiny": 16, "small": 32, "gpt1": 32}
TOKENS = {"tiny": 96, "small": 160, "gpt1": 160}
# Who computes, and in what numbers: each column of the tables.
COLUMNS = {"Gradus f32": [], "PyTorch f32": ["--dtype", "f32"], "Gradus f16": ["--matmul-precision", "f16"], "PyTorch bf16": ["--dtype", "bf16"]}
PAIRS = [("Gradus f32", "PyTorch f32"), ("Gradus f16", "PyTorch bf16")]
# Rows of a table of costs.
COSTLIEST = 14


class Measurement:
    """One run of a program: a file's name, and the command."""

    def __init__(self, subject: str, what: str, column: str, words: list[str]):
        self.subject, self.what, self.column = subject, what, column
        self.words = words
        self.name = "-".join([subject, what, *column.lower().split()])

    def file(self, out: Path) -> Path:
        return out / f"{self.name}.json"

    def read(self, out: Path) -> dict | None:
        """What was kept of it, if it was made."""
        try:
            return json.loads(self.file(out).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    def result(self, out: Path) -> dict | None:
        return (self.read(out) or {}).get("result")


def plan(args: argparse.Namespace) -> list[Measurement]:
    """All measurements, what is quick and what matters first; the programs take turns, so that a machine that drifts slows all."""
    gradus, torch = [args.gradus], [args.torch_python, str(HERE / "gpt1_torch.py")]
    device = ["--device", args.device, "--json"]
    sizes, workloads = (SIZES, WORKLOADS) if not args.quick else ([32, 64], ["tiny"])
    few = ["--batch", "1"] if args.quick else []
    all_of_them: list[Measurement] = []

    def each(subject: str, what: str, ours: list[str], theirs: list[str], columns: list[str]) -> None:
        for column in columns:
            if column.startswith("Gradus"):
                words = [*gradus, *ours, *device, *COLUMNS[column]]
            elif args.torch_python:
                words = [*torch, *theirs, "--device", "cuda", *COLUMNS[column]]
            else:
                continue
            all_of_them.append(Measurement(subject, what, column, words))

    for size in sizes:
        words = ["--sizes", str(size)]
        each("product", str(size), ["bench", "matmul", "--quiet", *words], ["matmul", *words], list(COLUMNS))
    for workload in workloads:
        steps, warm_up = STEPS[workload] if not args.quick else (1, 3)
        words = ["--workload", workload, "--dropout", "0.1", "--steps", str(steps), "--warm-up", str(warm_up)]
        each("train", workload, ["bench", "train", "--quiet", *words, *few], ["train", *words], list(COLUMNS))
    for workload in workloads:
        prompt, tokens = (PROMPT[workload], TOKENS[workload]) if not args.quick else (4, 4)
        words = [workload, "--prompt-tokens", str(prompt), "--tokens", str(tokens)]
        each("generate", workload, ["bench", "generate", "--preset", *words], ["generate", "--workload", *words], list(COLUMNS))
    for workload in workloads:
        words = ["--workload", workload, "--steps", "5" if not args.quick else "1"]
        each("cost", workload, ["audit", "cost", "--quiet", *words, *few], [], ["Gradus f32"])
    for workload in workloads if not args.quick else []:
        words = ["--workload", workload, "--sizes"]
        each("layers", workload, ["bench", "matmul", "--quiet", *words, "64"], ["matmul", "--layers", *words, ""], list(COLUMNS))
    return all_of_them


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def last_words(text: str) -> str:
    """The line that says what went wrong: the last error, after those of a driver."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()] or ["nothing was said"]
    return next((line for line in reversed(lines) if line.startswith("error:")), lines[-1])


def make(it: Measurement, out: Path, seconds: float, is_first: bool) -> bool:
    """Makes a measurement and keeps it; false if the time is up before it is made. One that takes longer than a whole call fails."""
    begin = time.monotonic()
    kept: dict = {"command": it.words}
    try:
        done = subprocess.run(it.words, capture_output=True, text=True, check=False, timeout=max(seconds, 0.1))
    except subprocess.TimeoutExpired:
        if not is_first:
            return False
        kept["failed"] = f"not done in {seconds / 60:.1f} minutes; --minutes gives it more"
    except OSError as error:
        sys.exit(f"error: {it.words[0]} cannot be run: {error}")
    else:
        if done.returncode == 0:
            try:
                kept["result"] = json.loads(done.stdout.splitlines()[-1])
            except (IndexError, ValueError):
                kept["failed"] = f"expected a line of JSON, found {done.stdout[-200:]!r}"
        else:
            kept["failed"] = f"ended with {done.returncode}: {last_words(done.stderr)}"
    kept["seconds"] = round(time.monotonic() - begin, 1)
    part = it.file(out).with_suffix(".part")
    part.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    part.replace(it.file(out))
    say(f"  {it.name}: {kept.get('failed') or 'measured'} ({kept['seconds']} s)")
    return True


# ── The tables ──────────────────────────────────────────────────────────────────────────────────────────────────────


def figure(value: float | None, digits: int = 3) -> str:
    """A number to so many digits, without an exponent; a dash for none."""
    if value is None:
        return "–"
    places = max(0, digits - len(str(int(abs(value))))) if abs(value) >= 1 else digits
    return f"{value:,.{places}f}"


def ratio(ours: float | None, theirs: float | None) -> str:
    return f"{100 * ours / theirs:.0f} %" if ours is not None and theirs else "–"


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(header) + " |", "|" + "-|" * len(header), *("| " + " | ".join(row) + " |" for row in rows), ""]


class Tables:
    """Everything measured so far."""

    def __init__(self, measurements: list[Measurement], out: Path):
        self.measurements, self.out = measurements, out
        self.columns = [column for column in COLUMNS if any(m.column == column for m in measurements)]
        self.pairs = [pair for pair in PAIRS if set(pair) <= set(self.columns)]

    def kinds(self, subject: str) -> list[str]:
        return list(dict.fromkeys(m.what for m in self.measurements if m.subject == subject))

    def result(self, subject: str, what: str, column: str) -> dict | None:
        found = [m for m in self.measurements if (m.subject, m.what, m.column) == (subject, what, column)]
        return found[0].result(self.out) if found else None

    def compared(self, label: str, values: dict[str, float | None]) -> list[str]:
        """A row: each column's value, then Gradus's as a share of PyTorch's."""
        return [label, *(figure(values.get(column)) for column in self.columns),
                *(ratio(values.get(ours), values.get(theirs)) for ours, theirs in self.pairs)]

    def header(self, first: str, unit: str) -> list[str]:
        return [first, *(f"{column}, {unit}" for column in self.columns), *(f"{ours} / {theirs}" for ours, theirs in self.pairs)]

    def products(self) -> list[str]:
        rows = []
        for size in self.kinds("product"):
            rates = {c: ((self.result("product", size, c) or {}).get("products") or [{}])[0].get("gflops") for c in self.columns}
            rows.append(self.compared(f"{size}³", rates))
        return ["**Products** of square matrices.", "", *table(self.header("size", "GFLOP/s"), rows)]

    def layers(self) -> list[str]:
        lines = []
        for workload in self.kinds("layers"):
            rates: dict[tuple, dict] = {}
            for column in self.columns:
                for p in (self.result("layers", workload, column) or {}).get("products", []):
                    if p["name"] != "square":
                        rates.setdefault((p["name"], p["layout"], f"{p['m']} × {p['k']} × {p['n']}"), {})[column] = p["gflops"]
            rows = [self.compared(f"{name}, {layout}: {size}", values) for (name, layout, size), values in rates.items()]
            if rows:
                lines += [f"**Products of `{workload}`**: forward, backward to the input, backward to the weights; m × k × n.", "",
                          *table(self.header("layer", "GFLOP/s"), rows)]
        return lines

    def of_field(self, subject: str, field, first: str, unit: str) -> list[str]:
        rows = [self.compared(f"`{what}`", {c: field(self.result(subject, what, c) or {}) for c in self.columns}) for what in self.kinds(subject)]
        return table(self.header(first, unit), rows)

    def training(self) -> list[str]:
        def peak(run: dict) -> float | None:
            """Of a GPU's buffers: Gradus counts them in bytes by class, PyTorch in MB."""
            return run["memory"]["live_peak"] / 1e6 if run.get("memory") else run.get("gpu_peak_mb")

        def held(run: dict) -> float | None:
            if memory := run.get("memory"):
                return (memory["live_peak"] + memory["idle_at_peak"]) / 1e6
            return run.get("gpu_held_mb")

        asked = []
        fields = ["dispatches", "submissions", "waits", "sent_bytes", "read_bytes", "buffers_made"]
        for workload in self.kinds("train"):
            step = (self.result("train", workload, "Gradus f32") or {}).get("gpu") or {}
            asked.append([f"`{workload}`", *(figure(step.get(field)) for field in fields)])
        return ["**Training**: a whole step, forward, backward, clipping, Adam; dropout 0.1.", "",
                *self.of_field("train", lambda run: run.get("tokens_per_second"), "workload", "tokens/s"),
                "**Memory** of a step: the most that tensors held.", "",
                *self.of_field("train", peak, "workload", "MB"),
                "**Memory kept** from the driver, what was idle included.", "",
                *self.of_field("train", held, "workload", "MB"),
                "**GPU work per step of Gradus** (f32).", "",
                *table(["workload", *(field.replace("_", " ") for field in fields)], asked)]

    def generation(self) -> list[str]:
        return ["**Generation**: one token at a time, with a cache of keys and values.", "",
                *self.of_field("generate", lambda run: run.get("tokens_per_second"), "workload", "tokens/s"),
                *self.of_field("generate", lambda run: run.get("prompt_ms"), "workload", "ms of the prompt")]

    def costs(self) -> list[str]:
        lines = []
        for workload in self.kinds("cost"):
            cost = self.result("cost", workload, "Gradus f32")
            if not cost:
                continue
            share = lambda ms: f"{100 * ms / cost['step_ms']:.1f} %" if ms is not None else "–"  # noqa: E731
            ops = [[op["name"], str(op["calls"]), figure(op["forward_ms"]), figure(op["backward_ms"]), share(op["forward_ms"] + op["backward_ms"])]
                   for op in cost["ops"][:COSTLIEST]]
            shaders = [[f"`{s['name']}`", figure(s["dispatches"]), figure(s["bytes"] / 1e6), figure(s["ms"]), share(s["ms"])]
                       for s in cost.get("shaders", [])[:COSTLIEST]]
            lines += [f"**Cost of a step of `{workload}`** by op: {figure(cost['step_ms'])} ms, {figure(cost['rest_ms'])} of them around the ops; "
                      f"times by {cost.get('clock')}.", "",
                      *table(["op", "calls", "forward, ms", "backward, ms", "of the step"], ops)]
            if shaders:
                lines += ["By shader, what is around the ops included.", "",
                          *table(["shader", "dispatches", "MB bound", "ms", "of the step"], shaders)]
        return lines

    def failures(self) -> list[str]:
        failed = [(m, (m.read(self.out) or {}).get("failed")) for m in self.measurements]
        lines = [f"- {m.subject} {m.what}, {m.column}: {why}" for m, why in failed if why]
        return ["**Not measured**", "", *lines, ""] if lines else []


def conditions(args: argparse.Namespace) -> dict:
    """What the measurements are of: another program, device or plan is not mixed with them."""
    try:
        program = hashlib.sha256(Path(args.gradus).read_bytes()).hexdigest()
    except OSError as error:
        sys.exit(f"error: {args.gradus} cannot be read: {error}")
    tried = subprocess.run([args.gradus, "bench", "matmul", "--sizes", "16", "--quiet", "--json", "--device", args.device],
                           capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        sys.exit(f"error: {args.gradus} does not compute on {args.device}: {last_words(tried.stderr).removeprefix('error: ')}")
    version = subprocess.run([args.gradus, "--version"], capture_output=True, text=True, check=False).stdout.split()
    return {"program_sha256": program, "version": version[-1] if version else "unknown", "torch_version": torch_version(args.torch_python),
            "device": json.loads(tried.stdout.splitlines()[-1])["device"], "quick": args.quick}


def torch_version(python: str | None) -> str | None:
    """PyTorch's, with the version of CUDA that it was built for; none without --torch-python."""
    if not python:
        return None
    try:
        asked = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, check=False)
    except OSError as error:
        sys.exit(f"error: {python} cannot be run: {error}")
    if asked.returncode != 0:
        sys.exit(f"error: {python} does not import torch: {last_words(asked.stderr)}")
    return asked.stdout.strip()


def drivers() -> str:
    """What NVIDIA's tool says of GPU and driver, where there is one."""
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"],
                              capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return f"; {' / '.join(done.stdout.strip().splitlines())}" if done.returncode == 0 else ""


def same_as_kept(found: dict, out: Path) -> None:
    """Refuses a folder of other measurements."""
    path = out / "conditions.json"
    if not path.exists():
        path.write_text(json.dumps(found, indent=1), encoding="utf-8")
        return
    kept = json.loads(path.read_text(encoding="utf-8"))
    other = [key for key in found if kept.get(key) != found[key]]
    if other:
        sys.exit(f"error: {out} holds measurements of another {', '.join(other)} ({kept.get(other[0])}, not {found[other[0]]}); name another --out")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gradus", metavar="GRADUS", help="the program, built with --features wgpu")
    parser.add_argument("--torch-python", metavar="P", help="a Python that imports torch with CUDA; without it PyTorch is left out")
    parser.add_argument("--device", default="gpu", metavar="NAME", help="as `gradus devices` lists it (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("gpu-results"), metavar="DIR", help="where measurements are kept (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=8, metavar="M", help="how long a call may take (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a few small measurements, to see that the script runs")
    args = parser.parse_args()
    if not 0 < args.minutes <= 1440:
        parser.error(f"--minutes {args.minutes}: expected a number above 0, to 1440")
    args.gradus = os.path.abspath(args.gradus)
    deadline = time.monotonic() + 60 * args.minutes
    found = conditions(args)
    args.out.mkdir(parents=True, exist_ok=True)
    same_as_kept(found, args.out)
    measurements = plan(args)
    is_first = True
    for it in measurements:
        if it.read(args.out) is not None:
            continue
        if not make(it, args.out, deadline - time.monotonic(), is_first):
            break
        is_first = False
    left = sum(it.read(args.out) is None for it in measurements)
    tables = Tables(measurements, args.out)
    torch = next((r for m in measurements if m.column.startswith("PyTorch") and (r := m.result(args.out))), {})
    beside = f"; PyTorch {torch['version']} on {torch.get('gpu', 'cuda')}" if torch else ""
    lines = [f"Gradus {found['version']} on {found['device']}{beside}{drivers()}; {platform.system()} {platform.machine()}, "
             f"{datetime.date.today().isoformat()}. f32 without TF32.", "", *tables.products(), *tables.training(), *tables.generation(),
             *tables.layers(), *tables.costs(), *tables.failures()]
    print("\n".join(lines))
    if left:
        print(f"{left} of {len(measurements)} measurements are left: run the same command again")
        sys.exit(3)
    print(f"all {len(measurements)} measurements are made")


if __name__ == "__main__":
    main()
