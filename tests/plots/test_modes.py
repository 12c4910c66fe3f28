"""Modes: the arrays by number, and what the axes hold of them. How the picture looks was checked by eye."""

import numpy as np
import pytest
from draws import with_modes
from matplotlib import pyplot as plt

import bayesfair as bf
from bayesfair.plots.scatter import mode_clusterings, uncertainty_points

N_OBS = 60
BEST = np.arange(N_OBS) % 3
OTHER = np.where(np.arange(N_OBS) < 15, (BEST + 1) % 3, BEST)
MIXED = {"log_mass": [0.0, -2.0, np.nan, np.nan], "loss": [10.0, 12.0, 15.0, 18.0]}


@pytest.fixture
def mixed(make_tree):
    return with_modes(make_tree(), [BEST, OTHER, BEST, OTHER], **MIXED)


def test_clusterings_say_who_moved(mixed):
    drawn = mode_clusterings(mixed)
    np.testing.assert_array_equal(drawn.labels, [BEST, OTHER, BEST, OTHER])
    np.testing.assert_array_equal(drawn.moved[1], np.arange(N_OBS) < 15)
    np.testing.assert_allclose(drawn.share, [0, 0.25, 0, 0.25])
    np.testing.assert_array_equal(drawn.position, uncertainty_points(mixed).position)
    few = mode_clusterings(mixed, sample=20)
    assert few.position.shape == (20, 2)
    np.testing.assert_allclose(few.share, drawn.share)


def test_every_observation_is_drawn_once_a_mode_and_movers_large(mixed):
    axes = bf.plots.modes(mixed)
    assert len(axes) == 4
    for ax, movers in zip(axes, (0, 15, 0, 15)):
        stayed, moved = ax.collections
        assert (len(stayed.get_offsets()), len(moved.get_offsets())) == (60 - movers, movers)
        assert moved.get_sizes()[0] > stayed.get_sizes()[0]
    assert [ax.get_title() for ax in axes[:2]] == ["mode 1", "mode 2, 25% elsewhere"]


@pytest.mark.parametrize("total", [1, 9])
def test_up_to_six_modes_are_drawn_on_a_figure_of_ones_own(make_tree, total):
    figure = plt.figure()
    figures = {"log_mass": -np.arange(total) / 2, "lower": -np.arange(total) * 1.0, "loss": np.arange(total) * 1.0}
    axes = bf.plots.modes(with_modes(make_tree(), [BEST, *[OTHER] * (total - 1)], **figures), figure=figure)
    assert len(axes) == min(total, 6)
    assert all(ax.figure is figure for ax in axes)


def test_trees_without_the_group_have_modes_of_their_draws(make_tree):
    tree = make_tree()
    axes = bf.plots.modes(tree)
    assert [ax.get_title() for ax in axes] == ["One mode was found"]
    np.testing.assert_array_equal(mode_clusterings(tree).labels[0], tree["constant_data"]["reference_labels"])
