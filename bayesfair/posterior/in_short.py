"""A posterior in a few sentences: the top of the report, and of a fitted estimator in a notebook."""

from math import ceil
from typing import NamedTuple

from bayesfair._names import DataTree
from bayesfair._percent import percent
from bayesfair.fairness.metrics import cluster_balance
from bayesfair.posterior.co_clustering_probability import DOUBTFUL, misclassification_probability
from bayesfair.posterior.guarantees import (
    at_least,
    farthest_from_share,
    farthest_of_each,
    guarantee,
    is_exact,
    least_balance,
    masses_of,
)
from bayesfair.posterior.modes_in_words import modes_sentence
from bayesfair.posterior.number_of_clusters import occupied_sentence
from bayesfair.posterior.other_temperatures import temperature_sentence
from bayesfair.posterior.saved import small_groups, unfinished_of
from bayesfair.posterior.schema import groups_of
from bayesfair.posterior.verdict import judge
from bayesfair.posterior.view import once


class Note(NamedTuple):
    """`kind`: "good", "caution", "bad" or "plain"."""

    kind: str
    headline: str
    text: str


@once
def brief(tree: "DataTree") -> list[Note]:
    """A posterior in short, fairness first; chains that do not agree come before memberships, which are averages over them."""
    verdict, modes, occupied = judge(tree), modes_sentence(tree), occupied_sentence(tree)
    doubtful = misclassification_probability(tree) > DOUBTFUL
    how_sure = (
        f"{doubtful.sum():,} of {len(doubtful):,} rows ({percent(doubtful.mean())}) have a probability above {DOUBTFUL:.0%} "
        "of being elsewhere than in the cluster shown."
    )
    notes = [Note("plain", "How sure:", how_sure)]
    notes.insert(0 if verdict.kind == "bad" else 1, Note(verdict.kind, verdict.headline, verdict.evidence))
    if modes not in verdict.evidence:
        notes.append(Note("plain", "What else there is:", modes))
    notes += [Note("plain", "How many clusters:", occupied)] * bool(occupied)
    other = temperature_sentence(tree)
    notes += [Note("plain", "How much the inverse temperature matters:", other)] * bool(other)
    made = unfinished_of(tree)
    unfinished = [Note("caution", "The run is not finished:", f"it has {made}. Resume it to make the rest.")]
    return [*unfinished * bool(made), *_of_balance(tree), *notes]


def _of_balance(tree):
    groups = groups_of(tree)
    if groups is None or len(groups.names) < 2:
        return [Note("caution", "No groups:", "this run knows no protected groups, so nothing here is about fairness.")]
    masses = masses_of(tree)
    of_all = float(cluster_balance(groups.sizes[None], groups)[0])
    of_draws = (
        f"All {len(masses):,} draws have a balance of at least {at_least(least_balance(masses, groups))} (1: groups of equal "
        f"size in every cluster). The population itself has {of_all:.3g}, which no clustering can exceed."
    )
    said = [guarantee(tree), of_draws] if is_exact(tree) else [_in_rows(tree, groups), of_draws, guarantee(tree)]
    ruled = small_groups(tree)
    return [Note("plain", "How balanced:", " ".join(said))] + [Note("caution", "Small groups:", ruled)] * bool(ruled)


def _in_rows(tree, groups):
    """The largest distance of a group from its share in any draw, in rows, which reads the same for any group sizes."""
    off, count, name, size = farthest_from_share(masses_of(tree), groups)
    within = "to within one row" if off < 1 else f"to within {ceil(off * 10) / 10:,.1f} rows"
    each = farthest_of_each(masses_of(tree), groups)
    return (
        f"In all draws every group has its share of every cluster {within}; the farthest from it were {count:,} of {name} in a "
        f"cluster of {size:,}.{f' By themselves: {each}.' if each else ''}"
    )
