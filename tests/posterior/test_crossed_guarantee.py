"""What summaries say of attributes that are crossed: each by itself, and the combinations."""

import numpy as np
import pandas as pd

import bayesfair as bf
from bayesfair.cli.output import print_clusters
from bayesfair.fairness.groups import cross_attributes, encode_columns, encode_groups
from bayesfair.fairness.metrics import group_masses
from bayesfair.posterior.diagnostics import brief
from bayesfair.posterior.guarantees import farthest_counts
from bayesfair.posterior.schema import groups_of
from bayesfair.posterior.sentences import of_exact_balance, of_shares

SENSITIVE = pd.DataFrame({"sex": list("ffffmmmm"), "day": list(range(8))})  # combinations of one row each
LABELS = np.array([0, 0, 0, 0, 1, 1, 1, 1])


def masses(groups):
    return group_masses(LABELS, groups)[None]


def test_crossed_attributes_are_told_each_by_itself():
    groups = encode_groups(SENSITIVE)
    told = farthest_counts(masses(groups), groups)
    assert told["sex"] == (2.0, 4, "f", 4)
    assert told["day"][0] == 0.5
    apart, together = cross_attributes(encode_columns(SENSITIVE)), (0.5, 1, "f, 0", 4)
    said = of_exact_balance(apart, 1, {**told, "sex x day": together})
    assert "It guarantees nothing for combinations of attributes: the farthest count is 0.50 of a row off" in said
    alone = encode_groups(SENSITIVE["sex"])
    assert farthest_counts(masses(alone), alone) == {"": told["sex"]}
    assert "By attribute" not in of_shares(alone, farthest_counts(masses(alone), alone))


def test_a_tree_remembers_what_its_groups_cross():
    tree = bf.posterior.tree_from_labels([LABELS.tolist()], [[float(x)] for x in range(8)], SENSITIVE)
    assert next((part.column, part.names) for part in groups_of(tree).crosses) == ("sex", ("f", "m"))
    assert "By attribute: sex: the farthest count is 2.0 rows off" in brief(tree)[0].text


def test_reports_have_a_column_for_each_attribute_and_prints_too(capsys):
    table = bf.fairness.report(LABELS, SENSITIVE, overall=True)
    assert table["off_by[sex]"].tolist() == [2, 2, 2]
    assert table["off_by[sex x day]"].tolist() == [0.5] * 3 == table["off_by"].tolist()
    print_clusters("Clusters", LABELS, encode_groups(SENSITIVE), None)
    printed = " ".join(capsys.readouterr().out.split())
    assert "share is off by 2.0 rows for sex, 0.50 of a row for day, 0.50 of a row for sex x day." in printed
