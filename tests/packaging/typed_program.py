"""A user's program, for a type checker alone: `assert_type` says what every name gives, and what is wrong is marked so."""

from pathlib import Path
from typing import Any, assert_type

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import xarray as xr
from matplotlib.axes import Axes
from networkx import karate_club_graph
from scipy.sparse import csr_array

import bayesfair as bf
from bayesfair.reports import Audit

data = assert_type(bf.datasets.load_diabetes(), bf.datasets.Dataset)
assert_type(bf.datasets.load_bank_sample(sensitive="married"), bf.datasets.Dataset)
assert_type(bf.datasets.subsample(data, {"sex 1": 1, "sex 2": 1}, 100), bf.datasets.Dataset)
assert_type(bf.datasets.read_table(Path("people.parquet"), ["age"]), pd.DataFrame)
X, sensitive = data.features, data.sensitive
rows, groups = np.zeros((4, 2)), ["a", "b", "a", "b"]
frame = pl.DataFrame({"x": [1.0, 2.0]})

est = bf.GibbsFairClustering(n_clusters=3, target=bf.gibbs.Labels(min_balance=0.5), random_state=0)
assert_type(est.fit(X, sensitive_features=sensitive, store=Path("run.zarr")), bf.GibbsFairClustering)
assert_type(est.fit(rows, sensitive_features=groups), bf.GibbsFairClustering)
assert_type(est.fit(frame, sensitive_features=frame["x"]), bf.GibbsFairClustering)
assert_type(bf.GibbsFairClustering.load("run.nc").resume(num_draws=1000), bf.GibbsFairClustering)
tree = assert_type(est.posterior_, xr.DataTree)
labels = assert_type(est.labels_, np.ndarray)
assert_type(est.misclassification_probability_, np.ndarray)
assert_type(est.predict(X), np.ndarray)
bf.GibbsFairClustering(3, inverse_temperature=(2.0, 1.0), loss=bf.gibbs.Minkowski(1.5), target="joint", n_jobs=2)

mixture = assert_type(bf.BayesianFairMixture(3, inference="gibbs").fit(X), bf.BayesianFairMixture)
assert_type(mixture.predict_proba(X[:5]), np.ndarray)
assert_type(mixture.posterior_predictive(), xr.DataTree)

assert_type(bf.fairness.report(labels, sensitive, X), pd.DataFrame)
assert_type(bf.fairness.balance(labels, sensitive), float)
assert_type(bf.fairness.gap([0, 0, 1, 1], groups), float)
assert_type(bf.fairness.kl_error(rows, pd.DataFrame({"g": groups, "h": groups}), {"a": 0.5, "b": 0.5}), float)
codes = assert_type(bf.fairness.encode_groups(groups), bf.fairness.Groups)
assert_type(bf.fairness.gap(labels, codes), float)
assert_type(bf.fairlets.decompose(X, sensitive, (4, 5)), bf.fairlets.Decomposition)
assert_type(bf.fairlets.decompose(rows, codes).fairlet, np.ndarray)
bf.models.fair_gaussian_mixture(rows, codes.code, fairness_weight=jnp.array(1.0))

assert_type(bf.posterior.summary(tree), pd.DataFrame)
assert_type(bf.posterior.modes(tree), pd.DataFrame)
assert_type(bf.posterior.vi_partition(tree, max_draws=None), np.ndarray)
assert_type(bf.posterior.co_clustering(tree, indices=[0, 3]), np.ndarray)
assert_type(bf.posterior.credible_ball(tree, metric="binder").radius, float)
assert_type(bf.posterior.relabel(bf.posterior.read_tree("run.nc")), xr.DataTree)
ax = assert_type(bf.plots.uncertainty(tree, X, columns=("age", 1)), Axes)
assert_type(bf.plots.elbow(X, sensitive, range(2, 5), ax=ax), Axes)
assert_type(bf.report(tree, "report.html"), Path)
found = assert_type(bf.audit(labels, sensitive, X, tree=tree), Audit)
assert_type(found.write("audit.html", provenance={"File": "people.csv"}), Path)

assert_type(bf.BalancedKMeans(4, min_balance=0.3).fit(X, sensitive_features=sensitive), bf.BalancedKMeans)
assert_type(bf.FairletKMeans(4, composition={"sex 1": 8, "sex 2": 9}).fit(X).labels_, np.ndarray)
assert_type(bf.VariationalFairClustering(4, objective="ncut").fit(X).cost_, float)
cut = bf.VariationalFairClustering(2, objective="ncut", affinity="precomputed", n_neighbors=7)
assert_type(cut.fit(karate_club_graph(), sensitive_features="club").labels_, np.ndarray)
assert_type(cut.fit(csr_array(np.eye(4)), sensitive_features=groups), bf.VariationalFairClustering)
assert_type(bf.FairMixture(4, max_gap=0.1).fit(X).predict_proba(rows), np.ndarray)
assert_type(bf.TiltedKMeans(4, tilt=0.5).fit(X).cluster_centers_, np.ndarray)
assert_type(bf.BigLearnMixture(4).fit(X).means_, np.ndarray)
paths = assert_type(
    bf.engines.fairness_path(bf.BalancedKMeans(4), X, sensitive, "min_balance", [0.1, 0.3]), pd.DataFrame
)
assert_type(bf.plots.pareto(pd.concat([paths])), Axes)


def wrong(tree: Any) -> None:
    bf.GibbsFairClustering(3, target="lables")  # wrong: no such target
    bf.GibbsFairClustering(3, num_draws="many")  # wrong: a number
    bf.GibbsFairClustering(3).fit(X, features=X)  # wrong: no such argument
    bf.VariationalFairClustering(4, objective="kmean")  # wrong: no such objective
    bf.plots.pareto(paths, fairness="gaps")  # wrong: no such column
    bf.posterior.summary(rows)  # wrong: not a tree
    bf.posterior.credible_ball(tree, metric="v")  # wrong: no such metric
    bf.fairness.balance(labels)  # wrong: whose groups
    bf.clusters(X)  # wrong: no such name
