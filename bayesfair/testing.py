"""What every engine must do: checks for an engine of your own, in scikit-learn's manner."""

import warnings

import numpy as np
import pandas as pd
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from bayesfair._compilations import compilations

N_OBS = 60
GROUP = np.resize(["f", "m"], N_OBS)  # the same shares in both halves of the table
HALF = np.repeat(["f", "m"], N_OBS // 2)
# Expected to fail, as for scikit-learn's KMeans: the fits it compares draw different starts. `sample_weights` tests the rest.
DRAWN_ANEW = {"check_sample_weight_equivalence_on_dense_data": "starts are drawn anew if rows repeat"}
ROW_TOLERANCE = 1e-3  # relative difference in the objective that newly drawn starts may cause
ROUNDING = 1e-5  # relative rise of a monotone objective that float32 may cause


def check_engine(estimator, *, scikit_learn=True):
    """Check that an engine does what every engine of the package does.

    All data are made inside, with fixed seeds.

    Parameters
    ----------
    estimator : Engine
        The engine. Its number of clusters is set to 2.
    scikit_learn : bool, default True
        Whether to run scikit-learn's `check_estimator` too. It fits tables of many shapes, each of which is compiled
        anew.

    Raises
    ------
    AssertionError
        If the engine fails a check. The message names it.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.engines.check_engine(bf.FairletKMeans(random_state=0), scikit_learn=False)
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for check in CHECKS:
            _run(check, _two_clusters(estimator))
        if scikit_learn:
            warnings.filterwarnings("ignore", "No sensitive features given")
            _run(scikit_learns_own, clone(estimator))


def _run(check, estimator):
    promise = check.__name__.replace("_", " ")
    try:
        check(estimator)
    except Exception as error:
        raise AssertionError(f"{type(estimator).__name__} fails a check, {promise}: {error}") from error


def _two_clusters(estimator):
    estimator = clone(estimator).set_params(random_state=0)
    return estimator if estimator.parts is None else estimator.set_params(**{estimator.parts: 2})


def table(seed=0):
    """Two clusters far apart, one of them each half of the rows, near [0, 1]."""
    rng = np.random.default_rng(seed)
    X = rng.normal([0.2, 0.5, 0.8], 0.05, (N_OBS, 3)) + np.repeat([[0, 0, 0], [0.4, -0.3, 0.2]], N_OBS // 2, 0)
    return pd.DataFrame(X, columns=["age", "income", "bmi"])


def _fit(estimator, X=None, groups=GROUP, weight=None):
    return clone(estimator).fit(table() if X is None else X, sensitive_features=groups, sample_weight=weight)


def _expect(holds, otherwise):
    if not holds:
        raise AssertionError(otherwise)


def fitted_attributes(estimator):
    X = table()
    before, est = X.copy(), clone(estimator)
    _expect(est.fit(X, sensitive_features=GROUP) is est, "fit must return the estimator")
    _expect(X.equals(before), "fit changed the table that it was given")
    _expect(np.shape(est.labels_) == (N_OBS,), f"labels_ must be one per row, got shape {np.shape(est.labels_)}")
    _expect(est.labels_.dtype.kind == "i", f"labels_ must be integers, got {est.labels_.dtype}")
    if est.parts is not None:
        _expect(set(np.unique(est.labels_)) <= {0, 1}, f"labels_ must be 0 and 1, got {np.unique(est.labels_)}")
    _expect(est.n_iter_ >= 1, f"n_iter_ must be at least 1, got {est.n_iter_}")
    _expect(est.converged_ in (True, False), f"converged_ must say yes or no, got {est.converged_!r}")
    trace = est.objective_trace_
    _expect(len(trace) and np.isfinite(trace).all(), f"objective_trace_ must be finite numbers, got {trace}")


def predictions(estimator):
    est = _fit(estimator)
    new = est.predict(table(1)[:7])
    _expect(new.shape == (7,) and new.dtype.kind == "i", f"predict must give an integer per row, got {new!r}")
    _refuses(lambda: clone(estimator).predict(table()), "to predict before fit", (NotFittedError,))
    _refuses(lambda: est.predict(table().iloc[:, :2]), "other columns than in fit")


def repeatable(estimator):
    one, other = _fit(estimator), _fit(estimator)
    _expect((one.labels_ == other.labels_).all(), "two fits with one random_state differ in their labels")
    _expect(np.array_equal(one.objective_trace_, other.objective_trace_), "and in their objectives")


def order_of_rows(estimator):
    """Two clusters far apart are found in any order of the rows."""
    order = np.random.default_rng(1).permutation(N_OBS)
    shuffled = _fit(estimator, table().iloc[order], GROUP[order])
    same = adjusted_rand_score(_fit(estimator).labels_[order], shuffled.labels_)
    _expect(same > 0.9, f"labels depend on the order of rows, adjusted Rand index {same:.2f} between two orders")


def objective_never_gets_worse(estimator):
    est = _fit(estimator, groups=HALF)
    if not estimator.monotone or len(est.objective_trace_) < 2:
        return
    worse = np.diff(est.objective_of(np.array([0.0, 1.0])))[0]  # sign of a rise in the loss, as reported
    steps = np.sign(worse) * np.diff(est.objective_trace_)
    allowed = ROUNDING * np.abs(est.objective_trace_).max()
    rises = np.flatnonzero(steps > allowed)
    _expect(len(rises) == 0, f"the objective gets worse at iterations {rises[:5] + 1}, by {steps.max():.3g} at most")


def groups(estimator):
    """Groups change the answer, and their absence is warned of; if the engine uses no groups, neither happens."""
    apart, mixed = _fit(estimator, groups=HALF), _fit(estimator)
    same = (apart.labels_ == mixed.labels_).all() and np.array_equal(apart.objective_trace_, mixed.objective_trace_)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        clone(estimator).fit(table())
    silent = not any("No sensitive features given" in str(one.message) for one in told)
    if estimator.uses_groups:
        _expect(not same, "sensitive_features are ignored: groups equal to the clusters change nothing")
        _expect(not silent, "fit without sensitive_features issues no warning")
    else:
        _expect(same and silent, "uses_groups is False, but groups change the answer or fit asks for them")
    _refuses(lambda: _fit(estimator, groups=GROUP[:-1]), "groups of another length", match="sensitive_features")
    shifted = pd.Series(GROUP, index=np.arange(1, N_OBS + 1))
    _refuses(lambda: _fit(estimator, groups=shifted), "groups of another row index", match="row index")


def sample_weights(estimator):
    """A weight of 0 drops a row except for its label. A weight of 2 repeats it, or doubles its loss, or is refused."""
    X, there = table(), np.resize([1.0, 1.0, 0.0, 1.0], N_OBS)
    if estimator.weights is None:
        return _refuses(lambda: _fit(estimator, weight=there), "a sample_weight", match="sample_weight")
    for bad, what in ((-there, "negative"), (there[1:], "too few"), (np.nan * there, "missing"), (0 * there, "no")):
        _refuses(lambda bad=bad: _fit(estimator, weight=bad), f"{what} weights", match="sample_weight")
    rows = np.flatnonzero(there)
    without, zero = _fit(estimator, X.iloc[rows], GROUP[rows]), _fit(estimator, weight=there)
    expected = np.where(there == 0, without.predict(X), 0)
    expected[rows] = without.labels_
    same = np.array_equal(expected, zero.labels_)
    same = same and np.array_equal(without.objective_trace_, zero.objective_trace_)
    _expect(same, "rows of weight 0 are not left out, or have other labels than predict gives")
    if estimator.weights == "loss":
        return _are_of_the_loss(estimator)
    weight = np.resize([1, 3, 0, 2, 1], N_OBS)
    rows = np.repeat(np.arange(N_OBS), weight)
    weighted, repeated = _fit(estimator, weight=weight), _fit(estimator, X.iloc[rows], GROUP[rows])
    alike = adjusted_rand_score(weighted.labels_[rows], repeated.labels_)
    ends = np.array([one.objective_trace_[-1] for one in (weighted, repeated)])
    _expect(alike == 1, f"whole weights give other labels than repeated rows, adjusted Rand index {alike:.2f}")
    off = np.ptp(ends) / np.abs(ends).max()
    _expect(off < ROW_TOLERANCE, f"whole weights end at another objective than repeated rows, {off:.2g} of it apart")


def _are_of_the_loss(estimator):
    """With all weights 2, labels stay and the loss doubles."""
    once, twice = _fit(estimator), _fit(estimator, weight=np.full(N_OBS, 2.0))
    _expect((once.labels_ == twice.labels_).all(), "the same weight for every row changes labels")
    off = np.abs(twice.objective_trace_[-1] / once.objective_trace_[-1] - 2)
    _expect(off < ROUNDING, "weights of 2 do not double the loss")


def kinds_of_tables(estimator):
    plain = _fit(estimator).labels_
    for kind, X in {"an array": table().to_numpy(), "a list": table().to_numpy().tolist()}.items():
        _expect((_fit(estimator, X).labels_ == plain).all(), f"{kind} gives other labels than a data frame")
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(MinMaxScaler(), clone(estimator)).fit(table(), sensitive_features=GROUP)
    _expect(pipeline[-1].labels_.shape == (N_OBS,), "a pipeline that routes sensitive_features gives no labels")


def hostile_tables(estimator):
    X = table()
    tables = {
        "one name twice": (X.set_axis(["age", "age", "bmi"], axis=1), "'age'"),
        "dates": (X.assign(day=pd.Timestamp("2020-01-01")), "'day'"),
        "infinity": (X.replace(X.iloc[7, 1], np.inf), "'income'"),
        "1e300": (X.replace(X.iloc[7, 1], 1e300), "'income'"),
    }
    if not estimator.__sklearn_tags__().input_tags.allow_nan:
        tables["NaN"] = (X.replace(X.iloc[7, 1], np.nan), "'income'")
    if "categorical_features" not in estimator.get_params():
        tables["text"] = (X.assign(town="York"), "'town'")
    for kind, (bad, column) in tables.items():
        _refuses(lambda bad=bad: _fit(estimator, bad), f"a table with {kind}", match=column)
    if estimator.parts is not None:
        for number in (0, N_OBS + 1):
            one = clone(estimator).set_params(**{estimator.parts: number})
            _refuses(lambda one=one: _fit(one), f"{estimator.parts}={number} of {N_OBS} rows", match=estimator.parts)


def _refuses(call, what, errors=(ValueError, TypeError), match=""):
    try:
        call()
    except errors as error:
        _expect(match in str(error), f"the refusal of {what} must name {match}, got: {error}")
    else:
        raise AssertionError(f"{what}: not refused")


def compiles_once(estimator):
    _fit(estimator)
    with compilations() as compiled:
        _fit(estimator, table(1))
    _expect(not compiled, f"a second fit of a table of the same shape compiles {sorted(set(compiled))} again")


def scikit_learns_own(estimator):
    from sklearn.utils.estimator_checks import check_estimator

    check_estimator(estimator, on_skip=None, expected_failed_checks=DRAWN_ANEW)


CHECKS = (
    fitted_attributes,
    predictions,
    repeatable,
    order_of_rows,
    objective_never_gets_worse,
    groups,
    sample_weights,
    kinds_of_tables,
    hostile_tables,
    compiles_once,
)
