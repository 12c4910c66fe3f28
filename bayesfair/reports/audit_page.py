"""What an audit found: in sentences, and as a page."""

from datetime import UTC, datetime

import numpy as np

from bayesfair import __version__
from bayesfair._check import listed
from bayesfair._numbers import (
    alike,
    counted,
    more_or_less,
    percent,
    rounded_down,
    rows,
    rows_away,
    signed_percent,
    significant,
)
from bayesfair.fairness.balanced import is_exact
from bayesfair.posterior.diagnostics import Note
from bayesfair.reports.contents import table_of_distances
from bayesfair.reports.templates import YES_OR_NO, as_table, page_place, versions, write_page

GIVEN, FEWEST, CHEAPEST = "as given", "fewest moves", "cheapest found"  # rows of the table of repairs
TOLD = 5  # number of counts that sentences name
WELL_MATCHED = 0.5  # share of a drawn cluster's rows that are of the cluster given, below which readers are warned
UNLIKELY = 0.1  # probability of its cluster below which a row counts as unlikely there
SHOWN_COUNTS, SHOWN_ROWS = 60, 15


def notes_of(found, constraint) -> list[Note]:
    """The sentences of an `Audit`, from its tables."""
    notes = [_of_balance(found, constraint), *_of_shortfalls(found.representation), _of_chance(found.representation)]
    notes.append(Note("plain", "Repair:", _of_repair(found)))
    notes += [] if found.distances is None else [_of_distances(found.distances)]
    return notes + ([] if found.memberships is None else _of_posterior(found.memberships))


def _of_balance(found, constraint):
    table, wish = found.representation, constraint.said()
    off = table["excess"].abs()
    of_each = off.groupby(table["attribute"], sort=False).max()
    worst, crossed = table.loc[off.idxmax()], table.attrs["is_crossed"]
    wish += ", for each attribute by itself and for their combinations" if crossed else ""
    farthest = f"The count farthest from its share is {rows_away(off.max())} off: {_group(worst, table)} in cluster "
    farthest += f"{worst['cluster']}."
    if len(of_each) > 1:
        farthest += f" By attribute: {', '.join(f'{name} {rows_away(most)}' for name, most in of_each.items())}."
    if found.repairs.loc[GIVEN, "is_balanced"]:
        return Note("good", "Balanced:", f"{wish}. {farthest}")
    if is_exact(constraint) and crossed and of_each.iloc[-1] < 1 <= off.max():
        text = (
            f"every combination of {of_each.index[-1]} has its share to within one row. Over the combinations of one "
        )
        return Note("caution", "Balanced by combinations:", f"{text}attribute these differences add up. {farthest}")
    return Note("bad", "Not balanced:", f"{farthest} Balanced would mean that {wish}.")


def _group(row, table):
    """The group of a count, with its attribute if the table has several."""
    return f"{row['group']} ({row['attribute']})" if table["attribute"].nunique() > 1 else row["group"]


def _of_shortfalls(table):
    """What is missing where, the largest first, as one note; none if nothing is."""
    short = table[table["excess"] <= -1]
    told = [
        f"Cluster {row['cluster']} holds {row['count']:,} of group {_group(row, table)}; its share would be "
        f"{row['expected']:,.1f}, so {rows_away(-row['excess'])} are missing ({percent(row['share_of_cluster'])} of the "
        f"cluster, {percent(row['share_of_all'])} of all rows)."
        for _, row in short.nsmallest(TOLD, "excess").iterrows()
    ]
    told += [f"The table has {len(short) - len(told):,} more."] if len(short) > len(told) else []
    return [Note("plain", "Who is short of what:", " ".join(told))] if told else []


def _of_chance(table):
    """The verdict on every attribute by its own test, which no other attribute changes."""
    names = table["attribute"].unique()
    of = " of an attribute" if len(names) > 1 else ""
    ranges = (
        f"if clusters of these sizes were drawn by lot, all counts{of} would lie in the ranges of the table with a probability "
        f"of at least {percent(table.attrs['level'])}."
    )
    least = {name: _least_likely(table[table["attribute"] == name]) for name in names}
    within = [name for name, text in least.items() if not text]
    if len(within) == len(names):
        each = " Each attribute is tested by itself." if of else ""
        return Note("plain", "Could it be chance?", f"Yes: {ranges} Here all counts do.{each}")
    rest = f" Chance could do it for {listed(within)}." if within else ""
    beyond = " ".join(filter(None, least.values()))
    return Note("caution", "Could it be chance?", f"Hardly: {ranges} {beyond}{rest}")


