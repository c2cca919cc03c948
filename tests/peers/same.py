#!/usr/bin/env python3
"""Compares two builds of `gradus`: are their numbers the same, to the bit, and is the new one as fast?

    tests/peers/same.sh OLD NEW              # bits, then speed
    tests/peers/same.sh OLD NEW --bits       # about five minutes on two quiet cores
    tests/peers/same.sh OLD NEW --speed      # about an hour; nothing else should run meanwhile
    tests/peers/same.sh OLD NEW --speed --workloads tiny --pairs 20

OLD and NEW are two programs on this machine. Texts and tasks are made by the programs themselves (`gradus world`). Each line is
printed as soon as it is known; the exit status is 0 only where every line holds. Needs Python's standard library only.

Figures are compared exactly. Times and rates are not compared, nor in audits words (paths, code, prose) and what only NEW has; the
most memory that `audit cost` reports may grow by 1 %. An intended difference, say new samples of one op, is allowed by its
line's name: --allow 'audit ops: attention'.
"""

import argparse
import fnmatch
import hashlib
import json
import math
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


class Failed(Exception):
    """A program ended with a non-zero exit code, or did not print what it should."""


class Program:
    """One of the two programs, in its own folder. The names of files are the same in both."""

    def __init__(self, name: str, binary: Path, folder: Path):
        self.name, self.folder = name, folder
        self.keys: dict[str, set[str]] = {}
        folder.mkdir(parents=True)
        # A copy of each, made now: how much of a program's file is in memory also depends on how and when it was written.
        place = folder.with_name(f"{folder.name}-program")
        place.mkdir()
        self.binary = shutil.copy(binary, place / "gradus")

    def run(self, words: str) -> str:
        """What the command prints on stdout."""
        environment = {name: value for name, value in os.environ.items() if name != "RAYON_NUM_THREADS"}
        environment["XDG_CACHE_HOME"] = str(self.folder / "cache")
        arguments = shlex.split(words)
        done = subprocess.run([self.binary, *arguments], cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or ["nothing said"]
            said = next((line for line in lines if line.startswith("error:")), lines[-1])
            raise Failed(f"{self.name}: gradus {words} ended with {done.returncode}: {said}")
        return done.stdout

    def json(self, words: str) -> dict:
        """The JSON object that the command prints last; its keys are noted under the command's name."""
        lines = self.run(f"{words} --json").splitlines()
        try:
            result = json.loads(lines[-1])
        except (IndexError, json.JSONDecodeError) as error:
            raise Failed(f"{self.name}: gradus {words} --json printed no JSON: {error}") from error
        self.note(re.match(r"[a-z ]*[a-z](?= |$)", words)[0], result)
        return result

    def file(self, name: str) -> dict | list:
        """A JSON file, or the records of a JSONL file, that the program wrote; its keys are noted too."""
        path = self.folder / name
        try:
            text = path.read_text(encoding="utf-8")
            result = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)
        except (OSError, json.JSONDecodeError) as error:
            raise Failed(f"{self.name}: {name}: {error}") from error
        self.note(path.name, result)
        return result

    def note(self, source: str, result: dict | list) -> None:
        self.keys.setdefault(source, set()).update(key_paths(result))


