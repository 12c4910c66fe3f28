"""A loss of the user's own: compared with its definition, compiled, and stopped when it is not a number."""

import math

import numpy as np
import pytest
from tiers import tiers

import bayesfair as bf
from bayesfair.gibbs import Loss, check_loss
from bayesfair.gibbs.loss import NAMES

X = np.random.default_rng(0).uniform(0.05, 0.95, (40, 2))
GROUPS = np.arange(40) % 2


def squares(x, m):
    return ((x - m) ** 2).sum()


def logistic(x, m):
    paid = 0.0
    for e in range(len(x)):
        paid += x[e] * math.log(x[e] / m[e]) - x[e] + m[e]
    return paid


def farthest(x, y):
    return np.abs(x - y).max()


def lopsided(x, y):
    return np.maximum(x - y, 0.0).sum() + 2 * np.maximum(y - x, 0.0).sum()


@pytest.mark.parametrize("loss", [*NAMES, bf.gibbs.Minkowski(3.0)], ids=str)
def test_losses_of_the_package_keep_the_rules(loss):
    check_loss(loss, X)


@pytest.mark.parametrize(
    "loss",
    [
        Loss(divergence=squares, degree=2, translation_invariant=True),
        Loss(divergence=logistic, degree=2),
        Loss(divergence=logistic),
        Loss(pair=farthest, degree=1, translation_invariant=True),
        Loss(pair=squares, degree=2),
    ],
)
def test_right_losses_pass_in_silence(loss):
    check_loss(loss, X)


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (Loss(divergence=lambda x, m: np.abs(x - m).sum()), "be a Bregman divergence.* Pass pair="),
        (Loss(divergence=lambda x, m: squares_of(m, x)), "be a Bregman divergence"),
        (Loss(divergence=lambda x, m: ((x - m) ** 2).sum() + 0.1), "be 0 for equal rows, got 0.1"),
        (Loss(pair=lambda x, y: (x - y).sum()), "not be negative"),
        (Loss(pair=lopsided), r"pay for \(y, x\) what it pays"),
        (Loss(pair=lambda x, y: 0.0 * x[0]), "be above zero for some rows that differ"),
        (Loss(pair=lambda x, y: np.sqrt(x[0] - y[0])), "be finite for all pairs of rows"),
        (Loss(pair=farthest, degree=2), "as its degree says.*Give degree=1"),
        (Loss(divergence=logistic, degree=1), "as its degree says.*Give degree=2"),
        (Loss(divergence=logistic, translation_invariant=True), "Leave translation_invariant out"),
    ],
)
def test_each_rule_catches_what_breaks_it(loss, said):
    with pytest.raises(AssertionError, match=said):
        check_loss(loss, X)


def squares_of(x, m):
    return (x * np.log(x / m) - x + m).sum()


def test_tables_that_show_nothing_are_refused():
    with pytest.raises(ValueError, match="at least 8 rows, got 7"):
        check_loss("kmeans", X[:7])
    with pytest.raises(AssertionError, match="Pass distinct rows"):
        check_loss("kmeans", np.zeros((8, 1)))


def no_attribute(x, m):
    y = x - m
    return y.cosine()


def no_number(x, m):
    return x - m


def imports(x, m):
    import scipy

    return scipy.linalg.norm(x - m)


@pytest.mark.parametrize(
    ("function", "line"),
    [(no_attribute, "return y.cosine()"), (no_number, "return x - m"), (imports, "import scipy"), (len, None)],
)
def test_what_numba_cannot_compile_is_shown_with_its_line(function, line):
    with pytest.raises(ValueError, match=r"Numba cannot compile .*returns one number") as caught:
        check_loss(Loss(pair=function), X)
    assert line is None or f"`{line}`" in str(caught.value)


def fitted(target="labels", **loss):
    chains = {"num_chains": 1, "num_warmup": 10, "num_draws": 10, "modes": None, "progress_bar": False}
    est = bf.GibbsFairClustering(
        2, target=target, inverse_temperature=(5.0,), loss=Loss(**loss), random_state=0, **chains
    )
    if target != "labels":
        est.set_params(inverse_temperature=(5.0, 5.0))
    return est.fit(X, sensitive_features=GROUPS)


def fails_late(value):
    """Squares, and `value` for a cluster whose mean is far from the middle: chains come there only after a while."""
    return lambda x, m: value if np.abs(m - 0.5).max() > 0.3 else ((x - m) ** 2).sum()


@pytest.mark.parametrize("target", tiers(["labels", "joint", "cut", "optimal"], ["labels", "joint"]))
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_values_that_are_not_finite_stop_a_run(target, value):
    with pytest.raises(
        ValueError, match=rf"`loss` must give finite numbers.*got (nan|{value}) for row \d+, .*check_loss"
    ):
        fitted(target, divergence=fails_late(value))


def test_a_row_outside_the_domain_is_named_at_once():
    outside = X.copy()
    outside[3] = -1.0
    est = bf.GibbsFairClustering(2, loss=Loss(pair=lambda x, y: abs(math.log(x[0] / y[0]))), inverse_temperature=1.0)
    with pytest.raises(ValueError, match="nan for row 3, paid for the row before it"):
        est.fit(outside, sensitive_features=GROUPS)


def raising(x, y):
    if x[0] > 2:
        raise ValueError
    return np.abs(x - y).sum()


def test_what_the_function_raises_stops_the_run():
    table = X.copy()
    table[5] = 3.0
    with pytest.raises(AssertionError, match=r"be finite for all pairs of rows, got \[nan\]"):
        check_loss(Loss(pair=raising), table)


def test_a_compiled_loss_comes_back_from_another_process():
    import pickle

    code = Loss(pair=farthest).code()
    again = [pickle.loads(pickle.dumps(code)) for _ in range(2)]
    assert again[0].own is again[1].own
    assert again[0][:2] == code[:2]
