"""A posterior in a few notes: the top of the report, and of a fitted estimator in a notebook."""

from typing import NamedTuple

from bayesfair._names import DataTree
from bayesfair.fairness.metrics import cluster_balance
from bayesfair.posterior import sentences
from bayesfair.posterior.diagnostics import judge
from bayesfair.posterior.found_modes import modes_sentence
from bayesfair.posterior.guarantees import (
    farthest_from_share,
    farthest_of_each,
    guarantee_sentence,
    has_groups,
    least_balance,
    masses_of,
)
from bayesfair.posterior.membership import DOUBTFUL, misclassification_probability
from bayesfair.posterior.occupied import occupied_sentence
from bayesfair.posterior.schema import UNFINISHED, groups_of, guarantee_of
from bayesfair.posterior.temperatures import temperature_sentence
from bayesfair.posterior.view import once


class Note(NamedTuple):
    """`kind`: "good", "caution", "bad" or "plain"."""

    kind: str
    headline: str
    text: str


@once
def brief(tree: "DataTree") -> list[Note]:
    """A posterior in short, fairness first; chains that do not agree come before memberships, which are averages over them."""
    verdict, modes = judge(tree), modes_sentence(tree)
    doubtful = misclassification_probability(tree) > DOUBTFUL
    notes = [Note("plain", "How sure:", sentences.of_doubt(int(doubtful.sum()), len(doubtful), DOUBTFUL))]
    notes.insert(0 if verdict.kind == "bad" else 1, Note(verdict.kind, verdict.headline, verdict.evidence))
    further = {
        "What else there is:": "" if modes in verdict.evidence else modes,
        "How many clusters:": occupied_sentence(tree),
        "How much the inverse temperature matters:": temperature_sentence(tree),
    }
    notes += [Note("plain", headline, text) for headline, text in further.items() if text]
    made = tree.attrs.get(UNFINISHED)
    unfinished = [Note("caution", "The run is not finished:", f"it has {made}. Resume it to make the rest.")]
    return [*unfinished * bool(made), *_of_balance(tree), *notes]


def _of_balance(tree):
    groups, promised = groups_of(tree), guarantee_sentence(tree)
    if not has_groups(tree):
        return [Note("caution", "No groups:", "this run knows no protected groups, so nothing here is about fairness.")]
    masses, given = masses_of(tree), guarantee_of(tree)
    of_all = float(cluster_balance(groups.sizes[None], groups)[0])
    said = [promised, sentences.of_balance(len(masses), least_balance(masses, groups), of_all)]
    if given.kind != "exact":
        shares = sentences.of_shares(farthest_from_share(masses, groups), farthest_of_each(masses, groups))
        said = [shares, *reversed(said)]
    ruled = tree.attrs.get("small_groups", "")
    return [Note("plain", "How balanced:", " ".join(said))] + [Note("caution", "Small groups:", ruled)] * bool(ruled)
