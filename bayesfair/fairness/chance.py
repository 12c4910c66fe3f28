"""Are clusters and groups related, which groups are short of rows in which cluster, and what could chance do.

Every attribute has one test of its own, of all its counts at once, which decides. Its counts then say where.
If rows were dealt to clusters of these sizes by lot, the members of a group in a cluster would have a hypergeometric
law. Its tails are exact. Every attribute is tested by itself, and their combinations too: one that has nothing to do with
the clusters must not hide another one that has. Within a test, the tail left out of each count is divided by the number of
counts (Bonferroni), so that all of them are inside their ranges with at least the stated probability.
"""

from collections.abc import Mapping

import numpy as np

from bayesfair._arrays import cell_masses
from bayesfair._names import DataFrame
from bayesfair.fairness.groups import Groups

CHI_SQUARE, EXACT, PERMUTED = "chi-square test", "Fisher's exact test", "permutation test"
SAME = 1e-6  # of a row: rounding
DRAWN, BLOCK, SEED = 9_999, 200_000, 0  # tables of a permutation test, and their counts drawn at once: Ctrl-C waits


def independence(tables: Mapping[tuple[str, str], np.ndarray], level, done=lambda _: None) -> "DataFrame":
    """One row for every table {(attribute, question): counts (K, J)}, as a pandas DataFrame.

    Columns: `test`; its `p_value`, `p_holm`, corrected by Holm for all tables, `cramers_v`, the size of the relation in [0, 1],
    and `beyond_chance`, by the `p_value`: no other attribute changes the verdict on one. `done(n)` is called as work advances,
    `DRAWN` in all for every table.
    """
    import pandas as pd

    found = []
    for key, counts in tables.items():
        found.append((*key, *_independence(counts, done)))
        done(0 if found[-1][2] == PERMUTED else DRAWN)
    table = pd.DataFrame(found, columns=["attribute", "question", "test", "p_value", "cramers_v"])
    table["p_holm"] = holm(table["p_value"].to_numpy())
    table["beyond_chance"] = table["p_value"] <= 1 - level
    table.attrs["level"] = level
    return table


def holm(p_values):
    """p-values (n,) corrected for their number, by Holm's steps."""
    order = np.argsort(p_values)
    times = np.arange(len(p_values), 0, -1)
    corrected = np.empty(len(p_values))
    corrected[order] = np.maximum.accumulate(times * p_values[order]).clip(max=1)
    return corrected


def _independence(counts, done):
    """(name of the test, p-value, Cramer's V) of counts (K, J).

    Where more than a fifth of the expected counts are below 5, or one below 1 (Cochran's rule), the law is not chi-square.
    """
    from scipy.stats import chi2_contingency, fisher_exact

    counts = counts[counts.any(axis=1)]
    if 1 in counts.shape:
        return CHI_SQUARE, 1.0, 0.0
    found = chi2_contingency(counts, correction=False)
    size = float(np.sqrt(found.statistic / counts.sum() / (min(counts.shape) - 1)))
    if found.expected_freq.min() >= 1 and (found.expected_freq < 5).mean() <= 0.2:
        return CHI_SQUARE, float(found.pvalue), size
    if counts.shape == (2, 2):
        return EXACT, float(fisher_exact(counts).pvalue), size
    return PERMUTED, _permuted(counts, found, done), size


