"""Progress bars: how far, and how long still."""

from contextlib import suppress

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

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


@pytest.fixture
def written(monkeypatch):
    """What is written to the output of a notebook's cell: a list of lists of HTML, one for each output."""
    outputs = []

    def output():
        outputs.append([])
        return outputs[-1].append

    monkeypatch.setattr(_progress, "_writer", lambda: output)
    monkeypatch.setattr(_progress, "REDRAWN", 0)
    return outputs


def test_stages_of_a_fit_share_one_place_in_a_notebook(written, capsys):
    X = np.random.default_rng(0).normal(size=(24, 1))
    est = bf.GibbsFairClustering(2, num_chains=2, num_warmup=20, num_draws=60, modes=None, random_state=0)
    with pytest.warns(ConvergenceWarning):
        est.fit(X, sensitive_features=np.resize(["f", "m"], 24))
    (shown,) = written
    assert any("<progress" in html and "of 60" in html and "slowest: " in html and "lp " in html for html in shown)
    assert shown[-1].count("<br>") == 0
    assert all(f"{stage} " in shown[-1] for stage in ("starts", "compiling", "warm-up", "draws"))
    assert capsys.readouterr().err == ""


def test_a_stage_that_was_stopped_says_how_far_it_came(written):
    with suppress(KeyboardInterrupt), _progress.progress(5, "a <b>", True) as bar:
        bar.update(2)
        raise KeyboardInterrupt
    assert "a &lt;b&gt; 2 of 5 " in written[0][-1]
