"""The commands, each a few calls of the package: places first, then the work, then results saved before they are printed."""

import os
import warnings
from contextlib import nullcontext, redirect_stdout
from io import StringIO
from textwrap import fill

import bayesfair as bf
from bayesfair._check import message
from bayesfair.cli.columns import choose_columns, standardized
from bayesfair.cli.outcome import DONE, writing
from bayesfair.cli.output import (
    LINE,
    PICTURES,
    draw_pictures,
    place_for,
    print_clusters,
    print_next_steps,
    print_summary,
    print_verdict,
    save,
    shows_progress,
)
from bayesfair.cli.processes import in_processes
from bayesfair.cli.tables import DIGITS, check_ending, read_table, write_table

__all__ = ["demo", "fit", "memberships", "modes", "plot", "report", "resume", "summary"]


def demo(arguments):
    """Cluster the bundled patients fairly; figures in print, posterior and pictures in a folder."""
    from sklearn.cluster import KMeans

    places = [place_for(arguments.out / name) for name in ("run.nc", *PICTURES)]
    data = bf.datasets.load_diabetes()
    print(data, flush=True)
    X = standardized(data.features)
    plain = KMeans(3, n_init=10, random_state=arguments.seed).fit_predict(X)
    estimator = _estimator(arguments, 3, target="labels").fit(X, sensitive_features=data.sensitive)
    _, status = save(estimator, places[0])
    print_clusters(estimator, X)
    print(f"\nbalance without fairness (k-means)    {bf.fairness.balance(plain, data.sensitive):.3f}")
    print(f"balance of the point estimate         {bf.fairness.balance(estimator.labels_, data.sensitive):.3f}")
    _print_target("labels", estimator)
    _print_target("optimal", _over_fairlets(arguments, X, data.sensitive))
    print_summary(estimator.posterior_)
    print_verdict(estimator.posterior_)
    draw_pictures(estimator.posterior_, arguments.out)
    return status


