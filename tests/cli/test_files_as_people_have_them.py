"""CSV files as people have them, from file to report; `benchmarks/files.py` has a large one."""

import json
import shlex
from functools import wraps

import numpy as np
import pytest
from helpers.benchmarks import load_benchmark
from helpers.cli import fails, numbers, reported, well
from helpers.people import Shop, german, written
from scipy.stats import entropy

from bayespoint import BayesPointClassifier

TRAIN = 100  # of 150 rows
QUICK = ["--inference", "ep", "--n-jobs", 1, "--no-importances"]


@pytest.fixture
def wide(monkeypatch):
    """Settings for every fit, so that none is searched for."""
    fit = BayesPointClassifier.fit

    @wraps(fit)
    def quick(self, *arguments, **others):
        return fit(self.set_params(gamma=0.03, softness=0.1, bias=1.0), *arguments, **others)

    monkeypatch.setattr(BayesPointClassifier, "fit", quick)


def halves(folder, columns, n_train=TRAIN, **how):
    """Write a file to train on and one to evaluate on."""
    first = written(folder / "train.csv", columns, slice(n_train), **how)
    return first, written(folder / "test.csv", columns, slice(n_train, None), **how)


def told(folder, columns, *options, n_train=TRAIN, **how):
    """Train, evaluate, write a report; return what ``train`` said, the page and the measures."""
    train, test = halves(folder, columns, n_train, **how)
    model = folder / "m.bpm"
    said = well("train", train, "--target", "label", "--model", model, *QUICK, *options).output
    page, _, found = reported(test, model, folder / "r.html", "--json", target="label")
    found, shares = json.loads(found), np.unique(columns["label"][n_train:], return_counts=True)[1]
    assert found["log_loss"] < 0.9 * entropy(shares)  # what knows nothing but the shares has
    return " ".join(said.split()), page, found


shop = Shop()
commas = shop.columns(size=[german(x, 3) for x in shop.size], price=[german(x) for x in shop.price])
german_days = shop.columns(day=[f"{day:%d.%m.%y %H:%M}" for day in shop.days])
gaps = shop.columns(
    size=[["", "NA"][k % 2] if gap else f"{x:.3f}" for k, (x, gap) in
          enumerate(zip(shop.size, shop.gaps[:, 0], strict=True))],
    day=["" if gap else f"{day:%Y-%m-%d}" for day, gap in
         zip(shop.days, shop.gaps[:, 1], strict=True)],
)  # fmt: skip
remarks = shop.columns(remark=shop.remark)


@pytest.mark.parametrize(
    ("columns", "how", "words"),
    [
        (shop.columns(), {"delimiter": ";"}, ["2 columns of numbers, 1 of text, 1 of dates"]),
        (commas, {"delimiter": ";"}, ["commas, read as such: 2 columns ('size', 'price')",
                                      "thousands separators, read as such: 1 column ('price')"]),
        (german_days, {"delimiter": "\t"}, ["dates, read as such: 1 column ('day')"]),
        (shop.columns(), {"encoding": "utf-8-sig"}, ["2 columns of numbers, 1 of text"]),
        (commas, {"delimiter": ";", "encoding": "cp1252"}, ["read as Windows-1252"]),
        (remarks, {"quoted": True}, ["2 columns of numbers, 2 of text, 1 of dates"]),
        (gaps, {}, ["missing cells filled in: 2 columns ('size', 'day')"]),
    ],
    ids=["semicolons", "decimal commas", "dates", "BOM", "Windows-1252", "quotes", "gaps"],
)  # fmt: skip
@pytest.mark.usefixtures("wide")
def test_from_file_to_report(tmp_path, columns, how, words):
    said, page, _ = told(tmp_path, columns, **how)
    for word in words:
        assert word in said
    assert "100 rows" in said
    assert "50 rows" in page.text


@pytest.mark.usefixtures("wide")
def test_columns_of_no_use_are_listed_with_a_command_to_paste(tmp_path):
    texts = [f"no {code[2:]} of many" for code in shop.code]
    train, _ = halves(tmp_path, shop.columns(code=shop.code, **{"their words": texts}))
    model = tmp_path / "m.bpm"
    said = fails(1, "train", train, "--target", "label", "--model", model, *QUICK,
                 words=["2 columns cannot be used", "'code': text with 100 different"])  # fmt: skip
    command = shlex.split(said[said.index("bayespoint train") :])[1:]
    assert command[-4:] == ["--drop", "code", "--drop", "their words"]
    assert "100 rows" in well(*command).output
    said = fails(1, *command[:-4], "--drop", "their words", "--dates", "code", words="not a date")
    well(*shlex.split(said[said.index("bayespoint train") :])[1:])  # which names it twice
    said = fails(1, "cross-validate", train, "--target", "label", words="cannot be used")
    assert said.endswith("--target label --drop code --drop 'their words'")
    assert "--max-categories" not in said  # each value is there once
    often = [f"state {k % 60}" for k in range(600)]
    table = {"state": often, "x": [str(k) for k in range(600)], "label": ["a", "b"] * 300}
    train = written(tmp_path / "states.csv", table, slice(None))
    fails(1, "train", train, "--target", "label", "--model", model, *QUICK,
          words="60 different values; at most 50 are taken as categories. --max-categories 60 "
          "takes it.")  # fmt: skip


