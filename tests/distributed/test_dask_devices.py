"""GPUs of workers, with the CPU in their place: the worker is this process."""

import pytest
from helpers.clusters import on_cluster, one, rows
from numpy.testing import assert_allclose

pytest.importorskip("dask")  # not "distributed", which is this folder where it is missing
pytest.importorskip("torch")

from bayespoint._support.devices import DeviceError
from bayespoint.distributed import DaskBayesPointClassifier
from bayespoint.gpu import device as gpu

X, Y = rows(120)


@pytest.fixture(scope="module", autouse=True)
def client():
    from distributed import Client

    with Client(processes=False, n_workers=1, dashboard_address="127.0.0.1:0") as client:
        yield client


@pytest.fixture
def rows_there(monkeypatch):
    """Let ``device="cuda"`` be the CPU; the numbers of rows that are taken there."""
    from helpers.stand_in import CPU, let_cuda_be

    let_cuda_be(monkeypatch, CPU)
    seen, inputs = [], gpu.DeviceInputs

    def watched(X, device):
        seen.append(X.shape[0])
        return inputs(X, device)

    monkeypatch.setattr(gpu, "DeviceInputs", watched)
    return seen


SOME = {
    "perceptron": {"inference": "perceptron", "n_draws": 12},
    "exact EP": {"cell_size": "auto"},
    "cells": {"n_trees": 1},
}


@pytest.mark.parametrize("given", SOME.values(), ids=SOME)
def test_workers_compute_on_their_gpus(given, rows_there):
    wanted = one(**given).fit(X, Y).predict_proba(X)
    assert not rows_there
    many = DaskBayesPointClassifier(one(**given, device="auto")).fit(*on_cluster(X, Y))
    assert rows_there
    assert_allclose(many.to_local().predict_proba(X), wanted, atol=1e-3)  # of another processor


@pytest.mark.parametrize("given", SOME.values(), ids=SOME)
def test_a_worker_without_a_gpu_says_so(given, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match=r"device='cuda'.* finds no CUDA GPU"):
        DaskBayesPointClassifier(one(**given, device="cuda")).fit(*on_cluster(X, Y))


def dots(left, right):
    return left @ right.T


def test_what_no_gpu_can_do_is_refused(rows_there):
    at, y = on_cluster(X, Y)
    for more in ({"kernel": dots}, {"inference": "gibbs"}):
        with pytest.raises(ValueError, match=r"device='cuda' with .* on the CPU only"):
            DaskBayesPointClassifier(one(**{**more, "device": "cuda"})).fit(at, y)
    many = DaskBayesPointClassifier(one(kernel=dots, device="auto", n_trees=1)).fit(at, y)
    assert many.to_local().kernel_ is dots
    assert not rows_there
