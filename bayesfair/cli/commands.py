"""The commands, each a few calls of the package: check places, work, save the results, then print them."""

import os
import warnings
from contextlib import contextmanager, nullcontext
from shlex import quote

import bayesfair as bf
from bayesfair._check import listed, message
from bayesfair._files import COLUMNAR, check_destination
from bayesfair._numbers import more_or_less, r_hat, rounded_down, significant
from bayesfair._progress import one_step
from bayesfair.cli import output, rows
from bayesfair.cli.arguments import estimator_class, settings_of_method
from bayesfair.cli.columns import (
    Wanted,
    check_several,
    choose_columns,
    column_of_names,
    counted_from_1,
    in_bands,
    row_names,
    standardized,
)
from bayesfair.cli.entry import WrongUse, writing
from bayesfair.cli.tables import as_read, check_ending, is_table, read_table, to_csv, typed, write_table
from bayesfair.fairness.plain import plain_kmeans, share_above
from bayesfair.posterior.diagnostics import scalar_table
from bayesfair.posterior.found_modes import modes_sentence
from bayesfair.posterior.view import View

DECIMALS = 12  # of figures in a table: 0.2675, not 0.26749999999999996


def demo(arguments):
    """Cluster the bundled patients fairly; figures in print, posterior and pictures in a folder."""
    from sklearn.exceptions import ConvergenceWarning

    places = [output.place_for(arguments.out / name) for name in ("run.nc", *output.PICTURES)]
    output.check_output(places, arguments)
    data = bf.datasets.load_diabetes()
    print(data, flush=True)
    X, seed = standardized(data.features), arguments.seed
    plain, cost = plain_kmeans(X.to_numpy(), 3, n_init=10, seed=seed)
    settings = {name: getattr(arguments, name) for name in ("num_chains", "num_warmup", "num_draws")}
    settings |= {"n_clusters": 3, "random_state": seed, "progress_bar": output.shows_progress()}
    estimator = bf.GibbsFairClustering(target="labels", **settings).fit(X, sensitive_features=data.sensitive)
    _, status = output.save(estimator, places[0])
    output.print_point_estimate(estimator)
    print(f"\nbalance without fairness (k-means)    {rounded_down(bf.fairness.balance(plain, data.sensitive))}")
    print(
        f"balance of the point estimate         {rounded_down(bf.fairness.balance(estimator.labels_, data.sensitive))}"
    )
    fair = bf.fairness.distance_report(X, estimator.labels_).attrs["within_ss"]
    print(f"its cost, against k-means             {more_or_less(share_above(fair, cost))}")
    _print_target("labels", estimator)
    with warnings.catch_warnings():  # its line says whether the chains agree
        warnings.simplefilter("ignore", ConvergenceWarning)
        over_fairlets = bf.GibbsFairClustering(target="optimal", modes=None, **settings)
        _print_target("optimal", over_fairlets.fit(X, sensitive_features=data.sensitive))
    view = View.of(estimator.posterior_)
    output.print_summary(view)
    output.draw_pictures(view, arguments.out)
    return status


def _print_target(name, estimator):
    tree = estimator.posterior_
    least, largest = float(tree["sample_stats"]["balance"].min()), float(scalar_table(tree)["r_hat"].max())
    print(f"{f'least of all draws, target={name!r}':<38}{rounded_down(least)}, largest R-hat {r_hat(largest)}")


