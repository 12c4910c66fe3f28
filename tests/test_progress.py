"""Progress bars: how far, how long still, and one output each in a notebook."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import bayesfair as bf
from bayesfair import _progress


@pytest.fixture
def kernel(monkeypatch):
    """What a Jupyter kernel is asked to show: a list for each output, of all that it has shown."""
    outputs = []

    def display(data, *, raw, display_id):
        outputs.append([data["text/plain"]])
        return SimpleNamespace(update=lambda data, raw: outputs[-1].append(data["text/plain"]))

    ipython, shown = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=None)
    shown.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    return outputs


def test_a_bar_is_one_output_of_a_notebook(kernel, monkeypatch, capsys):
    monkeypatch.setattr(_progress, "NOTEBOOK_SECONDS", 0)
    with _progress.progress(500, "draws", True) as bar:
        for _ in range(500):
            bar.update(1)
    assert len(kernel) == 1
    assert kernel[0][0].startswith("draws:   0%")
    assert kernel[0][-1].startswith("draws: 100%")
    assert capsys.readouterr() == ("", "")


def test_a_terminal_has_lines(monkeypatch, capsys):
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace()  # IPython's own terminal
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    with _progress.progress(5, "draws", True) as bar:
        bar.update(5)
    assert "draws: 100%" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_search_for_modes_knows_how_long_it_takes(kernel):
    X = np.random.default_rng(0).normal(size=(24, 1)) + np.repeat([0, 4, 8], 8)[:, None]
    settings = {"num_chains": 2, "num_warmup": 96, "num_draws": 4, "num_starts": 4, "random_state": 0}
    est = bf.GibbsFairClustering(2, target="optimal", mode_jumps=False, tempering=False, **settings)
    est.fit(X, sensitive_features=np.resize(["f", "m"], 24))
    last = {bars[-1].split(":")[0]: bars[-1] for bars in kernel}
    assert {"modes", "warm-up", "draws"} <= set(last)
    assert all("100%" in bar for bar in last.values()), last
