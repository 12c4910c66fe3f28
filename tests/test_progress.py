"""Progress bars: how far, and how long still."""

import numpy as np
import pytest

import bayesfair as bf
from bayesfair import _progress


def test_a_bar_says_what_it_is_of(capsys):
    with _progress.progress(5, "draws", True) as bar:
        bar.update(5)
    told = capsys.readouterr().err
    assert "draws: 100%" in told
    assert "about 00:00 left" in told


def test_programs_without_standard_error_have_no_bar(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)  # as in services and under pythonw
    with _progress.progress(5, "draws", True) as bar, _progress.one_step("starts", True):
        bar.update(5)


@pytest.mark.parametrize("n_init", [1, 2])
def test_a_search_that_is_over_says_so(n_init, capsys):
    """A single start has no generations, and none are waited for."""
    X, groups = np.random.default_rng(0).normal(size=(24, 1)), np.resize(["f", "m"], 24)
    bf.BalancedKMeans(2, n_init=n_init, random_state=0, progress_bar=True).fit(X, sensitive_features=groups)
    assert "cooling: 100%" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.slow
def test_the_search_for_modes_knows_how_long_it_takes(capsys):
    X = np.random.default_rng(0).normal(size=(24, 1)) + np.repeat([0, 4, 8], 8)[:, None]
    settings = {"num_chains": 2, "num_warmup": 96, "num_draws": 4, "random_state": 0}
    plain = {"inverse_temperature": (0.5, 1.0), "modes": bf.gibbs.ModeSearch(num_starts=4, jumps=None)}
    est = bf.GibbsFairClustering(2, target="optimal", **plain, **settings)
    est.fit(X, sensitive_features=np.resize(["f", "m"], 24))
    bars = capsys.readouterr().err
    assert all(f"{name}: 100%" in bars for name in ("modes", "warm-up", "draws")), bars
