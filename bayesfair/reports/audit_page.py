"""What an audit found, as a page: its sentences, pictures and tables."""

from datetime import UTC, datetime

from bayesfair import __version__
from bayesfair._numbers import alike, counted, percent, rounded_down, rows, signed_percent
from bayesfair.reports.audit_pictures import draw_flows, draw_rates, draw_shares
from bayesfair.reports.audit_sentences import (
    CHEAPEST,
    FAVOURABLE,
    GIVEN,
    UNLIKELY,
    as_told,
    below,
    different,
    flows_of,
    movers,
    p_value,
    rate_and_interval,
    ratio_of,
    shown_attributes,
)
from bayesfair.reports.contents import table_of_distances
from bayesfair.reports.templates import YES_OR_NO, as_table, page_place, versions, write_page

SHOWN_COUNTS, SHOWN_ROWS = 60, 15


def write_page_of(audit, path, title, provenance):
    """Write the page of an `Audit` and return its path. `provenance`: {term: text}."""
    audit = as_told(audit)
    every, lower = audit.clusters.iloc[-1], below(audit)
    heading = title or f"Audit of {counted(len(audit.clusters) - 1, 'cluster')} of {every['size']:,.0f} rows"
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    moved, shown = None if audit.moves is None else movers(audit.moves), shown_attributes(audit)
    moves = None if moved is None else as_table(moved.head(SHOWN_ROWS).rename_axis("row").reset_index())
    flows = None if moved is None else flows_of(audit.moves)
    return write_page(
        page_place(path),
        "audit.html",
        title=str(heading),
        notes=[one for one in audit.notes if not any(one in notes for notes in lower.values())],
        lower=lower,
        level=audit.representation.attrs["level"],
        tests=_tests(audit.tests),
        rates=[(name, *_rates(part)) for name, part in audit.rates.groupby("attribute", sort=False) if name in shown],
        is_selection=audit.rates.attrs["favourable"] is not None,
        representation=[
            _counts(name, part) for name, part in audit.representation.groupby("attribute", sort=False) if name in shown
        ],
        repairs=_repairs(audit),
        sizes=_sizes(audit.repairs.attrs["sizes"]),
        has_balance=_has_balance(audit),
        has_cheapest=CHEAPEST in audit.repairs.index,
        moves=moves,
        more_moves=0 if moves is None else len(moved) - len(moves[1]),
        flows=None if flows is None else as_table(flows.head(SHOWN_ROWS)),
        more_flows=0 if flows is None else max(len(flows) - SHOWN_ROWS, 0),
        flow_picture=None if flows is None else draw_flows(flows),
        distances=None if audit.distances is None else table_of_distances(audit.distances),
        units=None if audit.distances is None else audit.distances.attrs["units"],
        likely_by_group=None if audit.memberships is None else _by_group(audit.memberships),
        least_likely=None if audit.memberships is None else _least_likely_rows(audit.memberships),
        provenance=[*provenance.items(), ("Page made", now), ("Page made with bayesfair", __version__), *versions()],
    )


def _tests(table):
    """What was tested, how, with which p-value and how large the relation is."""
    columns = {
        "attribute": table["attribute"],
        "by": table["question"],
        "test": table["test"].where(table["same_as"].isna(), "the same table as " + table["same_as"].fillna("")),
        "p": table["p_value"].map(p_value),
        f"p, {counted(len(different(table)), 'test')} (Holm)": table["p_holm"].map(p_value),
        "beyond chance": table["beyond_chance"].map(YES_OR_NO),
        "Cramer's V": [f"{size:.2f}" for size in table["cramers_v"]],
    }
    return as_table(columns)


def _with_interval(rates):
    return [rate_and_interval(row) for _, row in rates.iterrows()]


def _rates(table):
    """(head, rows) of the rates of one attribute, and their picture, which only rates of selection have."""
    if table["outcome"].iloc[0] != FAVOURABLE or table["outcome"].nunique() > 1:
        each = {name: part.map(str) for name, part in table.assign(of=_with_interval(table)).groupby("outcome")["of"]}
        first = table[table["outcome"] == table["outcome"].iloc[0]]
        return as_table({"group": first["group"], "rows": first["rows"], **each}), None
    columns = {
        "group": table["group"],
        "rows": [f"{size:,}" for size in table["rows"]],
        "selected": [f"{size:,}" for size in table["selected"]],
        "rate": _with_interval(table),
        "impact ratio": [ratio_of(row) for _, row in table.iterrows()],
        "below 0.8": [
            "left out" if row["is_small"] else YES_OR_NO[row["below_four_fifths"]] for _, row in table.iterrows()
        ],
    }
    return as_table(columns), draw_rates(table)


def _counts(attribute, table):
    """(attribute, (head, rows), how many counts are left out, picture): all counts, or those farthest from their share."""
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
        "p": shown["p_value"].map(p_value),
        "beyond chance": shown["beyond_chance"].map(YES_OR_NO),
    }
    return attribute, as_table(columns), len(table) - len(shown), draw_shares(attribute, table)


def _repairs(audit):
    """What the clusters cost, and how far they are from balance, as given and repaired; Balance if no group is rare."""
    table = audit.repairs
    each = {f"of {name[len('off_by[') : -1]}": table[name].map(rows) for name in table if name.startswith("off_by[")}
    columns = {
        "clusters": table.index,
        "rows that move": [f"{count:,}" for count in table["moved"]],
        "balanced": table["is_balanced"].map(YES_OR_NO),
        "farthest from its share, rows": table["off_by"].map(rows),
        **each,
    }
    if _has_balance(audit):
        columns[f"Balance (all rows together: {rounded_down(_most_balance(audit.representation))})"] = table[
            "balance"
        ].map(rounded_down)
    if "within_ss" in table:
        columns["within-cluster sum of squares"] = alike(table["within_ss"])
        columns["change"] = table["cost_increase"].map(signed_percent)
    return as_table(columns)


def _has_balance(audit):
    """Does Balance say something? If a share is below one row, a cluster has none of that group, and Balance is 0."""
    return audit.representation["expected"].min() >= 1


def _most_balance(counts):
    """The Balance of all rows together, which no clusters exceed: of the combinations or, if they are not, each attribute."""
    sizes = counts.groupby(["attribute", "group"], sort=False)["count"].sum().groupby(level=0, sort=False)
    balance = sizes.min() / sizes.max()
    return balance.iloc[-1] if counts.attrs["is_crossed"] else balance.min()


def _sizes(sizes):
    """Rows of every cluster, as given and after each repair; None if that is not known or there is no repair."""
    if not sizes or len(sizes) == 1:
        return None
    each = {repair: [f"{held:,}" for held in of_clusters.values()] for repair, of_clusters in sizes.items()}
    return as_table({"cluster": list(sizes[GIVEN]), **each})


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
