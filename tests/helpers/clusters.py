"""Clusters of processes on this machine, data on them, and fits to compare with."""

import warnings

import numpy as np

from bayespoint import BayesPointClassifier

GIVEN = {
    "kernel": "rbf", "gamma": 0.3, "softness": 0.1, "bias": 1.0, "inference": "ep",
    "cell_size": 100, "n_landmarks": 0, "n_trees": 2, "random_state": 0,
}  # fmt: skip

# Seconds that anything on a cluster may take: a test that hangs must end.
PATIENCE = 120


def local_cluster(n_workers=2, **more):
    """Start workers in processes of their own, and return their cluster and a client."""
    from distributed import Client, LocalCluster

    with warnings.catch_warnings():  # which come as errors
        warnings.filterwarnings("ignore", "Creating scratch directories is taking")  # a busy disk
        cluster = LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True,
            dashboard_address="127.0.0.1:0", host="127.0.0.1", **more,
        )  # fmt: skip
    return cluster, Client(cluster, timeout=PATIENCE)


def rows(n=700, n_classes=2, seed=0):
    """Rows with a smooth rule and some noise; twenty of them come twice."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    f = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
    y = np.digitize(f, np.quantile(f, np.arange(1, n_classes) / n_classes))
    X[:20], y[:10] = X[20:40], y[20:30]
    return X, y


def on_cluster(X, y, n_parts=3):
    """Return both as Dask arrays of so many uneven parts."""
    import dask.array as da

    ends = np.sort(np.random.default_rng(0).choice(np.arange(1, len(y)), n_parts - 1, False))
    sizes = tuple(int(n) for n in np.diff([0, *ends, len(y)]))
    return da.from_array(X, chunks=(sizes, X.shape[1])), da.from_array(y, chunks=(sizes,))


def one(**changes):
    """Return a classifier for one machine."""
    return BayesPointClassifier(**GIVEN | changes)


def bits(clf):
    """Return the arrays of a model by cells, to be compared to the last digit."""
    model = clf.predictor_.model
    return [model.order, model.tau, model.coef, model.common_mean, clf.predictor_.X]
