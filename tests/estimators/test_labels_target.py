"""`GibbsFairClustering(target="labels")`: what every draw promises, from the fit to the file and the page."""

import numpy as np
import pandas as pd
import pytest

import bayesfair as bf
from bayesfair.fairness import encode_groups
from bayesfair.fairness.balanced import members_of
from bayesfair.fairness.groups import groups_for_fit
from bayesfair.fairness.metrics import rows_off
from bayesfair.gibbs import Labels, Loss
from bayesfair.posterior.guarantees import balance_to_keep, guarantee_sentence, masses_of
from bayesfair.reports import pictures

SHORT = {"num_chains": 2, "num_warmup": 5, "num_draws": 12, "random_state": 0, "progress_bar": False}
pytestmark = pytest.mark.filterwarnings("ignore:The chains do not agree", "ignore:Too few draws", "ignore:One chain")


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(89, 3)) + (np.arange(89) % 3)[:, None], columns=["a", "b", "c"])
    sensitive = pd.DataFrame({"sex": rng.choice(["F", "M"], 89, p=[0.4, 0.6]), "region": rng.choice(list("nse"), 89)})
    return X, sensitive


OF_TARGET = "min_balance", "crossed", "size_min", "size_max"


def fit(people, **settings):
    X, sensitive = people
    target = Labels(**{name: settings.pop(name) for name in OF_TARGET if name in settings})
    return bf.GibbsFairClustering(3, target=target, **{**SHORT, **settings}).fit(X, sensitive_features=sensitive)


@pytest.fixture(scope="module")
def exact(people):
    return fit(people)


@pytest.mark.slow
def test_every_draw_keeps_bounds_on_sizes_too(people):
    sized = fit(people, size_min=27, size_max=33)
    masses = masses_of(sized.posterior_, encode_groups(people[1]))
    assert rows_off(masses).max() < 1
    sizes = np.vstack([masses.sum(-1), np.bincount(sized.labels_)])
    assert sizes.min() >= 27
    assert sizes.max() <= 33
    assert len(np.unique(sizes)) > 3
    assert guarantee_sentence(sized.posterior_).endswith(
        "Every cluster of every draw has at least 27 and at most 33 rows."
    )
    assert balance_to_keep(sized.posterior_).satisfied(masses).all()
    assert guarantee_sentence(sized.posterior_.isel(obs=slice(40))).startswith("These are not the run's rows")


def test_every_draw_is_balanced_to_within_one_person_and_summary_and_page_say_so(people, exact, tmp_path, monkeypatch):
    groups = encode_groups(people[1])
    assert len(groups.names) == 6
    masses = masses_of(exact.posterior_, groups)
    assert masses.shape == (24, 3, 6)
    assert rows_off(masses).max() < 1
    assert (exact.posterior_["sample_stats"]["balance"].values > 0).all()
    table = bf.fairness.report(exact.labels_, people[1], people[0])
    assert (table["off_by"] < 1).all()
    assert table.attrs["off_by"] == table["off_by"].max()
    told = bf.posterior.summary(exact.posterior_).sentences["guarantee"]
    begin = (
        "The method guarantees that every group of sex, region, and every combination of them, has its share of every"
    )
    assert told.startswith(begin)
    assert "of a row from its share" in told
    assert all(rows_off(masses @ members_of([part]).T).max() < 1 for part in groups.crosses)
    monkeypatch.setattr(pictures, "render", lambda *_: (b"", ""))
    page = bf.report(exact.posterior_, tmp_path / "report.html").read_text()
    assert "to within one row" in page
    assert "without fairlets" in page


def squares(x, m):
    return ((x - m) ** 2).sum()


