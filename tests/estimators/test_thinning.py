"""thinning="auto": chosen once, stored with the run, and the same draws however the run is cut."""

import numpy as np
import pytest

import bayesfair as bf
from bayesfair.gibbs import thinning

SHORT = {"num_chains": 2, "num_warmup": 120, "random_state": 0, "progress_bar": False, "num_starts": 0}


@pytest.fixture(scope="module")
def data():
    data = bf.datasets.make_well_specified()
    return data.features, data.sensitive


@pytest.mark.filterwarnings("ignore:.*R-hat:UserWarning")
def test_the_choice_is_told_stored_and_gone_on_with(data, tmp_path, monkeypatch):
    monkeypatch.setattr(thinning, "WORTH", 5.0)
    X, group = data
    auto = bf.GibbsFairClustering(2, thinning="auto", num_draws=20, **SHORT).fit(X, sensitive_features=group)
    assert auto.thinning_ > 1
    assert auto.n_iter_ == 120 + 20 * auto.thinning_
    auto.save(tmp_path / "run.nc")
    again = bf.GibbsFairClustering.load(tmp_path / "run.nc")
    assert again.thinning == "auto"
    assert again.thinning_ == auto.thinning_
    again.resume(num_draws=10)
    by_hand = bf.GibbsFairClustering(2, num_draws=30, **SHORT).fit(X, sensitive_features=group)
    # Clusters are renumbered by the partition of all draws, so the trees agree to the last bit.
    np.testing.assert_array_equal(again.posterior_["posterior"]["labels"], by_hand.posterior_["posterior"]["labels"])
    np.testing.assert_array_equal(again.posterior_["sample_stats"]["lp"], by_hand.posterior_["sample_stats"]["lp"])


@pytest.mark.parametrize("bad", ["often", 0, 2.5, None])
def test_anything_else_is_refused(data, bad):
    X, group = data
    with pytest.raises((TypeError, ValueError), match=r"`thinning`.*'auto'"):
        bf.GibbsFairClustering(2, thinning=bad, **SHORT).fit(X, sensitive_features=group)