def _least_likely(table):
    """A sentence on the counts of one attribute beyond chance; "" without any."""
    beyond = table[table["beyond_chance"]]
    if beyond.empty:
        return ""
    least, looks = beyond.loc[beyond["p_value"].idxmin()], table.attrs["counts_looked_at"]
    p_value = "below 0.0001" if least["p_value"] < 1e-4 else f"= {least['p_value']:.2g}"
    of, where = (f" of {least['attribute']}", "") if len(looks) > 1 else ("", "Here ")
    times = looks[least["attribute"]]
    corrected = f", corrected for {times:,} counts (Bonferroni)" if times > 1 else ""
    text = (
        f"{where}{len(beyond):,} of the {len(table):,} counts{of} do not. The least likely is that of {least['group']}"
    )
    return f"{text} in cluster {least['cluster']} (p {p_value}{corrected})."


def _of_repair(found):
    repairs, total = found.repairs, int(found.clusters["size"].iloc[-1])
    if FEWEST not in repairs.index:
        return (
            "no repair was found that balances every cluster. Audit fewer attributes, or put their values into bands."
        )
    few, room = repairs.loc[FEWEST], repairs.attrs["room"]
    if few["moved"] == 0:
        return "none is needed."
    also = ", for each attribute by itself and for the combinations" if found.representation.attrs["is_crossed"] else ""
    text = f"Moving {_rows_of(few, total)} balances every cluster{also}."
    if room > 1:
        text = f"Moving {_rows_of(few, total)} balances every attribute by itself, to within one row. No counts were found "
        text += f"that balance the combinations too: these stay within {room:.0f} rows."
    if "within_ss" not in repairs:
        return f"{text} Give the features to learn who would move, and at what cost."
    text += f" It costs {_cost(few)} in within-cluster sum of squares."
    if CHEAPEST not in repairs.index:
        return f"{text} No cheaper repair is searched for in this case."
    cheap = repairs.loc[CHEAPEST]
    if cheap["moved"] == few["moved"]:
        return text
    return (
        f"{text} The cheapest balanced clusters found from there move {_rows_of(cheap, total)} and cost {_cost(cheap)}."
    )


def _rows_of(repair, total):
    return f"{counted(repair['moved'], 'row')} ({percent(repair['moved'] / total)})"


def _cost(repair):
    change = repair["cost_increase"]
    return more_or_less(change) if np.isfinite(change) else f"{significant(repair['within_ss'])} instead of 0"


def _of_distances(distances):
    clusters, every = distances.iloc[:-1], distances.iloc[-1]
    least, most = clusters["rms_distance"].idxmin(), clusters["rms_distance"].idxmax()
    typical, low, high = (
        significant(value) for value in [every["rms_distance"], *clusters["rms_distance"][[least, most]]]
    )
    text = (
        f"in {distances.attrs['units']}, rows are {typical} from the mean of their cluster (root mean square), from {low} in "
        f"cluster {least} to {high} in cluster {most}. The farthest row is {significant(every['max_distance'])} away, in "
        f"cluster {clusters['max_distance'].idxmax()}."
    )
    return Note("plain", "Individual distances:", text)


def _of_posterior(memberships):
    unlikely, chains = memberships["probability"] < UNLIKELY, memberships.attrs["chains"]
    text = (
        f"{unlikely.sum():,} of {len(unlikely):,} rows ({percent(unlikely.mean())}) are in the given cluster with a "
        f"probability below {percent(UNLIKELY)}. Half of the rows are there with a probability of at least "
        f"{rounded_down(memberships['probability'].median(), 2)}."
    )
    notes = [Note("plain", "Under the fair posterior:", text)]
    poor = {name: share for name, share in memberships.attrs["matched"].items() if share < WELL_MATCHED}
    if poor:
        text = (
            "each given cluster is matched with the cluster of the draws that shares the most rows with it. Fewer than half "
            "of the matched cluster's rows are in the given one for "
            f"{listed(f'{name} ({percent(share)})' for name, share in poor.items())}. The posterior has no such clusters, "
            "which makes their probabilities low."
        )
        notes.append(Note("caution", "Matched with:", text))
    if chains.kind != "good":
        notes.append(Note(chains.kind, chains.headline, f"{chains.evidence} {chains.advice}"))
    return notes


