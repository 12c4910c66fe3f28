"""`--method`: every estimator from the shell, what it leaves, and whose option is whose."""

import re
import warnings

import numpy as np
import pytest

import bayesfair as bf
from bayesfair._check import Interrupted, tell
from bayesfair._numbers import rounded_down
from bayesfair._settings import declared
from bayesfair.cli import main
from bayesfair.cli.arguments import OPTIONS, SETTINGS, estimator_class, parse, settings_of_method, takers_of


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    data = bf.datasets.make_well_specified()
    path = tmp_path_factory.mktemp("table") / "people.csv"
    names = [f"no. {row}" for row in range(len(data.features))]
    kind = np.where(data.features["x1"] > 0, "a", "b")
    data.features.assign(group=data.sensitive, kind=kind, who=names).to_csv(path, index=False)
    return path


def fit(table, out, *more):
    common = ["--sensitive", "group", "--index", "who", "--n-clusters", "2", "--out", str(out)]
    return main(["fit", str(table), *common, *more])


def arguments_of(*more):
    common = ["fit", "t.csv", "--sensitive", "s", "--n-clusters", "2", "--out", "o"]
    return parse([*common, *more])


def test_balanced_k_means_leaves_a_table_of_clusters(table, tmp_path, capsys):
    out = tmp_path / "clusters.csv"
    assert fit(table, out, "--method", "balanced-kmeans") == 0
    rows, people = bf.datasets.read_table(out), bf.datasets.read_table(table)
    assert list(rows) == ["obs", "cluster", "group"]
    assert rows["obs"].tolist() == people["who"].tolist()
    assert rows["group"].tolist() == people["group"].tolist()
    assert sorted(rows["cluster"].unique()) == [0, 1]
    printed = capsys.readouterr().out
    balance = bf.fairness.balance(rows["cluster"], people["group"])
    assert f"The least balance of a cluster is {rounded_down(balance)}" in printed
    assert "BalancedKMeans: converged" in printed


def test_weights_are_those_of_the_fit_and_no_feature(table, tmp_path, capsys):
    people = bf.datasets.read_table(table).assign(count=lambda rows: 1 + np.arange(len(rows)) % 3)
    people.to_csv(tmp_path / "weighted.csv", index=False)
    out = tmp_path / "clusters.csv"
    assert fit(tmp_path / "weighted.csv", out, "--method", "balanced-kmeans", "--weights", "count") == 0
    printed = capsys.readouterr().out
    assert f"weights    count (sum {people['count'].sum()})" in printed
    engine = bf.BalancedKMeans(2, random_state=0)
    engine.fit(people[["x1", "x2"]], sensitive_features=people["group"], sample_weight=people["count"])
    assert bf.datasets.read_table(out)["cluster"].tolist() == engine.labels_.tolist()
    weighed = bf.fairness.balance(engine.labels_, people["group"], sample_weight=people["count"])
    assert f"By weight, the least balance is {rounded_down(weighed)}." in printed


@pytest.mark.slow
def test_the_mixture_leaves_a_run_that_goes_on(table, tmp_path, capsys):
    run = tmp_path / "run.nc"
    small = ["--num-chains", "1", "--num-warmup", "5", "--num-draws", "6", "--categorical", "kind"]
    assert fit(table, run, "--method", "mixture", "--fairness-weight", "0", *small) == 0
    assert "kind (2 categories)" in capsys.readouterr().out
    est = bf.BayesianFairMixture.load(run)
    assert (est.fairness_weight, est.categorical_features, est.n_components) == (0, ["kind"], 2)
    assert main(["resume", str(run), "--num-draws", "2"]) == 0
    assert bf.posterior.read_tree(run)["posterior"].sizes["draw"] == 8
    assert main(["memberships", str(run), "--out", str(tmp_path / "people.csv")]) == 0
    assert bf.datasets.read_table(tmp_path / "people.csv")["obs"].iloc[0] == "no. 0"


