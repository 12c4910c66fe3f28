"""The commands, each a few calls of the package: check places, work, save the results, then print them."""

import os
import warnings
from contextlib import contextmanager, nullcontext
from shlex import quote
from textwrap import fill

import bayesfair as bf
from bayesfair._check import listed, message
from bayesfair._files import check_destination
from bayesfair._progress import one_step
from bayesfair.cli.columns import Wanted, check_several, choose_columns, column_of_names, row_names, standardized
from bayesfair.cli.exit_status import writing
from bayesfair.cli.new_rows import assigned, columns_of_fit
from bayesfair.cli.options import estimator_class, settings_of_method
from bayesfair.cli.output import (
    LINE,
    PICTURES,
    check_output,
    draw_pictures,
    leaves_posterior,
    place_for,
    print_clusters,
    print_comparison,
    print_fit,
    print_next_steps,
    print_point_estimate,
    print_summary,
    print_verdict,
    quietly,
    replaced,
    save,
    shows_progress,
)
from bayesfair.cli.results import beside, clusters_of, draws_of
from bayesfair.cli.same_rows import (
    DIGEST,
    NAMES,
    NUMBERED,
    check_index,
    places_by_name,
    places_in_run,
    sha256_of,
    under_names_of,
)
from bayesfair.cli.tables import check_ending, is_table, read_table, to_csv, typed, write_table
from bayesfair.posterior.diagnostics import scalar_table
from bayesfair.posterior.found_modes import modes_sentence
from bayesfair.posterior.view import View


def demo(arguments):
    """Cluster the bundled patients fairly; figures in print, posterior and pictures in a folder."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    places = [place_for(arguments.out / name) for name in ("run.nc", *PICTURES)]
    check_output(places, arguments)
    data = bf.datasets.load_diabetes()
    print(data, flush=True)
    X = standardized(data.features)
    plain = KMeans(3, n_init=10, random_state=arguments.random_state).fit_predict(X)
    asked = {name: getattr(arguments, name) for name in ("num_chains", "num_warmup", "num_draws", "random_state")}
    settings = {"n_clusters": 3, "progress_bar": shows_progress(), **asked}
    estimator = bf.GibbsFairClustering(target="labels", **settings).fit(X, sensitive_features=data.sensitive)
    _, status = save(estimator, places[0])
    print_point_estimate(estimator)
    print(f"\nbalance without fairness (k-means)    {bf.fairness.balance(plain, data.sensitive):.3f}")
    print(f"balance of the point estimate         {bf.fairness.balance(estimator.labels_, data.sensitive):.3f}")
    _print_target("labels", estimator)
    with warnings.catch_warnings():  # its line says whether the chains agree
        warnings.simplefilter("ignore", ConvergenceWarning)
        over_fairlets = bf.GibbsFairClustering(target="optimal", modes=None, **settings)
        _print_target("optimal", over_fairlets.fit(X, sensitive_features=data.sensitive))
    view = View.of(estimator.posterior_)
    print_summary(view)
    draw_pictures(view, arguments.out)
    return status


def _print_target(name, estimator):
    tree = estimator.posterior_
    least, r_hat = float(tree["sample_stats"]["balance"].min()), float(scalar_table(tree)["r_hat"].max())
    print(f"{f'least of all draws, target={name!r}':<38}{least:.3f}, largest R-hat {r_hat:.2f}")


def fit(arguments):
    """Sample the posterior of a table: print the features first, then save the run and judge it."""
    with quietly(arguments.quiet):
        return _fit(arguments)


def _fit(arguments):
    from bayesfair.engines.tables import read_groups  # loads scikit-learn

    settings = settings_of_method(arguments)
    estimator = estimator_class(arguments.method)(progress_bar=shows_progress(arguments.quiet), **settings)
    _check_out(arguments, estimator)
    X, columns = _read_columns(arguments, estimator)
    estimator.provenance = _provenance(arguments, columns)
    is_zarr = arguments.out.suffix == ".zarr"
    more = {"store": arguments.out} if is_zarr else {}
    more |= {} if columns.weights is None else {"sample_weight": columns.weights}
    replacing = replaced(arguments.out) if is_zarr and arguments.overwrite else nullcontext()
    with replacing, _saving_draws(estimator, arguments.out):
        estimator.fit(X, sensitive_features=columns.sensitive, **more)
    if leaves_posterior(estimator):
        return _saved_and_judged(estimator, arguments.out, _of_table(arguments))
    groups = read_groups(estimator, columns.sensitive, len(X))
    print_fit(estimator, groups, columns.weights)
    return _write(clusters_of(estimator, X, groups), arguments)


@contextmanager
def _saving_draws(estimator, run_file):
    """Save draws made within the block even if it ends early, while results are computed from them."""
    before = getattr(estimator, "posterior_", None)
    try:
        yield
    except BaseException:
        if getattr(estimator, "posterior_", None) is not before:
            save(estimator, run_file)
        raise


def _check_out(arguments, estimator):
    """A place for the results, of the kind that the method makes."""
    out = place_for(arguments.out)
    check_output([out], arguments)
    if not leaves_posterior(estimator):
        check_ending(out)
    elif is_table(out):
        remedy = f"Name it run.nc; bayesfair memberships run.nc --out {out.name} writes the table then."
        raise ValueError(message("--out", "be no table, as a posterior goes there", repr(out.name), remedy))
    elif out.suffix == ".zarr" and arguments.method != "gibbs":
        rule, remedy = "come with --method gibbs if it ends in .zarr", "Name it run.nc: others keep no draws on disk."
        raise ValueError(message("--out", rule, f"--method {arguments.method}", remedy))


def _provenance(arguments, columns) -> dict[str, str]:
    """The source of a page's figures, {term: text}: file, command, columns, rows left out."""
    scaled = "divided by their standard deviation" if arguments.standardize else "as they are in the file"
    return {
        "File": os.fspath(arguments.table),
        DIGEST: sha256_of(arguments.table),
        NAMES: NUMBERED if columns.names is None else typed(columns.names),
        "Command": arguments.typed,
        "Sensitive columns": listed(map(typed, columns.sensitive)),
        "Features": listed(map(typed, columns.features)) or "none",
        "Scaling of the features": scaled if columns.features.select_dtypes("number").shape[1] else "none",
        "Rows": f"{len(columns.sensitive):,}",
        "Rows dropped": columns.dropped_in_words or "none",
    }


