"""Whoever adds a target or a move writes one small file: through sampler, tree, diagnostics, file and resume."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest
from exact import start, tiny
from toys.target import FreeLabels, MoveOne

import bayesfair as bf
from bayesfair.gibbs.moves.collapsed import CollapsedReallocation
from bayesfair.gibbs.run import draw
from bayesfair.gibbs.sweep import Repeat

SMALL = {"num_chains": 2, "num_warmup": 5, "random_state": 0, "progress_bar": False}


def fitted(num_draws):
    data, about = bf.datasets.make_well_specified(), {"inverse_temperature": (1.0, 0.4), "num_draws": num_draws}
    est = bf.GibbsFairClustering(2, target=FreeLabels, **about, **SMALL)
    return est.fit(data.features, sensitive_features=data.sensitive)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # thirty draws are for the plumbing
@pytest.mark.slow
def test_a_target_of_ones_own_goes_through_tree_diagnostics_file_and_resume(tmp_path):
    whole, est = fitted(30), fitted(13)
    stats = est.posterior_["sample_stats"]
    assert stats["single_rate"].shape == stats["loss_of_labels"].shape == (2, 13)
    summary = bf.posterior.summary(est.posterior_)
    assert "loss_of_labels" in summary.index
    assert "single_rate" not in summary.index
    est.save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match=r"`target` must be given"):
        bf.GibbsFairClustering.load(tmp_path / "run.nc")
    again = bf.GibbsFairClustering.load(tmp_path / "run.nc", target=FreeLabels).resume(num_draws=17)
    for group in ("posterior", "sample_stats", "sampler_state"):
        for name, values in whole.posterior_[group].data_vars.items():
            np.testing.assert_array_equal(values, again.posterior_[group][name], err_msg=f"{group}/{name}")
    assert set(whole.posterior_["sample_stats"].data_vars) == set(again.posterior_["sample_stats"].data_vars)
    assert bf.report(again.posterior_, tmp_path / "page.html").exists()  # with all pictures
    is_told_in_the_units_of_the_table(again.posterior_)


def is_told_in_the_units_of_the_table(tree):
    """Statistics are named in the file of the toy move and nowhere else."""
    assert tree["posterior"]["lambda_of_labels"].attrs["kind"] == "parameter"
    np.testing.assert_allclose(tree["posterior"]["lambda_of_labels"], 0.4, rtol=1e-6)
    X, labels = tree["observed_data"]["X"].values, tree["posterior"]["labels"].values
    loss = sum(((X[z == k] - X[z == k].mean(0)) ** 2).sum() for z in labels[0, :1] for k in range(2))
    np.testing.assert_allclose(tree["sample_stats"]["loss_of_labels"][0, 0], loss, rtol=1e-5)


@dataclass(frozen=True)
class Mumbles:
    """A move that reports what it has not declared."""

    def __call__(self, key, target, state):
        return state, {"something": jnp.zeros(())}


def test_a_statistic_that_nobody_declared_is_refused():
    t = tiny("1:1", dtype=np.float32)
    with pytest.raises(ValueError, match=r"`statistics` must declare every scalar.*something"):
        draw(start(t)._replace(moves=(Mumbles(),)), t.target, 1)


def test_moves_of_different_classes_are_never_taken_for_one_another():
    """Compiled sweeps are found by equality: as tuples, all moves without settings would be one."""
    assert Repeat((CollapsedReallocation(),)) != Repeat((MoveOne(),))
    assert Mumbles() != MoveOne()
    assert Mumbles() == Mumbles()
