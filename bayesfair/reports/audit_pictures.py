"""Pictures of an audit: shares of clusters beside what lots would give, rates of selection, and the flows of a repair."""

import numpy as np

from bayesfair._numbers import counted, percent
from bayesfair.fairness.rates import FOUR_FIFTHS
from bayesfair.plots.style import as_written, cluster_colors
from bayesfair.reports import pictures
from bayesfair.reports.pictures import Picture

WIDTH, LINE, AROUND = 4.2, 0.2, 0.8  # inches: of a picture that a phone shows whole, a line of it, and around them
MOST_LINES, MOST_GROUPS = 24, 8
GROUP, CLUSTER = 18, 10  # letters of names beside an axis
RANGE, MARK, FLAG = "#BBBBBB", "#332288", "#882255"


def draw_shares(attribute, table) -> Picture:
    """Dots: the share of every group in every cluster. Bars behind: where lots would put it, for all counts together."""
    n_clusters = table["cluster"].nunique()
    worst = (
        table["excess"].abs().groupby(table["group"], sort=False).max().nlargest(max(1, MOST_LINES // n_clusters)).index
    )
    shown = table[table["group"].isin(worst)].sort_values(
        "group", kind="stable", key=lambda names: names.map(worst.get_loc)
    )
    size = shown["count"] / shown["share_of_cluster"]

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
        _lines(
            ax,
            [f"{_cut(group, GROUP)}, {_cut(cluster)}" for group, cluster in zip(shown["group"], shown["cluster"])],
            percent,
        )
        ax.set_xlabel("share of the cluster")

    alt = f"Dot plot of the shares of {listed_groups(worst)} in {counted(n_clusters, 'cluster')}: "
    alt += f"{shown['beyond_chance'].sum()} of {len(shown)} dots are beyond chance."
    left = table["group"].nunique() - len(worst)
    caption = "Dot: share of the cluster. Grey: the range by lot, for all counts together. Line: share of all rows."
    caption += f" The {len(worst)} groups farthest from their share; {counted(left, 'other')} left out." if left else ""
    return _picture(draw, len(shown), alt, caption)


def draw_rates(table) -> Picture:
    """The rate of every group with its interval, and four fifths of the highest."""
    shown = table.nlargest(MOST_LINES, "rows").sort_values("rate", kind="stable", ascending=False)
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
        _lines(ax, [_cut(group, GROUP) for group in shown["group"]], percent)
        ax.set_xlabel("rate of selection")

    alt = f"Rates of {counted(len(shown), 'group')} from {shown['rate'].min():.1%} to {shown['rate'].max():.1%}; "
    alt += f"{shown['below_four_fifths'].sum()} below four fifths of the highest, {limit:.1%}."
    left = len(table) - len(shown)
    caption = "Rate of selection with its interval (Wilson). Dashed: four fifths of the highest rate."
    return _picture(draw, len(shown), alt, caption + (f" The {len(shown)} largest groups." if left else ""))


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
            ax.barh(np.arange(len(held)), held[group], left=left, color=color, label=_cut(group, GROUP))
            left += held[group].to_numpy()
        _lines(ax, [f"{_cut(old)} to {_cut(new)}" for old, new in held.index])
        ax.set_xlabel("rows that move")

    (old, new), most = ways.index[0], ways.iloc[0]
    alt = f"Bars of {counted(len(ways), 'flow')} between clusters by group, "
    alt += f"the largest of {counted(most, 'row')} from {old} to {new}."
    caption = "Rows that the repair with the fewest moves takes from one cluster to another. Colour: group."
    return _picture(draw, len(held) + held.shape[1] / 2, alt, caption)


def listed_groups(names):
    return f"group {names[0]}" if len(names) == 1 else f"{len(names)} groups"


def _lines(ax, names, written="{:,.3g}".format):
    """Name the lines of an axis from above, write its numbers, and put the legend over it."""
    from matplotlib.ticker import MaxNLocator

    ax.set_yticks(np.arange(len(names)), names, fontsize=9)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    ax.xaxis.set_major_formatter(lambda value, _: written(value))
    ax.tick_params(axis="x", labelsize=9)
    ax.grid(axis="x", color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    legend = ax.figure.legend(
        loc="outside upper left", ncols=3, frameon=False, fontsize=8, handletextpad=0.4, columnspacing=1
    )
    as_written(*ax.get_yticklabels(), *legend.get_texts())


def _cut(name, most=CLUSTER):
    name = str(name)
    return name if len(name) <= most else f"{name[: most - 3]}..."


def _picture(draw, n_lines, alt, caption):
    png, boxes = pictures.render((), draw, AROUND + LINE * max(n_lines, 2), WIDTH)
    return Picture(png, alt, caption + boxes)
