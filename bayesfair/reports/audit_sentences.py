"""What an audit found, in sentences."""

import numpy as np

from bayesfair._check import listed
from bayesfair._numbers import counted, more_or_less, percent, rounded_down, rows_away, significant
from bayesfair.fairness.balanced import is_exact
from bayesfair.fairness.chance import farthest, shortfalls
from bayesfair.fairness.groups import is_bare
from bayesfair.posterior.diagnostics import Note

GIVEN, FEWEST, CHEAPEST = "as given", "fewest moves", "cheapest found"  # rows of the table of repairs
FAVOURABLE, CLUSTERS = "favourable", "clusters"  # what tests ask: in a favourable cluster or not; in which cluster
LEAST_P = 0.0001  # that is written in full
TOLD, LEFT_OUT = 5, 3  # number of counts that sentences name, and of groups that are left out of ratios
WELL_MATCHED = 0.5  # share of a drawn cluster's rows that are of the cluster given, below which readers are warned
UNLIKELY = 0.1  # probability of its cluster below which a row counts as unlikely there
LEVELS = [  # of a difference: kind of its box, and words
    ("good", "balanced to within a row"),
    ("caution", "a difference that chance could make"),
    ("bad", "clear difference beyond chance"),
]
EACH_BY_CHANCE = "Chance could make each difference, which does not say that there is none."
NO_MORE = "These data do not show more than chance would."


def notes_of(found, constraint) -> list[Note]:
    """The sentences of an `Audit`, from its tables: in short, groups below four fifths first, then those `below`."""
    found = as_told(found)
    short = [*_of_flagged(found), _of_all(found, constraint), *_of_attributes(found)]
    return [*short, *(note for notes in below(found).values() for note in notes)]


def as_told(found):
    """The audit with a single attribute's name in those of groups that say nothing alone, as several attributes have it."""
    name, *others = found.representation["attribute"].unique()
    bare = {group: f"{name}={group}" for group in found.representation["group"].unique() if is_bare(group)}
    if others or not bare:
        return found
    tables = {part: getattr(found, part) for part in ("rates", "representation", "moves", "memberships")}
    told = {
        part: table.assign(group=table["group"].replace(bare)) for part, table in tables.items() if table is not None
    }
    return found._replace(**told)


def below(found):
    """{section of the page: the sentences at its head}; those in short are not among them."""
    repairs = [] if found.moves is None else [Note("plain", "Repair:", _of_repair(found)), *_of_flows(found.moves)]
    repairs += _of_sizes(found.repairs)
    return {
        "rates": _of_favourable(found),
        "tests": _of_tests(found.tests, found.representation.attrs["pairs"]),
        "groups": _of_shortfalls(found.representation),
        "repairs": repairs,
        "distances": [] if found.distances is None else [_of_distances(found.distances)],
        "posterior": [] if found.memberships is None else _of_posterior(found.memberships),
    }


def _of_flagged(found):
    """The groups below four fifths of the highest rate, by attribute and with the lowest ratio first; nothing without any."""
    flagged = found.rates[found.rates["below_four_fifths"]] if found.rates.attrs["favourable"] else found.rates.head(0)
    if flagged.empty:
        return []
    order = list(flagged["attribute"].unique())
    told = [
        f"group {row['group']} is selected at a rate of {_rate(row['rate'])}, {ratio_of(row)} times the highest"
        for row in sorted(flagged.to_dict("records"), key=lambda row: (order.index(row["attribute"]), row["ratio"]))[
            :TOLD
        ]
    ]
    more = f"; and {len(flagged) - TOLD:,} more" if len(flagged) > TOLD else ""
    clear = found.tests[(found.tests["question"] == FAVOURABLE) & found.tests["beyond_chance"]]
    is_clear = flagged["attribute"].isin(clear["attribute"]).any()
    return [Note("bad" if is_clear else "caution", "Below four fifths:", f"{'; '.join(told)}{more}.")]


def _of_all(found, constraint):
    """The box for all: are the clusters balanced as asked, the count farthest from its share, what a repair takes."""
    kind, headline, text = _balance(found, constraint)
    return Note(kind, headline, " ".join(filter(None, [text, _farthest(found.representation), _moves_in_short(found)])))


