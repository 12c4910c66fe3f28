"""The modes of a posterior in a sentence or two: do the chains cover all of it?"""

import numpy as np
from scipy.special import expit

from bayesfair._names import DataTree
from bayesfair.posterior.mode_tables import modes_of, occupancy
from bayesfair.posterior.view import once

EXCLUDED = -10.0  # log mass relative to the best mode below which a mode's mass is negligible: 0.0045%
FAR = float(np.log(1e6))  # distance of a bound from the best mode's log mass beyond which it is useless
WIDE = float(np.log(100))  # width of bounds beyond which they say nothing of a mode that may be heavier than the best
STAYS, AVOIDS = 0.8, 0.2  # shares of a chain's draws
_ORDINALS = ("best", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


@once
def modes_sentence(tree: "DataTree") -> str:
    """The modes in words: how many, from how many starts, with what mass, and whether chains stay in different ones.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs), or a `View` of one.

    Returns
    -------
    str
        A mode with less than 0.01% of the best one's mass is reported as such, others by their share of the mass with its
        interval, or by bounds. If bounds are too far apart to say anything, starts and losses are reported instead, and what
        to do.

    Examples
    --------
    >>> import numpy as np, bayesfair as bf
    >>> one, other = np.repeat([0, 1], 10), np.tile([0, 1], 10)
    >>> draws = np.stack([np.tile(one, (20, 1)), np.tile(other, (20, 1))])  # two chains that stay apart
    >>> tree = bf.posterior.tree_from_labels(draws, np.arange(20.0)[:, None])
    >>> isinstance(bf.posterior.modes_sentence(tree), str)
    True
    """
    found, apart = modes_of(tree), chains_apart(tree)
    total = found.sizes["mode"]
    starts = found.attrs["num_starts"]
    source = "in the draws" if starts == 0 else f"from {_count(starts, 'start')}"
    head = f"{_count(total, 'mode').capitalize()} {source}"
    if total == 1:
        return f"{head}."
    return "; ".join([head, *_of_masses(found, apart)]) + "." + (_of_chains(occupancy(tree)) if apart else "")


@once
def chains_apart(tree: "DataTree") -> bool:
    """Does some chain stay (four draws in five) in a mode that another one avoids (one in five)?"""
    held = occupancy(tree)
    return bool(((held.max(axis=0) > STAYS) & (held.min(axis=0) < AVOIDS)).any())


def ordinal(mode) -> str:
    """The name of the mode at a position from 0, in the order of the table."""
    return _ORDINALS[mode] if mode < len(_ORDINALS) else f"number {mode + 1}"


def _count(number, thing):
    return f"one {thing}" if number == 1 else f"{number} {thing}s"


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
    columns = [[_percent(share) for share in expit(log[told] - others)] for log in (log_mass, lower, upper)]
    names = [f"the {ordinal(told[0])} holds", *(f"the {ordinal(mode)}" for mode in told[1:])]
    texts = [f"{name} {share} ({low} to {high})" for name, share, low, high in zip(names, *columns)]
    return f"{', '.join(texts)} of {whole}"


def _percent(share):
    if share >= 0.99:
        return f"{100 * share:.3g}%"
    return f"{share:.0%}" if share >= 0.01 else f"{100 * share:.1g}%"


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
        text += f", and their losses are at least {dearer:.3g} higher)" if dearer > 0 else ")"
        if np.isfinite(found["upper"].values[unknown]).any():
            text += ": bounds are too wide; longer jumps, such as modes=bf.gibbs.ModeSearch(jumps=65537), may tell"
    if not apart:
        return text
    how = "by where chains began" if found.attrs["num_starts"] == 0 else "by how often starts found them"
    return f"{text}, so pooled draws weight them {how}"


def _of_chains(held):
    """Which chains stay in which mode, by the shares (chain, mode) of each chain's draws."""
    stays = (held > STAYS).sum(axis=0)
    where = [f"{count} in the {ordinal(mode)}" for mode, count in enumerate(stays) if count]
    moving = len(held) - stays.sum()
    more = [f"{moving} between modes"] if moving else []
    return f" Chains stay in different ones: {', '.join(where + more)}."
