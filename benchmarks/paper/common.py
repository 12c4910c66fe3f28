"""Tables as the papers prepare them, and one line of figures for a clustering."""

import numpy as np

import bayesfair as bf


def normalised(features):
    """Standardised, then each row divided by its length: FMC's and VFC's preparation."""
    X = features.to_numpy(float)
    X = (X - X.mean(0)) / X.std(0)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def cost(X, labels):
    """Sum of squared distances to the means of the clusters."""
    return sum(((X[labels == k] - X[labels == k].mean(0)) ** 2).sum() for k in np.unique(labels))


def figures(X, sensitive, labels):
    """cost, Balance, hard gap, fairness error, least share of a cluster."""
    measures = (bf.fairness.balance, bf.fairness.gap, bf.fairness.kl_error)
    share = np.bincount(labels).min() / len(labels)
    return cost(X, labels), *(measure(labels, sensitive) for measure in measures), share


TITLE = f"{'data and method':<44}{'cost':>8}{'balance':>9}{'gap':>8}{'KL':>8}{'share':>8}{'seconds':>9}"


def line(name, values, seconds):
    cost, balance, gap, kl, share = values
    print(f"{name:<44}{cost:>8.0f}{balance:>9.3f}{gap:>8.4f}{kl:>8.4f}{share:>8.3f}{seconds:>9.1f}", flush=True)