def _permuted(counts, found, done):
    """The share of tables with the margins of `counts` whose chi-square is as large, among those drawn and the given one."""
    from scipy.stats import random_table

    law, rng = random_table(counts.sum(axis=1), counts.sum(axis=0)), np.random.default_rng(SEED)
    at_once, as_large = max(1, BLOCK // counts.size), 1
    for first in range(0, DRAWN, at_once):
        drawn = law.rvs(min(at_once, DRAWN - first), random_state=rng)
        done(len(drawn))
        statistic = (np.square(drawn - found.expected_freq) / found.expected_freq).sum((1, 2))
        as_large += int((statistic >= found.statistic * (1 - 1e-9)).sum())
    return as_large / (DRAWN + 1)


def representation(assignment, clusters, attributes: Mapping[str, Groups], level, done=lambda _: None) -> "DataFrame":
    """One row for every attribute, cluster and group, as a pandas DataFrame; `assignment`: codes (N,) among `clusters`.

    Columns: `count`; `expected`, the group's share of the data times the size of the cluster; `excess`, the first less the
    second: negative where the group is short; `share_of_cluster`, `share_of_all`; `low`, `high`: the counts that drawing by lot
    would give, all those of the attribute together with a probability of at least `level`; `p_value`, two-sided, times the
    number of the attribute's counts; `beyond_chance`. attrs: `level`, and `counts_looked_at` of every attribute. `done(1)` is
    called after every count.
    """
    import pandas as pd

    shape = {name: (len(clusters), len(groups.names)) for name, groups in attributes.items()}
    counts = {name: cell_masses(assignment, groups.code, shape[name]) for name, groups in attributes.items()}
    looks = {name: _different(held) for name, held in counts.items()}
    cells = [(name, *cell) for name in attributes for cell in np.ndindex(shape[name])]
    rows = []
    for name, k, g in cells:
        rows.append((name, clusters[k], attributes[name].names[g], *_cell(counts[name], k, g, looks[name], level)))
        done(1)
    figures = ["count", "expected", "excess", "share_of_cluster", "share_of_all", "low", "high", "p_value"]
    table = pd.DataFrame(rows, columns=["attribute", "cluster", "group", *figures])
    table["beyond_chance"] = (table["count"] < table["low"]) | (table["count"] > table["high"])
    table.attrs.update(level=level, counts_looked_at=looks)
    return table


def farthest(table):
    """The row of a `representation` whose count is farthest from its share.

    Of several as far, one that is to a group's harm comes first, then that of the smaller group, then the earlier one. With
    attrs["favourable"] too few in these clusters and too many elsewhere is harm; without, too few.
    """
    off = table["excess"].abs()
    worst = table[off >= off.max() - SAME]
    few, favourable = worst["excess"] < 0, table.attrs["favourable"]
    harmed = few if favourable is None else few == worst["cluster"].isin(favourable)
    return worst.assign(spared=~harmed).sort_values(["spared", "share_of_all"], kind="stable").iloc[0][table.columns]


def shortfalls(table):
    """The rows of a `representation` that are short beyond chance, those that lack the largest part of their share first.

    With attrs["favourable"] only those of favourable clusters: too few elsewhere harms nobody. attrs["pairs"] names pairs of
    attributes, {pair: {attribute: {group of the pair: that of the attribute}}}. A group of a pair has to lack a larger
    part than the groups of its two attributes do together.
    """
    favourable, pairs = table.attrs["favourable"], table.attrs["pairs"]
    table = table.assign(part=table["excess"] / table["expected"])
    known = table.set_index(["attribute", "cluster", "group"])["part"].to_dict()
    tells = [
        part < sum(min(known[name, cluster, of[group]], 0.0) for name, of in pairs.get(attribute, {}).items())
        for (attribute, cluster, group), part in known.items()
    ]
    short = table[table["beyond_chance"] & (table["excess"] < 0) & np.array(tells, bool)]
    short = short if favourable is None else short[short["cluster"].isin(favourable)]
    return short.sort_values("part", kind="stable").drop(columns="part")


def _different(counts):
    """The number of independent counts: with two groups, or two clusters, one determines the other."""
    n_clusters, n_groups = counts.shape
    return (n_clusters if n_clusters > 2 else 1) * (n_groups if n_groups > 2 else 1)


def _cell(counts, k, g, looks, level):
    """The figures of one count."""
    count, size, group, total = counts[k, g], counts[k].sum(), counts[:, g].sum(), counts.sum()
    low, high, p_value = by_lot(count, total, group, size, (1 - level) / (2 * looks))
    expected = size * group / total
    return count, expected, count - expected, count / size, group / total, low, high, min(1.0, looks * p_value)


def by_lot(count, total, group, size, tail):
    """(low, high, two-sided p-value) of a count of a `group` in a cluster whose `size` rows are drawn by lot from `total`.

    `low` and `high` bound the counts with both tails above `tail`; the p-value is twice the smaller tail.
    """
    least = max(0, group + size - total)
    support = np.arange(least, min(group, size) + 1)
    log_ways = _log_choose(group, support) + _log_choose(total - group, size - support)
    mass = np.exp(log_ways - _log_choose(total, size))
    below, above = mass.cumsum(), mass[::-1].cumsum()[::-1]
    inside = support[(below > tail) & (above > tail)]
    at = count - least
    return int(inside[0]), int(inside[-1]), float(min(1.0, 2 * min(below[at], above[at])))


def _log_choose(n, k):
    """The logarithm of the number of ways to choose k of n. `scipy.stats.hypergeom` takes a second for 50,000 rows."""
    from scipy.special import betaln

    return -betaln(n - k + 1, k + 1) - np.log(n + 1)