def fit(arguments):
    """Sample the posterior of a table: print the features first, then save the run and judge it."""
    with output.quietly(arguments.quiet):
        settings, show = settings_of_method(arguments), output.shows_progress(arguments.quiet)
        estimator = estimator_class(arguments.method)(progress_bar=show, **settings)
        _check_out(arguments)
        X, columns = _read_columns(arguments)
        more = {} if columns.weights is None else {"sample_weight": columns.weights}
        if arguments.method == "balanced-kmeans":
            return _fit_once(estimator, X, columns, more, arguments)
        estimator.provenance = _provenance(arguments, columns)
        is_zarr = arguments.out.suffix == ".zarr"
        more |= {"store": arguments.out} if is_zarr else {}
        replacing = output.replaced(arguments.out) if is_zarr and arguments.overwrite else nullcontext()
        with replacing, _saving_draws(estimator, arguments.out):
            estimator.fit(X, sensitive_features=columns.sensitive, **more)
        return _saved_and_judged(estimator, arguments.out, _of_table(arguments))


def _fit_once(estimator, X, columns, more, arguments):
    """Fit one clustering: print how it ended, and write a table of the rows' clusters."""
    import pandas as pd

    from bayesfair.fairness.groups import read_groups

    estimator.fit(X, sensitive_features=columns.sensitive, **more)
    groups = read_groups(estimator, columns.sensitive, len(X))
    ended = "converged" if estimator.converged_ else "not converged"
    value = estimator.objective_trace_[-1]
    print(f"{type(estimator).__name__}: {ended} after {estimator.n_iter_} iterations, objective {significant(value)}")
    output.print_clusters("Clusters", estimator.labels_, groups, columns.weights)
    names = [groups.names[code] for code in groups.code]
    return _write(pd.DataFrame({"obs": X.index, "cluster": estimator.labels_, "group": names}), arguments)


@contextmanager
def _saving_draws(estimator, run_file):
    """Save draws made within the block even if it ends early, while results are computed from them."""
    before = getattr(estimator, "posterior_", None)
    try:
        yield
    except BaseException:
        if getattr(estimator, "posterior_", None) is not before:
            output.save(estimator, run_file)
        raise


def _check_out(arguments):
    """A place for the results, of the kind that the method makes."""
    out = output.place_for(arguments.out)
    output.check_output([out], arguments)
    if arguments.method == "balanced-kmeans":
        check_ending(out)
    elif is_table(out):
        remedy = f"Name it run.nc; then bayesfair memberships run.nc --out {out.name} writes the table."
        raise WrongUse(message("--out", "name a run, as the method leaves a posterior", repr(out.name), remedy))
    elif out.suffix == ".zarr" and arguments.method != "gibbs":
        remedy = "Name it run.nc: only gibbs writes draws as they are made."
        raise WrongUse(message("--out", f"end in .nc with --method {arguments.method}", repr(out.name), remedy))


def _provenance(arguments, columns) -> dict[str, str]:
    """The source of a page's figures, {term: text}: file, command, columns, rows left out."""
    scaled = "divided by their standard deviation" if arguments.standardize else "as they are in the file"
    return {
        "File": os.fspath(arguments.table),
        rows.DIGEST: rows.sha256_of(arguments.table),
        rows.NAMES: rows.NUMBERED if columns.names is None else typed(columns.names),
        "Command": arguments.typed,
        "Sensitive columns": listed(map(typed, columns.sensitive)),
        "Features": listed(map(typed, columns.features)) or "none",
        "Scaling of the features": scaled if columns.features.select_dtypes("number").shape[1] else "none",
        "Rows read": f"{len(columns.sensitive) + columns.n_dropped:,}",
        "Rows dropped": columns.dropped_in_words or "none",
        "Rows": f"{len(columns.sensitive):,}",
    }


def _check_table_out(arguments):
    """A place for a table, if it is not printed."""
    if arguments.out is not None:
        check_ending(arguments.out)
        output.check_output([output.place_for(arguments.out)], arguments)


def _of_table(arguments):
    """The options of `memberships` that read the table as in `fit`."""
    given = {"table": os.fspath(arguments.table), "index": arguments.index}
    usual = {"separator": ",", "decimal": ".", "encoding": "utf-8"}
    given |= {name: value for name in usual if (value := getattr(arguments, name)) != usual[name]}
    return "".join(f" --{name} {quote(value)}" for name, value in given.items() if value is not None)


