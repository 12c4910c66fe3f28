"""Arguments in, files and tables out."""

import argparse
import sys
from pathlib import Path

import bayesfair as bf

__all__ = ["main"]

UNCERTAIN = 0.1  # misclassification probability from which the summary counts an observation as uncertain


def main(argv=None) -> int:
    """Run one command; errors of use are one line on standard error and exit status 2."""
    arguments = _parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except (ValueError, TypeError, FileNotFoundError) as error:
        print(f"bayesfair {arguments.command}: {error}", file=sys.stderr)
        return 2
    return 0


def _parser():
    parser = argparse.ArgumentParser(prog="bayesfair", description="Bayesian fair clustering with uncertainty.")
    parser.add_argument("--version", action="version", version=f"bayesfair {bf.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="run the main job on the bundled data, leave pictures and a posterior")
    demo.add_argument("--out", type=Path, default=Path("demo-output"), metavar="DIR")
    _add_sampling(demo)
    demo.set_defaults(run=_demo)

    fit = commands.add_parser("fit", help="sample the posterior of a CSV table")
    fit.add_argument("table", type=Path, metavar="TABLE.csv")
    fit.add_argument(
        "--sensitive", required=True, metavar="COL[,COL]", help="protected attributes; several are crossed"
    )
    fit.add_argument("--features", metavar="COL[,COL]", help="default: every numeric column that is not sensitive")
    fit.add_argument("--n-clusters", type=int, required=True, metavar="K")
    fit.add_argument("--out", type=Path, required=True, metavar="RUN.nc")
    fit.add_argument("--separator", default=",", metavar="CHAR")
    fit.add_argument("--standardize", action="store_true", help="divide features by their standard deviation first")
    fit.add_argument("--loss", default="kmeans")
    fit.add_argument("--target", default="joint")
    _add_sampling(fit)
    fit.set_defaults(run=_fit)

    summary = commands.add_parser("summary", help="print the summary of a saved run")
    summary.add_argument("run_file", type=Path, metavar="RUN.nc")
    summary.set_defaults(run=lambda arguments: _print_summary(bf.posterior.read_tree(arguments.run_file)))

    plot = commands.add_parser("plot", help="draw the pictures of a saved run")
    plot.add_argument("run_file", type=Path, metavar="RUN.nc")
    plot.add_argument("--out", type=Path, required=True, metavar="DIR")
    plot.set_defaults(run=lambda arguments: _draw(bf.posterior.read_tree(arguments.run_file), arguments.out))

    report = commands.add_parser("report", help="write one self-contained HTML page about a saved run")
    report.add_argument("run_file", type=Path, metavar="RUN.nc")
    report.add_argument("--out", type=Path, required=True, metavar="REPORT.html")
    report.add_argument("--title", help="default: what was clustered into how many clusters")
    report.set_defaults(run=_report)
    return parser


def _add_sampling(parser):
    parser.add_argument("--num-chains", type=int, default=4)
    parser.add_argument("--num-warmup", type=int, default=1000)
    parser.add_argument("--num-draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)


def _estimator(arguments, n_clusters, **settings):
    return bf.GibbsFairClustering(
        n_clusters,
        num_chains=arguments.num_chains,
        num_warmup=arguments.num_warmup,
        num_draws=arguments.num_draws,
        random_state=arguments.seed,
        **settings,
    )


def _demo(arguments):
    from sklearn.cluster import KMeans

    data = bf.datasets.load_diabetes()
    print(data)
    X = _standardized(data.features)
    plain = KMeans(3, n_init=10, random_state=arguments.seed).fit_predict(X)
    estimator = _estimator(arguments, 3).fit(X, sensitive_features=data.sensitive)
    print("\nClusters of the point estimate")
    print(bf.fairness.report(estimator.labels_, data.sensitive, X).round(3).to_string())
    print(f"\nbalance without fairness (k-means)  {bf.fairness.balance(plain, data.sensitive):.3f}")
    print(f"balance of the point estimate       {bf.fairness.balance(estimator.labels_, data.sensitive):.3f}")
    _save(estimator, arguments.out / "run.nc")
    _print_summary(estimator.posterior_)
    _draw(estimator.posterior_, arguments.out)


def _fit(arguments):
    import pandas as pd

    table = pd.read_csv(arguments.table, sep=arguments.separator, skipinitialspace=True)
    sensitive = _columns(table, "--sensitive", arguments.sensitive)
    if arguments.features is None:
        features = table.drop(columns=sensitive.columns).select_dtypes("number")
    else:
        features = _columns(table, "--features", arguments.features)
    X = _standardized(features) if arguments.standardize else features
    estimator = _estimator(arguments, arguments.n_clusters, loss=arguments.loss, target=arguments.target)
    estimator.fit(X, sensitive_features=sensitive)
    print(bf.fairness.report(estimator.labels_, sensitive).round(3).to_string())
    _save(estimator, arguments.out)


def _columns(table, option, names):
    wanted = [name.strip() for name in names.split(",")]
    missing = [name for name in wanted if name not in table.columns]
    if missing:
        known = ", ".join(map(str, table.columns))
        raise ValueError(f"{option} names {', '.join(missing)}, but the columns of the table are: {known}.")
    return table[wanted]


def _standardized(features):
    constant = [str(name) for name in features.columns if features[name].nunique() <= 1]
    if constant:
        raise ValueError(f"The features {', '.join(constant)} are constant and cannot be standardized. Leave them out.")
    return (features - features.mean()) / features.std(ddof=0)


def _save(estimator, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    estimator.save(path)
    print(f"\nsaved the posterior to {path}")


def _print_summary(tree):
    uncertain = bf.posterior.misclassification_probability(tree) > UNCERTAIN
    print("\nDiagnostics")
    print(bf.posterior.summary(tree).round(3).to_string(na_rep=""))
    print(
        f"\n{uncertain.sum()} of {len(uncertain)} observations ({uncertain.mean():.0%}) would be elsewhere "
        f"with probability above {UNCERTAIN:.0%}"
    )


def _report(arguments):
    tree = bf.posterior.read_tree(arguments.run_file)
    print(f"wrote {bf.report(tree, arguments.out, title=arguments.title)}")


def _draw(tree, folder):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    n_obs = tree["posterior"].sizes["obs"]
    pictures = {
        "clustering": lambda: bf.plots.uncertainty(tree),
        "uncertainty_profile": lambda: bf.plots.uncertainty_profile(tree),
        "co_clustering": lambda: bf.plots.co_clustering(tree, sample=min(n_obs, 1000)),
        "trace": lambda: bf.plots.trace(tree),
    }
    for name, picture in pictures.items():
        picture()
        plt.gcf().savefig(folder / f"{name}.png", dpi=150, bbox_inches="tight")
        plt.close("all")
    print(f"drew {', '.join(f'{name}.png' for name in pictures)} in {folder}")
