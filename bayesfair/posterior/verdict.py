"""Do the chains agree? In words, by the limits of Vehtari et al. (2021), for the warning, the page and the traces."""

import warnings
from typing import NamedTuple

import numpy as np

import bayesfair
from bayesfair._names import DataTree
from bayesfair._percent import percent
from bayesfair.posterior.diagnostics import is_guide, scalar_table
from bayesfair.posterior.guarantees import doubt_of_fairlets
from bayesfair.posterior.modes_in_words import chains_apart, modes_sentence
from bayesfair.posterior.number_of_clusters import MOST
from bayesfair.posterior.view import once

R_HAT_GOOD, R_HAT_BAD, ENOUGH = 1.01, 1.05, 400
ROUNDING = 1e-6  # relative, of float32 sums: chains may number one partition differently and add in another order
FEWEST_DRAWS = 4  # per chain: with fewer neither R-hat nor an effective sample size exists


class Verdict(NamedTuple):
    """`kind`: "good", "caution" or "bad"; the headline, the evidence, its meaning and the advice."""

    kind: str
    headline: str
    evidence: str
    advice: str


def warn_of_disagreement(tree, remedy=""):
    """Warn unless chains agree and hold enough independent draws, or nothing moved; `remedy`: the method's own, if they differ.

    The limits are those of the verdict: R-hat below 1.01, 400 effective draws.
    """
    from sklearn.exceptions import ConvergenceWarning

    verdict, alone = _of_chains(tree), tree["posterior"].sizes["chain"] == 1  # a fit has already warned of its fairlets
    if alone or (verdict.kind != "good" and verdict not in (VERDICTS["nothing moved"], VERDICTS["of a guide"])):
        further = remedy if alone or verdict.kind == "bad" else ""
        text = " ".join([verdict.headline, verdict.evidence, verdict.advice, further]).rstrip()
        warnings.warn(text, ConvergenceWarning, stacklevel=2, skip_file_prefixes=tuple(bayesfair.__path__))


@once
def judge(tree: "DataTree") -> Verdict:
    """The verdict on the chains of a posterior, with its modes if they disagree, and what is not proved of the fairlets."""
    verdict = _of_chains(tree)
    return verdict._replace(evidence=f"{verdict.evidence} {doubt_of_fairlets(tree)}".rstrip())


@once
def _of_chains(tree):
    sizes = tree["posterior"].sizes
    if sizes["draw"] < FEWEST_DRAWS:
        return _verdict("too few", draws=sizes["draw"])
    if is_guide(tree):
        return VERDICTS["of a guide"]
    moving = _moving_scalars(scalar_table(tree))
    if moving.empty:
        return VERDICTS["nothing moved"]
    ess = float(np.nanmin(moving[["ess_bulk", "ess_tail"]].to_numpy(), initial=np.inf))
    few = f" The smallest effective sample size is {ess:,.0f}; {ENOUGH} is wanted." if ess < ENOUGH else ""
    if "share_kept" in tree.attrs:
        return _joined(few, float(tree.attrs["share_kept"]))
    if sizes["chain"] == 1:
        return _verdict("one chain", few=few)
    r_hat = moving["r_hat"].fillna(np.inf).sort_values(ascending=False)  # no R-hat: each chain stands still
    worst, largest = f"{_worst(r_hat)}; below {R_HAT_GOOD} is wanted.", r_hat.iloc[0]
    if largest >= R_HAT_BAD:
        apart = chains_apart(tree)
        return (
            _verdict("in modes", worst=worst, modes=modes_sentence(tree))
            if apart
            else _verdict("disagree", worst=worst)
        )
    if largest >= R_HAT_GOOD:
        return _verdict("nearly", worst=worst, few=few)
    return _verdict("few independent", few=few.lstrip()) if ess < ENOUGH else _verdict("agree", r_hat=largest, ess=ess)


def of_all_chains(summary):
    """The rows that compare chains, without those of single chains."""
    return summary[~summary.index.str.startswith("lp, chain")]


def worst_first(summary):
    """The rows of the scalars that move: largest R-hat first, then smallest effective sample size."""
    moving = _moving_scalars(summary)
    doubt = np.lexsort([moving["ess_bulk"].fillna(0), -moving["r_hat"].fillna(np.inf)])
    return moving.iloc[doubt]


def _moving_scalars(summary):
    """The rows of scalars that change by more than the rounding of their mean."""
    scalars = of_all_chains(summary)
    return scalars[_moves(scalars)]