def key_paths(value: object, path: str = "") -> Iterator[str]:
    """Every key of a JSON value with the keys above it: `a`, `a.b`, `a.b[].c`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{path}.{key}".lstrip(".")
            yield from key_paths(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from key_paths(inner, f"{path}[]")


# What must hold for speed (the geometric mean over all lines; each line's interval) and of peak memory.
LEAST_MEAN, LEAST_INTERVAL, MOST_MEMORY = 0.99, 0.98, 1.01

# Comparing figures

TIMES = re.compile(r"(^|_)(seconds?|elapsed|ms)$|per_second|gflops|^(of_forward|share_of_bandwidth)$|rss")
FIGURE = re.compile(r"[-+]?\d[\d.]*(e[-+]?\d+)?|[0-9a-f]{64}")
ROW_NAMES = ("name", "witness")


def differences(old: object, new: object, figures_only: bool = False, path: str = "") -> Iterator[str]:
    """Where two JSON values differ: `path: old → new`. Keys and named rows that only `new` has are no difference, nor are times;
    with `figures_only`, nor are words."""
    if isinstance(old, str) and isinstance(new, str) and figures_only:
        if old.startswith("{") and new.startswith("{"):
            yield from differences(json.loads(old), json.loads(new), True, path)
            return
        if not FIGURE.fullmatch(old):
            return
    if isinstance(old, dict) and isinstance(new, dict):
        for key, inner in old.items():
            if TIMES.search(key):
                continue
            if key not in new:
                yield f"{path}.{key}: gone".lstrip(".")
            else:
                yield from differences(inner, new[key], figures_only, f"{path}.{key}".lstrip("."))
    elif isinstance(old, list) and isinstance(new, list):
        label = next((label for label in ROW_NAMES if old and all(isinstance(row, dict) and label in row for row in old + new)), None)
        if label:
            rows = {row[label]: row for row in new}
            for row in old:
                if row[label] not in rows:
                    yield f"{path}[{row[label]}]: gone"
                else:
                    yield from differences(row, rows[row[label]], figures_only, f"{path}[{row[label]}]")
        elif len(old) != len(new):
            yield f"{path}: {len(old)} → {len(new)} items"
        else:
            for index, (a, b) in enumerate(zip(old, new)):
                yield from differences(a, b, figures_only, f"{path}[{index}]")
    elif type(old) is not type(new) or old != new and not (old != old and new != new):
        yield f"{path}: {old!r} → {new!r}"


def count(value: object) -> int:
    """How many numbers a JSON value has."""
    if isinstance(value, dict):
        return sum(count(inner) for key, inner in value.items() if not TIMES.search(key))
    if isinstance(value, list):
        return sum(map(count, value))
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def weights(path: Path) -> str:
    """SHA-256 over the tensors of a safetensors file, in the order of their names."""
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    digest = hashlib.sha256()
    for name in sorted(header.keys() - {"__metadata__"}):
        tensor = header[name]
        first, last = tensor["data_offsets"]
        digest.update(f"{name} {tensor['dtype']} {tensor['shape']}\n".encode() + data[begin + first : begin + last])
    return digest.hexdigest()


def tree(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


# The table


class Table:
    """Lines that hold or do not, printed as they come."""

    def __init__(self, allow: list[str]):
        self.allow, self.lines, self.failed, self.allowed = allow, 0, 0, 0

    def head(self, what: str, *columns: str) -> None:
        self.print(what, *columns)
        print("-" * (57 + 16 * len(columns)), flush=True)

    def print(self, what: str, *columns: str) -> None:
        print(f"{what:56} " + " ".join(f"{column:>15}" for column in columns), flush=True)

    def line(self, what: str, holds: bool, *columns: str, why: list[str] | None = None) -> None:
        self.lines += 1
        verdict = "yes" if holds else "NO"
        if not holds and any(fnmatch.fnmatchcase(what, pattern) for pattern in self.allow):
            verdict = "no, allowed"
            self.allowed += 1
        elif not holds:
            self.failed += 1
        self.print(what, *columns, verdict)
        why = why or []
        for reason in why[:5]:
            print(f"    {reason}", flush=True)
        if len(why) > 5:
            print(f"    … and {len(why) - 5} more", flush=True)

    def end(self) -> bool:
        allowed = f", {self.allowed} differ and are allowed" if self.allowed else ""
        print(f"\n{self.lines} lines, {self.failed} do not hold{allowed}", flush=True)
        return self.failed == 0


def short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.9g}"
    return value[:12] if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) else str(value)


# Bits


class Bits:
    """Everything that both programs compute, each in its folder, side by side."""

    def __init__(self, table: Table, old: Program, new: Program):
        self.table, self.old, self.new = table, old, new
        self.pool = ThreadPoolExecutor(2)

    def both(self, task: Callable[[Program], object]) -> tuple[object, object]:
        """The task for OLD and for NEW, at the same time."""
        old, new = (self.pool.submit(task, program) for program in (self.old, self.new))
        return old.result(), new.result()

    def compare(self, what: str, task: Callable[[Program], object], head: Callable | None = None, figures_only: bool = False) -> None:
        """A line: the task's result, made by OLD and by NEW; `head` is what the table shows of it."""
        self.results(what, lambda: self.both(task), head, figures_only)

    def against(self, what: str, old: Callable[[], object], new: Callable[[], object], head: Callable | None = None) -> None:
        """A line: an existing result of OLD's, and what NEW makes of it."""
        self.results(what, lambda: (old(), new()), head)

    def results(self, what: str, make: Callable[[], tuple], head: Callable | None = None, figures_only: bool = False) -> None:
        try:
            old, new = make()
        except (Failed, OSError, ValueError) as error:
            self.table.line(what, False, "", "failed", why=[str(error)])
            return
        self.values(what, old, new, head, figures_only)

    def values(self, what: str, old: object, new: object, head: Callable | None = None, figures_only: bool = False) -> None:
        why = list(differences(old, new, figures_only))
        head = head or (lambda value: f"{count(value):,} figures")
        self.table.line(what, not why, short(head(old)), short(head(new)), why=why)

    def all(self) -> bool:
        self.table.head("bits", "old", "new", "same")
        self.help()
        self.world()
        self.pretraining()
        self.variants()
        self.finetuning()
        self.reading()
        self.audits()
        self.reproduction()
        self.json_names()
        return self.table.end()

    # Flags

    def help(self) -> None:
        def flags(program: Program, command: str = "") -> dict[str, list[str]]:
            text = program.run(f"{command} --help")
            found = {f"gradus {command}".strip(): sorted(set(re.findall(r"^\s+(?:-\w, )?(--[a-z0-9-]+)", text, re.MULTILINE)))}
            listed = re.search(r"^Commands:\n((?:[ ]+.*\n)+)", text, re.MULTILINE)
            for inner in re.findall(r"^  ([a-z-]+)", listed[1], re.MULTILINE) if listed else []:
                if inner != "help":
                    found |= flags(program, f"{command} {inner}".strip())
            return found

        try:
            old, new = self.both(flags)
        except Failed as error:
            self.table.line("flags", False, "", "failed", why=[str(error)])
            return
        def parses(command: str, flag: str) -> bool:
            try:
                self.new.run(f"{command.removeprefix('gradus')} {flag} --help".strip())
                return True
            except Failed as error:
                return f"unexpected argument '{flag}'" not in str(error)

        # A flag that the help no longer names may still be parsed, as an alias.
        unnamed = [(command, flag) for command in old if command in new for flag in old[command] if flag not in new[command]]
        gone = [f"{command} {flag}" for command, flag in unnamed if not parses(command, flag)]
        gone += [command for command in old if command not in new]
        self.table.line("commands", set(old) <= set(new), str(len(old)), str(len(new)))
        self.table.line("flags", not gone, *(str(sum(map(len, side.values()))) for side in (old, new)), why=[f"gone: {flag}" for flag in gone])

    # Texts and tasks

    def world(self) -> None:
        def written(program: Program) -> dict[str, str]:
            program.run("world --stories 300 --seed 3 --out stories.txt")
            program.run("world --stories 40 --seed 4 --out other.txt")
            program.run("world --tasks tasks --rows 40 --seed 1")
            (program.folder / "page.txt").write_text((program.folder / "other.txt").read_text(encoding="utf-8")[:600], encoding="utf-8")
            return tree(program.folder)

        self.compare("world: stories and tasks, files", written, lambda files: f"{len(files)} files")
        self.compare("world --json", lambda program: program.json("world --stories 20 --seed 7"))
        self.compare("world --describe", lambda program: program.json("world --describe"))
        self.compare("world --log-prob", lambda program: program.json("world --log-prob other.txt"))
        self.compare("tasks", lambda program: [task["name"] for task in program.json("tasks")["tasks"]], lambda names: f"{len(names)} names")

        def tokenizer(program: Program) -> str:
            program.json("tokenizer train --corpus stories.txt --vocab 300 --special <start> --out words")
            ids = program.run("tokenizer encode --tokenizer words --file other.txt")
            (program.folder / "ids.txt").write_text(ids, encoding="utf-8")
            text = program.run("tokenizer decode --tokenizer words --ids ids.txt")
            return hashlib.sha256((json.dumps(tree(program.folder / "words")) + ids + text).encode()).hexdigest()

        self.compare("tokenizer: files, ids, text", tokenizer, str)

    # Pre-training

    SIZES = "--preset tiny --layers 2 --width 64 --heads 4"
    LENGTH = "--steps 24 --eval-every 8 --eval-tokens 2000 --dropout 0.1 --seed 5"
    TEXTS = {
        "char": "--corpus stories.txt --tokenizer char --context 64 --batch 8",
        "bpe": "--corpus stories.txt --vocab 300 --context 64 --batch 8",
        "world": "--batch 4",
    }
    BODIES = {"gpt": SIZES, "lstm": "--preset tiny --backbone lstm --width 64 --units 96"}

    def pretraining(self) -> None:
        for text, corpus in self.TEXTS.items():
            for body, sizes in self.BODIES.items():
                self.pretrained(f"{body}-{text}", f"pretrain {corpus} {sizes} {self.LENGTH} --quiet")

    def pretrained(self, name: str, command: str) -> None:
        """One thread, two threads, stopped and resumed; and NEW resumes what OLD began."""

        def whole(threads: int) -> Callable[[Program], dict]:
            def task(program: Program) -> dict:
                result = program.json(f"{command} --out {name}-{threads} --threads {threads}")
                return {"result": result, "log": program.file(f"{name}-{threads}/metrics.jsonl")}

            return task

        def halves(program: Program) -> dict:
            program.json(f"{command} --out {name}-half --threads 2 --stop-at 11")
            if program is self.old:
                shutil.copytree(program.folder / f"{name}-half", self.new.folder / f"{name}-from-old")
            return program.json(f"pretrain --resume {name}-half --quiet --threads 1")

        def sha(value: dict) -> str:
            return value.get("result", value)["parameters_sha256"]

        self.compare(f"pretrain {name}, 1 thread", whole(1), sha)
        self.compare(f"pretrain {name}, 2 threads", whole(2), sha)
        self.compare(f"pretrain {name}, stopped and resumed", halves, sha)
        self.against(
            f"pretrain {name}, begun by OLD, resumed by NEW",
            lambda: {"parameters_sha256": weights(self.old.folder / f"{name}-half/model.safetensors")},
            lambda: self.resumed(name),
            lambda value: value["parameters_sha256"],
        )
        for program in (self.old, self.new):
            bits = [weights(program.folder / f"{name}-{way}/model.safetensors") for way in ("1", "2", "half") if self.has(program, f"{name}-{way}")]
            if len(set(bits)) != 1:
                self.table.line(f"pretrain {name}, {program.name}: threads and stops", False, str(len(bits)), f"{len(set(bits))} kinds")

    @staticmethod
    def has(program: Program, out: str) -> bool:
        return (program.folder / out / "model.safetensors").exists()

    def resumed(self, name: str) -> dict:
        self.new.json(f"pretrain --resume {name}-from-old --quiet --threads 2")
        return {"parameters_sha256": weights(self.new.folder / f"{name}-from-old/model.safetensors")}

    VARIANTS = {
        "paper37, relu, sequence mean": "--optimizer paper37 --activation relu --objective sequence_mean",
        "adamw, joint, accumulate 2": "--optimizer adamw --embedding joint --accumulate 2",
        "adam_l2, sinusoidal, 1 shard": "--optimizer adam_l2 --positions sinusoidal --shards 1",
        "sgd, gelu_erf, recompute, no clipping": "--optimizer sgd --activation gelu_erf --recompute --clip 0",
        "no dropout, warmup_cosine": "--dropout 0 --schedule warmup_cosine --warmup 5",
        "watched, warmup_linear": "--anomaly --schedule warmup_linear",
        "bytes, 3 shards, warmup_constant": "--tokenizer byte --shards 3 --schedule warmup_constant",
    }

    def variants(self) -> None:
        def one(out: str, words: str) -> Callable[[Program], dict]:
            return lambda program: program.json(f"pretrain {words} --out {out} --quiet --threads 2")

        def sha(value: dict) -> str:
            return value["parameters_sha256"]

        for number, (what, options) in enumerate(self.VARIANTS.items()):
            length = " ".join(pair for pair in re.findall(r"--\S+ \S+", self.LENGTH) if pair.split()[0] not in options)
            corpus = " ".join(pair for pair in re.findall(r"--\S+ \S+", self.TEXTS["char"]) if pair.split()[0] not in options)
            self.compare(f"pretrain {what}", one(f"variant-{number}", f"{corpus} {self.SIZES} {length} {options}"), sha)
        shuffled = f"{self.TEXTS['world']} {self.SIZES} {self.LENGTH} --shuffle-sentences"
        self.compare("pretrain world, shuffled sentences", one("shuffled", shuffled), sha)
        small = "--corpus stories.txt --tokenizer char --preset small --batch 2 --steps 3 --eval-every 3 --eval-tokens 2000"
        self.compare("pretrain preset small", one("small", small), sha)

    # Fine-tuning

    FINETUNING = {
        "rte, two seeds": "--model gpt-world-1 --task rte --data tasks/rte --epochs 3 --batch 8 --seeds 2",
        "cola, nothing transferred, bias": "--model gpt-world-1 --task cola --data tasks/cola --transfer none --head-bias --batch 4",
        "sts-b, frozen": "--model gpt-world-1 --task sts-b --data tasks/sts-b --frozen --aux 0 --batch 4",
        "race, one block, token mean": "--model gpt-world-1 --task race --data tasks/race --transfer 1 --objective token_mean --batch 4",
        "mrpc, BPE, cut texts, no dropout": "--model gpt-bpe-1 --task mrpc --data tasks/mrpc --dropout 0 --classifier-dropout 0 --batch 4",
        "story-cloze, LSTM": "--model lstm-world-1 --task story-cloze --data tasks/story-cloze --batch 4",
    }

    def finetuning(self) -> None:
        def tuned(program: Program, out: str, result: dict) -> dict:
            files = sorted((program.folder / out).rglob("model.safetensors"))
            program_files = {str(path.parent.relative_to(program.folder / out)): weights(path) for path in files}
            heads = sorted((program.folder / out).rglob("head.safetensors"))
            program_files |= {f"head of {path.parent.relative_to(program.folder / out)}": weights(path) for path in heads}
            return {"result": {key: value for key, value in result.items() if key != "out"}, "weights": program_files}

        def whole(out: str, words: str, threads: int) -> Callable[[Program], dict]:
            command = f"finetune {words} --out {out} --threads {threads} --quiet"
            return lambda program: tuned(program, out, program.json(command))

        def sha(value: dict) -> str:
            return next(iter(value["weights"].values()), "no weights")

        name, words = next(iter(self.FINETUNING.items()))

        def halves(program: Program) -> dict:
            program.json(f"finetune {words} --out tuned-half --threads 2 --stop-at 5 --quiet")
            if program is self.old:
                shutil.copytree(program.folder / "tuned-half", self.new.folder / "tuned-from-old")
            return tuned(program, "tuned-half", program.json("finetune --resume tuned-half --threads 1 --quiet"))

        def old() -> dict:
            return tuned(self.old, "tuned-half", self.old.file("tuned-half/result.json"))

        def resumed() -> dict:
            self.new.json("finetune --resume tuned-from-old --threads 2 --quiet")
            return tuned(self.new, "tuned-from-old", self.new.file("tuned-from-old/result.json"))

        def from_old() -> dict:
            model = words.replace("--model ", f"--model {self.old.folder}/")
            self.new.json(f"finetune {model} --out tuned-on-old --threads 2 --quiet")
            return tuned(self.new, "tuned-on-old", self.new.file("tuned-on-old/result.json"))

        for number, (what, options) in enumerate(self.FINETUNING.items()):
            self.compare(f"finetune {what}", whole(f"tuned-{number}", options, 2), sha)
        self.compare(f"finetune {name}, 1 thread", whole("tuned-one-thread", words, 1), sha)
        self.compare(f"finetune {name}, stopped and resumed", halves, sha)
        self.against(f"finetune {name}, begun by OLD, resumed by NEW", old, resumed, sha)
        self.against(f"finetune {name}, by NEW, of OLD's model", old, from_old, sha)
        self.compare("finetune: metrics.jsonl", lambda program: program.file("tuned-0/seed-1/metrics.jsonl"))

    # Evaluation, answers, texts

    READING = {
        "evaluate, gpt-char": "evaluate --model {at}gpt-char-1 --corpus other.txt --stride 16",
        "evaluate, lstm-bpe, context 32": "evaluate --model {at}lstm-bpe-1 --corpus other.txt --context 32",
        "evaluate, token ids, f64, gradients": "evaluate --model {at}gpt-bpe-1 --ids few.txt --dtype f64 --gradients",
        "evaluate, rte": "evaluate --model {at}tuned-0/seed-1 --task rte --data tasks/rte --split dev",
        "evaluate, cola, test labels": "evaluate --model {at}tuned-1 --task cola --data tasks/cola --split test --labels tasks/cola/test_labels.tsv",
        "evaluate, zero-shot": "evaluate --model {at}gpt-world-1 --task sst-2 --data tasks/sst-2 --zero-shot --opening <story>",
        "predict, rte": "predict --model {at}tuned-0/seed-2 --task rte --data tasks/rte --split dev",
        "predict, cola": "predict --model {at}tuned-1 --task cola --data tasks/cola",
        "predict, sts-b": "predict --model {at}tuned-2 --task sts-b --data tasks/sts-b --split dev",
        "predict, race": "predict --model {at}tuned-3 --task race --data tasks/race",
        "predict, story-cloze, LSTM": "predict --model {at}tuned-5 --task story-cloze --data tasks/story-cloze",
        "generate, greedy": "generate --model {at}gpt-bpe-1 --prompt 'the garden' --tokens 40 --greedy",
        "generate, seed 11": "generate --model {at}gpt-char-1 --prompt 'The ' --tokens 50 --seed 11",
        "generate, top-k, top-p, slide": "generate --model {at}gpt-char-1 --prompt 'A' --tokens 90 --top-k 9 --top-p 0.9 --temperature 0.8 --slide",
        "generate, LSTM": "generate --model {at}lstm-world-1 --prompt '<story>' --tokens 40 --seed 2",
    }

    def reading(self) -> None:
        for program in (self.old, self.new):
            (program.folder / "few.txt").write_text(" ".join(str(7 * i % 290) for i in range(48)), encoding="utf-8")
        for what, words in self.READING.items():
            self.compare(what, lambda program, words=words: program.json(words.format(at="") + " --threads 2"))
        self.against(
            "… all of them by NEW, of OLD's models",
            lambda: [self.old.json(words.format(at="") + " --threads 1") for words in self.READING.values()],
            lambda: [self.new.json(words.format(at=f"{self.old.folder}/") + " --threads 1") for words in self.READING.values()],
        )

    # Audits and benchmarks

    def audits(self) -> None:
        def rows(what: str, words: str, *fields: str) -> None:
            """For each field, a line for all its rows, and one for each row that differs."""
            try:
                old, new = self.both(lambda program: program.json(f"audit {words} --quiet --threads 1"))
            except Failed as error:
                self.table.line(what, False, "", "failed", why=[str(error)])
                return
            for field in fields:
                for row in old[field] + new[field]:
                    row.get("facts", {}).pop("model", None)  # the configuration, which has another format
                there = {row["name"]: row for row in new[field]}
                differ = [row for row in old[field] if any(differences(row, there.get(row["name"]), True))]
                for row in differ:
                    self.values(f"{what}: {row['name']}", row, there.get(row["name"]), figures_only=True)
                same = len(old[field]) - len(differ)
                self.table.line(f"{what}: {field} without a difference", same > 0, f"{len(old[field])} {field}", f"{same} same")
            for key in ("faults", "draws", "tokens"):
                if key in old:
                    self.values(f"{what}: {key}", old[key], new.get(key), lambda value: "none" if value == [] else value)
            if "peak_bytes" in old:
                before, after = old["peak_bytes"], new["peak_bytes"]
                self.table.line(f"{what}: most memory", after <= MOST_MEMORY * before, f"{before:,}", f"{after:,}")

        rows("audit ops", "ops", "ops")
        rows("audit model", "model", "models")
        rows("audit model, a GPT with dropout", "model --model gpt-bpe-1 --dropout --seed 3 --coordinates 1 --tokens 4", "models")
        rows("audit cost", "cost --steps 1", "ops", "places")
        self.compare("audit step, by hand", lambda program: program.json("audit step --by-hand --html by-hand.html --quiet"), figures_only=True)
        self.compare("audit step", lambda program: program.json("audit step --html step.html --quiet"), figures_only=True)
        self.compare("bench train: loss", lambda program: self.loss(program, "train --steps 1 --warm-up 1"), str)
        self.compare("bench evaluate: loss", lambda program: self.loss(program, "evaluate --passes 1"), str)
        self.compare("bench generate: parameters", lambda program: program.json("bench generate --tokens 8 --threads 1")["parameters"], str)
        scaling = "bench scaling --sweep vocabulary --repeats 1 --threads 1"
        self.compare("bench scaling: FLOPs", lambda program: [point["gflop"] for point in program.json(scaling)["sweeps"][0]["points"]])

    @staticmethod
    def loss(program: Program, words: str) -> float:
        result = program.json(f"bench {words} --threads 1")
        return result.get("final_loss", result.get("loss"))

    # The paper in miniature

    def reproduction(self) -> None:
        def whole(program: Program) -> dict:
            claims = program.json("reproduce --scale 0.01 --out miniature --quiet --threads 1")["claims"]
            return {"claims": [[claim["ours"], claim["verdict"]] for claim in claims], "results": program.file("miniature/results.json")}

        def opened() -> dict:
            shutil.copytree(self.old.folder / "miniature", self.new.folder / "miniature-from-old")
            result = self.new.json("reproduce --resume miniature-from-old --quiet --threads 1")
            if result["done"] != 0 and result["skipped"] == 0:
                raise Failed("new: OLD's reproduction was run again instead of being read")
            return self.new.file("miniature-from-old/results.json")

        self.compare("reproduce: every score", whole, figures_only=True)
        self.against("reproduce: OLD's directory read by NEW", lambda: self.old.file("miniature/results.json"), opened)

    def json_names(self) -> None:
        for source, names in sorted(self.old.keys.items()):
            there = self.new.keys.get(source, set())
            gone = sorted(names - there)
            self.table.line(f"JSON names: {source}", not gone, str(len(names)), str(len(there)), why=[f"gone: {name}" for name in gone])