@pytest.mark.slow
def test_a_run_without_groups_goes_on_too(table, tmp_path, capsys):
    """By the programs of the test above, whose price is 0."""
    X = bf.datasets.read_table(table)[["x1", "x2", "kind"]]
    settings = {"num_chains": 1, "num_warmup": 5, "num_draws": 6, "starts": ["k-means"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        est = bf.BayesianFairMixture(2, categorical_features=["kind"], random_state=0, progress_bar=False, **settings)
        est.fit(X).save(tmp_path / "run.nc")
    assert main(["resume", str(tmp_path / "run.nc"), "--num-draws", "2"]) == 0
    assert "Clusters of the point estimate\n cluster  size\n" in capsys.readouterr().out


def test_an_engine_that_balances_each_attribute_prints_the_balance_of_each_one(table, tmp_path, capsys):
    out = tmp_path / "clusters.csv"
    asked = ["--sensitive", "group,kind", "--method", "balanced-kmeans", "--each-attribute", "--starts", "1"]
    assert main(["fit", str(table), *asked, "--index", "who", "--n-clusters", "2", "--out", str(out)]) == 0
    cluster, people = bf.datasets.read_table(out)["cluster"], bf.datasets.read_table(table)
    balances = [bf.fairness.balance(cluster, people[name]) for name in ("group", "kind")]
    crossed = bf.fairness.balance(cluster, people[["group", "kind"]])
    assert f"{crossed:.3f}" not in {f"{own:.3f}" for own in balances}
    told = capsys.readouterr().out
    assert f"The least balance of a cluster is {rounded_down(min(balances))}" in told
    assert "balance looks at each attribute on its own, not at the combinations" in told


def test_every_option_of_the_estimators_is_known_by_its_parameter():
    typed = vars(arguments_of())
    assert set(OPTIONS) - set(typed) == {
        "X",
        "sensitive_features",
        "sample_weight",
        "n_components",
        "random_state",
        "store",
        "favourable",
        "labels",
        "tree",
    }
    assert all(takers_of(name) for name in set(OPTIONS) & set(typed))


def test_settings_go_to_the_estimator_under_its_own_names():
    typed = ["--covariance", "diag", "--fairness-weight", "0.1", "--tempering", "--seed", "4"]
    settings = settings_of_method(arguments_of("--method", "mixture", *typed))
    expected = {
        "covariance_type": "diag",
        "fairness_weight": 0.1,
        "tempering": True,
        "random_state": 4,
        "n_components": 2,
    }
    assert settings == expected
    assert estimator_class("mixture")(**settings).fairness_weight == 0.1
    typed = "--min-balance 0.8 --each-attribute --thinning 2 --size-max 70 --inverse-temperature 0.5"
    settings = settings_of_method(arguments_of(*typed.split()))
    expected = {"thinning": 2, "inverse_temperature": 0.5, "n_clusters": 2, "random_state": 0}
    assert settings.pop("target").get_params() == bf.gibbs.Labels(0.8, crossed=False, size_max=70).get_params()
    assert settings == expected
    assert settings_of_method(arguments_of("--inverse-temperature", "0.2, 3"))["inverse_temperature"] == (0.2, 3.0)


def test_settings_of_targets_losses_and_modes_go_to_the_objects_that_have_them():
    for target in ("joint", "cut", "optimal"):
        made = settings_of_method(arguments_of("--target", target, "--composition", "1,2"))["target"]
        assert (type(made).__name__.lower(), made.composition) == (target, (1, 2))
    made = settings_of_method(arguments_of("--power", "3", "--num-starts", "7", "--n-jobs", "-1"))
    assert (made["loss"], made["modes"].num_starts, made["n_jobs"]) == (bf.gibbs.Minkowski(3.0), 7, -1)
    assert "target" not in made
    typed = arguments_of("--method", "balanced-kmeans", "--size-min", "3")
    assert settings_of_method(typed)["size_min"] == 3


def test_the_help_says_whose_a_setting_is_what_may_be_typed_and_what_is_usual(capsys):
    assert main(["fit", "--help"]) == 0
    shown = re.sub(r"(?<=\w-) ", "", " ".join(capsys.readouterr().out.split()))
    told = [
        "all but labels use fairlets: labels, joint, cut, optimal (for gibbs; default: labels)",
        "kmeans, manhattan, kl, itakura-saito, binary (for gibbs, balanced-kmeans; default: kmeans)",
        "smallest number of rows in a cluster: an integer, at least 1 (for gibbs with --target labels, balanced-kmeans)",
        "F=9,M=8, or a number of fairlets (for gibbs with --target joint, cut or optimal; default: auto)",
        "use the Minkowski norm of this power as the loss: a finite number, at least 1 (for gibbs) --",
        "an integer, at least 0 (for gibbs, mixture; default: gibbs 1000, mixture 500)",
        "number of restarts: an integer, at least 1 (for balanced-kmeans; default: 8)",
    ]
    assert [text for text in told if text not in shown] == []


@pytest.mark.parametrize(("name", "option"), [pair for options in SETTINGS.values() for pair in options.items()])
def test_what_an_estimator_takes_can_be_typed_and_nothing_else(name, option, capsys):
    if option.metavar is None:
        assert getattr(arguments_of(option.name), name) is option.const
        return
    every = [declared(taker.parameter.annotation) for taker in takers_of(name).values()]
    choices = {choice for one in every for choice in one.choices if isinstance(choice, str)}
    assert all(getattr(arguments_of(option.name, choice), name) == choice for choice in choices)
    for number in {number for one in every for number in one.numbers}:
        assert getattr(arguments_of(option.name, "7"), name) == 7
        assert main(["fit", option.name, "-7"]) == 2
        assert str(number) in capsys.readouterr().err
    assert main(["fit", option.name, ""]) == 2
    assert f"`{option.name}` must" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--starts", "1"], "`--starts` must come with --method balanced-kmeans, got --method gibbs"),
        (["--method", "balanced-kmeans", "--num-draws", "9"], "come with --method gibbs or --method mixture"),
        (["--keep-fairlets", "5"], "`--keep-fairlets` must come with --target joint or cut, got --target labels"),
        (
            ["--composition", "1,2"],
            "`--composition` must come with --target joint, cut or optimal, got --target labels",
        ),
        (["--target", "cut", "--size-min", "9"], "`--size-min` must come with --target labels, got --target cut"),
        (["--loss", "kl", "--power", "2"], "`--power` must come without --loss, got --loss kl"),
        (["--method", "balanced-kmeans", "--num-starts", "2"], "`--num-starts` must come with --method gibbs"),
        (["--inverse-temperature", "-2"], "a number above zero, or two of them with a comma between, got '-2'"),
        (["--target", "joint", "--inverse-temperature", "0.5"], "must be a pair for targets over fairlets"),
        (
            ["--weights", "x1", "--method", "mixture"],
            "--weights does not go with --method mixture, ",
        ),
        (["--weights", "kind"], "`--weights` must name columns of numbers"),
        (["--weights", "x1", "--features", "x1,x2"], "must name columns of its own"),
    ],
)
def test_options_of_other_methods_are_refused(table, tmp_path, capsys, options, told):
    assert fit(table, tmp_path / "run.nc", *options) == 2
    assert told in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("out", "method", "told"),
    [
        ("people.csv", "gibbs", "then bayesfair memberships run.nc --out people.csv writes the table"),
        ("run.nc", "balanced-kmeans", "`--out` must end in .csv or .parquet"),
        ("run.zarr", "mixture", "`--out` must end in .nc with --method mixture"),
    ],
)
def test_the_ending_says_what_the_method_leaves(table, tmp_path, capsys, out, method, told):
    assert fit(table, tmp_path / out, "--method", method) == 2
    assert told in capsys.readouterr().err


