"""Every sentence that says what a posterior means: from plain numbers to text."""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from bayesfair._check import listed
from bayesfair._draws import in_words
from bayesfair._numbers import (
    STANDSTILL,
    counted,
    fine_percent,
    percent,
    r_hat,
    rounded_down,
    rows_away,
    significant,
    within_rows,
)
from bayesfair.fairness.groups import Groups
from bayesfair.fairness.guarantee import Guarantee

# The guarantee

NO_PROMISE = "This holds for these draws; the method does not guarantee it."
OF_A_PART = (
    "These are not the run's rows in its order. Nothing is guaranteed for a part of the rows, or for repeated rows."
)


def guaranteed(given: Guarantee, groups: Groups | None) -> str:
    """What the method guarantees, whatever the draws are; "" without a guarantee."""
    if given.kind == "none" or groups is None or len(groups.names) < 2:
        return of_sizes(given)
    if given.kind == "fairlets":
        bound = given.balance_of_fairlets
        if bound == 0:
            return "The method guarantees no Balance above 0: a fairlet may lack a group."
        return f"The Balance of every cluster is at least {rounded_down(bound)}: clusters are unions of whole fairlets."
    if given.kind == "min_balance":
        own = " of each attribute on its own" if groups.attributes else _of_each_and_both(groups)
        return f"The method guarantees a Balance of at least {given.min_balance:g} in every cluster{own}."
    return f"The method guarantees {_exact_balance(groups, given.room)}."


def of_exact_balance(groups: Groups, room: int, apart: dict) -> str:
    """Exact balance, with `apart`: {attribute: its farthest count}, their combinations last."""
    *_, together = apart
    told = dict(apart)
    combinations = told.pop(together) if groups.attributes or room > 1 else None
    off, count, name, size = max(told.values())
    said = f"The method guarantees {_exact_balance(groups, room)}. "
    said += f"The farthest count is {rows_away(off)} from its share: {count:,} of {name} in a cluster of {size:,}."
    if groups.attributes:
        return f"{said} It guarantees nothing for combinations of attributes: {farthest_count(*combinations)}."
    return said if combinations is None else f"{said} For combinations {farthest_count(*combinations)}."


def _exact_balance(groups, room):
    own = " of each attribute on its own" if groups.attributes else _of_each_and_both(groups) if room == 1 else ""
    if room > 1:
        own = f" of {listed(part.column for part in groups.crosses)}"
    rest = (
        f", and every combination of them to within {room} rows, the least that was found to be possible"
        if room > 1
        else ""
    )
    return f"that every group{own} has its share of every cluster to within one row{rest}"


def _of_each_and_both(groups):
    return (
        f" of {listed(part.column for part in groups.crosses)}, and every combination of them,"
        if groups.crosses
        else ""
    )


def of_sizes(given: Guarantee) -> str:
    """The guarantee for the clusters' sizes; "" without one."""
    bounds = (("at least", given.size_min), ("at most", given.size_max))
    told = " and ".join(f"{word} {bound:,}" for word, bound in bounds if bound is not None)
    return f"Every cluster of every draw has {told} rows." if told else ""


def farthest_count(off: float, count: int, name: str, size: int) -> str:
    """The count that is farthest from its share."""
    return f"the farthest count is {rows_away(off)} off ({count:,} of {name} in a cluster of {size:,})"


def of_balance(num_draws: int, least: float, of_all: float) -> str:
    """The least Balance of all draws, beside that of the data."""
    return (
        f"All {num_draws:,} draws have a Balance of at least {rounded_down(least)} (1: groups of equal size in every "
        f"cluster). The data have {rounded_down(of_all)}, which no clustering can exceed."
    )


def of_shares(groups: Groups, apart: dict) -> str:
    """How far counts are from the groups' shares at most, overall and for each attribute; `apart` as `of_exact_balance`."""
    *attributes, _ = apart
    off, count, name, size = max(apart[one] for one in (attributes if groups.attributes else apart))
    told = "; ".join(f"{attribute}: {farthest_count(*apart[attribute])}" for attribute in attributes)
    return (
        f"In all draws every group has its share of every cluster to within {within_rows(off)}; the farthest count is "
        f"{count:,} of {name} in a cluster of {size:,}.{f' By attribute: {told}.' if told else ''}"
    )


# Doubt