def _saved_and_judged(estimator, run_file, of_table=""):
    saved_to, status = output.save(estimator, run_file)
    if hasattr(estimator, "labels_"):
        output.print_point_estimate(estimator)
    output.print_verdict(estimator.posterior_)
    if saved_to is not None:
        output.print_next_steps(saved_to, of_table)
    return status


def compare(arguments):
    """Fit a method at several numbers of clusters; print the costs and, if asked for, write them as a table."""
    with output.quietly(arguments.quiet):
        _check_table_out(arguments)
        estimator = estimator_class(arguments.method)(**settings_of_method(arguments))
        X, columns = _read_columns(arguments)
        more = {"num_bootstraps": arguments.num_bootstraps, "progress_bar": output.shows_progress(arguments.quiet)}
        table = bf.compare_clusters(estimator, X, columns.sensitive, arguments.numbers, **more)
        output.print_comparison(table)
        if arguments.out is not None:
            _write(table.reset_index(), arguments)


def resume(arguments):
    """Make more draws of a run, or the ones that an interrupted run still lacks, and judge it again."""
    with output.quietly(arguments.quiet):
        run_file = output.to_go_on(arguments.run_file)
        estimator = _loaded(run_file).set_params(progress_bar=output.shows_progress(arguments.quiet))
        with _saving_draws(estimator, run_file):
            estimator.resume(arguments.num_draws)
        return _saved_and_judged(estimator, run_file)


def _loaded(run_file):
    made_by = bf.posterior.read_tree(run_file).attrs.get("estimator")
    kind = bf.BayesianFairMixture if made_by == "BayesianFairMixture" else bf.GibbsFairClustering
    return kind.load(run_file)


def _read_columns(arguments):
    """(the features as fitted, all columns in use), which are printed."""
    columns = choose_columns(_table(arguments), Wanted.typed(arguments))
    check_several(columns.sensitive)
    print(f"{arguments.table}: {len(columns.features)} rows\n{columns}", flush=True)
    return standardized(columns.features) if arguments.standardize else columns.features, columns


def _table(arguments):
    return read_table(arguments.table, arguments.separator, arguments.encoding)


def summary(arguments):
    """Print diagnostics, the number of uncertain rows, and whether the chains agree."""
    output.print_summary(bf.posterior.read_tree(arguments.run_file))


def modes(arguments):
    """Print the modes that a run found, and the mass of each."""
    view = View(bf.posterior.read_tree(arguments.run_file))
    print(bf.posterior.modes(view).drop(columns=["se", "lp"]).round(3).to_string())
    print(f"\n{output.wrapped(modes_sentence(view))}")


def memberships(arguments):
    """Write the memberships of a run, a row for each row of its table, to a file or to standard output."""
    _check_table_out(arguments)
    tree = bf.posterior.read_tree(arguments.run_file)
    with one_step("memberships", output.shows_progress()):
        result = bf.posterior.memberships(tree).round(DECIMALS)
    if arguments.table is None:
        return _write(result.reset_index(), arguments)
    table = _table(arguments)
    rows.check_index(tree, table, arguments.index)
    place = rows.places_in_run(tree, table, arguments, lambda: _loaded(arguments.run_file))
    return _write(rows.beside(table, place, result), arguments)


def assign(arguments):
    """Write a table of new rows with their clusters beside its columns: each row by itself, or all placed together."""
    _check_table_out(arguments)
    estimator = _loaded(arguments.run_file)
    table = _table(arguments)
    columns = rows.columns_of_fit(table, arguments, estimator)
    result = rows.assigned(estimator, columns).round(DECIMALS)
    if arguments.sensitive and arguments.out is not None:  # otherwise the table itself is printed
        groups = bf.fairness.encode_groups(columns.sensitive)
        output.print_clusters("Clusters of the new rows", result["cluster"].to_numpy(), groups, None)
    taken = {*columns.features, *columns.sensitive}
    names = row_names(table, column_of_names(table, arguments.index, taken)[0])
    return _write(rows.beside(table, rows.places_by_name(names, result.index), result), arguments)


