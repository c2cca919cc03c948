#!/usr/bin/env python3
"""Tests whether training with products in bf16 reaches the loss of training in f32: two one-sided t-tests on paired seeds (TOST).

    python tests/peers/equivalence.py --out runs --corpus shakespeare=input.txt --steps 1000
    python tests/peers/equivalence.py --out runs --corpus world --steps 1000

`world` is 20,000 stories of the micro-world. Nothing in bf16 runs before `plan.json` is written:

    pilot     f32 with 2 and with 3 shards, 8 seeds: rounding alone. s is the deviation of the paired differences of the loss
    margin    the larger of a fifth of the deviation of f32's loss over the seeds, and twice s/√8
    seeds     the fewest, at least 8, for a power of 80 % if the true difference is 0 and its deviation is s, at a level of 5 %

The difference is equivalent to 0 if its 90 % interval lies within the margin. The loss is that of the validation text after the last
step, in nats. Finished runs are kept in `--out`: after a stop, the same command continues. Standard library only.
"""

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path
from statistics import NormalDist, mean, stdev

LEVEL, POWER, FEWEST = 0.05, 0.8, 8


def beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function I_x(a, b), by its continued fraction (Lentz)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 300):
        for step in (m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)), -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))):
            d, c = 1 / (1 + step * d), 1 + step / c
            value *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * value


def t_below(t: float, df: int) -> float:
    """The probability that Student's t with `df` degrees of freedom is below `t`."""
    tail = beta(df / 2, 0.5, df / (df + t * t)) / 2
    return 1 - tail if t > 0 else tail


def t_quantile(p: float, df: int) -> float:
    """The value that Student's t is below with probability `p`."""
    low, high = -1e3, 1e3
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if t_below(middle, df) < p else (low, middle)
    return (low + high) / 2


def power(margin: float, deviation: float, n: int) -> float:
    """The power of both tests together for a true difference of 0, by the normal approximation of the mean."""
    return max(0.0, 2 * NormalDist().cdf(margin * math.sqrt(n) / deviation - t_quantile(1 - LEVEL, n - 1)) - 1)


def interval(differences: list[float]) -> tuple[float, float, float]:
    """The mean of paired differences and the ends of its interval of 1 − 2·LEVEL."""
    n, centre = len(differences), mean(differences)
    half = t_quantile(1 - LEVEL, n - 1) * stdev(differences) / math.sqrt(n)
    return centre, centre - half, centre + half


class Runs:
    """Training runs on one corpus, kept in a folder."""

    def __init__(self, args: argparse.Namespace, name: str, corpus: Path):
        self.args, self.name, self.corpus = args, name, corpus
        self.folder = args.out / name
        self.folder.mkdir(parents=True, exist_ok=True)

    def loss(self, seed: int, precision: str, shards: int) -> float:
        """The loss of a run, which is trained unless it is there."""
        kept = self.folder / f"{precision}-{shards}-{seed}.json"
        if not kept.exists():
            out = self.folder / f"run-{precision}-{shards}-{seed}"
            words = [self.args.gradus, "pretrain", "--quiet", "--json"]
            if (out / "run.json").exists():
                words += ["--resume", str(out)]
            else:
                words += ["--corpus", str(self.corpus), "--out", str(out), "--preset", "tiny", "--seed", str(seed)]
                words += ["--steps", str(self.args.steps), "--shards", str(shards), "--matmul-precision", precision]
                words += self.args.flags.split()
            done = subprocess.run(words, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{' '.join(words)}\n{done.stderr}")
            kept.write_text(done.stdout.strip().splitlines()[-1] + "\n")
        loss = json.loads(kept.read_text())["validation"]["nll"]
        print(f"{self.name}: seed {seed}, {precision}, {shards} shards: {loss:.5f}", file=sys.stderr, flush=True)
        return loss

    def plan(self) -> dict:
        """The margin and the number of seeds, by the pilot, written once."""
        kept = self.folder / "plan.json"
        if not kept.exists():
            pairs = [(self.loss(seed, "f32", 2), self.loss(seed, "f32", 3)) for seed in range(1, FEWEST + 1)]
            of_rounding = stdev(b - a for a, b in pairs)
            of_seeds = stdev(a for a, _ in pairs)
            margin = max(of_seeds / 5, 2 * of_rounding / math.sqrt(FEWEST))
            seeds = next(n for n in range(FEWEST, 1000) if power(margin, of_rounding, n) >= POWER)
            plan = {"deviation_of_seeds": of_seeds, "deviation_of_rounding": of_rounding, "margin": margin, "seeds": seeds}
            plan["power"] = power(margin, of_rounding, seeds)
            kept.write_text(json.dumps(plan, indent=1) + "\n")
        return json.loads(kept.read_text())

    def row(self) -> str:
        """A row of the table."""
        plan = self.plan()
        pairs = [(self.loss(seed, "f32", 2), self.loss(seed, "bf16", 2)) for seed in range(1, plan["seeds"] + 1)]
        centre, low, high = interval([b - a for a, b in pairs])
        verdict = "equivalent" if -plan["margin"] < low and high < plan["margin"] else "not shown"
        figures = [mean(a for a, _ in pairs), plan["deviation_of_seeds"], plan["deviation_of_rounding"], plan["margin"], centre, low, high]
        return f"| {self.name} | {plan['seeds']} | " + " | ".join(f"{x:.5f}" for x in figures) + f" | {verdict} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gradus", default="target/release/gradus", help="the program")
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--corpus", action="append", required=True, help="`world`, or NAME=FILE; may be repeated")
    parser.add_argument("--steps", type=int, default=1000, help="steps of a run")
    parser.add_argument("--flags", default="", help="more flags of `gradus pretrain`")
    args = parser.parse_args()
    rows = []
    for corpus in args.corpus:
        name, _, file = corpus.partition("=")
        path = Path(file) if file else args.out / "world.txt"
        if not file and not path.exists():
            args.out.mkdir(parents=True, exist_ok=True)
            subprocess.run([args.gradus, "world", "--stories", "20000", "--seed", "1", "--out", str(path)], check=True)
        rows.append(Runs(args, name, path).row())
    print("| corpus | seeds | loss in f32 | its deviation over seeds | deviation of rounding | margin | bf16 − f32 | 90 % from | to | verdict |")
    print("|-|-|-|-|-|-|-|-|-|-|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