def _over_fairlets(arguments, X, sensitive):
    """The same table given the optimal fairlets, without a search for modes; its line says whether the chains agree."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return _estimator(arguments, 3, target="optimal", num_starts=0).fit(X, sensitive_features=sensitive)


def _print_target(name, estimator):
    tree = estimator.posterior_
    least, r_hat = float(tree["sample_stats"]["balance"].min()), float(bf.posterior.summary(tree)["r_hat"].max())
    print(f"{f'least of all draws, target={name!r}':<38}{least:.3f}, largest R-hat {r_hat:.2f}")


def fit(arguments):
    """Sample the posterior of a table; what is a feature is said before, the run is saved and judged after."""
    with _silence(arguments.quiet):
        return in_processes(arguments, _fit)


def _fit(arguments, mesh):
    run_file = place_for(arguments.out)
    if run_file.exists() and arguments.table.exists() and run_file.samefile(arguments.table):
        rule, remedy = "be another file than the table", "Choose another name, such as run.nc."
        raise ValueError(message("--out", rule, repr(os.fspath(run_file)), remedy))
    merging = _merging(arguments)
    columns = _read_columns(arguments)
    print(f"{arguments.table}: {len(columns.features)} rows\n{columns}", flush=True)
    X = standardized(columns.features) if arguments.standardize else columns.features
    settings = {name: getattr(arguments, name) for name in ("loss", "target", "composition", "thinning")}
    settings |= merging | _labelling(arguments)
    estimator = _estimator(arguments, arguments.n_clusters, mesh=mesh, **settings)
    estimator.fit(X, sensitive_features=columns.sensitive, store=run_file if arguments.store else None)
    return _saved_and_judged(estimator, run_file)


def _saved_and_judged(estimator, run_file):
    if not bf.distributed.is_first():
        return DONE
    saved_to, status = save(estimator, run_file)
    print_clusters(estimator)
    print_verdict(estimator.posterior_)
    print_next_steps(saved_to)
    return status


def resume(arguments):
    """Make further draws of a run, or those that it was not given time for, and judge it anew."""
    with _silence(arguments.quiet):
        return in_processes(arguments, _resume)


def _resume(arguments, mesh):
    run_file = place_for(arguments.run_file)
    estimator = bf.GibbsFairClustering.load(run_file).set_params(progress_bar=_shows_progress(arguments), mesh=mesh)
    return _saved_and_judged(estimator.resume(arguments.num_draws), run_file)


def _read_columns(arguments):
    return choose_columns(
        read_table(arguments.table, arguments.separator, arguments.encoding),
        arguments.sensitive,
        arguments.features,
        index=arguments.index,
        na=arguments.na,
        missing_group=arguments.missing_group,
    )


def _merging(arguments):
    """Settings of the merging of small groups, where it is asked for."""
    size, name = arguments.merge_groups_below, arguments.merged_group_name
    if size is None and name is not None:
        remedy = "Say below which size groups are merged."
        raise ValueError(message("--merged-group-name", "come with --merge-groups-below", repr(name), remedy))
    settings = {"min_group_size": size, "merged_group_name": name}
    return {setting: value for setting, value in settings.items() if value is not None}


def _labelling(arguments):
    """Settings of target="labels" alone, where they are asked for."""
    asked = {"--min-balance": arguments.min_balance is not None, "--each-attribute": arguments.each_attribute}
    for option in (option for option in asked if asked[option] and arguments.target != "labels"):
        remedy = "Clusters of fairlets are as balanced as their --composition."
        raise ValueError(message(option, "come with --target labels", f"--target {arguments.target}", remedy))
    settings = {"min_balance": arguments.min_balance, "crossed": False if arguments.each_attribute else None}
    return {setting: value for setting, value in settings.items() if value is not None}


def _silence(quiet):
    """Nowhere for what is printed, where that is asked for; warnings and errors are told all the same."""
    return redirect_stdout(StringIO()) if quiet else nullcontext()


def _shows_progress(arguments):
    return shows_progress() and not getattr(arguments, "quiet", False)


def _estimator(arguments, n_clusters, **settings):
    return bf.GibbsFairClustering(
        n_clusters,
        num_chains=arguments.num_chains,
        num_warmup=arguments.num_warmup,
        num_draws=arguments.num_draws,
        random_state=arguments.seed,
        progress_bar=_shows_progress(arguments),
        **settings,
    )


def summary(arguments):
    """Print diagnostics, how many observations are uncertain, and whether the chains agree."""
    tree = bf.posterior.read_tree(arguments.run_file)
    print_summary(tree)
    print_verdict(tree)


def modes(arguments):
    """Print which modes a run found, and how much mass each has."""
    tree = bf.posterior.read_tree(arguments.run_file)
    print(bf.posterior.modes(tree).drop(columns=["se", "lp"]).round(3).to_string())
    print(f"\n{fill(bf.posterior.modes_sentence(tree), LINE)}")


def memberships(arguments):
    """Write the memberships of a run, a row for each of its table, to a file or to standard output."""
    if arguments.out is not None:
        check_ending(arguments.out)
        place_for(arguments.out)
    table = bf.posterior.memberships(bf.posterior.read_tree(arguments.run_file))
    if arguments.out is None:
        print(table.to_csv(float_format=DIGITS), end="")
        return
    with writing():
        write_table(table, arguments.out)
    print(f"wrote {arguments.out}: {len(table)} rows")


def plot(arguments):
    """Draw the pictures of a run into a folder, which is made."""
    tree = bf.posterior.read_tree(arguments.run_file)
    for name in PICTURES:
        place_for(arguments.out / name)
    draw_pictures(tree, arguments.out)


def report(arguments):
    """Write the HTML page about a run, into a folder that is there."""
    bf.posterior.check_destination(arguments.out)
    tree = bf.posterior.read_tree(arguments.run_file)
    with writing():
        bf.report(tree, arguments.out, title=arguments.title)
    print(f"wrote {arguments.out}")
