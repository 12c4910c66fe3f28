"""The summary in print: numbers as ArviZ prints them, and the sentences that have to be read with them."""

import numpy as np
import pandas as pd
import pytest
from draws import tree_of_draws

import bayesfair as bf


@pytest.fixture(scope="module")
def table():
    return bf.posterior.summary(tree_of_draws())


def test_sentences_are_printed_below_the_numbers(table):
    assert set(table.sentences) >= {"verdict", "modes"}
    shown = " ".join(repr(table).split())
    for text in table.sentences.values():
        assert text in shown
        assert text.split(".")[0] in table._repr_html_()


def test_it_is_a_data_frame_with_all_its_digits(table):
    assert isinstance(table, pd.DataFrame)
    assert list(table.columns)[:7] == ["mean", "sd", "eti89_lb", "eti89_ub", "ess_bulk", "ess_tail", "r_hat"]
    assert f"{table['mean']['lp']:.15g}" not in repr(table)
    assert type(table[["mean"]].loc["lp", "mean"]).__name__ == "float64"
    assert "<table" in table._repr_html_()
    assert table.loc[["lp"]].sentences == table.sentences


def test_what_is_handed_out_is_a_copy():
    tree = tree_of_draws()
    first = bf.posterior.summary(tree)
    first.iloc[:] = 0
    assert (bf.posterior.summary(tree)["mean"] != 0).any()


def test_the_deviation_of_a_coin_is_not_rounded_to_one():
    heads = np.random.default_rng(0).permuted(np.tile([0, 1], (4, 50)), axis=1)
    draws = np.where(heads[..., None], [1, 0, 0, 1], [0, 0, 1, 1])
    printed = repr(bf.posterior.summary(bf.posterior.tree_from_labels(draws, np.arange(4.0)[:, None]))).split("\n")
    coins = [line.split() for line in printed if line.startswith("together")]
    assert {tuple(line[1:3]) for line in coins} == {("0.5", "0.5006")}