def of_doubt(doubtful: int, n_obs: int, level: float) -> str:
    """How many rows may be in another cluster."""
    return (
        f"{doubtful:,} of {n_obs:,} rows ({percent(doubtful / n_obs)}) have a probability above {percent(level)} of "
        "being in another cluster than the one shown."
    )


def of_label_sets(sizes: dict[int, int], level: float) -> str:
    """How many rows need one, two or more clusters to hold `level` of their draws, by {clusters: rows}."""
    (fewest, rows), *others = sizes.items()
    told = [f"{counted(fewest, 'cluster')} for {rows:,} of {sum(sizes.values()):,} rows"]
    told += [f"{size} for {rows:,}" for size, rows in others]
    return f"The smallest set of clusters with {100 * level:.4g}% of a row's draws has {', '.join(told)}."


def of_sure_rows(rows: int, n_obs: int, share: float, level: float) -> str:
    """How many rows hold their clusters together, and in which share of the draws."""
    if rows < 2:
        return f"No two rows keep their clusters, relative to each other, in {100 * level:.4g}% of the draws."
    return f"In {fine_percent(share)} of the draws {rows:,} of {n_obs:,} rows keep their clusters all at once."


def of_credibility(p_value: float, farther: int, compared: int, draws: int) -> str:
    """How extreme a partition is among the draws compared."""
    some = "1 of {:,} draws is at least" if farther == 1 else f"{farther:,} of {{:,}} draws are at least"
    told = (some if farther else "None of {:,} draws is").format(compared)
    least = "" if farther else ", the least that so many draws can give"
    part = f" Of the {draws:,} draws these are evenly spaced." if compared < draws else ""
    return f"{told} as far from the others as this partition: its p-value is {p_value:.2g}{least}.{part}"


def of_fixed_fairlets(gap: str) -> str:
    """Fixed fairlets that are not proved optimal."""
    return f"The fairlets, which are the same in all draws, are not proved optimal: {gap}."


def of_partners(sure: int, counted: int, kind: str, level: float, half: float) -> str:
    """How many anchors or rows keep their likeliest partner, and how often the middle one of all rows does."""
    return (
        f"{sure:,} of {counted:,} {kind} have the same partner in at least {percent(level)} of the draws. "
        f"Half of the rows are with their likeliest partner in at least {percent(half)} of the draws."
    )


# Modes