@pytest.mark.slow
def test_attributes_are_balanced_each_on_its_own_and_new_rows_too_by_a_loss_of_ones_own(people):
    """In one fit, as each compiles a sampler of its own."""
    own = fit(people, crossed=False, loss=Loss(divergence=squares, degree=2))
    assert len(np.unique(own.posterior_["posterior"]["labels"].values.reshape(-1, 89), axis=0)) > 5
    assert "every group of each attribute on its own" in guarantee_sentence(own.posterior_)
    crossed = encode_groups(people[1])
    assert rows_off(masses_of(own.posterior_, crossed)).max() >= 1  # which is not promised
    balances = []
    for column in ("sex", "region"):
        masses = masses_of(own.posterior_, encode_groups(people[1][column]))
        assert rows_off(masses).max() < 1
        balances.append((masses.min(-1) / masses.max(-1)).min(-1))
    told = own.posterior_["sample_stats"]["balance"].values.ravel()
    np.testing.assert_allclose(told, np.minimum(*balances), atol=1e-6)
    groups = groups_for_fit(people[1], 89, crossed=False)
    np.testing.assert_allclose(
        bf.fairness.balance(own.labels_, groups),
        min(bf.fairness.balance(own.labels_, people[1][column]) for column in ("sex", "region")),
    )
    X, sensitive = (table.iloc[:30] for table in people)
    labels = own.reassign(X, sensitive_features=sensitive)
    for name in sensitive:
        counts = pd.crosstab(labels, sensitive[name].to_numpy()).to_numpy()
        assert (np.abs(counts - counts.sum(1)[:, None] * counts.sum(0) / 30) < 1).all()
    with pytest.raises(ValueError, match="have the columns of the fit, 'sex', 'region', got 'sex'"):
        own.reassign(X, sensitive_features=sensitive["sex"])


@pytest.mark.slow
def test_a_least_balance_holds_in_every_draw(people):
    X, sensitive = people
    est = fit((X, sensitive["sex"]), min_balance=0.25)
    assert float(est.posterior_["sample_stats"]["balance"].min()) >= 0.25 - 1e-6
    assert rows_off(masses_of(est.posterior_, encode_groups(sensitive["sex"]))).max() > 1
    assert "guarantees a Balance of at least 0.25" in guarantee_sentence(est.posterior_)


def test_a_target_by_name_has_its_defaults(people, exact):
    X, sensitive = people
    named = bf.GibbsFairClustering(3, target="labels", **SHORT).fit(X, sensitive_features=sensitive)
    np.testing.assert_array_equal(named.labels_, exact.labels_)
    assert guarantee_sentence(named.posterior_) == guarantee_sentence(exact.posterior_)
    new = {"X": X[:40] + 0.1, "sensitive_features": sensitive[:40]}
    np.testing.assert_array_equal(named.reassign(**new), exact.reassign(**new))


@pytest.mark.slow
def test_a_saved_run_goes_on_bit_for_bit(exact, people, tmp_path):
    exact.save(tmp_path / "run.nc")
    resumed = bf.GibbsFairClustering.load(tmp_path / "run.nc").resume(num_draws=5)
    longer = fit(people, num_draws=17)
    for group, variable in (("posterior", "labels"), ("posterior", "lambda_c"), ("sample_stats", "lp")):
        np.testing.assert_array_equal(resumed.posterior_[group][variable], longer.posterior_[group][variable])
    assert guarantee_sentence(resumed.posterior_) == guarantee_sentence(longer.posterior_)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:No sensitive features given")
def test_sizes_are_kept_without_groups(people):
    """Of one size all moves but swaps and draws of pairs stay where they are."""
    settings = {"target": Labels(size_min=20, size_max=20), "loss": "manhattan", "inverse_temperature": 1.0}
    est = bf.GibbsFairClustering(4, **settings, **SHORT).fit(people[0][:80])
    draws = est.posterior_["posterior"]["labels"].values.reshape(-1, 80)
    assert (np.stack([np.bincount(draw) for draw in [*draws, est.labels_]]) == 20).all()
    assert len(np.unique(draws, axis=0)) > 5
    np.testing.assert_allclose(est.inverse_temperature_, 1.0, rtol=1e-6)
    assert guarantee_sentence(est.posterior_) == "Every cluster of every draw has at least 20 and at most 20 rows."
    found = bf.posterior.salso_partition(est.posterior_, num_starts=1)
    assert (np.bincount(found) == 20).all()


def test_what_cannot_be_balanced_is_refused(people):
    X, sensitive = people
    for least, match in ((0.99, "data's own Balance"), ("fair", "`min_balance` must")):
        with pytest.raises(ValueError, match=match):
            fit((X, sensitive["sex"]), min_balance=least)
    with pytest.raises(ValueError, match=r"got size_min=40\. The nearest that do: size_min=29\."):
        fit((X, sensitive["sex"]), size_min=40)
