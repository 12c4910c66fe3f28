"""At which rate the members of every group are selected, and how far each rate is below the highest."""

from collections.abc import Mapping

import numpy as np

from bayesfair._names import DataFrame
from bayesfair.fairness.groups import Groups

FOUR_FIFTHS = 0.8  # of the highest rate: 29 CFR 1607.4 D, a rule of thumb
SMALL = 0.02  # share of all rows below which New York's Local Law 144 lets auditors leave a group out (6 RCNY 5-301)


def selection_rates(attributes: Mapping[str, Groups], outcomes: Mapping[object, np.ndarray], level) -> "DataFrame":
    """One row for every outcome, attribute and group, as a pandas DataFrame; `outcomes`: masks (N,) of who has each.

    Columns: `rows`, `selected`; `rate` with `low` and `high`, Wilson's interval; `is_small`, below 2% of all rows; `ratio` to
    the highest rate of a group that is not small (of any group, where all are), with `ratio_low` and `ratio_high`, Katz's
    interval, NaN for that group itself; `below_four_fifths`, never of a small group. Each interval by itself has the
    probability `level`. attrs: `judged`, the number of every attribute's groups that are not small.
    """
    import pandas as pd

    tables = [
        _of_groups(groups, selected, level).assign(outcome=outcome, attribute=name)
        for name, groups in attributes.items()
        for outcome, selected in outcomes.items()
    ]
    table = pd.concat(tables, ignore_index=True)
    table.attrs["judged"] = {name: int((~_are_small(groups.sizes)).sum()) for name, groups in attributes.items()}
    return table


def _of_groups(groups, selected, level):
    """The rates of one attribute's groups; `selected` (N,): who is."""
    import pandas as pd

    rows, held = groups.sizes, np.bincount(groups.code[selected], minlength=len(groups.names))
    rate, is_small = held / rows, _are_small(rows)
    best = int(np.where(is_small & (not is_small.all()), -1, rate).argmax())
    low, high = wilson(held, rows, level)
    ratio, *ends = np.array([_ratio(*one, held[best], rows[best], level) for one in zip(held, rows)]).T
    for end in ends:
        end[best] = np.nan  # to itself
    columns = {"group": groups.names, "rows": rows, "selected": held, "rate": rate, "low": low, "high": high}
    columns |= {"is_small": is_small, "ratio": ratio, "ratio_low": ends[0], "ratio_high": ends[1]}
    return pd.DataFrame(columns | {"below_four_fifths": ~is_small & (ratio < FOUR_FIFTHS)})


def _are_small(sizes):
    return sizes < SMALL * sizes.sum()


def wilson(selected, rows, level):
    """(low, high): Wilson's interval of a rate, without correction for continuity."""
    from scipy.stats import norm

    z = norm.ppf((1 + level) / 2)
    middle, half = selected + z**2 / 2, z * np.sqrt(selected * (rows - selected) / rows + z**2 / 4)
    return np.maximum(middle - half, 0) / (rows + z**2), np.minimum((middle + half) / (rows + z**2), 1.0)


def _ratio(selected, rows, most, rows_of_most, level):
    """(ratio, low, high) of two rates, by the logarithm's normal law (Katz); NaN where nobody is selected."""
    from scipy.stats.contingency import relative_risk

    if most == 0:
        return np.nan, np.nan, np.nan
    found = relative_risk(int(selected), int(rows), int(most), int(rows_of_most))
    return found.relative_risk, *found.confidence_interval(level)
