"""A CSV file of 50,000 rows as people have them, by the command: time, log-loss, --max-time.

Prints the log-loss of 10,000 other rows and the time from file to report, of ``bayespoint train``
and ``bayespoint evaluate --report``, beside logistic regression on the same encoded columns and
what was announced; then those of ``--max-time 10``, beside a fit on 3,000 rows. What the commands
say goes to stderr.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from bayespoint import BayesPointClassifier
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.model_file import load
from bayespoint.io.tables import read_table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from helpers.people import Shop, german, written


def files(folder, n_train, n_test, seed):
    """Write both files: semicolons, decimal commas, dates with hours, Windows-1252, gaps."""
    shop = Shop(n_train + n_test, seed=seed, noise=1.0)
    columns = shop.columns(
        size=[
            "" if gap else german(x, 3) for x, gap in zip(shop.size, shop.gaps[:, 0], strict=True)
        ],
        price=[german(x) for x in shop.price],
        day=[f"{day:%d.%m.%Y %H:%M}" for day in shop.days],
    )
    how = {"delimiter": ";", "encoding": "cp1252"}
    train = written(folder / "train.csv", columns, slice(n_train), **how)
    return train, written(folder / "test.csv", columns, slice(n_train, None), **how)


def run(*words):
    """Run a command; return its seconds and what it said."""
    command = [sys.executable, "-c", "from bayespoint.cli import main; main()", *map(str, words)]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    print("".join(f"    {line}\n" for line in said.splitlines()), end="", file=sys.stderr)
    return time.perf_counter() - start, said


def announced(said):
    """Time that was announced, or nothing."""
    found = re.search(r"This may take (about [^:]+):", said)
    return f"  (announced: {found[1]})" if found else ""


def examples(file):
    table = read_table(file, text=["label"])
    return table.without(["label"]), np.array(table.column("label").tolist())


class Rows:
    """Both files, encoded; what logistic regression and fits in Python make of them."""

    def __init__(self, folder, n_train, seed=0):
        self.folder = folder
        self.training, self.test = files(folder, n_train, 10_000, seed)
        (rows, self.y), (new, self.y_new) = examples(self.training), examples(self.test)
        self.encoder = TableEncoder().fit(rows)
        self.X, self.X_new = self.encoder.transform(rows), self.encoder.transform(new)

    def loss(self, classifier):
        return log_loss(self.y_new, classifier.predict_proba(self.X_new))

    def logistic(self):
        return self.loss(LogisticRegression(max_iter=1000).fit(self.X, self.y))

    def of_some(self, n_rows):
        """Log-loss of a fit on some of the rows, without a limit of time."""
        some = np.random.default_rng(1).choice(len(self.X), n_rows, replace=False)
        clf = BayesPointClassifier(
            random_state=0, n_jobs=2, feature_groups=self.encoder.feature_groups_
        )
        return self.loss(clf.fit(self.X[some], self.y[some]))

    def by_command(self, name, *options):
        """Print log-loss of the model of the command, and seconds of training and of the report."""
        model, page = self.folder / "m.bpm", self.folder / "report.html"
        given = ("--target", "label", "--model", model, "--n-jobs", 2)
        training, said = run("train", self.training, *given, *options)
        report, _ = run("evaluate", self.test, "--model", model, "--report", page)
        loss, all_of_it = self.loss(load(model).classifier), training + report
        print(
            f"{name:21} {loss:.4f}  train {training:5.1f} s, with report {all_of_it:5.1f} s"
            f"{announced(said)}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--max-time", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=["all", "limited"], help="one of the two")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = Rows(folder, options.rows, options.seed)
        print(f"{len(rows.X):,} rows, {rows.X.shape[1]} features; log-loss of 10,000 other rows")
        print(f"logistic regression   {rows.logistic():.4f}", flush=True)
        if options.only != "limited":
            rows.by_command("train")
        if options.only != "all":
            limit = f"{options.max_time:g}"
            rows.by_command(f"train --max-time {limit}", "--max-time", limit)
            print(f"fit of 3,000 rows     {rows.of_some(3000):.4f}", flush=True)


if __name__ == "__main__":
    main()
