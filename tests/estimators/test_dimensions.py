"""The degrees of freedom of lambda: columns of noise, and columns that repeat others, make no row look surer."""

import numpy as np
import pandas as pd
import pytest

import bayesfair as bf
from bayesfair._tables import Columns
from bayesfair.estimators.mixed_tables import mixed_table
from bayesfair.fairness import encode_groups
from bayesfair.gibbs import Minkowski
from bayesfair.gibbs.loss import resolve_loss
from bayesfair.gibbs.target import Table
from bayesfair.gibbs.temperature import holmes_walker

N = 300
LEVELS = 2, 3, 5, 20, 60, 200


def two_heaps(n_columns=2):
    """(numbers (N, n_columns), the heap of every row); heaps differ in the first column."""
    rng = np.random.default_rng(0)
    heap = rng.integers(0, 2, N)
    X = rng.normal(size=(N, n_columns))
    X[:, 0] += 2 * heap
    return (X - X.mean(0)) / X.std(0), heap


def noise(n_levels, seed=1):
    return np.char.add("level ", np.random.default_rng([1, seed]).integers(0, n_levels, N).astype(str))


@pytest.mark.filterwarnings("ignore:column '.*' has .* levels")
def counted(numbers, texts=(), loss="kmeans", category_weight="auto", weight=None):
    """(dimensions that count, the encoded rows)."""
    loss, n_numbers = resolve_loss(loss), numbers.shape[1]
    categorical = np.empty((len(numbers), len(texts)), object)
    for at, text in enumerate(texts):
        categorical[:, at] = text
    columns = Columns(numbers, categorical, None)
    where = list(range(n_numbers, n_numbers + len(texts)))
    mixed = mixed_table(columns, where, None, loss, category_weight, weight)
    rows = mixed.numbers(columns)
    return mixed.counted(rows, loss, weight).dim, rows


def cost(rows, labels):
    return sum(np.square(rows[labels == k] - rows[labels == k].mean(0)).sum() for k in np.unique(labels))


@pytest.mark.filterwarnings("ignore:column '.*' has .* levels")
@pytest.mark.parametrize("n_columns", [1, 5])
@pytest.mark.parametrize("n_levels", LEVELS)
def test_columns_of_noise_do_not_raise_lambda(n_levels, n_columns):
    """d / L at the true clusters, to which the mean of lambda is proportional."""
    numbers, heap = two_heaps()
    texts = [noise(n_levels, seed) for seed in range(n_columns)]
    alone, mixed = counted(numbers), counted(numbers, texts)
    assert alone[0] == 2
    before, after = (dim / cost(rows, heap) for dim, rows in (alone, mixed))
    assert 0.6 * before < after <= before * (1 + 2 * n_columns * n_levels / N)  # noise follows heaps by chance


@pytest.mark.filterwarnings("ignore:column '.*' has .* levels")
@pytest.mark.parametrize("loss", ["kmeans", "manhattan", Minkowski(3.0)])
@pytest.mark.parametrize("n_levels", LEVELS)
def test_a_column_counts_about_as_much_as_a_number_whatever_its_levels(n_levels, loss):
    numbers, _ = two_heaps()
    dim, rows = counted(numbers, [noise(n_levels)], loss)
    assert 2 < dim < 3.4
    if loss == "kmeans":  # what it adds to the loss, in numbers
        np.testing.assert_allclose(dim - 2, rows[:, 2:].var(0).sum() / numbers.var(0).mean(), rtol=1e-9)


def test_a_column_counts_at_its_weight_and_at_most_what_it_spans():
    numbers, text = two_heaps()[0], noise(5)
    one, two, much = (counted(numbers, [text], category_weight=weight)[0] - 2 for weight in (1.0, 2.0, 1e6))
    np.testing.assert_allclose([two, much], [2 * one, 4])


@pytest.mark.parametrize("loss", ["kmeans", "manhattan", Minkowski(3.0)])
def test_a_table_beside_itself_counts_once(loss):
    numbers, texts = two_heaps()[0], [noise(5), noise(2)]
    other_names = [np.char.translate(text, str.maketrans("01234", "43210")) for text in texts]
    dim = counted(numbers, texts, loss)[0]
    np.testing.assert_allclose(counted(np.hstack([numbers, numbers]), texts + other_names, loss)[0], dim)
    many = counted(numbers, [texts[0], other_names[0]] * 20, loss)[0]
    np.testing.assert_allclose(many, 2 + 4)  # what the levels span


