"""The results of an audit, in sentences."""

from math import floor

import numpy as np

from bayesfair._percent import percent
from bayesfair.fairness.balanced import is_exact
from bayesfair.posterior.in_short import Note

GIVEN, FEWEST, CHEAPEST = "as given", "fewest moves", "cheapest found"  # rows of the table of repairs
TOLD = 5  # number of counts that sentences name
UNLIKELY = 0.1  # probability of its cluster below which a row counts as unlikely there


def notes_of(found, constraint) -> list[Note]:
    """The sentences of an `Audit`, from its tables."""
    notes = [_of_balance(found, constraint), *_of_shortfalls(found), _of_chance(found), _of_repair(found, constraint)]
    notes += [] if found.distances is None else [_of_distances(found.distances)]
    return notes + ([] if found.memberships is None else [_of_posterior(found.memberships)])


def _of_balance(found, constraint):
    table, wish = found.representation, constraint.said()
    worst = table.loc[table["excess"].abs().idxmax()]
    farthest = (
        f"The count farthest from its share is {_rows(abs(worst['excess']))} off: {_group(worst, table)} in cluster "
        f"{worst['cluster']}."
    )
    if _adds_up(found, constraint):
        attribute = table["attribute"].iloc[-1]
        text = f"{wish}, for the combinations {attribute}. But their rows add up. {farthest}"
        return Note("caution", "Balanced by combinations:", text)
    if found.repairs.loc[GIVEN, "is_balanced"]:
        return Note("good", "Balanced:", f"{wish}. {farthest}")
    return Note("bad", "Not balanced:", f"{farthest} Balanced would mean that {wish}.")


def _adds_up(found, constraint):
    """Are all combinations of attributes balanced to within one row, and an attribute by itself is not?"""
    is_balanced = found.repairs.loc[GIVEN, "is_balanced"] and is_exact(constraint)
    return is_balanced and (found.representation["excess"].abs() >= 1).any()


def _of_shortfalls(found):
    short = found.representation[found.representation["excess"] <= -1]
    if short.empty:
        return []
    worst = short.nsmallest(TOLD, "excess")
    sentences = [_shortfall(row, found.representation) for _, row in worst.iterrows()]
    if len(short) > len(worst):
        sentences.append(f"The table has {len(short) - len(worst):,} more.")
    return [Note("plain", "Who is short of what:", " ".join(sentences))]


def _shortfall(row, table):
    shares = f"{percent(row['share_of_cluster'])} of the cluster, {percent(row['share_of_all'])} of all rows"
    return (
        f"Cluster {row['cluster']} holds {row['count']:,} of group {_group(row, table)}; its share would be "
        f"{row['expected']:,.1f}, so {_rows(-row['excess'])} are missing ({shares})."
    )


def _group(row, table):
    """The group of a count, with its attribute if the table has several."""
    return f"{row['group']} ({row['attribute']})" if table["attribute"].nunique() > 1 else row["group"]


def _of_chance(found):
    table = found.representation
    said = (
        "if clusters of these sizes were drawn by lot, all counts would lie in the ranges of the table with a probability of "
        f"at least {table.attrs['level']:.0%}."
    )
    beyond = table[table["beyond_chance"]]
    if beyond.empty:
        return Note("plain", "Could it be chance?", f"Yes: {said} So they do here.")
    least = beyond.loc[beyond["p_value"].idxmin()]
    p_value = "below 0.0001" if least["p_value"] < 1e-4 else f"= {least['p_value']:.2g}"
    odds = f"p {p_value}, with the number of counts accounted for"
    text = f"Hardly: {said} Here {len(beyond):,} of the {len(table):,} counts do not. The least likely is that of "
    return Note(
        "caution", "Could it be chance?", f"{text}{_group(least, table)} in cluster {least['cluster']} ({odds})."
    )


def _of_repair(found, constraint):
    repairs = found.repairs
    few = repairs.loc[FEWEST]
    if few["moved"] == 0:
        each = " for the combinations. Audit each attribute on its own to see what a repair of those takes"
        return Note("plain", "Repair:", f"none is needed{each if _adds_up(found, constraint) else ''}.")
    total = int(found.clusters["size"].iloc[-1])
    text = f"{_moved(few, total)} makes every cluster balanced"
    if CHEAPEST not in repairs.index:
        return Note("plain", "Repair:", f"{text}. Give the features to learn who would move, and at what cost.")
    cheap = repairs.loc[CHEAPEST]
    text += f" and costs {_cost(few)} in within-cluster sum of squares."
    if cheap["moved"] != few["moved"]:
        text += f" {_moved(cheap, total)} costs {_cost(cheap)}: the cheapest balanced clusters found from there."
    return Note("plain", "Repair:", text)


def _moved(row, total):
    return f"Moving {row['moved']:,} row{'' if row['moved'] == 1 else 's'} ({percent(row['moved'] / total)})"


def _cost(row):
    change = row["cost_increase"]
    if not np.isfinite(change):
        return f"{row['within_ss']:.3g}, where the clusters as given cost 0,"
    return f"{abs(change):.1%} {'more' if change >= 0 else 'less'}"


def _of_distances(distances):
    clusters, every = distances.iloc[:-1], distances.iloc[-1]
    least, most = clusters["rms_distance"].idxmin(), clusters["rms_distance"].idxmax()
    text = (
        f"rows are {every['rms_distance']:.3g} from the mean of their cluster (root mean square), from "
        f"{clusters['rms_distance'].min():.3g} in cluster {least} to {clusters['rms_distance'].max():.3g} in cluster {most}. "
        f"The farthest row is {every['max_distance']:.3g} away, in cluster {clusters['max_distance'].idxmax()}."
    )
    return Note("plain", "Individual distances:", text)


def _of_posterior(memberships):
    unlikely = memberships["probability"] < UNLIKELY
    text = (
        f"{unlikely.sum():,} of {len(unlikely):,} rows ({percent(unlikely.mean())}) have a probability below {UNLIKELY:.0%} of "
        "being in the cluster given. Half of the rows have one of at least "
        f"{np.floor(memberships['probability'].median() * 100) / 100:.2f}."
    )
    return Note("plain", "Under the fair posterior:", text)


def _rows(number):
    """A number of rows; less than one is rounded down, so that it is not shown as one."""
    return f"{floor(number * 100) / 100:.2f} of a row" if number < 1 else f"{number:,.1f} rows"
