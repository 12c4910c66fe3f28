"""The partition that users see: beside enumeration, Dahl's draw, and what the method promises."""

from itertools import product

import numpy as np
import pytest

import bayesfair as bf
from bayesfair._draws import Draws
from bayesfair.fairness import encode_groups
from bayesfair.fairness.guarantee import Guarantee, guarantee_of_fairlets
from bayesfair.posterior.guarantees import balance_to_keep, guarantee_sentence
from bayesfair.posterior.point_estimates import point_of
from bayesfair.posterior.relabelling import _placed
from bayesfair.posterior.tables import binder_loss
from bayesfair.posterior.tree import build_tree

SEX = np.array(list("ffffmmmm"))
EXACT = Guarantee("exact")


def tree_of(labels, sensitive=SEX, guarantee=EXACT, **more):
    labels = np.asarray(labels)[None]
    groups, n_clusters = None if sensitive is None else encode_groups(sensitive), int(labels.max()) + 1
    X = np.arange(labels.shape[2], dtype=float)[:, None]
    return build_tree(Draws(labels, {}, {}), X, groups, guarantee=guarantee, n_clusters=n_clusters, **more)


def balanced_draws(n_draws=60, seed=0):
    """Two clusters of two women and two men each, who swap now and then."""
    rng, draws = np.random.default_rng(seed), []
    score = np.array([0, 1, 2.2, 3, 0, 1, 1.8, 3])
    for _ in range(n_draws):
        noisy, labels = score + rng.normal(0, 1, 8), np.zeros(8, int)
        for sex in "fm":
            rows = np.flatnonzero(sex == SEX)
            labels[rows[np.argsort(noisy[rows])[2:]]] = 1
        draws.append(labels if rng.random() < 0.5 else 1 - labels)
    return np.array(draws)


def test_it_has_the_largest_sum_of_memberships_among_balanced_labels():
    tree = tree_of(balanced_draws())
    assert point_of(tree) == "likeliest"
    labels = tree["constant_data"]["reference_labels"].values
    together = np.asarray(tree["posterior"]["labels"])[0]
    share = np.stack([(together == k).mean(0) for k in range(2)])
    balanced = [z for z in product(range(2), repeat=8) if sum(z[:4]) == sum(z[4:]) == 2]
    best = max(share[list(z), range(8)].sum() for z in balanced)
    assert share[labels, range(8)].sum() == pytest.approx(best)
    table = bf.posterior.memberships(tree)
    assert table["cluster"].tolist() == labels.tolist()
    assert (table["placed_for_balance"] == (table["probability"] < table["runner_up_probability"])).all()


AT_MOST_4 = Guarantee("exact", size_max=4)


@pytest.mark.parametrize(
    ("sensitive", "guarantee", "expected"),
    [
        (SEX, EXACT, [0, 0, 0, 1, 0, 0, 1, 1]),  # to within one person cluster 0 has places for three women
        (SEX, AT_MOST_4, [0, 0, 1, 1, 0, 0, 1, 1]),
        (None, AT_MOST_4, [0, 0, 1, 1, 0, 0, 1, 1]),
    ],
)
def test_rows_stay_out_of_their_likeliest_cluster_for_balance_and_sizes_alone(sensitive, guarantee, expected):
    """All women are likeliest in cluster 0, and two of four men; those who lose least are placed elsewhere."""
    tree = tree_of(balanced_draws(), sensitive, guarantee)
    counts = np.array([[9, 8, 7, 6, 9, 8, 4, 3], [1, 2, 3, 4, 1, 2, 6, 7]])
    code, constraint = np.zeros(8, int) if sensitive is None else encode_groups(SEX).code, balance_to_keep(tree)
    placed = _placed(counts.argmax(0), counts, code, constraint)
    assert placed.tolist() == expected
    assert _placed(placed, counts, code, constraint) is placed
    if guarantee is AT_MOST_4:
        assert guarantee_sentence(tree).endswith("Every cluster of every draw has at most 4 rows.")
        assert guarantee_sentence(tree.isel(obs=slice(4))) != guarantee_sentence(tree)


def test_where_no_numbering_fits_all_draws_it_is_dahls():
    """Two partitions across each other, three draws of one and two of the other."""
    one, other = np.array([0, 0, 1, 1] * 2), np.array([0, 1, 0, 1] * 2)
    tree = tree_of([one, one, one, other, other])
    labels = tree["constant_data"]["reference_labels"].values
    assert bf.posterior.partition_distance(labels[None], one)[0] == 0
    assert "placed_for_balance" not in bf.posterior.memberships(tree) or point_of(tree) == "likeliest"
    flat = np.array([one, one, one, other, other])
    assert binder_loss(flat, labels, 2) <= binder_loss(flat, one, 2)


def test_fairlets_that_could_be_whole():
    """Of one woman with one or two men each: as many men as women at least, at most twice as many."""
    whole = guarantee_of_fairlets(np.array([[1, 1], [1, 1]]), np.array([[1, 1], [1, 2]]))
    assert whole.ratio.tolist() == [[1, 1], [2, 2]]
    assert whole.balance_of_fairlets == 0.5
    counts = np.array([[2, 2], [2, 4], [2, 5], [3, 2], [0, 0]])
    assert whole.satisfied(counts).tolist() == [True, True, False, False, False]
    A, b = whole.rows()
    assert (b + 1e-9 >= A @ counts[:4].T).all(0).tolist() == [True, True, False, False]
    open_ended = whole._replace(ratio=np.array([[1.0, np.inf], [2.0, 2.0]]))
    assert open_ended.satisfied(np.array([[3, 0], [1, 3]])).tolist() == [True, False]


def test_any_partition_can_be_asked_about(tmp_path, monkeypatch):
    monkeypatch.setattr("bayesfair.reports.pictures.render", lambda *_: (b"", ""))
    tree, own = tree_of(balanced_draws()), np.array([0, 0, 0, 0, 1, 1, 1, 1])
    table = bf.posterior.memberships(tree, reference=own)
    assert table["cluster"].tolist() == own.tolist()
    assert "placed_for_balance" not in table
    page = bf.report(tree, tmp_path / "own.html", reference=own).read_text()
    assert "the partition to which the draws were relabelled" in page
    assert "as far as balance allows" in bf.report(tree, tmp_path / "page.html").read_text()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_on_the_patients_few_rows_are_not_where_they_are_likeliest_and_dahls_draw_is_no_better():
    data = bf.datasets.load_diabetes()
    X = (data.features - data.features.mean()) / data.features.std()
    settings = {"modes": None, "num_warmup": 200, "num_draws": 400, "random_state": 0, "progress_bar": False}
    est = bf.GibbsFairClustering(3, target="labels", **settings).fit(X, sensitive_features=data.sensitive)
    table, tree = bf.posterior.memberships(est.posterior_), est.posterior_
    assert point_of(tree) == "likeliest"
    assert table["placed_for_balance"].mean() <= 0.03
    assert (table["runner_up_probability"] - table["probability"]).max() < 0.2
    flat = np.asarray(tree["posterior"]["labels"]).reshape(-1, len(X))
    assert binder_loss(flat, est.labels_, 3) <= binder_loss(flat, bf.posterior.dahl_partition(tree), 3)
    assert balance_to_keep(tree).satisfied(bf.fairness.metrics.group_masses(est.labels_, data.sensitive)).all()
