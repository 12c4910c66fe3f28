"""What the page says of the clusters, in words and in a table."""

import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

import bayesfair as bf
from bayesfair._numbers import interval
from bayesfair.reports.contents import centre_table, cluster_traits, read_contents, trait_table


def test_the_page_says_what_the_clusters_are_in_units_before_a_scaler(make_tree, tmp_path, unpainted):
    tree = make_tree(dim=3)
    table = pd.DataFrame(50 + 7 * tree["observed_data"]["X"].values, columns=["f0", "f1", "f2"])
    scaler = StandardScaler().fit(table)
    tree["observed_data"]["X"][:] = scaler.transform(table)
    tree["posterior"]["centers"][:] = (50 + 7 * tree["posterior"]["centers"] - scaler.mean_) / scaler.scale_
    page = bf.report(tree, tmp_path / "scaled.html").read_text(encoding="utf-8")
    assert "Features have mean 0 and standard deviation 1 here" in page
    read = read_contents(tree, table)
    centres = {row[0]: row[1:] for row in centre_table(read)[1]}
    of_draws = 50 + 7 * make_tree(dim=3)["posterior"]["centers"]
    assert centres["f1"][2] == interval(of_draws.sel(feature="f1", cluster=2).values.ravel())
    head, rows = trait_table(read)
    assert head == ["feature", "everyone", "cluster 0", "cluster 1", "cluster 2"]
    assert [row[0] for row in rows[-2:]] == ["group 0", "group 1"]
    means = {row[0]: float(row[4]) for row in rows[:-2]}
    assert means["f2"] == pytest.approx(table["f2"][read.cluster == 2].mean(), abs=1)
    name, text = cluster_traits(read)[2]
    assert name == f"Cluster 2, {(read.cluster == 2).sum()} rows"
    assert f"f2 {rows[[row[0] for row in rows].index('f2')][4]} (everyone " in text
    page = bf.report(tree, tmp_path / "page.html", X=table).read_text(encoding="utf-8")
    assert "<h2>What are these clusters?</h2>" in page
    assert "Features are in their own units" in page
