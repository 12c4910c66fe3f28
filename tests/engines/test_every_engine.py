"""Every engine on every kind of table: what all five promise."""

import numpy as np
import polars
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bayesfair as bf

ENGINES = [
    bf.FairMixture(2, n_init=2, max_gap=0.3, tol=1e-4, max_iter=500, random_state=0),
    bf.VariationalFairClustering(2, random_state=0),
    bf.BigLearnMixture(2, max_iter=40, random_state=0),
    bf.TiltedKMeans(2, random_state=0, n_init=2),
    bf.FairletKMeans(2, random_state=0),
]
TABLES = {
    "well specified": bf.datasets.make_well_specified,
    "misspecified": bf.datasets.make_misspecified,
    "synthetic": bf.datasets.make_vfc_synthetic,
    "unequal": lambda: bf.datasets.make_vfc_synthetic(unequal=True),
}
pytestmark = [
    pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: type(engine).__name__),
    pytest.mark.parametrize("table", TABLES),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_conventions_of_the_house(engine, table):
    data = TABLES[table]()
    est = clone(engine).fit(data.features, sensitive_features=data.sensitive)
    n_obs = len(data.features)
    assert est.labels_.shape == (n_obs,)
    assert est.labels_.dtype.kind == "i"
    assert set(np.unique(est.labels_)) <= {0, 1}
    assert est.predict(data.features).shape == (n_obs,)
    assert est.n_iter_ >= 1
    assert est.converged_ in (True, False)
    assert np.isfinite(est.objective_trace_).all()
    again = clone(engine).fit(data.features, sensitive_features=data.sensitive)
    np.testing.assert_array_equal(est.labels_, again.labels_)
    assert bf.fairness.report(est.labels_, data.sensitive, data.features).shape[0] >= 1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_pipelines_and_polars(engine, table):
    data = TABLES[table]()
    frame = polars.DataFrame({name: data.features[name].to_numpy() for name in data.features})
    plain = clone(engine).fit(data.features, sensitive_features=data.sensitive)
    np.testing.assert_array_equal(plain.labels_, clone(engine).fit(frame, sensitive_features=data.sensitive).labels_)
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), clone(engine))
        pipeline.fit(data.features, sensitive_features=data.sensitive)
    assert pipeline[-1].labels_.shape == (len(data.features),)