# Speed

WORKLOADS = ("tiny", "small", "gpt1")
STEPS = {"tiny": (40, 4), "small": (6, 1), "gpt1": (2, 1)}  # timed, and before those
PASSES = {"tiny": 5, "small": 2, "gpt1": 1}
TOKENS = {"tiny": 96, "small": 160, "gpt1": 120}


def speed_lines(workloads: list[str], tasks: list[str]) -> Iterator[tuple[str, str]]:
    for workload in workloads:
        steps, before = STEPS[workload]
        if "train" in tasks:
            for dropout in ("0.1", "0"):
                words = f"bench train --workload {workload} --dropout {dropout} --steps {steps} --warm-up {before}"
                yield f"train {workload}, dropout {dropout}", words
        if "evaluate" in tasks:
            yield f"evaluate {workload}", f"bench evaluate --workload {workload} --passes {PASSES[workload]}"
        if "generate" in tasks:
            yield f"generate {workload}", f"bench generate --preset {workload} --tokens {TOKENS[workload]}"


def student_t(degrees: int) -> float:
    """The 97.5 % point of Student's t: the exact one for 1 and 2 degrees of freedom, tabled to 9, then Cornish and Fisher's series
    in 1/degrees, which is right to four digits there."""
    table = [12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622]
    if degrees <= len(table):
        return table[degrees - 1]
    z = statistics.NormalDist().inv_cdf(0.975)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / degrees + second / degrees**2 + third / degrees**3


