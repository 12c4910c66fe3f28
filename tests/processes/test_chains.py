"""Chains as joblib tasks: the same draws, bit for bit, under every backend."""

import joblib
import numpy as np
import pytest

import bayesfair as bf

TARGETS = ["labels", bf.gibbs.Joint(keep_fairlets=True), "cut", "optimal"]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::RuntimeWarning")


def sampled(target, num_draws=30, **settings):
    """An estimator with three chains on fifty rows."""
    data = bf.datasets.make_vfc_synthetic()
    settings = {"num_chains": 3, "num_warmup": 40, "random_state": 0, "progress_bar": False, **settings}
    est = bf.GibbsFairClustering(3, target=target, num_draws=num_draws, **settings)
    return est.fit(data.features.iloc[::8], sensitive_features=data.sensitive.iloc[::8])


def assert_same_draws(one, other):
    for group in ("posterior", "sample_stats"):
        for name, values in one.posterior_[group].data_vars.items():
            np.testing.assert_array_equal(other.posterior_[group][name].values, values.values, err_msg=name)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_threads_draw_what_one_thread_draws(target):
    assert_same_draws(sampled(target, n_jobs=1), sampled(target, n_jobs=3))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_processes_draw_what_threads_draw_and_a_run_goes_on_in_either(target, tmp_path):
    alone = sampled(target)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert_same_draws(alone, sampled(target))
    sampled(target, num_draws=10).save(tmp_path / "run.nc")
    with joblib.parallel_config(backend="loky", n_jobs=2):
        goes_on = bf.GibbsFairClustering.load(tmp_path / "run.nc").resume(20)
    assert_same_draws(alone, goes_on)


@pytest.mark.slow
def test_a_loss_of_ones_own_is_compiled_in_every_process():
    loss = bf.gibbs.Loss(pair=lambda x, y: np.abs(x - y).max(), degree=1)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        shared = sampled("labels", loss=loss, num_draws=5)
    assert_same_draws(sampled("labels", loss=loss, num_draws=5), shared)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Dask and Tornado
def test_dask_draws_what_threads_draw():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        shared = sampled("labels")
    assert_same_draws(sampled("labels"), shared)
