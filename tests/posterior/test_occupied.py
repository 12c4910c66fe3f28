"""The number of occupied clusters, of trees whose answers are known."""

import numpy as np
import pytest
from draws import draws_of

import bayesfair as bf
from bayesfair._numbers import percent
from bayesfair.cli.output import print_summary
from bayesfair.posterior.diagnostics import brief, judge
from bayesfair.posterior.found_modes import occupied_sentence
from bayesfair.posterior.tree import build_tree

N, K, CHAINS, DRAWS = 60, 5, 2, 40
TRUTH = np.repeat([0, 1, 2], [30, 20, 10])
MEANS = np.array([[-4.0, 0.0], [4.0, 0.0], [0.0, 5.0]])


@pytest.fixture(scope="module")
def tree():
    """Three clusters in three quarters of the draws, of which the last splits in two in the others; numbers at random."""
    rng = np.random.default_rng(0)
    X = MEANS[TRUTH] + 0.3 * rng.normal(size=(N, 2))
    labels, means = np.zeros((CHAINS, DRAWS, N), np.int32), 9 * rng.normal(size=(CHAINS, DRAWS, K, 2))
    for chain in range(CHAINS):
        for draw in range(DRAWS):
            number, own = rng.permutation(K), TRUTH.copy()
            if draw % 4 == chain:
                own[50:55] = 3
            labels[chain, draw] = number[own]
            for k in np.unique(own):
                means[chain, draw, number[k]] = MEANS[min(k, 2)] + 0.05 * rng.normal(size=2)
    occupied = np.array([[len(np.unique(draw)) for draw in chain] for chain in labels])
    draws = draws_of(labels, lp=rng.normal(size=(CHAINS, DRAWS)), occupied=occupied)
    weights = rng.dirichlet(np.ones(K), (CHAINS, DRAWS))
    parameters = {"means": (("cluster", "continuous"), means), "weights": (("cluster",), weights)}
    return build_tree(draws, X, np.arange(N) % 2, n_clusters=K, parameters=parameters, point="mode")


def test_the_pmf_and_its_sentence(tree):
    pmf = bf.posterior.occupied_clusters(tree)
    assert pmf.index.tolist() == [3, 4]
    np.testing.assert_allclose(pmf["probability"], [0.75, 0.25])
    assert occupied_sentence(tree) == "The number of occupied clusters is 3 in 75% and 4 in 25% of the draws."
    table = bf.posterior.summary(tree)
    assert table.sentences["occupied"] == occupied_sentence(tree) in repr(table).replace("\n", " ")
    assert table.loc["occupied", "mean"] == pytest.approx(3.25)


def test_a_share_is_all_or_nothing_only_where_it_is():
    told = {0: "0%", 1e-4: "under 1%", 0.01: "1%", 0.756: "76%", 0.99: "99%", 0.998: "over 99%", 1: "100%"}
    assert {share: percent(share) for share in told} == told


def test_a_number_that_hardly_occurs_leaves_the_others_less_than_all():
    labels = np.tile(np.arange(1_000) % 3, (1, 500, 1))
    labels[0, 7, 55] = 3
    labels[0, :200, :3] = (labels[0, :200, :3] + 1) % 3
    occupied = np.array([[len(np.unique(draw)) for draw in labels[0]]])
    draws, X = draws_of(labels, occupied=occupied), np.arange(1_000.0)[:, None]
    one = build_tree(draws, X, None, n_clusters=K, point="mode")
    said = "The number of occupied clusters is 3 in over 99% of the draws."
    assert occupied_sentence(one) == said
    notes = {note.headline: note.text for note in brief(one)}
    assert notes["How many clusters:"] == said
    assert notes["How sure:"].startswith(
        "3 of 1,000 rows (under 1%) have a probability above 10% of being in another cluster"
    )


def test_page_and_shell_tell_the_number_that_was_found(tree, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("bayesfair.reports.pictures.render", lambda *_: (b"", ""))
    said = occupied_sentence(tree)
    print_summary(tree)
    assert said in " ".join(capsys.readouterr().out.split())
    page = bf.report(tree, tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"How many clusters:</strong> {said}</p>" in page
    assert "<h1>Clustering of 60 rows into at most 5 clusters</h1>" in page


def test_draws_of_a_guide_are_no_chain(tree):
    one = tree.isel(chain=[0])
    assert judge(one).headline == "One chain cannot be checked against others."
    one.attrs["inference"] = "svi"
    verdict = judge(one)
    assert (verdict.kind, verdict.headline) == ("caution", "These are draws of a variational guide, not of chains.")
    assert "num_chains" not in verdict.advice
    assert any("too narrow" in note.text for note in brief(one))


def test_errors_say_what_there_is():
    plain = build_tree(draws_of(np.zeros((1, 4, 12), int)), np.eye(12), None, n_clusters=3)
    with pytest.raises(ValueError, match="be of a sparse mixture"):
        bf.posterior.occupied_clusters(plain)
    assert occupied_sentence(plain) == ""
