"""`check_engine` passes an engine written by the exported protocol alone, and names the promise that a planted bug breaks."""

import re
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from engines.toy_engine import CentredKMeans, squared

import bayesfair as bf
from bayesfair import testing as checks


class Rising(CentredKMeans):
    @staticmethod
    def step(x, centers):
        centers = 1.05 * centers
        return centers, squared(x.x, centers).min(1).mean()


class ByPosition(CentredKMeans):
    def set_attributes(self, outcome, x, data):
        super().set_attributes(outcome, x, data)
        self.labels_ = np.arange(len(data.X)) % self.n_clusters


class Unfair(CentredKMeans):
    def problem(self, data):
        return super().problem(data._replace(groups=data.groups._replace(code=np.zeros(len(data.X), int))))


class SecretlyFair(CentredKMeans):
    uses_groups = False


class Unseeded(CentredKMeans):
    fits = count()

    def set_attributes(self, outcome, x, data):
        super().set_attributes(outcome, x, data)
        self.labels_ = (self.labels_ + next(self.fits)) % 2


class Recompiled(CentredKMeans):
    @property
    def step(self):
        return lambda x, centers: CentredKMeans.step(x, centers)


class Meddling(CentredKMeans):
    def read(self, X, *, reset):
        columns = super().read(X, reset=reset)
        X["age"] = 0.0
        return columns


class Careless(CentredKMeans):
    def read(self, X, *, reset):
        return super().read(X.fillna(0.0) if hasattr(X, "fillna") else np.nan_to_num(X), reset=reset)


class Soft(CentredKMeans):
    def assign(self, columns):
        return super().assign(columns).astype(float)


class Unweighted(CentredKMeans):
    def problem(self, data):
        return super().problem(data._replace(given_weight=None))


class Uncounted(CentredKMeans):
    def check_settings(self):
        self.n_clusters = min(self.n_clusters, 2)


BUGS = {
    Rising: "objective never gets worse: the objective gets worse at iterations",
    ByPosition: "order of rows: labels depend on the order of rows",
    Unfair: "groups: sensitive_features are ignored",
    SecretlyFair: "groups: uses_groups is False, but",
    Unseeded: "repeatable: two fits with one random_state differ",
    Recompiled: r"compiles once: .* compiles \['jit\(_chunk\)'\] again",
    Meddling: "fitted attributes: fit changed the table",
    Careless: r"(groups|hostile tables): .*not refused",
    Soft: "predictions: predict must give an integer",
    Unweighted: "sample weights: whole weights end at another objective than repeated rows",
    Uncounted: "hostile tables: n_clusters=61 of 60 rows: not refused",
}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_planted_bugs_are_caught_by_name(bug):
    with pytest.raises(AssertionError, match=f"{bug.__name__} fails a check, {BUGS[bug]}"):
        bf.engines.check_engine(bug(), scikit_learn=False)


def test_every_check_has_a_planted_bug_or_a_library_behind_it():
    caught = " ".join(BUGS.values())
    named = {check.__name__ for check in checks.CHECKS if check.__name__.replace("_", " ") in caught}
    assert {check.__name__ for check in checks.CHECKS} - named == {"kinds_of_tables"}


@pytest.mark.parametrize("scikit_learn", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_an_engine_of_ones_own_is_one_of_the_house(scikit_learn):
    bf.engines.check_engine(CentredKMeans(), scikit_learn=scikit_learn)


def test_an_engine_of_ones_own_has_a_path():
    data = bf.datasets.make_vfc_synthetic()
    path = bf.engines.fairness_path(
        CentredKMeans(2, random_state=0), data.features, data.sensitive, "blend", [0.0, 1.0]
    )
    assert path["gap"][1] < path["gap"][0] / 2
    assert path["cost"][1] > path["cost"][0]
    assert path["method"].tolist() == ["CentredKMeans"] * 2


def test_the_page_of_an_engine_of_ones_own_shows_this_file():
    """tests/docs runs it."""
    page = (Path(__file__).parents[2] / "docs/how-to/own-engine.md").read_text()
    whole = re.search(r"```{code-cell} python\n(.*?)```", page, re.DOTALL)[1]
    assert whole == (Path(__file__).parent / "toy_engine.py").read_text()


def test_settings_of_an_engine_of_ones_own_are_checked():
    data = bf.datasets.make_vfc_synthetic()
    with pytest.raises(ValueError, match="`blend` must lie in"):
        CentredKMeans(blend=2.0).fit(data.features, sensitive_features=data.sensitive)
    with pytest.raises(ValueError, match="`tol` must be a finite number, at least 0"):
        CentredKMeans(tol=-1.0).fit(data.features, sensitive_features=data.sensitive)