def write_page_of(audit, path, title, provenance):
    """Write the page of an `Audit` and return its path. `provenance`: {term: text}."""
    every = audit.clusters.iloc[-1]
    heading = title or f"Audit of {counted(len(audit.clusters) - 1, 'cluster')} of {every['size']:,.0f} rows"
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    moves = None if audit.moves is None else as_table(audit.moves.head(SHOWN_ROWS).rename_axis("row").reset_index())
    return write_page(
        page_place(path),
        "audit.html",
        title=str(heading),
        notes=audit.notes,
        level=audit.representation.attrs["level"],
        representation=[_counts(name, part) for name, part in audit.representation.groupby("attribute", sort=False)],
        repairs=_repairs(audit.repairs),
        moves=moves,
        more_moves=0 if moves is None else len(audit.moves) - len(moves[1]),
        distances=None if audit.distances is None else table_of_distances(audit.distances),
        units=None if audit.distances is None else audit.distances.attrs["units"],
        likely_by_group=None if audit.memberships is None else _by_group(audit.memberships),
        least_likely=None if audit.memberships is None else _least_likely_rows(audit.memberships),
        provenance=[*provenance.items(), ("Page made", now), ("Page made with bayesfair", __version__), *versions()],
    )


def _counts(attribute, table):
    """(attribute, (head, rows), how many counts are left out): all counts in order, or those farthest from their share."""
    shown = table
    if len(table) > SHOWN_COUNTS:
        shown = table.loc[table["excess"].abs().nlargest(SHOWN_COUNTS).index]
    columns = {
        "cluster": shown["cluster"],
        "group": shown["group"],
        "short (-) or over, rows": [f"{'-' if excess < 0 else '+'}{rows(abs(excess))}" for excess in shown["excess"]],
        "members": [f"{count:,}" for count in shown["count"]],
        "their share": [f"{value:,.1f}" for value in shown["expected"]],
        "of the cluster": shown["share_of_cluster"].map(percent),
        "of all": shown["share_of_all"].map(percent),
        "by lot": [f"{low:,} to {high:,}" for low, high in zip(shown["low"], shown["high"])],
        "beyond chance": shown["beyond_chance"].map(YES_OR_NO),
    }
    return attribute, as_table(columns), len(table) - len(shown)


def _repairs(table):
    """What the clusters cost, and how far they are from balance, as given and repaired."""
    each = {f"of {name[len('off_by[') : -1]}": table[name].map(rows) for name in table if name.startswith("off_by[")}
    columns = {
        "clusters": table.index,
        "rows that move": [f"{count:,}" for count in table["moved"]],
        "balanced": table["is_balanced"].map(YES_OR_NO),
        "farthest from its share, rows": table["off_by"].map(rows),
        **each,
        "balance": table["balance"].map(rounded_down),
    }
    if "within_ss" in table:
        columns["within-cluster sum of squares"] = alike(table["within_ss"])
        columns["change"] = table["cost_increase"].map(signed_percent)
    return as_table(columns)


def _by_group(memberships):
    """For every group: the number of rows, of unlikely rows, and the mean probability."""
    unlikely = (memberships["probability"] < UNLIKELY).groupby(memberships["group"])
    columns = {
        "group": [name for name, _ in unlikely],
        "rows": [f"{size:,}" for size in unlikely.size()],
        f"below {percent(UNLIKELY)}": [f"{count:,}" for count in unlikely.sum()],
        "share": unlikely.mean().map(percent),
        "mean probability": [f"{mean:.2f}" for mean in memberships.groupby("group")["probability"].mean()],
    }
    return as_table(columns)


def _least_likely_rows(memberships):
    worst = memberships.nsmallest(SHOWN_ROWS, "probability")
    columns = {
        "row": worst.index,
        "group": worst["group"],
        "cluster given": worst["cluster"],
        "probability": [f"{value:.2f}" for value in worst["probability"]],
        "likeliest other cluster": ["none" if value is None else value for value in worst["runner_up"]],
        "its probability": [f"{value:.2f}" for value in worst["runner_up_probability"]],
    }
    return as_table(columns)