def test_what_did_not_converge_is_told_in_the_words_of_the_shell(table, tmp_path, capsys):
    assert fit(table, tmp_path / "c.csv", "--method", "balanced-kmeans", "--max-iter", "1") == 0
    printed, error = capsys.readouterr()
    assert "not converged" in printed
    assert "--max-iter" in error


def test_rows_with_holes_are_dropped_or_refused_as_told(tmp_path, capsys):
    path, out = tmp_path / "holes.csv", tmp_path / "c.csv"
    rows = [f"{row % 9},5;{row % 7},25;{'ab'[row % 2]};{'uv'[row % 3 == 0]}" for row in range(40)]
    rows[0], rows[5], rows[6] = ";1,0;a;u", "1,5;2,0;;v", "1,0;?;b;u"
    path.write_text("x;y;s;town\n" + "\n".join(rows) + "\n")
    command = ["fit", str(path), "--separator", ";", "--decimal", ",", "--na", "?", "--sensitive", "s"]
    command += ["--n-clusters", "2", "--method", "balanced-kmeans", "--out", str(out), "--overwrite"]
    assert main(command) == 2
    assert (
        "`--features` and `--sensitive` must have a value in all 40 rows, got 1 missing in 'x', 1 missing in 'y', 1 "
        in capsys.readouterr().err
    )
    assert main([*command, "--missing", "drop"]) == 0
    assert "dropped    rows: 3 in all: 1 without x, 1 without y, 1 without s\n" in capsys.readouterr().out
    assert bf.datasets.read_table(out, sep=";")["obs"].tolist() == [*range(1, 5), *range(7, 40)]
    assert main([*command, "--missing", "drop", "--missing-group", "none", "--merge-groups-below", "2"]) == 0
    assert "dropped    rows: 2 in all: 1 without x, 1 without y\n" in capsys.readouterr().out


def test_an_engine_that_is_interrupted_leaves_its_solution_and_says_so_by_its_status(table, tmp_path, monkeypatch):
    whole = bf.BalancedKMeans.solve

    def interrupted(self, Z, data):
        tell("Interrupted after 1 iterations: the solution so far is kept.", Interrupted)
        return whole(self, Z, data)

    monkeypatch.setattr(bf.BalancedKMeans, "solve", interrupted)
    assert fit(table, tmp_path / "c.csv", "--method", "balanced-kmeans") == 130
    assert len(bf.datasets.read_table(tmp_path / "c.csv")) == 100


@pytest.mark.parametrize(
    "words", [["--na", "-9,-8"], ["--na=-9,-8"], ["--quiet", "--na", "-9,-8", "--missing", "drop"]]
)
def test_lists_that_begin_with_a_sign_are_values(words):
    assert arguments_of(*words).na == ["-9", "-8"]


def test_hints_of_marks_with_a_sign_can_be_typed():
    assert arguments_of("--na=-.").na == ["-."]
    assert arguments_of("--na", "-.").na == ["-."]
