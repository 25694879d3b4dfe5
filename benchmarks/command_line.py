"""Predicting 10,000 MNIST digits: the command line beside the same steps in a Python program.

Both are processes of their own that import the library, load the model, read the digits (NPY and
CSV), predict labels and probabilities, and write them as CSV. The smallest of some runs counts; CPU
seconds are those of the process and hold on a busy machine, too.

    python benchmarks/command_line.py [--train 5000] [--repeat 3]
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import bayespoint
from bayespoint import BayesPointClassifier
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.model_file import save
from bayespoint.io.tables import read_table
from bayespoint.papers import datasets

COMMAND = "from bayespoint.cli import main; main()"
PROGRAM = """
import sys
from bayespoint.io.model_file import load
from bayespoint.io.tables import read_table, write_csv

file, path, output = sys.argv[1:]
model = load(path)
X = model.encoder.transform(read_table(file))
proba = model.classifier.predict_proba(X)
labels = model.classifier.classes_[proba.argmax(axis=1)]
with open(output, "w", newline="") as stream:
    names = [f"probability_{c}" for c in model.classifier.classes_]
    write_csv(stream, ["label", *names], [labels, *proba.T])
"""


def prepared(folder, n_train):
    """Write model and test digits; return their paths."""
    X, y, X_test, _ = datasets.load("mnist")
    np.save(folder / "train.npy", X[:n_train])
    np.save(folder / "test.npy", X_test)
    names = ",".join(f"x{i}" for i in range(X.shape[1]))
    np.savetxt(folder / "test.csv", X_test, fmt="%d", delimiter=",", header=names, comments="")
    table = read_table(folder / "train.npy")
    encoder = TableEncoder().fit(table)
    classifier = BayesPointClassifier(
        gamma=0.002, softness=0.1, inference="perceptron", n_draws=20, random_state=0
    )
    classifier.fit(encoder.transform(table), np.array([str(label) for label in y[:n_train]]))
    save(folder / "mnist.bpm", classifier, encoder=encoder, about={"target": "label"})
    size = (folder / "mnist.bpm").stat().st_size / 1e6
    print(
        f"model of {n_train:,} digits: {len(classifier.support_):,} support points, {size:.0f} MB"
    )
    return [folder / "test.npy", folder / "test.csv"], folder / "mnist.bpm"


def timed(arguments):
    """Wall and CPU seconds of a process."""
    environment = {**os.environ, "PYTHONPATH": str(Path(bayespoint.__file__).parents[1])}
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", *map(str, arguments)], check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--train", type=int, default=5000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files, model = prepared(folder, options.train)
        columns = f"{'command':>9}{'program':>9}{'more':>7}"
        print(f"{'':<12}{'wall seconds':>25}{'CPU seconds':>28}")
        print(f"{'file':<12}{columns}   {columns}")
        for file in files:
            output = folder / "output.csv"
            runs = []
            for _ in range(options.repeat):
                command = ["predict", file, "--model", model, "--output", output, "--quiet"]
                runs.append((*timed([COMMAND, *command]), *timed([PROGRAM, file, model, output])))
            wall, cpu, wall_program, cpu_program = np.min(runs, axis=0)
            print(f"{file.suffix:<12}{wall:>9.2f}{wall_program:>9.2f}{wall - wall_program:>7.2f}"
                  f"{cpu:>12.2f}{cpu_program:>9.2f}{cpu - cpu_program:>7.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