@pytest.mark.parametrize("loss", ["kmeans", "manhattan", "kl"])
def test_numbers_that_follow_from_others_count_nothing(loss):
    numbers = np.abs(two_heaps()[0])
    sums = np.column_stack([numbers, 9 - 2 * numbers[:, 0], numbers.sum(1), np.ones(N)])
    assert counted(sums, loss=loss)[0] == 2


def test_numbers_count_as_many_dimensions_as_columns_whatever_their_spread():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 6)) * np.logspace(-3, 3, 6) + 1e3
    X[:, 5] += 0.95 * X[:, 4]
    assert counted(X)[0] == 6
    assert counted(X[:4])[0] == 6  # rows that are too few to tell
    assert counted(X.astype(np.float32))[0] == 6


def test_yes_or_no_columns_count_as_numbers_where_there_are_none():
    flags = np.random.default_rng(0).integers(0, 2, (N, 4))
    flags[:10] = np.arange(10)[:, None] % 2
    as_text = counted(np.zeros((N, 0)), list(flags.astype(str).T))[0]
    np.testing.assert_allclose(as_text, counted(flags.astype(float))[0], rtol=0.05)


@pytest.mark.parametrize("loss", ["kmeans", "kl"])
def test_whole_weights_count_as_repeated_rows(loss):
    numbers, texts, weight = np.abs(two_heaps()[0]), [noise(5)], np.resize([1, 2, 3], N)
    again = np.repeat(np.arange(N), weight)
    expected = counted(numbers[again], [texts[0][again]], loss)[0]
    found = counted(numbers, texts, loss, weight=weight.astype(float))[0]
    np.testing.assert_allclose(
        found, expected, rtol=0.02 if loss == "kmeans" else 1e-9
    )  # numbers have another variance


def test_holmes_walkers_lambda_does_not_rise_with_levels():
    numbers, heap = two_heaps()

    def lam(texts):
        dim, rows = counted(numbers, texts)
        groups, loss = encode_groups(np.resize(["f", "m"], len(rows))), resolve_loss("kmeans")
        table = Table(rows, groups, np.ones(len(rows)), 2, loss, "holmes-walker", len(rows) * dim / 2, 0)
        return holmes_walker(table, heap)

    assert max(lam([noise(n_levels)]) for n_levels in (2, 20, 100)) < 1.1 * lam([])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few draws
def test_a_loaded_run_keeps_its_dimensions(tmp_path):
    numbers, _ = two_heaps()
    X = pd.DataFrame(numbers[:40], columns=["a", "b"]).assign(town=noise(5)[:40])
    short = {"num_chains": 2, "num_warmup": 20, "num_draws": 20, "modes": None}
    est = bf.GibbsFairClustering(2, target="labels", **short, random_state=0, progress_bar=False)
    est.fit(X, sensitive_features=np.resize(["f", "m"], 40)).save(tmp_path / "run.nc")
    assert 2 < est._mixed.dim < 3
    assert bf.GibbsFairClustering.load(tmp_path / "run.nc")._mixed.dim == est._mixed.dim


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_doubt_does_not_fall_with_columns_of_noise():
    numbers, _ = two_heaps()
    X = pd.DataFrame(numbers, columns=["a", "b"])
    settings = {"num_chains": 2, "num_warmup": 150, "num_draws": 150, "random_state": 0, "progress_bar": False}

    def doubt(n_levels, n_columns):
        table = X.assign(**{f"noise {at}": noise(n_levels, at) for at in range(n_columns)})
        est = bf.GibbsFairClustering(2, target="labels", **settings)
        est.fit(table, sensitive_features=np.resize(["f", "m"], N))
        return (bf.posterior.memberships(est.posterior_)["probability"] < 0.9).mean()

    alone = doubt(2, 0)
    assert alone > 0.2
    assert min(doubt(60, 1), doubt(200, 1), doubt(20, 5)) > alone - 0.03