def _write(table, arguments, path=None):
    """Write a table to `path`, by default `--out`, or print it."""
    path = arguments.out if path is None else path
    style = {"separator": arguments.separator, "decimal": arguments.decimal}
    if path is None:
        print(to_csv(table, encoding=arguments.encoding, **style), end="")
        return
    with writing():
        write_table(table, path, **style, **as_read(arguments.table, arguments.encoding))
    print(f"wrote {path}: {len(table)} rows")


def calibrate(arguments):
    """Simulate tables, print how often the run's statements are true in them, and keep that in the run."""
    _check_table_out(arguments)
    run_file = output.to_go_on(arguments.run_file)
    estimator = _loaded(run_file)
    settings = {} if arguments.multiples is None else {"multiples": arguments.multiples}
    settings |= {"n_jobs": arguments.n_jobs, "random_state": arguments.seed, "progress_bar": output.shows_progress()}
    table = bf.posterior.calibration(estimator, arguments.n_tables, **settings)
    print(f"{table.round(3).to_string()}\n\n{output.wrapped(table.attrs['sentence'])}\n")
    status = output.save(estimator, run_file)[1]
    if arguments.out is not None:
        _write(table.reset_index(), arguments)
    return status


def plot(arguments):
    """Draw the pictures of a run into a folder, which is made if needed."""
    output.check_output([output.place_for(arguments.out / name) for name in output.PICTURES], arguments)
    output.draw_pictures(bf.posterior.read_tree(arguments.run_file), arguments.out)


def report(arguments):
    """Write the HTML page about a run into an existing folder."""
    output.check_output([check_destination(arguments.out, "--out")], arguments)
    tree = bf.posterior.read_tree(arguments.run_file)
    with writing():
        bf.report(tree, arguments.out, title=arguments.title, progress_bar=output.shows_progress())
    print(f"wrote {arguments.out}")


def check(arguments):
    """Audit given clusters, a column of a table: print sentences, and write a page and tables if asked for."""
    _check_places(arguments)
    with _telling_what_is_written(arguments) as written:
        found, columns, about = _audited(arguments)
        print("", *(output.wrapped(f"{note.headline} {note.text}") for note in found.notes), sep="\n", flush=True)
        if arguments.moves is not None:
            _write(_moves(found, columns), arguments, arguments.moves)
            written.append(arguments.moves)
        if arguments.out is not None and is_table(arguments.out):
            _write(_counts(found).round(DECIMALS), arguments)
        elif arguments.out is not None:
            with writing(), one_step("page", output.shows_progress()):
                found.write(arguments.out, title=arguments.title, provenance=about)
            print(f"wrote {arguments.out}")


def _audited(arguments):
    """(the audit of a table, the columns in use, the provenance), whose rows are told first."""
    table, wanted = _table(arguments), Wanted.typed(arguments, features=arguments.features or [])
    columns = counted_from_1(choose_columns(table, wanted))
    columns = columns._replace(sensitive=in_bands(columns.sensitive, dict(arguments.bins), wanted))
    check_several(columns.sensitive)
    about = _told_of_rows(arguments, table, columns)
    X = standardized(columns.features) if arguments.standardize else columns.features
    tree = None
    if arguments.run_file is not None:
        tree = _run_of_rows(arguments, table, columns)
        about |= {
            "Fair posterior": os.fspath(arguments.run_file),
            "SHA-256 of the run": rows.sha256_of(arguments.run_file),
        }
    settings = {"crossed": not arguments.each_attribute, "min_balance": arguments.min_balance, "tree": tree}
    settings |= {"favourable": arguments.favourable, "repair": not arguments.no_repair}
    settings |= {"progress_bar": output.shows_progress()}
    return bf.audit(columns.clusters, columns.sensitive, None if X.empty else X, **settings), columns, about


