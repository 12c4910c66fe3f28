"""Lines between those who are matched: their ends and strengths by number, and what the axes hold."""

import numpy as np
import pytest
from matplotlib import colors
from matplotlib.collections import LineCollection

import bayesfair as bf
from bayesfair._draws import FairletDraws
from bayesfair.plots.pairs import matched_points
from bayesfair.posterior.tree import build_tree, draws_of

PAIRS = np.array([[0, 1, 2, 0, 1, 2], [0, 1, 2, 0, 2, 1], [0, 1, 2, 0, 2, 1], [0, 1, 2, 0, 2, 1]])
SQUARES = np.array([[0, 1, 0, 1, 0, 1, 0, 1]] * 4)
X = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [3.0, 0.0], [3.0, 1.0]])


def with_fairlets(make_tree, fairlet, groups, **settings):
    """A tree whose four draws have these fairlets (draws, obs)."""
    n_obs = fairlet.shape[1]
    tree = make_tree(n_obs=n_obs, n_clusters=1, chains=1, draws=4)
    draws = draws_of(tree)._replace(fairlets=FairletDraws(fairlet[None].astype(np.int8), None))
    return build_tree(draws, X[:n_obs], groups, n_clusters=1, **settings)


@pytest.fixture
def pairs(make_tree):
    return with_fairlets(make_tree, PAIRS, ["a", "a", "a", "b", "b", "b"])


def lines_of(ax):
    (lines,) = [one for one in ax.collections if isinstance(one, LineCollection)]
    return lines


def test_lines_of_a_posterior_join_those_who_are_matched(pairs):
    points = matched_points(pairs)
    told = {(*start, *end): p for (start, end), p in zip(points.ends.tolist(), points.probability.tolist())}
    assert told == {(0, 0, 0, 1): 1, (1, 0, 2, 1): 0.75, (2, 0, 1, 1): 0.75, (1, 0, 1, 1): 0.25, (2, 0, 2, 1): 0.25}
    np.testing.assert_array_equal(points.position, X[:6])
    assert points.groups == ("a", "b")
    assert len(matched_points(pairs, 0.5).ends) == 3


def test_of_three_in_a_fairlet_the_members_are_joined_through_their_anchor(make_tree):
    triples = np.array([[0, 1, 0, 1, 0, 1]] * 4)
    points = matched_points(with_fairlets(make_tree, triples, ["a", "a", "b", "b", "b", "b"]))
    assert len(points.ends) == 4
    assert all(tuple(ends[0]) in {(0, 0), (1, 0)} for ends in points.ends)
    hubs = matched_points(with_fairlets(make_tree, SQUARES, ["a"] * 4 + ["b"] * 4))
    assert len(hubs.ends) == 2 * 6  # all pairs of four


def test_a_line_is_as_strong_as_it_is_sure(pairs):
    ax = bf.plots.fairlets(pairs)
    lines = lines_of(ax)
    np.testing.assert_allclose(lines.get_colors()[:, 3], [0.25, 0.25, 0.75, 0.75, 1])  # the surest on top
    assert (np.diff(lines.get_linewidths()) >= 0).all()
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["a", "b", *(f"together in {share}% of draws" for share in (25, 50, 100))]
    marks = [one for one in ax.collections if one is not lines]
    assert [len(one.get_offsets()) for one in marks] == [3, 3]
    assert len({colors.to_hex(one.get_facecolor()[0]) for one in marks}) == 2
    ax.figure.canvas.draw()


def test_where_nobody_is_matched_often_the_legend_says_so(make_tree, pairs):
    ax = bf.plots.fairlets(pairs.isel(draw=[0], missing_dims="ignore"), threshold=0.9)
    assert len(lines_of(ax).get_segments()) == 3
    ax = bf.plots.fairlets(pairs.sel(obs=[1, 2, 4, 5]), threshold=0.9)
    assert "no pair is together\nin 90% of draws" in [text.get_text() for text in ax.get_legend().get_texts()]


def test_a_decomposition_has_lines_to_its_anchors_or_centres():
    found = bf.fairlets.decompose(X[:6], ["a", "a", "a", "b", "b", "b"])
    ax = bf.plots.fairlets(found)
    ends = {tuple(map(tuple, segment.tolist())) for segment in lines_of(ax).get_segments()}
    assert ends == {((x, 0.0), (x, 1.0)) for x in (0.0, 1.0, 2.0)}
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    hubs = bf.fairlets.decompose(X, ["a", "b"] * 4, (2, 2), random_state=0)
    points = matched_points(hubs)
    assert len(points.ends) == 8
    np.testing.assert_allclose(points.ends[:, 0], [X[hubs.fairlet == own].mean(0) for own in hubs.fairlet])


def test_what_has_nothing_to_draw_is_refused(make_tree):
    with pytest.raises(ValueError, match="keep_fairlets=True"):
        bf.plots.fairlets(make_tree())
    with pytest.raises(ValueError, match=r"`source` must have features"):
        bf.plots.fairlets(bf.fairlets.from_matrices({"a": np.eye(2), "b": np.eye(2)}))
