"""Modes: the table against definitions, what is found in draws against draws of known modes, the sentences word by word."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from draws import draws_of, with_modes
from partitions import same
from sklearn.exceptions import ConvergenceWarning

import bayesfair as bf
from bayesfair.posterior import modes, partition_distance, reference_partition, relabel, summary
from bayesfair.posterior.diagnostics import judge, warn_of_disagreement
from bayesfair.posterior.found_modes import _masses, chains_apart, modes_of, modes_sentence, occupancy
from bayesfair.posterior.sentences import of_r_hat
from bayesfair.posterior.tables import variation_of_information
from bayesfair.posterior.tree import build_tree

N_OBS, N_CLUSTERS, INFINITE = 60, 3, np.inf
BEST = np.arange(N_OBS) % N_CLUSTERS
SECOND = np.where(np.arange(N_OBS) < 24, (BEST + 1) % N_CLUSTERS, BEST)
THIRD = np.where(np.arange(N_OBS) >= 30, (BEST + 1 + np.arange(N_OBS) // 3 % 2) % N_CLUSTERS, BEST)
GROUPS = np.array(["a", "b"])[(np.arange(N_OBS) // 3) % 2]


def around(where, unsure=0.15, seed=0):
    """Draws (chains, draws, obs) near the clusterings at `where` (chains, draws), each with numbers of its own."""
    rng = np.random.default_rng(seed)
    labels = np.stack([BEST, SECOND, THIRD])[where]
    strays = (rng.random(labels.shape) < 0.4) & (rng.random(N_OBS) < unsure)
    labels = np.where(strays, (labels + 1) % N_CLUSTERS, labels)
    return np.stack([[rng.permutation(N_CLUSTERS)[draw] for draw in chain] for chain in labels]).astype(np.int8)


def tree_of(where, groups=GROUPS, **scalars):
    where = np.asarray(where)
    X = np.random.default_rng(3).normal(size=(N_OBS, 2))
    lp = -10.0 * where + np.random.default_rng(4).normal(size=where.shape)
    scalars = {"lp": lp, "clustering_loss": 5.0 + where, **scalars}
    return build_tree(draws_of(around(where), **scalars), X, groups, n_clusters=N_CLUSTERS)


def stay(*modes_of_chains, draws=60):
    return np.repeat(np.array(modes_of_chains)[:, None], draws, axis=1)


@pytest.fixture(scope="module")
def one():
    return tree_of(stay(0, 0, 0, 0))


def test_distances_of_all_pairs_of_draws_are_those_of_each_to_one():
    labels = around(stay(0, 1, draws=9)).reshape(-1, N_OBS)
    expected = [partition_distance(labels, draw.astype(int)) for draw in labels]
    np.testing.assert_allclose(variation_of_information(labels, N_CLUSTERS), expected, atol=1e-12)


def test_the_table_has_what_the_sampler_wrote_and_what_its_clusterings_say(one):
    figures = {
        "log_mass": [0.0, -2.0, np.nan],
        "lower": [0.0, -3.0, -INFINITE],
        "upper": [0.0, -1.0, -58.0],
        "se": [0.0, 0.5, np.nan],
        "starts": [20, 10, 2],
        "chains": [3, 1, 0],
        "lp": [-10.0, -12.5, -80.0],
        "loss": [3.0, 2.5, 9.0],
    }
    clusterings = [BEST, SECOND, THIRD]
    table = modes(with_modes(one, clusterings, **figures))
    assert table.index.name == "mode"
    assert table.index.tolist() == [1, 2, 3]
    assert table.attrs == {"num_starts": 32, "masses": "measured"}
    assert list(table.columns) == [*figures, "balance", "sizes", "distance"]
    for name, values in figures.items():
        np.testing.assert_array_equal(table[name], values)
    np.testing.assert_allclose(table["balance"], [bf.fairness.balance(labels, GROUPS) for labels in clusterings])
    assert table["sizes"].tolist() == [tuple(sorted(np.bincount(labels), reverse=True)) for labels in clusterings]
    distances = [partition_distance(labels[None], BEST)[0] for labels in clusterings]
    np.testing.assert_allclose(table["distance"], distances)


def test_chains_around_one_clustering_have_one_mode(one):
    table = modes(one)
    assert table.shape == (1, 11)
    assert table.loc[1, ["log_mass", "lower", "upper", "se", "starts", "chains", "distance"]].tolist() == [0] * 5 + [
        4,
        0,
    ]
    np.testing.assert_allclose(table.loc[1, ["lp", "loss"]].astype(float), [float(one["sample_stats"]["lp"].mean()), 5])
    np.testing.assert_array_equal(modes_of(one)["labels"][0], reference_partition(one))
    assert modes_sentence(one) == "One mode in the draws."
    assert not chains_apart(one)


def test_chains_that_stay_apart_have_modes_of_unknown_mass_in_the_order_of_their_density():
    tree = tree_of(stay(1, 2, 1, 0))
    found = modes_of(tree)
    for labels, truth in zip(found["labels"].values, (BEST, SECOND, THIRD)):
        assert partition_distance(labels[None], truth)[0] < 0.4
    table = modes(tree)
    assert table["chains"].tolist() == [1, 2, 1]
    assert table["starts"].tolist() == [0, 0, 0]
    assert (table["lp"].round() == [0, -10, -20]).all()
    assert table["loss"].tolist() == [5, 6, 7]
    assert table["log_mass"].isna().tolist() == [False, True, True]
    assert (table["lower"][1:] == -INFINITE).all()
    assert (table["upper"][1:] == INFINITE).all()
    np.testing.assert_allclose(occupancy(tree), [[0, 1, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]])
    assert modes_sentence(tree) == (
        "3 modes in the draws; their masses are not known; pooled draws weight them by where chains began. "
        "Chains stay in different modes: 1 in the best, 2 in the second, 1 in the third."
    )


def test_a_row_that_changes_place_and_a_few_odd_draws_are_no_modes():
    where = stay(0, 0, draws=100)
    labels = np.broadcast_to(BEST, (2, 100, N_OBS)).astype(np.int8).copy()
    labels[1, :, 7] = (BEST[7] + 1) % N_CLUSTERS  # one chain has one row elsewhere
    X = np.zeros((N_OBS, 1))
    assert len(modes(build_tree(draws_of(labels), X, None, n_clusters=3))) == 1
    where[0, 50:52] = 2
    assert len(modes(tree_of(where))) == 1


def test_chains_along_a_line_are_in_one_mode():
    """A border that moves through the rows: halves of a continuum are far apart, yet no modes."""
    rng = np.random.default_rng(0)
    x, border = np.sort(rng.normal(size=200)), 0.4 * rng.normal(size=(4, 60))
    labels = (x > border[..., None]).astype(np.int8)
    assert len(modes(build_tree(draws_of(labels), x[:, None], None, n_clusters=2))) == 1


def test_slow_chains_are_in_one_mode():
    """Rows change one by one: pieces of a chain are near together and far from others, yet no modes."""
    rng = np.random.default_rng(0)
    labels = np.empty((4, 50, 300), np.int8)
    for chain in labels:
        chain[0] = rng.integers(3, size=300)
        for before, after in pairwise(chain):
            after[:] = np.where((rng.random(300) < 0.15) & (np.arange(300) < 60), rng.integers(3, size=300), before)
        chain[:, 60:] = np.arange(240) % 3
    assert len(modes(build_tree(draws_of(labels), np.zeros((300, 1)), None, n_clusters=3))) == 1


def walk(rng, leave, enter, num_chains=4, num_draws=500):
    """Chains between two modes, (chains, draws), from the stationary law enter, leave / (enter + leave)."""
    where = [rng.random(num_chains) < leave / (leave + enter)]
    for _ in range(num_draws - 1):
        moves = rng.random(num_chains) < np.where(where[-1], enter, leave)
        where.append(where[-1] ^ moves)
    return np.stack(where, axis=1).astype(int)


@pytest.mark.slow
def test_masses_are_shares_of_draws_where_chains_move_and_their_intervals_hold():
    """At most 4 of 40 intervals of 95% miss the truth, which chance breaks once in 70 times; they are no wider than need be."""
    misses, widths = 0, []
    for seed in range(40):
        table = modes(tree_of(walk(np.random.default_rng(seed), leave=0.05, enter=0.15), groups=None))
        assert table.attrs["masses"] == "shares of draws"
        misses += not table["lower"][2] < np.log(0.05 / 0.15) < table["upper"][2]
        widths.append(table["se"][2])
    assert misses <= 4
    assert 0.1 < np.median(widths) < 0.3  # the share has an sd of 0.03, and of its log odds 0.16


def test_few_crossings_make_no_mass():
    where = stay(0, 0, 1, 1)
    where[0, 30:] = 1
    table = modes(tree_of(where))
    assert table.attrs["masses"] == "not known"
    assert table["chains"].tolist() == [2, 3]


def test_trees_may_lack_density_loss_and_groups():
    tree = tree_of(stay(0, 1, 1), groups=None)
    del tree["sample_stats"]
    table = modes(tree)
    assert table[["lp", "loss", "balance"]].isna().all(axis=None)
    assert table["chains"].tolist() == [2, 1]  # the more draws, the better, where no density says otherwise


def test_clusterings_are_numbered_alike_whatever_the_tree_is_relabelled_to(one):
    tree = tree_of(stay(0, 0, 1))
    first, second = modes_of(tree)["labels"].values
    assert (first == reference_partition(tree)).mean() > 0.8
    assert (first == second).mean() > 0.5
    shuffled = with_modes(one, [(BEST + 1) % 3, (SECOND + 2) % 3])
    reference = (reference_partition(one) + 2) % 3
    after = relabel(shuffled, reference)
    for new, old in zip(modes_of(after)["labels"].values, (BEST, SECOND)):
        np.testing.assert_array_equal(same(new), same(old))
        assert (new == reference).mean() > 0.5
    assert modes_of(after).attrs == modes_of(shuffled).attrs


def others(*figures, **settings):
    """Figures of a best mode and of others (log_mass, lower, upper)."""
    columns = zip((0.0, 0.0, 0.0), *figures)
    return {**dict(zip(("log_mass", "lower", "upper"), columns)), **settings}


NAN = (np.nan, -INFINITE, INFINITE)
SENTENCES = [
    (others(), "One mode from 32 starts."),
    (others(num_starts=1), "One mode from 1 start."),
    (
        others((-60.2, -62, -58.4), (-99, -101, -97)),
        "3 modes from 32 starts; the others have less than 0.01% of the best one's mass each.",
    ),
    (
        others((np.nan, -INFINITE, -70), (np.nan, -80, -40.5)),
        "3 modes from 32 starts; the others have less than 0.01% of the best one's mass each.",
    ),
    (others((-2, -3, -1)), "2 modes from 32 starts; the second holds 12% (5% to 27%) of the mass."),
    (
        others((-2, -3, -1), (-5.5, -6.5, -4.5)),
        "3 modes from 32 starts; the second holds 12% (5% to 27%), the third 0.4% (0.1% to 1%) of the mass.",
    ),
    (
        others((-2, -3, -1), (-60, -62, -58)),
        "3 modes from 32 starts; the second holds 12% (5% to 27%) of the mass; the third has less than 0.01% of the "
        "best one's mass.",
    ),
    (
        others((np.nan, -20.5, 5.2)),
        "2 modes from 32 starts; the mass of the second is not known (1 of 32 starts ended in the best one): the bounds are "
        "too wide, but longer jumps, such as modes=bf.gibbs.ModeSearch(jumps=65537), may narrow them.",
    ),
    (
        others((np.nan, -2.1, 1.3), (np.nan, -295.1, 244.1)),
        "3 modes from 32 starts; the mass of the second is 0.1 to 4 times the best one's; the mass of the third is not known "
        "(1 of 32 starts ended in the best one): the bounds are too wide, but longer jumps, such as "
        "modes=bf.gibbs.ModeSearch(jumps=65537), may narrow them.",
    ),
    (
        others((np.nan, -20.5, -2.3)),
        "2 modes from 32 starts; the mass of the second is at most 0.1 times the best one's.",
    ),
    (
        others(NAN, NAN, masses="not known"),
        "3 modes from 32 starts; their masses are not known (1 of 32 starts ended in the best one).",
    ),
    (
        others(NAN, NAN, masses="not known", starts=[24, 6, 2], loss=[1000.0, 1612.3, 1700.0]),
        "3 modes from 32 starts; their masses are not known (24 of 32 starts ended in the best one, and their losses are at "
        "least 612 higher).",
    ),
    (others((np.nan, -2.1, 1.3)), "2 modes from 32 starts; the mass of the second is 0.1 to 4 times the best one's."),
    (
        others((-2, -3, -1), NAN),
        "3 modes from 32 starts; the second holds 12% (5% to 27%) of the mass that is known; the mass of the third is not "
        "known (1 of 32 starts ended in the best one).",
    ),
]


def test_sentences(one):
    for figures, said in SENTENCES:
        clusterings = [BEST, SECOND, THIRD][: len(figures["log_mass"])]
        assert modes_sentence(with_modes(one, clusterings, **figures)) == said


def test_chains_in_modes_whose_masses_are_not_known_are_told():
    tree = with_modes(tree_of(stay(0, 0, 1)), [BEST, SECOND], **others(NAN, masses="not known"))
    said = (
        "2 modes from 32 starts; the mass of the second is not known (1 of 32 starts ended in the best one); pooled "
        "draws weight them by how often starts found them. Chains stay in different modes: 2 in the best, 1 in the second."
    )
    assert modes_sentence(tree) == summary(tree).sentences["modes"] == said
    verdict = judge(tree)
    assert verdict.headline == "The chains do not agree: they sit in different modes."
    assert said in verdict.evidence
    with pytest.warns(ConvergenceWarning, match="they sit in different modes.*2 in the best, 1 in the second"):
        warn_of_disagreement(tree)


def test_chains_that_disagree_in_one_mode_are_told_another_thing(one):
    moving = one["sample_stats"]["lp"]
    tree = one.copy()
    tree["sample_stats"]["lp"] = moving + 9 * np.arange(4)[:, None]
    assert judge(tree).headline == "The chains do not agree."


def test_chains_that_stand_still_have_no_r_hat_of_inf():
    told = of_r_hat(pd.Series({"lp": np.inf, "lambda_c": 1.256, "gap": 1.001}))
    assert told == "R-hat is infinite (each chain stands still) for lp, 1.256 for lambda c; below 1.01 is wanted."


def test_few_draws_are_in_one_mode_without_warnings():
    assert len(modes(tree_of(stay(0, 1, draws=1)))) == 1
    assert modes_sentence(tree_of(stay(0, 1, draws=3))) == "One mode in the draws."


def test_the_standard_error_of_a_share_counts_both_modes():
    """Of 500 independent looks at shares 0.8 and 0.2: the spread of log(p_2 / p_1) over many repetitions."""
    share = np.array([0.8, 0.2])
    counts = np.random.default_rng(0).multinomial(500, share, size=4000)
    spread = np.log(counts[:, 1] / counts[:, 0]).std()
    assert _masses(share, 500)["se"][1] == pytest.approx(spread, rel=0.05)
