"""Two row-wise arguments of one call are of the same rows, by their indexes: no public function pairs rows by place."""

import inspect
import re
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from numpydoc.docscrape import FunctionDoc

import bayesfair as bf
from bayesfair.posterior.schema import check_rows_of, names_of_rows

ROOMS = [
    "datasets",
    "fairness",
    "fairlets",
    "balanced",
    "gibbs",
    "engines",
    "models",
    "posterior",
    "plots",
    "reports",
    "distributed",
]
ROW_WISE = re.compile(r"n_obs|n_own|DataTree|Groups")
RNG, N = np.random.default_rng(0), 12
X = pd.DataFrame(
    {"a": np.repeat([0.0, 5.0], N // 2) + RNG.normal(size=N), "b": RNG.normal(size=N)}, index=range(50, 62)
)
S = pd.Series(["f", "m"] * (N // 2), index=X.index, name="sex")
LABELS = pd.Series(np.repeat([0, 1], N // 2), index=X.index)
WEIGHT = pd.Series(1.0 + np.arange(N), index=X.index)
CODES = pd.DataFrame({"c": np.arange(N) % 3}, index=X.index)
SITES = {"weights": np.ones((1, 1)), "means": np.zeros((1, 1, 2)), "scales": np.ones(1), "levels_0": np.ones((1, 1, 3))}
DRAWS = np.repeat([0, 1], N // 2) ^ (RNG.random((2, 10, N)) < 0.1)
OTHER_ROWS = "must have the row index of|must be of rows that"

KEPT_APART = {  # documented as two tables of rows, but not so, or tested by another name
    "bayesfair.models.fairness": "psi is an array within a model",
    "bayesfair.models.smooth_gap": "arrays within a compiled program",
    "bayesfair.posterior.partition_distance": "an array whose rows are draws",
    "bayesfair.plots.explore": "rows are read as `uncertainty` reads them; it needs jupyter-scatter",
    "bayesfair.distributed.gather": "`rows` are numbers that `deal` made",
}


@pytest.fixture(scope="module")
def tree():
    return bf.posterior.tree_from_labels(DRAWS.astype(int), X, S)


def of_fit(estimator, weighs=True):
    """Calls of a `fit` with each pair of arguments."""
    calls = [
        lambda change, _: estimator().fit(X, sensitive_features=change(S)),
        lambda change, _: estimator().fit(X, sensitive_features=S, sample_weight=change(WEIGHT)),
    ]
    return calls[: 1 + weighs]


def measured(measure):
    return [
        lambda change, _: measure(LABELS, change(S)),
        lambda change, _: measure(LABELS, S, sample_weight=change(WEIGHT)),
        lambda change, _: measure(LABELS, S.to_numpy(), sample_weight=change(WEIGHT)),
    ]


def modelled(model):
    return [
        lambda change, _: model(X, change(CODES), n_components=2, n_levels=[3]),
        lambda change, _: model(X, CODES, change(S), n_components=2, n_levels=[3]),
        lambda change, _: model(X, None, change(S), n_components=2),
    ]


def calls():
    """{public name: calls in which `change` meets one of two row-wise arguments; the second argument is a tree}."""
    fair, post, plots, models = bf.fairness, bf.posterior, bf.plots, bf.models
    return {
        **{f"bayesfair.{name}.fit": of_fit(getattr(bf, name)) for name in ENGINES},
        "bayesfair.GibbsFairClustering.fit": of_fit(bf.GibbsFairClustering),
        "bayesfair.BayesianFairMixture.fit": of_fit(bf.BayesianFairMixture, weighs=False),
        "bayesfair.engines.Engine.fit": of_fit(bf.FairletKMeans),
        "bayesfair.audit": [
            lambda change, _: bf.audit(LABELS, change(S)),
            lambda change, _: bf.audit(LABELS, S, change(X)),
            lambda change, _: bf.audit(LABELS.to_numpy(), S, change(X)),
        ],
        "bayesfair.compare_clusters": [lambda change, _: bf.compare_clusters(bf.FairletKMeans(), X, change(S), [2])],
        "bayesfair.report": [lambda change, tree: bf.report(tree, "never.html", reference=change(LABELS))],
        **{f"bayesfair.fairness.{name}": measured(getattr(fair, name)) for name in MEASURES},
        "bayesfair.fairness.distance_report": [lambda change, _: fair.distance_report(change(X), LABELS)],
        "bayesfair.fairness.report": [
            lambda change, _: fair.report(LABELS, change(S)),
            lambda change, _: fair.report(LABELS, S, change(X)),
            lambda change, _: fair.report(LABELS, S.to_numpy(), change(X)),
        ],
        "bayesfair.fairlets.decompose": [
            lambda change, _: bf.fairlets.decompose(X, change(S)),
            lambda change, _: bf.fairlets.decompose(X, S, sample_weight=change(WEIGHT)),
        ],
        "bayesfair.fairlets.fairlet_centers": [
            lambda change, _: bf.fairlets.fairlet_centers(X, change(LABELS)),
            lambda change, _: bf.fairlets.fairlet_centers(X, LABELS, change(WEIGHT)),
        ],
        "bayesfair.fairlets.from_matrices": [
            lambda change, _: bf.fairlets.from_matrices(
                {"f": np.eye(6, dtype=int), "m": np.eye(6, dtype=int)}, change(S), X
            )
        ],
        "bayesfair.engines.fairness_path": [
            lambda change, _: bf.engines.fairness_path(bf.FairletKMeans(), X, change(S), "n_clusters", [2])
        ],
        "bayesfair.models.fair_gaussian_mixture": [lambda change, _: models.fair_gaussian_mixture(X, change(S))],
        "bayesfair.models.fair_categorical_mixture": [
            lambda change, _: models.fair_categorical_mixture(CODES, change(S))
        ],
        "bayesfair.models.memberships": [lambda change, _: models.memberships(SITES, X, change(CODES))],
        **{f"bayesfair.models.{name}": modelled(getattr(models, name)) for name in OF_CODES},
        "bayesfair.posterior.credible_ball": [lambda change, tree: post.credible_ball(tree, estimate=change(LABELS))],
        "bayesfair.posterior.credibility": [lambda change, tree: post.credibility(tree, change(LABELS))],
        "bayesfair.posterior.memberships": [lambda change, tree: post.memberships(tree, reference=change(LABELS))],
        "bayesfair.posterior.misclassification_probability": [
            lambda change, tree: post.misclassification_probability(tree, reference=change(LABELS))
        ],
        "bayesfair.posterior.relabel": [lambda change, tree: post.relabel(tree, change(LABELS))],
        "bayesfair.posterior.tree_from_labels": [
            lambda change, _: post.tree_from_labels(DRAWS.astype(int), X, change(S))
        ],
        **{f"bayesfair.{room}.profile": profiled(getattr(bf, room).profile) for room in ("posterior", "plots")},
        "bayesfair.plots.elbow": [lambda change, _: plots.elbow(X, change(S), [2])],
        "bayesfair.plots.modes": [lambda change, tree: plots.modes(tree, change(X))],
        "bayesfair.plots.uncertainty": [
            lambda change, tree: plots.uncertainty(tree, change(X)),
            lambda change, tree: plots.uncertainty(tree, reference=change(LABELS)),
        ],
        "bayesfair.plots.uncertainty_profile": [
            lambda change, tree: plots.uncertainty_profile(tree, reference=change(LABELS))
        ],
        "bayesfair.plots.co_clustering": [lambda change, tree: plots.co_clustering(tree, reference=change(LABELS))],
        "bayesfair.distributed.deal": [lambda change, _: bf.distributed.deal(X, change(S))],
    }


ENGINES = (
    "BalancedKMeans",
    "BigLearnMixture",
    "FairMixture",
    "FairletKMeans",
    "TiltedKMeans",
    "VariationalFairClustering",
)
MEASURES = "balance", "gap", "additive_gap", "kl_error"
OF_CODES = "fair_mixed_mixture", "labelled_mixture"


def profiled(profile):
    return [
        lambda change, tree: profile(tree, change(X)),
        lambda change, tree: profile(tree, sensitive_features=change(S)),
        lambda change, _: profile(LABELS, change(X)),
        lambda change, _: profile(LABELS, X, sensitive_features=change(S)),
        lambda change, _: profile(LABELS.to_numpy(), X, sensitive_features=change(S)),
    ]


def documented():
    """Names of the public functions and methods that document two or more row-wise arguments."""
    found, seen = {}, set()
    for room in [bf, *(import_module(f"bayesfair.{name}") for name in ROOMS)]:
        for name in (one for one in getattr(room, "__all__", dir(room)) if not one.startswith("_")):
            value, path = getattr(room, name), f"{room.__name__}.{name}"
            if id(value) in seen:
                continue  # known by an earlier name
            seen.add(id(value))
            methods = inspect.getmembers(value, inspect.isroutine) if inspect.isclass(value) else []
            found |= {path: value} if inspect.isroutine(value) else {}
            found |= {f"{path}.{method}": one for method, one in methods if not method.startswith("_")}
    return {path for path, one in found.items() if _of_rows(one) > 1}


def _of_rows(function):
    """How many parameters have an entry for each row, or are a posterior."""
    text = inspect.getdoc(function) or ""
    if "Parameters\n---" not in text:
        return 0
    return sum(bool(ROW_WISE.search(one.type)) for one in FunctionDoc(None, doc=text)["Parameters"])


CHANGES = {
    "sorted": lambda table: table.iloc[::-1],
    "of other rows": lambda table: table.set_axis(range(900, 912)),
    "numbered": lambda table: table.reset_index(drop=True),
}


def test_every_public_function_of_two_row_wise_arguments_is_in_the_table():
    elsewhere = {"bayesfair.GibbsFairClustering.reassign"}  # in tests/estimators/test_new_rows.py
    known = {*calls(), *KEPT_APART, *elsewhere}
    assert documented() - known == set()
    assert known - documented() == set()


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", calls())
def test_rows_of_another_index_are_refused(name, change, tree):
    for call in calls()[name]:
        with pytest.raises(ValueError, match=OTHER_ROWS):
            call(CHANGES[change], tree)


def test_a_posterior_of_an_array_takes_any_index_but_its_own_rows_in_another_order(tree):
    unnamed, counted = (
        bf.posterior.tree_from_labels(DRAWS.astype(int), one) for one in (X.to_numpy(), X.reset_index(drop=True))
    )
    assert names_of_rows(unnamed) is None
    assert names_of_rows(counted).tolist() == [*range(N)]
    assert names_of_rows(tree).tolist() == X.index.tolist()
    assert names_of_rows(unnamed.isel(obs=[0, 2, 5], missing_dims="ignore")) is None
    check_rows_of(unnamed, X=X)
    check_rows_of(unnamed, X=X.reset_index(drop=True))
    check_rows_of(tree, X=X, labels=LABELS, array=X.to_numpy(), none=None)
    for other, table in ((unnamed, X.reset_index(drop=True)[::-1]), (counted, X), (tree, X.reset_index(drop=True))):
        with pytest.raises(ValueError, match="`X` must have the row index of the tree"):
            check_rows_of(other, X=table)


def test_an_audit_finds_the_rows_of_a_posterior_by_name(tree):
    """Labels without names were held against the numbers that other rows have for names."""
    order = RNG.permutation(N)
    moved = bf.posterior.tree_from_labels(DRAWS[..., order].astype(int), X.iloc[order].set_axis(order))
    expected = bf.audit(LABELS, S, tree=tree).memberships["probability"].to_numpy()
    named = bf.audit(LABELS.set_axis(range(N)), S.set_axis(range(N)), tree=moved).memberships
    np.testing.assert_allclose(named["probability"].loc[range(N)], expected)
    by_groups = bf.audit(LABELS.to_numpy(), S.set_axis(range(N)), tree=moved).memberships
    pd.testing.assert_frame_equal(by_groups, named)
    with pytest.raises(ValueError, match=OTHER_ROWS):
        bf.audit(LABELS.to_numpy(), S.to_numpy(), tree=moved)
    unnamed = bf.posterior.tree_from_labels(DRAWS.astype(int), X.to_numpy())
    np.testing.assert_allclose(bf.audit(LABELS, S, tree=unnamed).memberships["probability"], expected)