def geometric(ratios: list[float]) -> tuple[float, float, float]:
    """Geometric mean of ratios, and its 95 % interval by Student's t on their logarithms."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    half = student_t(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.inf
    return math.exp(mean), math.exp(mean - half) if half < math.inf else 0.0, math.exp(min(mean + half, 700))


def speed(table: Table, old: Program, new: Program, args: argparse.Namespace) -> bool:
    """Alternating runs, line by line; within a pair, now OLD runs first, now NEW."""
    table.head(f"speed: NEW / OLD over {args.pairs} pairs", "old, tokens/s", "new, tokens/s", "ratio", "95 %", "peak memory", "holds")
    means = []
    for what, words in speed_lines(args.workloads, args.tasks):
        rates: dict[str, list[float]] = {"old": [], "new": []}
        memory: dict[str, list[float]] = {"old": [], "new": []}
        try:
            for pair in range(args.pairs):
                for program in (old, new) if pair % 2 == 0 else (new, old):
                    result = program.json(f"{words} --threads {args.threads}")
                    rates[program.name].append(result["tokens_per_second"])
                    memory[program.name].append(result.get("peak_rss_mb") or 0.0)
                ratio = rates["new"][-1] / rates["old"][-1]
                print(f"  {what}, pair {pair + 1} of {args.pairs}: {ratio:.4f}", file=sys.stderr, flush=True)
        except Failed as error:
            table.line(what, False, "", "failed", why=[str(error)])
            continue
        mean, low, high = geometric([b / a for a, b in zip(rates["old"], rates["new"])])
        means.append(mean)
        columns = [*(f"{statistics.median(rates[side]):,.1f}" for side in ("old", "new")), f"{mean:.4f}", f"{low:.3f}–{high:.3f}"]
        grown = geometric([b / a for a, b in zip(memory["old"], memory["new"])])[0] if all(memory["old"] + memory["new"]) else None
        columns.append(f"{grown:.4f}" if grown else "–")
        why = [f"the interval lies wholly below {LEAST_INTERVAL}"] if high < LEAST_INTERVAL else []
        why += [f"peak memory is above {MOST_MEMORY} of OLD's"] if grown and grown > MOST_MEMORY else []
        table.line(what, not why, *columns, why=why)
    if means:
        mean = math.exp(statistics.fmean(map(math.log, means)))
        why = [] if mean >= LEAST_MEAN else [f"below {LEAST_MEAN}"]
        table.line("all lines", not why, "", "", f"{mean:.4f}", "", "", why=why)
    return table.end()


def main() -> None:
    summary = __doc__.split("\n\n")
    parser = argparse.ArgumentParser(description=summary[0], epilog="\n\n".join(summary[1:]), formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, metavar="OLD", help="the program before")
    parser.add_argument("new", type=Path, metavar="NEW", help="the program after")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--bits", action="store_true", help="the bits alone")
    which.add_argument("--speed", action="store_true", help="the speed alone")
    parser.add_argument("--allow", action="append", default=[], metavar="LINE", help="bits: a line that may differ, by its name or a pattern with *; may be given several times")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="a new folder to keep what the programs wrote, in old/ and new/")
    parser.add_argument("--pairs", type=int, default=10, help="speed: pairs of runs per line [default: 10]")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="speed: threads [default: one per core]")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), help="speed: workloads [default: all]")
    parser.add_argument("--tasks", nargs="+", choices=("train", "evaluate", "generate"), default=["train", "evaluate", "generate"], help="speed: tasks [default: all]")
    args = parser.parse_args()
    if args.pairs < 1:
        parser.error("--pairs: expected 1 or more")
    for program in (args.old, args.new):
        if not os.access(program, os.X_OK) or program.is_dir():
            parser.error(f"{program} is not a program")
    if args.keep and args.keep.exists():
        parser.error(f"{args.keep} exists; give a new folder")
    folder = args.keep.resolve() if args.keep else Path(tempfile.mkdtemp(prefix="gradus-same-"))
    try:
        programs = [Program(name, path.resolve(), folder / name) for name, path in (("old", args.old), ("new", args.new))]
        holds = []
        if not args.speed:
            bits = Bits(Table(args.allow), *programs)
            holds.append(bits.all())
        if not args.bits:
            holds.append(speed(Table([]), *programs, args))
    finally:
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()
