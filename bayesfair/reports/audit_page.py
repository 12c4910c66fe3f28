"""The page of an audit: its tables as text, and the values of the template."""

from datetime import UTC, datetime

from bayesfair import __version__
from bayesfair._numbers import alike, counted, percent, rounded_down, rows, signed_percent
from bayesfair.reports.audit_in_words import UNLIKELY
from bayesfair.reports.fairness_tables import as_table
from bayesfair.reports.templates import page_place, versions, write_page

SHOWN_COUNTS, SHOWN_ROWS = 60, 15


def write_page_of(audit, path, title, provenance):
    """Write the page of an `Audit` and return its path. `provenance`: {term: text}."""
    every = audit.clusters.iloc[-1]
    heading = title or f"Audit of {counted(len(audit.clusters) - 1, 'cluster')} of {every['size']:,.0f} rows"
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    moves = None if audit.moves is None else _rows(audit.moves.head(SHOWN_ROWS))
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
        distances=None if audit.distances is None else as_table(audit.distances),
        units=None if audit.distances is None else audit.distances.attrs["units"],
        likely_by_group=None if audit.memberships is None else _by_group(audit.memberships),
        least_likely=None if audit.memberships is None else _least_likely(audit.memberships),
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
        "short (-) or over, rows": [_signed(value) for value in shown["excess"]],
        "members": [f"{count:,}" for count in shown["count"]],
        "their share": [f"{value:,.1f}" for value in shown["expected"]],
        "of the cluster": [percent(share) for share in shown["share_of_cluster"]],
        "of all": [percent(share) for share in shown["share_of_all"]],
        "by lot": [f"{low:,} to {high:,}" for low, high in zip(shown["low"], shown["high"])],
        "beyond chance": ["yes" if beyond else "no" for beyond in shown["beyond_chance"]],
    }
    return attribute, (list(columns), list(zip(*columns.values()))), len(table) - len(shown)


def _repairs(table):
    """Head and rows: what the clusters cost, and how far they are from balance, as given and repaired."""
    columns = {
        "clusters": table.index,
        "rows that move": [f"{count:,}" for count in table["moved"]],
        "balanced": ["yes" if yes else "no" for yes in table["is_balanced"]],
        "farthest from its share, rows": [rows(off) for off in table["off_by"]],
        **{
            f"of {name[len('off_by[') : -1]}": [rows(off) for off in table[name]]
            for name in table
            if name.startswith("off_by[")
        },
        "balance": [rounded_down(least) for least in table["balance"]],
    }
    if "within_ss" in table:
        columns["within-cluster sum of squares"] = alike(table["within_ss"])
        columns["change"] = [signed_percent(change) for change in table["cost_increase"]]
    return list(columns), list(zip(*columns.values()))


def _by_group(memberships):
    """For every group: the number of rows, of unlikely rows, and the mean probability."""
    head = ["group", "rows", f"below {percent(UNLIKELY)}", "share", "mean probability"]
    lines = []
    for group, probability in memberships.groupby("group")["probability"]:
        unlikely = probability < UNLIKELY
        counts = f"{len(probability):,}", f"{unlikely.sum():,}"
        lines.append((group, *counts, percent(unlikely.mean()), f"{probability.mean():.2f}"))
    return head, lines


def _least_likely(memberships):
    worst = memberships.nsmallest(SHOWN_ROWS, "probability")
    columns = {
        "row": worst.index,
        "group": worst["group"],
        "cluster given": worst["cluster"],
        "probability": [f"{value:.2f}" for value in worst["probability"]],
        "likeliest other cluster": ["none" if value is None else value for value in worst["runner_up"]],
        "its probability": [f"{value:.2f}" for value in worst["runner_up_probability"]],
    }
    return list(columns), list(zip(*columns.values()))


def _signed(excess):
    return f"{'-' if excess < 0 else '+'}{rows(abs(excess))}"


def _rows(table):
    """A DataFrame as head and rows of text, its index first."""
    return ["row", *table.columns], [tuple(map(str, row)) for row in table.itertuples()]
