"""`BayesianFairMixture`: the NumPyro fair mixtures behind scikit-learn's interface, their posterior as an ArviZ tree."""

from collections.abc import Sequence
from functools import partial
from os import PathLike
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from bayesfair._check import check_integer, message, place, refuse_unread, tell, warn_of_no_numbers
from bayesfair._names import DataTree
from bayesfair._numbers import percent
from bayesfair._progress import in_one_place
from bayesfair._scaling import center_and_spread
from bayesfair._settings import Count, Length, NotNegative, Positive, Seed, check_settings
from bayesfair._tables import Encoder, categorical_positions, check_distinct, encoder_of, fit_encoder, read_columns
from bayesfair._whole_fits import whole_or_not
from bayesfair.estimators.base import PosteriorEstimator, check_memory
from bayesfair.fairness.groups import read_groups, refuse_groups_as_y
from bayesfair.fairness.metrics import gap
from bayesfair.models.exchange import check_ladder
from bayesfair.models.factor import SMOOTHING
from bayesfair.models.priors import Prior, check_prior
from bayesfair.models.run import RunSettings, make_run
from bayesfair.models.sampler import resolve_chain_method
from bayesfair.models.starts import STARTS
from bayesfair.posterior.files import read_run
from bayesfair.posterior.guarantees import everyone, masses_of
from bayesfair.posterior.schema import STATE, WANTED, arrays_of, groups_of, state_dataset
from bayesfair.posterior.settings import NOT_KEPT, as_attribute
from bayesfair.posterior.tree import build_tree, draws_of

LABEL_BYTES = 16  # per label: in the draws, with its row's log-likelihood, and in the tree
SPREADS = 1e-12, 1e12  # of columns: the model squares them in float32
NARROW = 3e-3  # standard deviation of a cluster over a column's: below it float32 cancels to an error of .01 in a row's density
OFTEN_EMPTY = 0.05  # share of the draws from which on an empty component is told
PRIOR = "parameters"  # the variable of the group log_prior


