"""Writes scores.json: metrics of small random predictions as scikit-learn and SciPy compute them. NaN is written as null."""

import json
import math
import pathlib
import warnings

import numpy as np
import scipy.stats
import sklearn.metrics

warnings.simplefilter("ignore")  # the degenerate cases are meant


def number(value):
    return None if math.isnan(value) else float(value)


def classes(name, predictions, labels):
    """Accuracy, F1 of class 1 and Matthews' correlation; classes other than 1 count as 0 for F1."""
    p, l = np.array(predictions), np.array(labels)
    return {
        "name": name,
        "predictions": p.tolist(),
        "labels": l.tolist(),
        "accuracy": number(sklearn.metrics.accuracy_score(l, p)),
        "f1": number(sklearn.metrics.f1_score(l == 1, p == 1, zero_division=0)),
        "matthews": number(sklearn.metrics.matthews_corrcoef(l, p)),
    }


def values(name, predictions, labels):
    """Pearson's and Spearman's correlation, mean and sample deviation of the predictions."""
    p, l = np.array(predictions, dtype=float), np.array(labels, dtype=float)
    return {
        "name": name,
        "predictions": p.tolist(),
        "labels": l.tolist(),
        "pearson": number(scipy.stats.pearsonr(p, l).statistic),
        "spearman": number(scipy.stats.spearmanr(p, l).statistic),
        "mean": number(np.mean(p)),
        "deviation": number(np.std(p, ddof=1)),
    }


def lines(rows):
    return ",\n".join("    " + json.dumps(row) for row in rows)


random = np.random.default_rng(1)
binary = random.integers(0, 2, 40)
three = random.integers(0, 3, 60)
scores = np.round(random.uniform(0, 5, 50), 1)
fixture = {
    "classes": [
        classes("binary", np.where(random.random(40) < 0.3, 1 - binary, binary), binary),
        classes("binary, few of class 1", (random.random(50) < 0.2).astype(int), (random.random(50) < 0.1).astype(int)),
        classes("three classes", np.where(random.random(60) < 0.4, random.integers(0, 3, 60), three), three),
        classes("three classes, one never predicted", np.minimum(three, 1), three),
        classes("all right", binary, binary),
        classes("all wrong", 1 - binary, binary),
        classes("one right", [1], [1]),
        classes("one wrong", [0], [1]),
        classes("constant predictions 1", np.ones(40, int), binary),
        classes("constant predictions 0", np.zeros(40, int), binary),
        classes("constant labels 1", binary, np.ones(40, int)),
        classes("constant labels 0", binary, np.zeros(40, int)),
        classes("class 1 neither predicted nor there", [0, 0, 0], [0, 0, 0]),
        classes("all of class 1", [1, 1, 1], [1, 1, 1]),
    ],
    "values": [
        values("noisy", scores + random.normal(0, 1, 50), scores),
        values("ties on both sides", np.round(scores + random.normal(0, 1, 50)), np.round(scores)),
        values("unrelated", random.normal(0, 1, 30), random.normal(0, 1, 30)),
        values("reversed", -scores, scores),
        values("monotone, not linear", np.exp(scores), scores),
        values("far from 0", 1e6 + random.normal(0, 1, 20), random.normal(0, 1, 20)),
        values("tiny", 1e-200 * np.arange(5), [0, 2, 1, 3, 4]),
        values("two", [1, 2], [4, 3]),
        values("constant predictions", np.full(10, 2.7), np.arange(10)),
        values("constant labels", np.arange(10), np.full(10, 0.1)),
    ],
}
text = "{\n" + ",\n".join(f'  "{kind}": [\n{lines(rows)}\n  ]' for kind, rows in fixture.items()) + "\n}\n"
pathlib.Path(__file__).with_name("scores.json").write_text(text)