EXCLUDED = -10.0  # log mass relative to the best mode below which a mode's mass is negligible: 0.0045%
FAR = float(np.log(1e6))  # distance of a bound from the best mode's log mass beyond which it is useless
WIDE = float(np.log(100))  # width of bounds beyond which they say nothing of a mode that may be heavier than the best
STAYS, AVOIDS = 0.8, 0.2  # shares of a chain's draws
_ORDINALS = ("best", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def ordinal(mode: int) -> str:
    """The name of the mode at a position from 0, in the order of the table."""
    return _ORDINALS[mode] if mode < len(_ORDINALS) else f"number {mode + 1}"


def of_modes(found, held, apart: bool) -> str:
    """The modes `found` (a Dataset), and by the shares `held` (chain, mode) of draws which chains stay where, if `apart`.

    A mode with less than 0.01% of the best one's mass is reported as such, others by their share of the mass with its
    interval, or by bounds. If bounds are too far apart to say anything, starts and losses are reported, and what to do.
    """
    total, starts = found.sizes["mode"], found.attrs["num_starts"]
    source = "in the draws" if starts == 0 else f"from {counted(starts, 'start')}"
    if total == 1:
        return f"One mode {source}."
    head = f"{counted(total, 'mode')} {source}"
    return "; ".join([head, *_of_masses(found, apart)]) + "." + (_of_chains(held) if apart else "")


def _of_masses(found, apart):
    """The other modes' masses, as far as known, clause by clause."""
    log_mass, lower, upper = (found[name].values for name in ("log_mass", "lower", "upper"))
    others = np.arange(1, len(log_mass))
    out = others[upper[1:] <= EXCLUDED]
    told = np.setdiff1d(others[np.isfinite(log_mass[1:])], out)
    rest = np.setdiff1d(others, np.concatenate([out, told]))
    bounded = rest[(upper[rest] < FAR) & ((upper[rest] <= 0) | (upper[rest] - lower[rest] <= WIDE))]
    unknown = np.setdiff1d(rest, bounded)
    if len(told):
        yield _shares(log_mass, lower, upper, told, "the mass" if len(rest) == 0 else "the mass that is known")
    if len(bounded):
        yield _bounded(lower[bounded].min(), upper[bounded].max(), bounded, is_all=len(bounded) == len(others))
    if len(out):
        yield _excluded(out, is_all=len(out) == len(others))
    if len(unknown):
        yield _not_known(unknown, found, apart)


def _shares(log_mass, lower, upper, told, whole):
    """The masses of the modes `told`, by estimate, as shares of their total with the best one."""
    mass = np.exp(log_mass[[0, *told]])
    others = np.log(mass.sum() - mass[1:])
    columns = [[fine_percent(share) for share in expit(log[told] - others)] for log in (log_mass, lower, upper)]
    names = [f"the {ordinal(told[0])} holds", *(f"the {ordinal(mode)}" for mode in told[1:])]
    texts = [f"{name} {share} ({low} to {high})" for name, share, low, high in zip(names, *columns)]
    return f"{', '.join(texts)} of {whole}"


def _bounded(lower, upper, modes, *, is_all):
    # One digit each, without an exponent if possible.
    low, high = (f"{float(f'{factor:.1g}'):g}" for factor in np.exp([lower, upper]))
    between = f"{f'{low} to' if lower > -FAR else 'at most'} {high} times the best one's"
    if len(modes) == 1:
        return f"the mass of the {ordinal(modes[0])} is {between}"
    return f"{'their masses' if is_all else f'the masses of {len(modes)} of them'} are {between}"


def _excluded(out, *, is_all):
    if len(out) == 1:
        return f"the {ordinal(out[0])} has less than 0.01% of the best one's mass"
    return f"{'the others have' if is_all else f'{len(out)} have'} less than 0.01% of the best one's mass each"


def _not_known(unknown, found, apart):
    whose = "their masses" if len(unknown) == found.sizes["mode"] - 1 else f"the masses of {len(unknown)} of them"
    text = f"the mass of the {ordinal(unknown[0])} is not known" if len(unknown) == 1 else f"{whose} are not known"
    if found.attrs["num_starts"]:
        dearer = found["loss"].values[unknown].min() - found["loss"].values[0]
        text += f" ({found['starts'].values[0]} of {found.attrs['num_starts']} starts ended in the best one"
        text += f", and their losses are at least {significant(dearer)} higher)" if dearer > 0 else ")"
        if np.isfinite(found["upper"].values[unknown]).any():
            text += ": the bounds are too wide, but longer jumps, such as "
            text += "modes=bf.gibbs.ModeSearch(jumps=65537), may narrow them"
    if not apart:
        return text
    how = "by where chains began" if found.attrs["num_starts"] == 0 else "by how often starts found them"
    return f"{text}; pooled draws weight them {how}"


def _of_chains(held):
    """Which chains stay in which mode, by the shares (chain, mode) of each chain's draws."""
    stays = (held > STAYS).sum(axis=0)
    where = [f"{count} in the {ordinal(mode)}" for mode, count in enumerate(stays) if count]
    moving = len(held) - stays.sum()
    more = [f"{moving} between modes"] if moving else []
    return f" Chains stay in different modes: {', '.join(where + more)}."


# The inverse temperature

IN_WORDS = {0.5: "half", 2.0: "twice"}


def of_temperatures(table) -> str:
    """Rows in doubt at the farthest factors that are known, by the table of `temperature_sensitivity`, and what to run."""
    known = table[table["trusted"]]
    told = [*known.index[known.index < 1][:1], *known.index[known.index > 1][-1:]]  # the farthest on each side
    shares = [(IN_WORDS.get(factor, f"{factor:g} times"), percent(known.loc[factor, "in_doubt"])) for factor in told]
    texts = [f"at {times} {share}" for times, share in shares[1:]]
    if shares:
        times, share = shares[0]
        texts.insert(0, f"At {times} the inverse temperature {share} of the rows are in doubt")
    lost = table[~table["trusted"]]
    return " ".join(filter(None, [", ".join(texts) + "." * bool(texts), _what_to_run(lost)]))


def _what_to_run(lost):
    """What to do for the table's rows that are not reliable; "" without such rows."""
    if not len(lost):
        return ""
    lambdas = [name for name in ("lambda_f", "lambda_c") if name in lost]
    numbers = [", ".join(f"{value:.3g}" for value in row) for row in lost[lambdas].to_numpy()]
    numbers = _one_and_another([f"({one})" if len(lambdas) > 1 else one for one in numbers])
    which = _one_and_another([IN_WORDS.get(factor, f"{factor:g} times") for factor in lost.index])
    k_hats, draws = (
        _one_and_another([f"{x:{form}}" for x in lost[name]]) for name, form in (("k_hat", ".2f"), ("ess", ".0f"))
    )
    return (
        f"These draws cannot tell what changes at {which} the inverse temperature (k-hat {k_hats}, effective draws {draws}): "
        f"run again with inverse_temperature={numbers}."
    )


# Residuals


def of_residuals(found) -> str:
    """What fits better than squared distances, by the `Residuals` of a run; "" if they fit."""
    if found.is_long:
        return (
            f"Clusters are longer than wide (the widest direction has {significant(found.stretch)} times the spread of the "
            "narrowest): BayesianFairMixture(covariance_type='full') fits them."
        )
    if found.is_far:
        return (
            f"Far rows: {fine_percent(found.far)} of the rows are farther from their centre than 0.1% would be under a normal "
            "law: loss='manhattan' or the calibrated inverse temperature."
        )
    return ""


# Occupied clusters

TOLD = 0.01  # least probability of a number that the sentence names


def of_occupied_clusters(share) -> str:
    """The number of occupied clusters, by the `share` of draws with each number (a Series)."""
    share = share.sort_values(ascending=False)
    told = [f"{k} in {percent(part)}" for k, part in share[share >= TOLD].items()]
    return f"The number of occupied clusters is {_one_and_another(told)} of the draws."


def _one_and_another(texts) -> str:
    """Texts as in speech: a, b and c."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


# The verdict on the chains

R_HAT_GOOD, R_HAT_BAD, ENOUGH = 1.01, 1.05, 400


class Verdict(NamedTuple):
    """`kind`: "good", "caution" or "bad"; the headline, the evidence, its meaning and the advice."""

    kind: str
    headline: str
    evidence: str
    advice: str


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
        "Either the posterior is certain, or the sampler stands still. Fit again with another random_state and, where "
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
    "disagree": Verdict(
        "bad",
        "The chains do not agree.",
        "{worst} Each chain gives another answer, and probabilities are averages over answers that depend on where the "
        "chains began.",
        "Look at the traces: bayesfair.plots.trace, or ArviZ on bayesfair.posterior.diagnostic_vars. Chains that drift "
        "still depend on their start: raise num_warmup, or resume the run for more draws. If they still differ, try another "
        "number of clusters or, where there is one, another inverse temperature. Until then report that the chains differ, "
        "not their average.",
    ),
    "in modes": Verdict(
        "bad",
        "The chains do not agree: they sit in different modes.",
        "{worst} {modes}",
        "Probabilities weight the modes by the number of chains in each, not by mass. Report the modes one by one "
        "(bayesfair.posterior.modes), each with its mass if known, not their average. Another number of clusters "
        "or, where there is one, another inverse temperature may join the modes.",
    ),
    "nearly": Verdict(
        "caution",
        "The chains nearly agree.",
        "{worst}{few}",
        "This is enough for pictures, but second digits are not reliable. Draw two to four times as many.",
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
        "Agreement is no proof: all chains can miss the same part of the posterior.",
    ),
}


def verdict(name: str, **figures) -> Verdict:
    """One of the VERDICTS with its figures filled in."""
    kind, *texts = VERDICTS[name]
    return Verdict(kind, *(text.format(**figures) for text in texts))


def of_few_draws(ess: float) -> str:
    """The smallest effective sample size, after a space, if it is too small; else ""."""
    return f" The smallest effective sample size is {ess:,.0f}; {ENOUGH} is wanted." if ess < ENOUGH else ""


def of_r_hat(worst) -> str:
    """The largest R-hats (a Series, largest first) that are too large."""
    names = [
        f"{r_hat(value)}{' (each chain stands still)' * (value >= STANDSTILL)} for {in_words(name)}"
        for name, value in worst.iloc[:3].items()
        if value >= R_HAT_GOOD
    ]
    return f"R-hat is {', '.join(names)}; below {R_HAT_GOOD} is wanted."