@contextmanager
def _telling_what_is_written(arguments):
    """Yields a list of the files that are written, which Ctrl-C within the block tells beside those that are not."""
    written = []
    try:
        yield written
    except KeyboardInterrupt as error:
        missing = [path for path in (arguments.moves, arguments.out) if path not in (None, *written)]
        told = [f"Written: {listed(written)}."] * bool(written) + [f"Not written: {listed(missing)}."] * bool(missing)
        raise KeyboardInterrupt(" ".join(told)) from error


def _check_places(arguments):
    """Places for the page and the tables of an audit, before any work."""
    if arguments.out is not None:
        place = output.place_for(arguments.out)
        if not is_table(place) and place.suffix.lower() != ".html":
            rule = f"end in .html for a page, or in .csv or {', '.join(COLUMNAR)} for a table of all counts"
            raise WrongUse(message("--out", rule, repr(os.fspath(place)), "Print the page from a browser for a PDF."))
        output.check_output([check_destination(place, "--out")], arguments)
    if arguments.moves is not None:
        if arguments.no_repair:
            raise WrongUse(message("--moves", "come without --no-repair", "both", "Leave one of them out."))
        check_ending(arguments.moves, "--moves")
        output.check_output([output.place_for(arguments.moves, "--moves")], arguments, "--moves")
    if arguments.standardize and arguments.features is None:
        raise WrongUse(message("--standardize", "come with --features", "no features", "Name them, or leave it out."))


def _told_of_rows(arguments, table, columns):
    """The provenance of an audit, {term: text}, of which the rows and the groups are printed."""
    groups = bf.fairness.encode_groups(columns.sensitive)
    sizes = listed((f"{name} ({size:,})" for name, size in zip(groups.names, groups.sizes)), between="; ")
    about = {"Purpose": arguments.purpose, "Auditor": arguments.auditor} | _provenance(arguments, columns)
    if columns.names is None:
        about[rows.NAMES] = "none: rows are counted from 1, below the names of the columns"
    about |= {"Rows equal in all columns to an earlier one": f"{table.duplicated().sum():,}", "Groups": sizes}
    told = ("File", "Rows read", "Rows dropped", "Rows", "Rows equal in all columns to an earlier one", "Groups")
    print("\n".join(output.wrapped(f"{term}: {about[term]}") for term in told), flush=True)
    return {term: text for term, text in about.items() if text is not None}


def _run_of_rows(arguments, table, columns):
    """The run of `--run`, with the rows of the table under the names that they have in `columns`."""
    tree, names = bf.posterior.read_tree(arguments.run_file), row_names(table, columns.names)
    place = rows.places_in_run(tree, table, arguments, lambda: _loaded(arguments.run_file))
    return rows.under_names_of(tree, place, names + 1 if columns.names is None else names)


def _counts(found):
    """All counts and, with favourable clusters, the rate and the impact ratio of the group of each."""
    if found.rates.attrs["favourable"] is None:
        return found.representation
    own = ["rows", "selected", "rate", "rate_low", "rate_high", "ratio", "ratio_low", "ratio_high"]
    rates = found.rates.rename(columns={"low": "rate_low", "high": "rate_high"})
    rates = rates[["attribute", "group", *own, "is_small", "below_four_fifths"]]
    return found.representation.merge(rates, on=["attribute", "group"], how="left")


def _moves(found, columns):
    """Who moves in the repair with the fewest moves: row, group, from, to."""
    from bayesfair.reports.audit_sentences import FEWEST, movers  # loads what no other command needs

    if FEWEST not in found.moves:
        raise WrongUse("No repair was found, so --moves has nothing to write. Audit fewer attributes, or use --bins.")
    return movers(found.moves).rename_axis(columns.names or "row").reset_index()