class BayesianFairMixture(PosteriorEstimator):
    """The posterior of a fair mixture: Gaussian, categorical or mixed, sampled by NumPyro.

    The posterior is log p(Theta | X) = log p(Theta) + l(Theta) - lambda N Delta_tau(Theta) + const, with labels summed
    out. Labels are then drawn given the parameters Theta.

    Parameters
    ----------
    n_components : int, at least 1, default 3
        Number of components.
    fairness_weight : float, at least 0, default 1.0
        lambda, per row. 0 is the ordinary mixture.
    covariance_type : {"isotropic", "diag", "full"}, default "isotropic"
        "isotropic" is one variance for all components and columns.
    categorical_features : array-like, optional
        Names, positions or a mask of the columns that are categories. By default the columns of a data frame that hold no
        numbers.
    inference : {"nuts", "gibbs", "svi"}, default "nuts"
        "nuts" samples the posterior above. "gibbs" samples the hard-label model `bayesfair.models.labelled_mixture`,
        another target if lambda is above 0. "svi" fits a normal guide from the best start: fast, one mode, too narrow, and
        stored as one chain, without warm-up.
    tempering : bool or array-like of float, default False
        Whether to sample by replica exchange on the default `ladder`, which visits all modes in one chain at several times
        the cost. Or inverse temperatures of your own.
    prior : Prior, optional
        With a weight below 1 components may stay empty, and the number of occupied clusters has a posterior, see
        `bayesfair.posterior.occupied_clusters`. By default `bayesfair.models.Prior()`.
    smoothing : float above zero, default 0.01
        tau of Delta_tau. "gibbs" and fairness_weight=0 do not use it.
    num_chains : int, at least 1, default 4
        Number of chains.
    num_warmup : int, at least 0, default 500
        Iterations of each chain that are thrown away.
    num_draws : int, at least 1, default 500
        Draws of each chain.
    starts : sequence of str, default ("fair", "k-means", "random", "unfair", "fairer")
        Where chains start, in turn. Fair and unfair solutions are mixed on purpose, so that a second mode shows as R-hat.
    chain_method : {"auto", "parallel", "vectorized", "sequential"}, default "auto"
        "parallel" uses threads on the cores, "vectorized" one vmap for accelerators. "auto" is parallel on CPUs.
    random_state : int or numpy.random.RandomState, optional
        An int makes runs repeatable on one machine and version.
    progress_bar : bool, default True
        Whether to show a progress bar.

    Attributes
    ----------
    posterior_ : xarray.DataTree
        The draws, by the conventions of ArviZ: `labels`, `weights`, `means`, `scales` and others, in the units of X.
    labels_ : numpy.ndarray of shape (n_obs,)
        The most frequent label of every row, with at least one row for every cluster that all draws use.
    misclassification_probability_ : numpy.ndarray of shape (n_obs,)
        Probability that a row is not in its cluster of `labels_`.
    weights_ : numpy.ndarray of shape (n_components,)
        Posterior means of the weights.
    means_ : numpy.ndarray of shape (n_components, n_features)
        Posterior means of the means.
    gap_ : float
        Delta of `predict_proba` on the rows of the fit.
    hard_gap_ : float
        Delta of `labels_`.
    n_iter_ : int
        Iterations of each chain.
    losses_ : numpy.ndarray
        Losses of "svi".

    Notes
    -----
    The group sample_stats has `lp` (on the unconstrained scale), `gap` (Delta of the soft assignments; of the labels for
    "gibbs"), `balance` (of the labels), `diverging`, and for a sparse mixture `occupied`, the number of clusters that the
    labels use. The group log_likelihood has `x`; it is left out above 50 million entries. The group log_prior has
    `parameters`, the log prior of every draw; a sparse mixture has none. Both groups are for `az.psense_summary`.

    See `bayesfair.models.fair_mixed_mixture` for priors and sites, and `bayesfair.models.smooth_gap` for Delta_tau.

    References
    ----------
    FMC, eq. (6), for Delta of soft assignments.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_well_specified()
    >>> est = bf.BayesianFairMixture(4, num_chains=2, num_warmup=200, num_draws=500, random_state=0, progress_bar=False)
    >>> est.fit(data.features, sensitive_features=data.sensitive).predict_proba(data.features).shape
    (100, 4)
    """

    _point = "mode"

    def __init__(
        self,
        n_components: Count = 3,
        *,
        fairness_weight: NotNegative = 1.0,
        covariance_type: Literal["isotropic", "diag", "full"] = "isotropic",
        categorical_features: ArrayLike | None = None,
        inference: Literal["nuts", "gibbs", "svi"] = "nuts",
        tempering=False,
        prior: Prior | None = None,
        smoothing: Positive = SMOOTHING,
        num_chains: Count = 4,
        num_warmup: Length = 500,
        num_draws: Count = 500,
        starts: Sequence[str] = STARTS,
        chain_method: Literal["auto", "parallel", "vectorized", "sequential"] = "auto",
        random_state: Seed | np.random.RandomState | None = None,
        progress_bar: bool = True,
    ):
        self.n_components = n_components
        self.fairness_weight = fairness_weight
        self.covariance_type = covariance_type
        self.categorical_features = categorical_features
        self.inference = inference
        self.tempering = tempering
        self.prior = prior
        self.smoothing = smoothing
        self.num_chains = num_chains
        self.num_warmup = num_warmup
        self.num_draws = num_draws
        self.starts = starts
        self.chain_method = chain_method
        self.random_state = random_state
        self.progress_bar = progress_bar

    @in_one_place
    @whole_or_not
    def fit(self, X: ArrayLike, y=None, *, sensitive_features: ArrayLike | None = None) -> Self:
        """Sample the posterior of a table.

        Without groups a warning is issued and the ordinary mixture is fitted. Ctrl-C during the draws keeps those already
        made.

        Parameters
        ----------
        X : array-like of shape (n_obs, n_features)
            Features.
        y : None
            Not used.
        sensitive_features : array-like of shape (n_obs,) or (n_obs, n_attributes), optional
            The groups of the rows, see `bayesfair.fairness.encode_groups`.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        TypeError
            If the table does not hold numbers or categories, or a setting has the wrong type.
        ValueError
            If the table, the groups or a setting are not valid, or there is not enough memory for the draws. The message names
            the argument, the rule and the remedy.
        """
        refuse_groups_as_y(y, sensitive_features)
        self._start_clock()
        check_settings(self)
        self._check_settings()
        columns = read_columns(self, X, self.categorical_features, reset=True)
        groups = read_groups(self, sensitive_features, len(columns.continuous), X=X)
        warn_of_no_numbers(self, columns.continuous.shape[1])
        encoder = fit_encoder(columns, one_scale=False)
        _check_spreads(encoder.scale, columns.names)
        x, codes = columns.continuous, encoder.codes(columns.categorical)
        remedy = f"There are {len(x)} rows: ask for fewer."
        check_integer("n_components", self.n_components, maximum=len(x), remedy=remedy)
        check_distinct(np.hstack([x, codes]), self.n_components)
        shape = self.num_chains, self.num_draws, len(x)
        check_memory(shape, self.n_components, x.shape[1] + codes.shape[1], label_bytes=LABEL_BYTES)
        self._draw_seed()
        levels = [] if encoder.levels is None else [part.tolist() for part in encoder.levels.categories_]
        kinds = self._kinds(X)
        names, codes_of = kinds["continuous"] + kinds["categorical"], dict(zip(kinds["categorical"], levels))
        self._describe(X, sensitive_features, names, codes_of, **kinds, levels=levels)
        run = self._make_run(x, codes, groups, encoder)
        if self.inference == "svi":
            self._wanted = num_draws = self.num_chains * self.num_draws
            return self._finish(run.draw_from_guide(self.starts, num_draws, self.progress_bar))
        kinds = [self.starts[chain % len(self.starts)] for chain in range(self.num_chains)]
        return self._draw(run.start(kinds).warm_up(*self._going), self.num_draws)

    def _check_settings(self):
        """Raise an error if settings do not go together, or for a rule that no annotation can state."""
        if not isinstance(self.starts, (list, tuple)) or not self.starts or not set(self.starts) <= set(STARTS):
            rule = f"be a list of some of {STARTS}"
            raise ValueError(message("starts", rule, repr(self.starts), "Leave it out to use all of them."))
        if not isinstance(self.tempering, (bool, np.bool_)):
            check_ladder("tempering", self.tempering)
        self._check_prior()
        if self.inference == "svi":
            refuse_unread(self, "num_warmup", "chain_method", where="if inference is 'svi'")
        if self.inference == "gibbs":
            refuse_unread(self, "smoothing", where="if inference is 'gibbs'")
        if self.fairness_weight == 0:
            refuse_unread(self, "smoothing", where="if fairness_weight is 0")
        if self.inference != "nuts":
            refuse_unread(self, "tempering", where="unless inference='nuts'")

    def _check_prior(self):
        check_prior(self.prior)
        if self.prior is None:
            return
        if self.prior.is_sparse and self.inference == "svi":
            rule, remedy = "have a weight of at least 1 if inference is 'svi'", "Use inference='nuts'."
            why = f"A normal guide has no empty components. {remedy}"
            raise ValueError(message("prior", rule, self.prior.weight, why))
        if as_attribute(self.prior) == NOT_KEPT:
            rule = "have numbers and plain distributions alone, as a saved run could hold no others"
            remedy = "Sample bayesfair.models.fair_mixed_mixture with a prior of your own."
            raise ValueError(message("prior", rule, self.prior, remedy))

    def _kinds(self, X):
        """Names, or positions, of the columns of either kind."""
        where = categorical_positions(X, self.categorical_features).tolist()
        names = np.array([str(name) for name in getattr(X, "columns", range(self.n_features_in_))], dtype=object)
        return {"continuous": np.delete(names, where).tolist(), "categorical": names[where].tolist()}

    def _make_run(self, *table):
        return make_run(*table, self._seed, RunSettings(*(getattr(self, name) for name in RunSettings._fields)))

    @property
    def _going(self):
        return resolve_chain_method(self.chain_method), self.progress_bar

    def _draw(self, run, num_draws):
        earlier = (0, 0) if run.draws is None else (run.draws["lp"].shape[1], self._wanted)
        self._wanted = max(earlier[0] + num_draws, earlier[1])
        self._finish(run.draw(num_draws, *self._going))
        remedy = "tempering=True visits all modes in one chain."
        self._warn_of_disagreement(lambda: remedy if run.sampler.kind == "nuts" else "")
        return self

    def _finish(self, run):
        tree = build_tree(
            run.labelled,
            np.hstack([run.x, run.codes]),
            run.groups if len(run.groups.names) > 1 else None,
            facts=self._facts(**{WANTED: self._wanted}),
            columns=self._columns,
            encoding=as_attribute(self._names),
            obs_names=self._row_names,
            n_clusters=self.n_components,
            parameters=run.parameters,
            log_likelihood=run.draws.get("log_likelihood"),
            point=None,
        )
        if "continuous" in tree["posterior"].sizes:
            tree["posterior"] = tree["posterior"].to_dataset().assign_coords(continuous=self._names["continuous"])
        if "log_prior" in run.draws:
            lp = tree["sample_stats"].to_dataset()[["lp"]]
            tree["log_prior"] = lp.copy(data={"lp": run.draws["log_prior"]}).rename(lp=PRIOR)
        tree["sample_stats"].attrs.update(self._cost())
        if run.states is not None:
            tree[STATE] = state_dataset(run.state())
        self._adopt(tree, run)
        self._warn_of_empty()
        self._warn_of_narrow(run)
        return self

    def _warn_of_empty(self):
        """Warn of components that are no row's most frequent one and empty in more than a few draws."""
        labels = getattr(self, "labels_", np.arange(self.n_components))  # may be missing
        empty = np.setdiff1d(np.arange(self.n_components), labels).tolist()
        share = (masses_of(self.posterior_).sum(2) == 0).mean(0)
        empty = [component for component in empty if share[component] >= OFTEN_EMPTY]
        if empty and not self._run.mixture.prior.is_sparse:
            often = f"empty in {percent(share[empty].max())} of the draws"
            what = f"components {empty} are no row's most frequent one, and {often}"
            tell(f"{type(self).__name__}: {what}. Remedy: ask for fewer components.", ConvergenceWarning)

    def _warn_of_narrow(self, run):
        """Warn of columns in which clusters are so narrow that densities in float32 have few digits."""
        if "scales" not in run.draws:
            return
        spread, scales = np.asarray(run.observed.units.spread, float), run.draws["scales"]
        if self.covariance_type == "isotropic":
            scales, spread = scales[..., None, None], spread.max(keepdims=True)
        if "correlation_cholesky" in run.draws:  # several columns may determine one
            factors = run.draws["correlation_cholesky"]
            scales = np.stack([own * _given_the_others(one) for own, one in zip(scales, factors)])
        narrow = (scales / spread).min(axis=(0, 1, 2)) < NARROW
        if narrow.any():
            names = self._names["continuous"]
            narrow_ones = [repr(name) for name, is_narrow in zip(names, narrow) if is_narrow]
            where = f" in {', '.join(narrow_ones)}" if len(narrow) == len(names) else ""
            given = " (given the other columns)" if self.covariance_type == "full" else ""
            what = f"a standard deviation{where}{given} is below {NARROW:.1%} of the table's in some draws"
            why = "lp and log_likelihood have few right digits there"
            remedy = "leave out a column of which one value fills a cluster, or name it in categorical_features; "
            remedy += "leave out a column that others determine; " if given else ""
            remedy += "fit clusters that lie so far apart one by one."
            tell(f"{type(self).__name__}: {what}: {why}. Remedy: {remedy}", ConvergenceWarning)

    def _adopt(self, tree, run):
        """Let the run use the tree's draws, with their renumbered clusters."""
        super()._adopt(tree, run)
        several = len(run.groups.names) > 1
        self._run = _with_draws_of(tree, run)
        self._derive(
            gap_=lambda: gap(self._run.psi(run.x, run.codes), run.groups) if several else 0.0,
            hard_gap_=lambda: gap(self.labels_, run.groups) if several else 0.0,
        )
        return self

    def _take(self, tree, run):
        super()._take(tree, run)
        self.n_iter_ = self.num_warmup + tree["posterior"].sizes["draw"]
        if run.losses is not None:
            self.losses_ = run.losses

    def _derived(self):
        posterior = self.posterior_["posterior"]
        mean = lambda name: posterior[name].mean(("chain", "draw"), dtype=float).values  # noqa: E731
        names = [name for name in ("weights", "means") if name in posterior]
        return super()._derived() | {f"{name}_": partial(mean, name) for name in names}

    def prior_predictive(self, num_draws: int = 50) -> "DataTree":
        """Simulate tables from the prior, for `bayesfair.plots.predictive`.

        The scale is that of the fitted table. The fairness factor is no prior and has no part in it.

        Parameters
        ----------
        num_draws : int, at least 1, default 50
            Number of tables.

        Returns
        -------
        xarray.DataTree
            Its group prior_predictive has `X` (chain, draw, obs, feature).
        """
        check_is_fitted(self, "posterior_")
        return self._predictive("prior_predictive", self._run.prior_sites(check_integer("num_draws", num_draws)))

    def posterior_predictive(self, num_draws: int | None = None) -> "DataTree":
        """Simulate tables from evenly spaced draws of the posterior, for `bayesfair.plots.predictive` or ArviZ.

        Parameters
        ----------
        num_draws : int, at least 1, optional
            Number of tables. By default 50, or as many as there are draws.

        Returns
        -------
        xarray.DataTree
            Its group posterior_predictive has `X` (chain, draw, obs, feature).
        """
        check_is_fitted(self, "posterior_")
        sites = self._run.sites
        total = len(sites["weights"])
        num_draws = min(50, total) if num_draws is None else num_draws
        num_draws = check_integer("num_draws", num_draws, maximum=total, remedy=f"There are {total} draws.")
        chosen = np.linspace(0, total - 1, num_draws).astype(int)
        return self._predictive("posterior_predictive", {name: value[chosen] for name, value in sites.items()})

    def _predictive(self, group, sites):
        import xarray as xr

        observed = self.posterior_["observed_data"].to_dataset()
        values = (("chain", "draw", "obs", "feature"), self._run.simulate(sites)[None])
        table = xr.Dataset({"X": values}, coords=observed.coords)
        tree = xr.DataTree.from_dict({group: table, "observed_data": observed})
        return tree

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """The probability of each cluster, averaged over the draws.

        Parameters
        ----------
        X : array-like of shape (n_obs, n_features)
            Features, with the columns of the fit. New rows are welcome.

        Returns
        -------
        numpy.ndarray of shape (n_obs, n_components)
            Rows sum to 1.
        """
        check_is_fitted(self, "posterior_")
        columns = read_columns(self, X, self.categorical_features, reset=False)
        return self._run.psi(columns.continuous, self._run.encoder.codes(columns.categorical))

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The likeliest cluster of every row on its own: `predict_proba(X).argmax(1)`.

        Nothing guarantees balance. The rows of the fit do not always get their `labels_`, their most frequent drawn
        labels: every cluster that all draws use has at least one row in those.

        Parameters
        ----------
        X : array-like of shape (n_obs, n_features)
            Features, with the columns of the fit.

        Returns
        -------
        numpy.ndarray of shape (n_obs,)
            Integer labels.
        """
        return self.predict_proba(X).argmax(1)

    def _resume(self, num_draws):
        if self.inference == "svi":
            remedy = "A guide cannot be resumed: fit again."
            raise ValueError(message("inference", "be 'nuts' or 'gibbs'", "'svi'", remedy))
        self._start_clock(self.posterior_)
        missing = self._wanted - self.posterior_["posterior"].sizes["draw"]
        default = missing if missing > 0 else self.num_draws
        return self._draw(self._run, check_integer("num_draws", default if num_draws is None else num_draws))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read the estimator that `save` wrote.

        Parameters
        ----------
        path : str or os.PathLike
            The file.

        Returns
        -------
        BayesianFairMixture
            It predicts and resumes.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If the file is damaged or holds something else.
        """
        return cls._of_file(read_run(path, cls))

    def _run_of(self, tree):
        names, X = self._names, tree["observed_data"]["X"].values
        self._wanted = int(tree.attrs[WANTED])
        dim = len(names["continuous"])
        x, codes = X[:, :dim], X[:, dim:].astype(np.int32)
        middle, spread, _ = center_and_spread(x) if dim else (np.zeros(0),) * 3
        encoder = Encoder(middle, np.where(spread > 0, spread, 1.0), encoder_of(names["levels"]))
        run = self._make_run(x, codes, groups_of(tree) or everyone(tree), encoder)
        return run.with_state(arrays_of(tree[STATE]), self.num_chains) if STATE in tree.children else run