def _moves(row):
    return row["sd"] > ROUNDING * abs(row["mean"])


def reading(row) -> str:
    """One row of the summary in a word or two."""
    if not _moves(row):
        return "constant"
    if row["r_hat"] >= R_HAT_GOOD:
        return "chains disagree" if row["r_hat"] >= R_HAT_BAD else "chains nearly agree"
    if np.isnan(row["ess_bulk"]):
        return "cannot be told"
    return "few independent draws" if min(row["ess_bulk"], row["ess_tail"]) < ENOUGH else "fine"


VERDICTS = {
    "too few": Verdict(
        "bad",
        "Too few draws to tell whether the chains agree: {draws} in each.",
        "Intervals and probabilities are not reliable.",
        "Draw at least a few hundred per chain.",
    ),
    "nothing moved": Verdict(
        "caution",
        "No scalar varies across draws, so convergence cannot be assessed.",
        "Every scalar has one value in all draws.",
        "Either the posterior is that certain, or the sampler stands still. Fit again with another random_state and, where "
        "there is one, a lower inverse temperature, and check whether the clusters stay the same.",
    ),
    "of a guide": Verdict(
        "caution",
        "These are draws of a variational guide, not of chains.",
        "The guide is a normal law fitted to one mode of the posterior. Intervals are likely too narrow, probabilities too "
        "extreme, and nothing here shows by how much.",
        "Use it for a first look. Fit with inference='nuts' before you rely on intervals and probabilities.",
    ),
    "one chain": Verdict(
        "caution",
        "One chain cannot be checked against others.",
        "Whether it has seen all of the posterior is unknown.{few}",
        "Fit with num_chains=4 before you rely on intervals and probabilities.",
    ),
    "joined": Verdict(
        "caution",
        "The chains are joined, so they cannot be checked against each other.",
        "These are draws of all chains with one number of occupied clusters.{lost}{few}",
        "Check whether the chains agree in the run that these draws come from.",
    ),
    "disagree": Verdict(
        "bad",
        "The chains do not agree.",
        "{worst} Each chain gives another answer, and probabilities are averages over answers that depend on where the "
        "chains began.",
        "Look at the traces. Chains that drift still depend on their start: raise num_warmup, or resume the run for "
        "more draws. If they still differ, try another number of clusters or, where there is one, another inverse "
        "temperature. Until then report that the chains differ, not their average.",
    ),
    "in modes": Verdict(
        "bad",
        "The chains do not agree: they sit in different modes.",
        "{worst} {modes}",
        "Probabilities weight the modes by the number of chains in each, not by mass. Report the modes one by one "
        "(bayesfair.posterior.modes), each with its mass if known, not their average. Another number of clusters "
        "or, where there is one, another inverse temperature may join them.",
    ),
    "nearly": Verdict(
        "caution",
        "The chains nearly agree.",
        "{worst}{few}",
        "This suffices for pictures, not for second digits. Draw two to four times as many.",
    ),
    "few independent": Verdict(
        "caution",
        "The chains agree, but hold few independent draws.",
        "{few}",
        "The ends of intervals are rough. Draw two to four times as many.",
    ),
    "agree": Verdict(
        "good",
        "The chains agree.",
        f"The largest R-hat is {{r_hat:.3f}} (below {R_HAT_GOOD} is wanted) and the smallest effective sample size "
        f"{{ess:,.0f}} (above {ENOUGH} is wanted).",
        "Agreement is necessary but no proof: all chains can miss the same part.",
    ),
}


def _verdict(name, **figures):
    """One of the VERDICTS with its figures filled in."""
    kind, *texts = VERDICTS[name]
    return Verdict(kind, *(text.format(**figures) for text in texts))


def _joined(few, share_kept):
    much_is_lost = share_kept < MOST
    lost = f" Only {percent(share_kept)} of the draws with this number of clusters are kept, those whose components "
    lost += "could be told apart. The rest may differ from these."
    verdict = _verdict("joined", lost=lost * much_is_lost, few=few)
    return verdict._replace(kind="bad") if much_is_lost else verdict


def _in_words(r_hat):
    return f"{r_hat:.2f}" if np.isfinite(r_hat) else "infinite (each chain stands still)"


def _worst(r_hat):
    names = [
        f"{_in_words(value)} for {name.replace('_', ' ')}"
        for name, value in r_hat.iloc[:3].items()
        if value >= R_HAT_GOOD
    ]
    return f"R-hat is {', '.join(names)}"
