"""Pictures of an audit: shares of clusters beside what lots would give, rates of selection, and the flows of a repair."""

from textwrap import fill

import numpy as np

from bayesfair._numbers import counted, percent
from bayesfair.fairness.rates import FOUR_FIFTHS
from bayesfair.plots.style import as_written, cluster_colors
from bayesfair.reports import pictures
from bayesfair.reports.pictures import Picture

WIDTH, LINE, AROUND = 4.2, 0.2, 0.8  # inches: of a picture that a phone shows whole, a line of it, and around them
MOST_LINES, MOST_GROUPS = 24, 8
GROUP, CLUSTER, MOST_LETTERS = 24, 10, 60  # letters of a line of text, of clusters' names and of groups' beside an axis
RANGE, MARK, FLAG = "#BBBBBB", "#332288", "#882255"


def draw_shares(attribute, table) -> Picture:
    """Dots: the share of every group in every cluster. Bars behind: where lots would put it, for all counts together."""
    n_clusters, far = table["cluster"].nunique(), table["excess"].abs().groupby(table["group"], sort=False).max()
    worst = far.nlargest(max(1, _most(far.index) // n_clusters)).index
    shown = table[table["group"].isin(worst)].sort_values(
        "group", kind="stable", key=lambda names: names.map(worst.get_loc)
    )
    size = shown["count"] / shown["share_of_cluster"]
    names = [_wrapped(group, f", {_cut(cluster)}") for group, cluster in zip(shown["group"], shown["cluster"])]

    def draw(figure):
        ax, at = figure.subplots(), np.arange(len(shown))
        low, high = shown["low"] / size, shown["high"] / size
        ax.barh(at, high - low, left=low, height=0.7, color=RANGE, label="by lot")
        ax.vlines(shown["share_of_all"], at - 0.5, at + 0.5, color="black", linewidth=1, label="of all rows")
        for beyond, color in ((False, MARK), (True, FLAG)):
            part = (shown["beyond_chance"] == beyond).to_numpy()
            if not part.any():
                continue
            style = {"marker": "D" if beyond else "o", "color": color, "linestyle": "none", "markersize": 5}
            ax.plot(shown["share_of_cluster"][part], at[part], label="beyond chance" if beyond else "share", **style)
        _lines(ax, names, percent)
        ax.set_xlabel("share of the cluster")

    alt = f"Dot plot of the shares of {listed_groups(worst)} in {counted(n_clusters, 'cluster')}: "
    alt += f"{shown['beyond_chance'].sum()} of {len(shown)} dots are beyond chance."
    left = table["group"].nunique() - len(worst)
    caption = "Dot: share of the cluster. Grey: the range by lot, for all counts together. Line: share of all rows."
    caption += f" The {len(worst)} groups farthest from their share; {counted(left, 'other')} left out." if left else ""
    return _picture(draw, len(shown) * _height(names), alt, caption)


def draw_rates(table) -> Picture:
    """The rate of every group with its interval, and four fifths of the highest."""
    shown = table.nlargest(_most(table["group"]), "rows").sort_values("rate", kind="stable", ascending=False)
    names = [_wrapped(group) for group in shown["group"]]
    judged = table[~table["is_small"]] if not table["is_small"].all() else table
    limit = FOUR_FIFTHS * judged["rate"].max()

    def draw(figure):
        ax, at = figure.subplots(), np.arange(len(shown))
        for flag, color in ((False, MARK), (True, FLAG)):
            part = (shown["below_four_fifths"] == flag).to_numpy()
            if not part.any():
                continue
            rate, low, high = (shown[name].to_numpy()[part] for name in ("rate", "low", "high"))
            style = {"fmt": "D" if flag else "o", "color": color, "markersize": 5, "capsize": 3}
            ax.errorbar(rate, at[part], xerr=[rate - low, high - rate], label="flagged" if flag else "rate", **style)
        ax.axvline(limit, color="black", linestyle="--", linewidth=1, label="four fifths")
        _lines(ax, names, percent)
        ax.set_xlabel("rate of selection")

    alt = f"Rates of {counted(len(shown), 'group')} from {shown['rate'].min():.1%} to {shown['rate'].max():.1%}; "
    alt += f"{shown['below_four_fifths'].sum()} below four fifths of the highest, {limit:.1%}."
    left = len(table) - len(shown)
    caption = "Rate of selection with its interval (Wilson). Dashed: four fifths of the highest rate."
    return _picture(
        draw, len(shown) * _height(names), alt, caption + (f" The {len(shown)} largest groups." if left else "")
    )


def draw_flows(flows) -> Picture | None:
    """Bars: rows that the repair with the fewest moves takes from one cluster to another, by group; None without any."""
    if flows.empty:
        return None
    ways = flows.groupby(["from", "to"])["rows"].sum().nlargest(MOST_LINES)
    groups = flows.groupby("group")["rows"].sum().nlargest(MOST_GROUPS).index
    name = flows["group"].where(flows["group"].isin(groups), "all others")
    held = flows.pivot_table("rows", ["from", "to"], name, "sum", fill_value=0).loc[ways.index]

    def draw(figure):
        ax, left = figure.subplots(), np.zeros(len(held))
        for group, color in zip(held, cluster_colors(held.shape[1])):
            ax.barh(np.arange(len(held)), held[group], left=left, color=color, label=_wrapped(group))
            left += held[group].to_numpy()
        _lines(ax, [f"{_cut(old)} to {_cut(new)}" for old, new in held.index])
        ax.set_xlabel("rows that move")

    (old, new), most = ways.index[0], ways.iloc[0]
    alt = f"Bars of {counted(len(ways), 'flow')} between clusters by group, "
    alt += f"the largest of {counted(most, 'row')} from {old} to {new}."
    caption = "Rows that the repair with the fewest moves takes from one cluster to another. Colour: group."
    return _picture(draw, len(held) + held.shape[1] / 2 * _height(map(_wrapped, held)), alt, caption)


def listed_groups(names):
    return f"group {names[0]}" if len(names) == 1 else f"{len(names)} groups"


def _lines(ax, names, written="{:,.3g}".format):
    """Name the lines of an axis from above, write its numbers, and put the legend over it."""
    from matplotlib.ticker import MaxNLocator

    ax.set_yticks(np.arange(len(names)), names, fontsize=9)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.use_sticky_edges = False  # else bars and marks are cut at the ends of the axis
    ax.margins(x=0.05)
    ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    ax.xaxis.set_major_formatter(lambda value, _: written(value))
    ax.tick_params(axis="x", labelsize=9)
    ax.grid(axis="x", color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    longest = max(len(line) for text in ax.get_legend_handles_labels()[1] for line in text.split("\n"))
    legend = ax.figure.legend(
        loc="outside upper left",
        ncols=3 if longest <= 15 else 2,
        frameon=False,
        fontsize=8,
        handletextpad=0.4,
        columnspacing=1,
    )
    as_written(*ax.get_yticklabels(), *legend.get_texts())


def _most(names):
    """How many lines a picture has; fewer where names need several lines of text."""
    return MOST_LINES if max(map(len, names)) <= 2 * GROUP else MOST_LINES // 2


def _wrapped(name, more=""):
    """A name, and `more`, in up to three lines of text; of a longer one the middle is left out, as groups may differ last."""
    name = name if len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS // 2 - 3]}...{name[-MOST_LETTERS // 2 :]}"
    return fill(name + more, GROUP, break_on_hyphens=False)


def _height(names):
    """The height of a line for the longest of some wrapped names, in lines of one text."""
    return 0.3 + 0.7 * max(name.count("\n") + 1 for name in names)


def _cut(name, most=CLUSTER):
    name = str(name)
    return name if len(name) <= most else f"{name[: most - 3]}..."


def _picture(draw, n_lines, alt, caption):
    png, boxes = pictures.render((), draw, AROUND + LINE * max(n_lines, 2), WIDTH)
    return Picture(png, alt, caption + boxes)