def _given_the_others(factors):
    """Standard deviations (..., d) of columns given all others, relative to their own; factors (..., d, d) of correlations."""
    regular = factors.astype(float) + 1e-30 * np.eye(factors.shape[-1])
    return 1 / np.sqrt(np.square(np.linalg.inv(regular)).sum(-2))


def _with_draws_of(tree, run):
    """The run with the tree's draws, and with its own table in place of the user's, which may change."""
    variables = tree["posterior"].data_vars.items()
    parameters = {name: v.values for name, v in variables if name not in ("centers", "labels")}
    logs = {"log_likelihood": "x", "log_prior": PRIOR}
    logs = {group: tree[group][name].values for group, name in logs.items() if group in tree.children}
    run = run._replace(x=tree["observed_data"]["X"].values[:, : run.x.shape[1]])
    return run.with_draws(draws_of(tree), parameters, **logs)


def _check_spreads(spread, names):
    """Raise a ValueError, with the column's name, if a column's standard deviation is not within SPREADS."""
    outside = (spread < SPREADS[0]) | (spread > SPREADS[1])
    if outside.any():
        column = int(outside.argmax())
        got = f"a standard deviation of {spread[column]:.3g} in column {place(names, column)}"
        remedy = "Divide that column by it, such as by sklearn.preprocessing.StandardScaler."
        raise ValueError(message("X", f"spread by {SPREADS[0]:g} to {SPREADS[1]:g} in every column", got, remedy))
