"""The results of an audit, in sentences."""

from math import floor

import numpy as np

from bayesfair._check import listed
from bayesfair._percent import percent
from bayesfair.fairness.balanced import is_exact
from bayesfair.posterior.diagnostics import Note

GIVEN, FEWEST, CHEAPEST = "as given", "fewest moves", "cheapest found"  # rows of the table of repairs
TOLD = 5  # number of counts that sentences name
WELL_MATCHED = 0.5  # share of a drawn cluster's rows that are of the cluster given, below which readers are warned
UNLIKELY = 0.1  # probability of its cluster below which a row counts as unlikely there


def notes_of(found, constraint) -> list[Note]:
    """The sentences of an `Audit`, from its tables."""
    notes = [_of_balance(found, constraint), *_of_shortfalls(found), _of_chance(found), _of_repair(found)]
    notes += [] if found.distances is None else [_of_distances(found.distances)]
    return notes + ([] if found.memberships is None else _of_posterior(found.memberships))


def _of_balance(found, constraint):
    table, wish = found.representation, constraint.said()
    worst = table.loc[table["excess"].abs().idxmax()]
    several = table["attribute"].nunique() > 1
    wish += ", for each attribute by itself and for their combinations" if _is_crossed(table) else ""
    farthest = (
        f"The count farthest from its share is {_rows(abs(worst['excess']))} off: {_group(worst, table)} in cluster "
        f"{worst['cluster']}.{_by_attribute(table) if several else ''}"
    )
    if found.repairs.loc[GIVEN, "is_balanced"]:
        return Note("good", "Balanced:", f"{wish}. {farthest}")
    if is_exact(constraint) and _adds_up(table):
        attribute = table["attribute"].iloc[-1]
        text = f"the combinations {attribute} are, to within one row. But their rows add up. {farthest}"
        return Note("caution", "Balanced by combinations:", text)
    return Note("bad", "Not balanced:", f"{farthest} Balanced would mean that {wish}.")


def _by_attribute(table):
    """The farthest count of every attribute, as a sentence after a space."""
    worst = table["excess"].abs().groupby(table["attribute"], sort=False).max()
    return f" By attribute: {', '.join(f'{name} {_rows(off)}' for name, off in worst.items())}."


def _is_crossed(table):
    """Are the combinations of several attributes looked at, as the last one?"""
    return table.attrs["is_crossed"]


def _adds_up(table):
    """Are all combinations of attributes balanced to within one row, and an attribute by itself is not?"""
    off = table["excess"].abs()
    is_last = table["attribute"] == table["attribute"].iloc[-1]
    return _is_crossed(table) and (off[is_last] < 1).all() and (off >= 1).any()


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
    """The verdict on every attribute by its own test, which no other attribute changes."""
    table = found.representation
    names = list(table["attribute"].unique())
    of = " of an attribute" if len(names) > 1 else ""
    said = (
        f"if clusters of these sizes were drawn by lot, all counts{of} would lie in the ranges of the table with a probability "
        f"of at least {table.attrs['level']:.0%}."
    )
    least = [_least_likely(table[table["attribute"] == name]) for name in names]
    hardly = [text for text in least if text]
    within = [name for name, text in zip(names, least) if not text]
    if not hardly:
        each = " Each attribute is tested by itself." if of else ""
        return Note("plain", "Could it be chance?", f"Yes: {said} So they do here.{each}")
    rest = f" Chance could do it for {listed(within)}." if within else ""
    return Note("caution", "Could it be chance?", f"Hardly: {said} {' '.join(hardly)}{rest}")


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
    repairs = found.repairs
    if FEWEST not in repairs.index:
        text = "none is found that balances every cluster. Audit fewer attributes, or put their values into bands."
        return Note("plain", "Repair:", text)
    few = repairs.loc[FEWEST]
    if few["moved"] == 0:
        return Note("plain", "Repair:", "none is needed.")
    total, room = int(found.clusters["size"].iloc[-1]), repairs.attrs["room"]
    text = f"{_makes(few, total)} every cluster balanced"
    if _is_crossed(found.representation):
        text += ", for each attribute by itself and for the combinations"
    if room > 1:
        text = f"{_makes(few, total)} every attribute balanced by itself, to within one row. No counts are found at which the "
        text += f"combinations are too: they stay within {room:.0f} rows"
    if "within_ss" not in repairs:
        return Note("plain", "Repair:", f"{text}. Give the features to learn who would move, and at what cost.")
    text += f" and costs {_cost(few)} in within-cluster sum of squares."
    if CHEAPEST not in repairs.index:
        return Note("plain", "Repair:", f"{text} There is no search for a cheaper one here.")
    cheap = repairs.loc[CHEAPEST]
    if cheap["moved"] != few["moved"]:
        text += f" {_moved(cheap, total)} costs {_cost(cheap)}: the cheapest balanced clusters found from there."
    return Note("plain", "Repair:", text)


def _makes(row, total):
    return f"{_moved(row, total)} makes"


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
        f"in {distances.attrs['units']}, rows are {every['rms_distance']:.3g} from the mean of their cluster (root mean "
        "square), from "
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
    notes = [Note("plain", "Under the fair posterior:", text)]
    poor = {name: share for name, share in memberships.attrs["matched"].items() if share < WELL_MATCHED}
    if poor:
        told = listed(f"{name} ({percent(share)})" for name, share in poor.items())
        text = (
            "clusters of the draws are matched to those given by the rows that they share. Of some fewer than half of the rows "
            f"are of the cluster given: {told}. The probabilities there say that the posterior has no such cluster."
        )
        notes.append(Note("caution", "Matched with:", text))
    chains = memberships.attrs["chains"]
    if chains.kind != "good":
        notes.append(Note(chains.kind, chains.headline, f"{chains.evidence} {chains.advice}"))
    return notes


def _rows(number):
    """A number of rows; less than one is rounded down, so that it is not shown as one."""
    return f"{floor(number * 100) / 100:.2f} of a row" if number < 1 else f"{number:,.1f} rows"