def _balance(found, constraint):
    given, room = found.repairs.loc[GIVEN], found.repairs.attrs["room"]
    exact = is_exact(constraint)
    also = (
        ", for each attribute by itself and for their combinations" if found.representation.attrs["is_crossed"] else ""
    )
    if given["is_balanced"]:
        return "good" if exact else "plain", "Balanced:", f"{constraint.said()}{also}."
    if FEWEST in found.repairs.index and found.repairs.loc[FEWEST, "moved"] == 0:
        text = "every attribute by itself, to within one row. No counts were found that balance the combinations too, which "
        return "good", "Balanced as far as whole rows allow:", f"{text}are within {room:.0f} rows."
    text = "" if exact else f"balanced would mean that {constraint.said()}."
    clear = _clear(found)
    if clear:
        kind, said = "bad", f"Clear differences beyond chance by {listed(clear)}."
    else:
        kind, said = "caution", EACH_BY_CHANCE
    return kind if exact else "plain", "Not balanced:", f"{text} {said}".strip()


def _moves_in_short(found):
    """How many rows the repair with the fewest moves takes, if there is one."""
    if FEWEST not in found.repairs.index or not found.repairs.loc[FEWEST, "moved"]:
        return ""
    moved = _rows_of(found.repairs.loc[FEWEST], int(found.clusters["size"].iloc[-1]))
    return f"Moving {moved} balances the clusters{' as far as whole rows allow' * (found.repairs.attrs['room'] > 1)}."


def _of_attributes(found):
    """A box for every attribute, the combinations last: rates of selection, how far counts are off, what chance could do."""
    tests = found.tests.set_index(["attribute", "question"])
    off = found.repairs.loc[GIVEN, "off_by"] >= 1
    notes = []
    for name, counts in found.representation.groupby("attribute", sort=False):
        if name in found.representation.attrs["pairs"]:
            continue
        verdicts = {}
        if found.rates.attrs["favourable"] is not None:
            rates = found.rates[found.rates["attribute"] == name]
            verdicts["Selection"] = _verdict(_of_ratios(rates), _rows_off(rates), tests.loc[name, FAVOURABLE])
        if off and not (verdicts and counts["cluster"].nunique() == 2):  # else the other cluster says the same again
            verdicts["Clusters"] = _verdict(
                _farthest(counts, "Largest difference"), counts["excess"].abs().max(), tests.loc[name, CLUSTERS]
            )
        notes += [_box(name, verdicts)] if verdicts else []
    return [*notes[:-1], *_of_pairs(found), *notes[-1:]]


def _clear(found):
    """What has a test beyond chance; of pairs only those with neither attribute among them."""
    clear, pairs = (
        found.tests.loc[found.tests["beyond_chance"], "attribute"].unique(),
        found.representation.attrs["pairs"],
    )
    return [name for name in clear if not {*pairs.get(name, ())} & {*clear}]


def _of_pairs(found):
    """One box for all pairs of three attributes or more: which are beyond chance, and which groups are below four fifths.

    A repair does not balance pairs: of balanced clusters it only tells findings.
    """
    pairs, favourable = found.representation.attrs["pairs"], found.rates.attrs["favourable"] is not None
    tests, rates = (table[table["attribute"].isin(pairs)] for table in (found.tests, found.rates))
    beyond, flagged = (
        tests.loc[tests["beyond_chance"], "attribute"].unique(),
        rates[rates["below_four_fifths"] & favourable],
    )
    if not pairs or (found.repairs.loc[GIVEN, "is_balanced"] and not len(beyond) and flagged.empty):
        return []
    kind, words = LEVELS[2 if len(beyond) else 1]
    text = f"{counted(len(pairs), 'pair')} were looked at. Beyond chance: {listed(beyond) or 'none'}."
    if favourable:
        n_judged = sum(rates.attrs["judged"][name] for name in pairs)
        told = _flagged_in_pairs(flagged) or f"none of the {counted(n_judged, 'group')} that are large enough"
        text += f" Below four fifths of the highest rate in a pair: {told}."
    return [Note(kind, f"Pairs of attributes: {words}.", text)]