@pytest.mark.usefixtures("wide")
def test_an_identifier_is_pointed_out(tmp_path):
    said, _, _ = told(tmp_path, shop.columns(customer_id=[code[2:] for code in shop.code]))
    assert "'customer_id' is different in every row and may be an identifier" in said


@pytest.mark.usefixtures("wide")
def test_a_leak_is_pointed_out(tmp_path):
    paid = ["refunded" if label == "class 1" else "paid" for label in shop.label]
    amount = [f"{7.5 + k % 3 if label == 'class 1' else 0}" for k, label in enumerate(shop.label)]
    said, _, _ = told(tmp_path, shop.columns(state=paid, refund=amount))
    for name in ("state", "refund"):
        assert f"'{name}' alone tells the class of 100.0% of rows left out" in said
        assert f"--drop {name} leaves it out" in said
    almost = [["refunded", "paid"][word == "paid" or k % 9 == 0] for k, word in enumerate(paid)]
    said, _, _ = told(tmp_path, shop.columns(state=almost))
    assert "alone tells" not in said


@pytest.mark.usefixtures("wide")
def test_many_classes(tmp_path):
    many = Shop(300, n_classes=25)
    _, page, found = told(tmp_path, many.columns(), n_train=200)
    assert len(found["classes"]) == 25
    assert "class 24" in page.text


@pytest.mark.usefixtures("wide")
def test_one_of_two_hundred(tmp_path):
    rare = Shop(1200, rare=1 / 200, noise=0)
    _, page, found = told(tmp_path, rare.columns(), n_train=800)
    assert found["auc"] > 0.9
    assert "class 1" in page.text


@pytest.mark.usefixtures("wide")
def test_decimal_marks_and_dates_can_be_told(tmp_path):
    doubtful = shop.columns(
        price=[german(1000 * round(x)) .removesuffix(",00") for x in shop.price],
        day=[f"{day:%Y%m%d}" for day in shop.days],
    )  # fmt: skip
    said, _, _ = told(tmp_path, doubtful, "--dates", "day", "--drop", "city")
    assert "1 of dates" in said
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    fails(2, "train", train, "--target", "label", "--model", tmp_path / "m.bpm", "--dates", "dya",
          words="--dates 'dya' is not a column")  # fmt: skip
    fails(2, "train", train, "--target", "label", "--model", tmp_path / "m.bpm", "--decimal", ";",
          words="--decimal")  # fmt: skip
    us = {"size": ["1,000", "2,500", "3,000", "4,500"] * 5, "label": ["a", "a", "b", "b"] * 5}
    written(train, us, delimiter=";")
    said = well("train", train, "--target", "label", "--model", tmp_path / "m.bpm", *QUICK).output
    assert "--decimal ," in said
    well(
        "train", train, "--target", "label", "--model", tmp_path / "m.bpm", *QUICK, "--decimal", ","
    )
    written(test, us | {"size": ["1,000", "2,5", "3", "4,50"] * 5}, delimiter=";")
    found = numbers(test, tmp_path / "m.bpm", "--target", "label")
    assert found["error"] < 0.1


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Fifty thousand rows, by the benchmark."""
    module = load_benchmark("files")
    folder = tmp_path_factory.mktemp("many")
    return module.Rows(folder, 50_000), folder


@pytest.mark.slow
def test_fifty_thousand_rows_from_file_to_report(many):
    """The seconds that they take are printed by the benchmark."""
    rows, folder = many
    _, loss = rows.by_command(folder / "m.bpm")
    assert loss < rows.logistic()
    reported(folder / "test.csv", folder / "m.bpm", folder / "r.html", target="label")


@pytest.mark.slow
def test_ten_seconds_do_as_well_as_three_thousand_rows(many):
    rows, folder = many
    _, loss = rows.by_command(folder / "s.bpm", "--max-time", "10")
    assert loss <= rows.of_some(3000)
