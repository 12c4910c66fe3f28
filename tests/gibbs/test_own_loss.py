"""A loss of the user's own: compared with its definition, compiled, and stopped when it is not a number."""

import math
import pickle

import numpy as np
import pytest

import bayesfair as bf
from bayesfair.fairness import encode_groups
from bayesfair.gibbs import Loss, check_loss
from bayesfair.gibbs.loss import NAMES
from bayesfair.gibbs.target import Table

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
        (Loss(divergence=lambda x, m: (m * np.log(m / x) - m + x).sum()), "be a Bregman divergence"),
        (Loss(divergence=lambda x, m: ((x - m) ** 2).sum() + 0.1), "be 0 for equal rows, got 0.1"),
        (Loss(pair=lambda x, y: (x - y).sum()), "not be negative"),
        (Loss(pair=lopsided), r"pay for \(y, x\) what it pays"),
        (Loss(pair=lambda x, y: 0.0 * x[0]), "be above zero for some rows that differ"),
        (Loss(pair=farthest, degree=2), "as its degree says.*Give degree=1"),
        (Loss(divergence=logistic, degree=1), "as its degree says.*Give degree=2"),
        (Loss(divergence=logistic, translation_invariant=True), "Leave translation_invariant out"),
    ],
)
def test_each_rule_catches_what_breaks_it(loss, said):
    with pytest.raises(AssertionError, match=said):
        check_loss(loss, X)


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


CENTRE = np.abs(X.mean(0) - 0.5).max()


def fails_near_the_middle(value):
    """Squares, and `value` for means near the middle of the table: not at the start, whose clusters lie apart."""
    return lambda x, m: value if CENTRE + 0.01 < np.abs(m - 0.5).max() < 0.12 else ((x - m) ** 2).sum()


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize(
    ("target", "lam"), [("labels", 1e-3), (bf.gibbs.Optimal(composition="singletons"), (1e-3, 1e-3))], ids=str
)
def test_values_that_are_not_finite_stop_a_run(target, lam, value):
    """Inverse temperatures near 0 let clusters become alike, so that their means come to the middle."""
    chains = {
        "num_chains": 2,
        "num_warmup": 50,
        "num_draws": 50,
        "modes": None,
        "random_state": 0,
        "progress_bar": False,
    }
    loss = Loss(divergence=fails_near_the_middle(value))
    est = bf.GibbsFairClustering(2, target=target, inverse_temperature=lam, loss=loss, **chains)
    with pytest.raises(
        ValueError, match=rf"give finite numbers.*got {value} for row \d+, when it moved\. .*check_loss"
    ):
        est.fit(X, sensitive_features=GROUPS)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("kind", ["pair", "divergence"])
def test_values_that_are_not_finite_stop_moves_of_fairlets(kind, value):
    """Rows in their order have near partners; swaps make fairlets of far ones."""
    order = np.argsort(X[:, 0])
    loss = Loss(**{kind: lambda x, y: value if np.abs(x[0] - y[0]) > 0.35 else ((x - y) ** 2).sum()})
    groups = encode_groups(np.argsort(order) % 2)
    table = Table(X, groups, np.ones(40), 4, loss, (1e-3, 1e-3), 0.0, 0)
    fairlet = np.argsort(order) // 2
    law = bf.gibbs.Joint().prepare(table, {"start": fairlet})
    state = law.state(0, fairlet, np.arange(20) // 5, 1e-3, 1e-3)
    with pytest.raises(ValueError, match=rf"got -?{value} for row \d+, when it moved"):
        law.learn(state, 200)


def test_a_start_that_is_not_finite_names_its_row():
    groups = encode_groups(GROUPS)
    apart = Loss(pair=lambda x, y: math.inf if np.abs(x[0] - y[0]) > 0.5 else 0.0)
    table = Table(X, groups, np.ones(40), 2, apart, (1.0,), 0.0, 0)
    law = bf.gibbs.Labels().prepare(table)
    with pytest.raises(ValueError, match="got inf for row 0, in its cluster at the start"):
        law.state(0, np.arange(40) // 2 % 2, 1.0)


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
    with pytest.raises(ValueError, match="got nan for the rows"):
        check_loss(Loss(pair=raising), table)


def test_a_compiled_loss_comes_back_from_another_process():
    code = Loss(pair=farthest).code()
    again = [pickle.loads(pickle.dumps(code)) for _ in range(2)]
    assert again == [code, code]