def _flagged_in_pairs(flagged):
    """The groups, the lowest ratio first."""
    flagged = flagged.sort_values("ratio", kind="stable")
    told = [f"{row['group']} ({row['attribute']}) with {ratio_of(row)}" for _, row in flagged.iterrows()]
    return "; ".join(told[:TOLD]) + (f"; and {len(told) - TOLD} more" if len(told) > TOLD else "")


def shown_attributes(found):
    """The attributes whose tables the page shows: of pairs those that show more than their attributes."""
    pairs, flagged = found.representation.attrs["pairs"], found.rates.loc[found.rates["below_four_fifths"], "attribute"]
    telling = {*_clear(found), *(flagged if found.rates.attrs["favourable"] is not None else ())}
    return [name for name in found.tests["attribute"].unique() if name not in pairs or name in telling]


def _box(name, verdicts):
    """One box of an attribute from its verdicts {what they are of: (level, sentences)}; the worst of them heads it."""
    worst = max(verdicts, key=lambda what: verdicts[what][0])
    kind, words = LEVELS[verdicts[worst][0]]
    alike = len({level for level, _ in verdicts.values()}) == 1
    text = " ".join(f"{what}: {said}" if len(verdicts) > 1 else said for what, (_, said) in verdicts.items())
    return Note(kind, f"{name}: {words}{'' if alike else f' ({worst.lower()})'}.", text)


def _verdict(size, off, test):
    """(level, sentences) of one question, size apart from chance. `off`: the most rows by which a count is off."""
    p = f"{'' if test['p_value'] < LEAST_P else '= '}{p_value(test['p_value'])}"
    chance = f"Chance: p {p} ({test['test']}; Cramer's V {test['cramers_v']:.2f} of at most 1)."
    if test["beyond_chance"]:
        return 2, f"{size} {chance}"
    return (0, size) if off < 1 else (1, f"{size} {chance} {NO_MORE}")


def _farthest(table, lead="Farthest from its share"):
    """The count that is farthest from its share; one figure has the usual lead on a page."""
    worst = farthest(table)
    if abs(worst["excess"]) < 1e-9:
        return "Every count is its share."
    return (
        f"{lead}: cluster {worst['cluster']} holds {worst['count']:,} of group {worst['group']}, "
        f"{rows_away(abs(worst['excess']))} {'more' if worst['excess'] > 0 else 'fewer'} than its share "
        f"({percent(worst['share_of_cluster'])} of the cluster, {percent(worst['share_of_all'])} of all rows)."
    )


def _of_favourable(found):
    """Which clusters are favourable, and who is left out of ratios; nothing without them."""
    if found.rates.attrs["favourable"] is None:
        return []
    rates = found.rates.drop_duplicates(["attribute", "group"])
    total = rates.groupby("attribute")[["selected", "rows"]].sum().iloc[0]
    said = f"{listed(found.rates.attrs['favourable'])}, {total['selected']:,} of {total['rows']:,} rows "
    said += f"({_rate(total['selected'] / total['rows'])})."
    small = rates["is_small"] & ~rates["attribute"].isin(found.representation.attrs["pairs"])
    return [Note("plain", "Favourable clusters:", said + _left_out(rates[small], rates))]


def _rows_off(rates):
    """The most rows by which the number of those selected differs from a group's share of them."""
    return (rates["selected"] - rates["rows"] * rates["selected"].sum() / rates["rows"].sum()).abs().max()


def _of_ratios(rates):
    """The lowest and the highest rate, the impact ratio, and who is left out of it."""
    judged = rates if rates["is_small"].all() else rates[~rates["is_small"]]
    low, high = judged.loc[judged["rate"].idxmin()], judged.loc[judged["rate"].idxmax()]
    n_small = len(rates) - len(judged)
    left_out = (
        f" {counted(n_small, 'group')} below 2% of the rows {'is' if n_small == 1 else 'are'} left out."
        if n_small
        else ""
    )
    if low["rate"] == high["rate"]:
        return f"Every group is selected at a rate of {_rate(low['rate'])}.{left_out}"
    large = int((~rates["is_small"]).sum())
    none = f"none of the {counted(large, 'group')}{' that are large enough' * bool(n_small)}"
    flagged = "; ".join(judged.loc[judged["below_four_fifths"], "group"])
    return (
        f"Group {low['group']} is selected at a rate of {rate_and_interval(low)}, group {high['group']} at "
        f"{rate_and_interval(high)}. Impact ratio: {ratio_of(low)}. Below four fifths of the highest rate: "
        f"{flagged or none}.{left_out}"
    )