def _check_table_out(arguments):
    """A place for a table, if it is not printed."""
    if arguments.out is not None:
        check_ending(arguments.out)
        check_output([place_for(arguments.out)], arguments)


def _of_table(arguments):
    """The options of `memberships` that read the table as in `fit`."""
    given = {"table": os.fspath(arguments.table), "index": arguments.index}
    usual = {"separator": ",", "decimal": ".", "encoding": "utf-8"}
    given |= {name: value for name in usual if (value := getattr(arguments, name)) != usual[name]}
    return "".join(f" --{name} {quote(value)}" for name, value in given.items() if value is not None)


def _saved_and_judged(estimator, run_file, of_table=""):
    saved_to, status = save(estimator, run_file)
    if hasattr(estimator, "labels_"):
        print_point_estimate(estimator)
    print_verdict(estimator.posterior_)
    print_next_steps(saved_to, of_table)
    return status


def compare(arguments):
    """Fit a method at several numbers of clusters; print the costs and, if asked for, write them as a table."""
    with quietly(arguments.quiet):
        _check_table_out(arguments)
        estimator = estimator_class(arguments.method)(**settings_of_method(arguments))
        X, columns = _read_columns(arguments, estimator)
        more = {"num_bootstraps": arguments.num_bootstraps, "progress_bar": shows_progress(arguments.quiet)}
        table = bf.compare_clusters(estimator, X, columns.sensitive, arguments.numbers, **more)
        print_comparison(table)
        if arguments.out is not None:
            _write(table.reset_index(), arguments)


def resume(arguments):
    """Make more draws of a run, or the ones that an interrupted run still lacks, and judge it again."""
    with quietly(arguments.quiet):
        run_file = place_for(arguments.run_file)
        estimator = _loaded(run_file).set_params(progress_bar=shows_progress(arguments.quiet))
        with _saving_draws(estimator, run_file):
            estimator.resume(arguments.num_draws)
        return _saved_and_judged(estimator, run_file)


def _loaded(run_file):
    made_by = bf.posterior.read_tree(run_file).attrs.get("estimator")
    kind = bf.BayesianFairMixture if made_by == "BayesianFairMixture" else bf.GibbsFairClustering
    return kind.load(run_file)


def _read_columns(arguments, estimator):
    """(the features as fitted, all columns in use), which are printed."""
    keeps = arguments.missing is None and estimator.__sklearn_tags__().input_tags.allow_nan
    wanted = Wanted.typed(arguments, **({"missing": "keep"} if keeps else {}))
    columns = choose_columns(_table(arguments), wanted)
    check_several(columns.sensitive)
    print(f"{arguments.table}: {len(columns.features)} rows\n{columns}", flush=True)
    return standardized(columns.features) if arguments.standardize else columns.features, columns


def _table(arguments):
    return read_table(arguments.table, arguments.separator, arguments.encoding)


def summary(arguments):
    """Print diagnostics, the number of uncertain rows, and whether the chains agree."""
    print_summary(bf.posterior.read_tree(arguments.run_file))


def modes(arguments):
    """Print the modes that a run found, and the mass of each."""
    view = View(bf.posterior.read_tree(arguments.run_file))
    print(bf.posterior.modes(view).drop(columns=["se", "lp"]).round(3).to_string())
    print(f"\n{fill(modes_sentence(view), LINE)}")


