"""Numbers as readers see them: one format for each kind of number, in sentences, pages, pictures and the shell."""

from math import ceil, floor, log10

import numpy as np

INTERVAL = 0.055, 0.945  # ends of the equal-tailed 89% interval, as in `bayesfair.posterior.summary`
MOST_DECIMALS = 6
STANDSTILL = 1e6  # R-hat of chains that stand still at different values: infinite, but for rounding


def counted(number: int, thing: str) -> str:
    """A number of things: 1 mode, 3 modes."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def percent(share: float) -> str:
    """A share in whole percent; only 0 and 1 are shown as 0% and 100%."""
    text = f"{share:.0%}"
    if share < 1 and text == "100%":
        return "over 99%"
    return "under 1%" if share > 0 and text == "0%" else text


def fine_percent(share: float) -> str:
    """A share in percent, whose digits near 0 and 1 count: 0.03%, 42%, 99.7%."""
    if share >= 0.99:
        return f"{100 * share:.3g}%"
    return f"{share:.0%}" if share >= 0.01 else f"{100 * share:.1g}%"


def more_or_less(change: float) -> str:
    """A relative change of a cost: 12.5% more."""
    return f"{abs(change):.1%} {'more' if change >= 0 else 'less'}"


def signed_percent(change: float) -> str:
    """A relative change in a table: +12.5%; unknown where nothing is what it is relative to."""
    return f"{change:+.1%}" if np.isfinite(change) else "unknown"


def significant(value: float) -> str:
    """A number with three digits, or all digits before the point."""
    if np.isnan(value):
        return "none"
    return f"{value:z,.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:z.3g}"


def r_hat(value: float) -> str:
    """An R-hat with three decimals, as 1.01 is the limit."""
    if np.isnan(value):
        return "none"
    return f"{value:.3f}" if value < STANDSTILL else "infinite"


def rounded_down(value: float, decimals: int = 3) -> str:
    """A Balance or another bound from below, rounded down so that it stays a bound."""
    return f"{floor(value * 10**decimals + 1e-9) / 10**decimals:.{decimals}f}"


def rows(off: float) -> str:
    """A distance in rows; less than one row is rounded down, so that it is not shown as one."""
    return f"{floor(off * 100) / 100:.2f}" if off < 1 else f"{off:,.1f}"


def rows_away(off: float) -> str:
    """A distance in rows, with the word: 0.99 of a row, 4.6 rows."""
    return f"{rows(off)} of a row" if off < 1 else f"{rows(off)} rows"


def within_rows(off: float) -> str:
    """A distance in rows as a bound from above, which is rounded up."""
    return "one row" if off < 1 else f"{ceil(off * 10) / 10:,.1f} rows"


def alike(values, unknown: str = "none") -> list[str]:
    """A column of numbers as texts with equal decimals: three digits of the largest, none if all are whole."""
    values = np.asarray(values, np.float64)
    known = np.abs(values[np.isfinite(values)])
    whole = known.size == 0 or (known == np.round(known)).all()
    decimals = 0 if whole else min(max(2 - floor(log10(known.max())), 0), MOST_DECIMALS)
    return [f"{value:z,.{decimals}f}" if np.isfinite(value) else unknown for value in values]


def intervals(values) -> list[str]:
    """The mean and 89% interval of each column of `values` (draws, columns), alike; empty clusters do not count."""
    known = [column[np.isfinite(column)] for column in np.asarray(values).T]
    figures = [(float(part.mean()), *np.quantile(part, INTERVAL).tolist()) if part.size else None for part in known]
    widths = [three[2] - three[1] for three in figures if three is not None and three[2] > three[1]]
    decimals = 1 - floor(log10(np.median(widths))) if widths else MOST_DECIMALS + 1  # two digits of the usual width

    def rounded(number):
        return f"{number:z,.{max(decimals, 0)}f}" if decimals <= MOST_DECIMALS else significant(number)

    return ["empty" if three is None else "{} [{}, {}]".format(*map(rounded, three)) for three in figures]


def interval(values) -> str:
    """The mean and 89% interval of `values`, rounded alike by the width of the interval."""
    return intervals(np.reshape(values, (-1, 1)))[0]