def _left_out(small, rates):
    """The groups that ratios leave out: each, or how many with how many of the rows, and the largest."""
    if small.empty:
        return ""
    largest = small.nlargest(LEFT_OUT, "rows") if len(small) > LEFT_OUT else small
    each = "; ".join(
        f"{row['group']} ({counted(row['rows'], 'row')}, {_rate(row['rate'])})" for _, row in largest.iterrows()
    )
    why = " Left out of ratios, as New York's Local Law 144 allows below 2% of the rows:"
    if len(small) == len(largest):
        return f"{why} {each}."
    held = small.groupby("attribute")["rows"].sum().max() / rates.groupby("attribute")["rows"].sum().max()
    return f"{why} {len(small):,} groups, which hold up to {percent(held)} of the rows of an attribute. The largest: {each}."


def _rate(rate):
    return f"{rate:.1%}"


def rate_and_interval(row):
    return f"{_rate(row['rate'])} ({_rate(row['low'])} to {_rate(row['high'])})"


def ratio_of(row):
    """An impact ratio with its interval, as far as they are known."""
    if np.isnan(row["ratio"]):
        return "none"
    ends = f" ({row['ratio_low']:.2f} to {row['ratio_high']:.2f})" if np.isfinite(row["ratio_high"]) else ""
    return f"{row['ratio']:.2f}{ends}"


def _of_tests(tests, pairs):
    """How many tests were made, if there are several, and which findings Holm's correction leaves."""
    tests = different(tests)
    if len(tests) == 1:
        return []
    alone, found = 1 - tests.attrs["level"], tests[tests["beyond_chance"]]
    weak = found.loc[found["p_holm"] > alone, "attribute"].unique()
    names = tests["attribute"].unique()
    known = [name for name in names if name not in pairs]
    known = [*known[:-1], counted(len(names) - len(known), "pair"), known[-1]] if len(names) > len(known) else known
    both = f", by {' and by '.join(tests['question'].unique())}" if len(tests) > len(names) else ""
    text = f"{len(tests)} were made, of {listed(known)}{both}. Each is decided by its own p. Without any relation, "
    text += f"each raises a false alarm with a probability of {percent(alone)}. "
    if len(weak):
        rest = f"After Holm's correction for all {len(tests)}, chance could make the difference for {listed(weak)}: a hint."
    else:
        rest = f"All that is beyond chance stays so after Holm's correction for all {len(tests)}." if len(found) else ""
    return [Note("plain", "Tests:", (text + rest).strip())]


def different(tests):
    """The `tests` without those whose table of counts an earlier one has."""
    return tests[tests["same_as"].isna()]


def _group(row, table):
    """The group of a count, with its attribute if the table has several and the name does not say it."""
    is_told = table["attribute"].nunique() == 1 or row["group"].startswith(f"{row['attribute']}=")
    return row["group"] if is_told else f"{row['group']} ({row['attribute']})"


def _of_shortfalls(table):
    """What is missing where beyond chance, as one note; none if nothing is. Combinations of more than two are left out."""
    last, favourable = table["attribute"].iloc[-1], table.attrs["favourable"] is not None
    short = shortfalls(table[table["attribute"] != last] if table.attrs["pairs"] else table)
    told = [
        f"Cluster {row['cluster']} holds {row['count']:,} of group {_group(row, table)}; its share would be "
        f"{row['expected']:,.1f}, so {rows_away(-row['excess'])} are missing ({percent(row['share_of_cluster'])} of the "
        f"cluster, {percent(row['share_of_all'])} of all rows)."
        for _, row in short.head(TOLD).iterrows()
    ]
    more = len(short) - len(told)
    told += [f"There {'is' if more == 1 else 'are'} {more:,} more."] * bool(more)
    rule = f"Counts beyond chance{' in favourable clusters' if favourable else ''}, the largest missing part of a share first."
    rule += " Of pairs, only those that lack more than their two attributes together." if table.attrs["pairs"] else ""
    return [Note("plain", "Who is short of what:", " ".join([rule, *told]))] if told else []


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
        return (
            f"{text} Lots decide which rows of these groups move. Give the features to move those that it costs least."
        )
    text += f" It costs {_cost(few)} in within-cluster sum of squares."
    if CHEAPEST not in repairs.index:
        return f"{text} No cheaper repair is searched for in this case."
    cheap = repairs.loc[CHEAPEST]
    if cheap["moved"] == few["moved"]:
        return text
    return (
        f"{text} The cheapest balanced clusters found from there move {_rows_of(cheap, total)} and cost {_cost(cheap)}."
    )