def memberships(arguments):
    """Write the memberships of a run, a row for each row of its table, to a file or to standard output."""
    _check_table_out(arguments)
    tree = bf.posterior.read_tree(arguments.run_file)
    with one_step("memberships", shows_progress()):
        rows = bf.posterior.memberships(tree)
    if arguments.table is None:
        return _write(rows.reset_index(), arguments)
    table = _table(arguments)
    check_index(tree, table, arguments.index)
    place = places_in_run(tree, table, arguments, lambda: _loaded(arguments.run_file))
    return _write(beside(table, place, rows), arguments)


def assign(arguments):
    """Write a table of new rows with their clusters beside its columns: each row by itself, or all placed together."""
    _check_table_out(arguments)
    estimator = _loaded(arguments.run_file)
    table = _table(arguments)
    columns = columns_of_fit(table, arguments, estimator)
    rows = assigned(estimator, columns)
    if arguments.sensitive and arguments.out is not None:  # otherwise the table itself is printed
        groups = bf.fairness.encode_groups(columns.sensitive)
        print_clusters("Clusters of the new rows", rows["cluster"].to_numpy(), groups, None)
    taken = {*columns.features, *columns.sensitive}
    names = row_names(table, column_of_names(table, arguments.index, taken)[0])
    return _write(beside(table, places_by_name(names, rows.index), rows), arguments)


def convert(arguments):
    """Write the draws of a run as a table, or the run as a file of its own."""
    out = place_for(arguments.out, "OUT")
    check_output([out], arguments, "OUT")
    tree = bf.posterior.read_tree(arguments.run_file)
    if is_table(out):
        check_ending(out)
        return _write(draws_of(tree, arguments.what), arguments)
    if out.suffix.lower() not in (".nc", ".zarr"):
        rule, remedy = "end in .csv, .parquet, .feather, .nc or .zarr", "Choose one of them."
        raise ValueError(message("OUT", rule, repr(out.name), remedy))
    with replaced(out) if arguments.overwrite else nullcontext(), writing():
        bf.posterior.write_tree(tree, out)
    print(f"wrote {out}")


def _write(table, arguments):
    """Write a table to `--out`, or print it."""
    style = {"separator": arguments.separator, "decimal": arguments.decimal, "encoding": arguments.encoding}
    if arguments.out is None:
        print(to_csv(table, **style), end="")
        return
    with writing():
        write_table(table, arguments.out, **style)
    print(f"wrote {arguments.out}: {len(table)} rows")


def plot(arguments):
    """Draw the pictures of a run into a folder, which is made if needed."""
    places = [place_for(arguments.out / name) for name in PICTURES]
    check_output(places, arguments)
    tree = bf.posterior.read_tree(arguments.run_file)
    draw_pictures(tree, arguments.out)


def report(arguments):
    """Write the HTML page about a run into an existing folder."""
    check_output([check_destination(arguments.out)], arguments)
    tree = bf.posterior.read_tree(arguments.run_file)
    with writing():
        bf.report(tree, arguments.out, title=arguments.title, progress_bar=shows_progress())
    print(f"wrote {arguments.out}")


def check(arguments):
    """Audit given clusters, a column of a table: print sentences, and write a page if asked for."""
    from bayesfair.reports.templates import page_place  # loads pandas

    if arguments.out is not None:
        check_output([page_place(place_for(arguments.out))], arguments)
    if arguments.standardize and arguments.features is None:
        raise ValueError(message("--standardize", "come with --features", "no features", "Name them, or leave it out."))
    table = _table(arguments)
    columns = choose_columns(table, Wanted.typed(arguments, features=arguments.features or []))
    check_several(columns.sensitive)
    about = _provenance(arguments, columns)
    print("\n".join(f"{term}: {about[term]}" for term in ("File", "Rows", "Rows dropped")), flush=True)
    X = standardized(columns.features) if arguments.standardize else columns.features
    tree = None
    if arguments.run_file is not None:
        tree = bf.posterior.read_tree(arguments.run_file)
        place = places_in_run(tree, table, arguments, lambda: _loaded(arguments.run_file))
        tree = under_names_of(tree, place, row_names(table, columns.names))
        about |= {"Fair posterior": os.fspath(arguments.run_file), "SHA-256 of the run": sha256_of(arguments.run_file)}
    settings = {"crossed": arguments.crossed, "min_balance": arguments.min_balance, "tree": tree}
    found = bf.audit(columns.clusters, columns.sensitive, None if X.empty else X, **settings)
    print("", *(fill(f"{note.headline} {note.text}", LINE) for note in found.notes), sep="\n")
    if arguments.out is not None:
        with writing():
            found.write(arguments.out, provenance=about)
        print(f"\nwrote {arguments.out}")