def movers(moves):
    """The rows that the repair with the fewest moves takes from one cluster to another: group, from, to."""
    moved = moves[moves[GIVEN] != moves[FEWEST]] if FEWEST in moves else moves.head(0).assign(**{FEWEST: None})
    return moved.rename(columns={GIVEN: "from", FEWEST: "to"})[["group", "from", "to"]]


def flows_of(moves):
    """How many rows of every group the repair with the fewest moves takes from where to where, most first."""
    flows = movers(moves).groupby(["from", "to", "group"], sort=False).size().rename("rows").reset_index()
    return flows.sort_values("rows", ascending=False, kind="stable", ignore_index=True)


def _of_flows(moves):
    """The largest flows of the repair with the fewest moves; none if no row moves."""
    flows = flows_of(moves)
    told = [
        f"{counted(flow['rows'], 'row')} of {flow['group']} from {flow['from']} to {flow['to']}"
        for _, flow in flows.head(TOLD).iterrows()
    ]
    more = f" The table has {len(flows) - TOLD:,} more." if len(flows) > TOLD else ""
    return [Note("plain", "Who moves where:", f"{'; '.join(told)}.{more}")] if told else []


def _of_sizes(repairs):
    """The clusters that the repair with the fewest moves makes larger or smaller, if sizes are known."""
    sizes = repairs.attrs["sizes"]
    if FEWEST not in sizes or not repairs.loc[FEWEST, "moved"]:
        return []
    given, after = sizes[GIVEN], sizes[FEWEST]
    changed = [name for name in given if after[name] != given[name]]
    told = "; ".join(f"{name} from {given[name]:,} to {after[name]:,} rows" for name in changed[:TOLD])
    more = f"; {counted(len(changed) - TOLD, 'cluster')} more change" if len(changed) > TOLD else ""
    text = f"with the fewest moves, {told}{more}." if changed else "the repair with the fewest moves keeps them all."
    return [Note("plain", "Sizes of the clusters:", text)]


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
    """Whether the chains agree and how well clusters match, if there is a doubt, before any probability."""
    unlikely, chains = memberships["probability"] < UNLIKELY, memberships.attrs["chains"]
    agree = [] if chains.kind == "good" else [Note(chains.kind, chains.headline, f"{chains.evidence} {chains.advice}")]
    text = (
        f"{unlikely.sum():,} of {len(unlikely):,} rows ({percent(unlikely.mean())}) are in the given cluster with a "
        f"probability below {percent(UNLIKELY)}. Half of the rows are there with a probability of at least "
        f"{rounded_down(memberships['probability'].median(), 2)}."
    )
    return [*agree, *_of_matches(memberships.attrs["matched"]), Note("plain", "Under the fair posterior:", text)]


def _of_matches(matched):
    """The given clusters that the posterior does not have; none if each is matched well."""
    poor = [f"{name} ({percent(share)})" for name, share in matched.items() if share < WELL_MATCHED]
    text = (
        "each given cluster is matched with the cluster of the draws that shares the most rows with it. Fewer than half "
        f"of the matched cluster's rows are in the given one for {listed(poor)}. The posterior has no such clusters, "
        "which makes their probabilities low."
    )
    return [Note("caution", "Matched with:", text)] if poor else []


def p_value(value):
    return f"below {LEAST_P}" if value < LEAST_P else f"{value:.2g}"
