"""`BayesianFairMixture`: the NumPyro fair mixtures behind scikit-learn's interface, their posterior as an ArviZ tree."""

import warnings
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bayesfair._check import check_integer, check_number, check_same_index, message, place
from bayesfair._units import center_and_spread
from bayesfair.engines.base import check_distinct
from bayesfair.engines.tables import Encoder, categorical_positions, encoder_of, fit_encoder, read_columns
from bayesfair.fairness import Groups, gap, groups_for_fit
from bayesfair.gibbs import ladder
from bayesfair.models import inference, sampling, starts
from bayesfair.models.mixtures import SMOOTHING, Prior
from bayesfair.models.starts import STARTS
from bayesfair.posterior.co_clustering_probability import misclassification_probability
from bayesfair.posterior.files import write_tree
from bayesfair.posterior.mixture_tree import leaves_of, parameters_of, sites_of, state_dataset
from bayesfair.posterior.saved import read_run
from bayesfair.posterior.tree import build_tree
from bayesfair.posterior.verdict import warn_of_disagreement

__all__ = ["BayesianFairMixture"]

STATE = "sampler_state"
SPREADS = 1e-12, 1e12  # of columns: the model computes with their squares in float32
POINTWISE = 50_000_000  # log-likelihoods kept at most: 200 MB


class BayesianFairMixture(ClusterMixin, BaseEstimator):
    """The posterior of a fair mixture: parameters by NumPyro, labels drawn from them, Gaussian, categorical or mixed.

    log p(Theta | X) = log p(Theta) + l(Theta) - lambda N Delta_tau(Theta) + const, labels summed out; see
    `bayesfair.models.fair_mixed_mixture` for the priors and sites, `bayesfair.models.smooth_gap` for Delta_tau.

    Parameters
    ----------
    n_components: K. fairness_weight: lambda, per observation; 0 is the ordinary mixture.
    covariance_type: "isotropic" (one variance for all), "diag", "full".
    categorical_features: names, positions or a mask of columns; None takes the data frame's columns without numbers.
    inference: "nuts"; "gibbs", the hard-label model `bayesfair.models.labelled_mixture`, another target where lambda > 0;
        "svi", a normal guide fitted from the best start: fast, one mode, too narrow; stored as one chain.
    tempering: True samples by replica exchange (`bayesfair.models.ReplicaExchange`) on the default `ladder`, which visits
        all modes in one chain at several times the cost; or inverse temperatures of your own; False does not.
    prior: a `bayesfair.models.Prior`. smoothing: tau of Delta_tau.
    num_chains, num_warmup, num_draws: how much to draw. starts: where chains start, in turn, see
        `bayesfair.models.start_partitions`; fair and unfair solutions on purpose, so that a second mode shows as R-hat.
    chain_method: "parallel" (threads on the cores), "vectorized" (one vmap,
        for accelerators), "sequential", or "auto": parallel on CPUs.
    random_state: an int makes runs repeatable on one machine and version. progress_bar: show one.

    Attributes
    ----------
    posterior_: xarray.DataTree by ArviZ's conventions: `labels` drawn from psi, `weights`, `means`, `scales`, ... relabelled
    with them, in the units of X; sample_stats `lp` (on the unconstrained scale), `gap` (Delta of psi, FMC eq. 6; of the
    labels for "gibbs"), `balance` (of the labels), `diverging`; log_likelihood `x`, left out above 50 million entries.
    labels_ (N,): each row's most frequent label, and a row at least for every cluster that all draws use.
    misclassification_probability_ (N,), that a row is elsewhere than its cluster of `labels_`. weights_, means_: posterior
    means.
    gap_, hard_gap_: Delta of `predict_proba` and of `labels_` on the rows of the fit. n_iter_: iterations per chain.
    losses_: of "svi".

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_well_specified()
    >>> est = bf.BayesianFairMixture(2, num_chains=2, num_warmup=50, num_draws=50, random_state=0, progress_bar=False)
    >>> est.fit(data.features, sensitive_features=data.sensitive).predict_proba(data.features).shape
    (100, 2)
    """

    __metadata_request__fit = {"sensitive_features": True}  # noqa: RUF012

    def __init__(
        self,
        n_components=3,
        *,
        fairness_weight=1.0,
        covariance_type="isotropic",
        categorical_features=None,
        inference="nuts",
        tempering=False,
        prior=None,
        smoothing=SMOOTHING,
        num_chains=4,
        num_warmup=500,
        num_draws=500,
        starts=STARTS,
        chain_method="auto",
        random_state=None,
        progress_bar=True,
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

    def fit(self, X, y=None, *, sensitive_features=None):
        """Sample the posterior of a table X (N, d) whose groups are `sensitive_features` (N,) or (N, q).

        Without groups it warns and fits the ordinary mixture. Ctrl-C during the draws keeps those already made.

        Raises
        ------
        TypeError, ValueError: bad tables or settings; the message names the argument, the rule and the remedy.
        """
        self._check_settings()
        check_same_index("sensitive_features", sensitive_features, "X", X)
        columns = read_columns(self, X, self.categorical_features, reset=True)
        groups = groups_for_fit(sensitive_features, len(columns.continuous))
        _check_spreads(columns.continuous, columns.names)
        self._encoder = fit_encoder(columns, one_scale=False)
        x, codes = columns.continuous, self._encoder.codes(columns.categorical)
        check_integer(
            "n_components", self.n_components, maximum=len(x), remedy=f"There are {len(x)} rows: ask for fewer."
        )
        check_distinct(np.hstack([x, codes]), self.n_components)
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._names = self._describe(X, groups)
        problem = self._problem(x, codes, groups)
        return self._fit_svi(problem) if self.inference == "svi" else self._fit_chains(problem)

    def _check_settings(self):
        if self.inference not in inference.INFERENCES:
            raise ValueError(
                message("inference", f"be one of {inference.INFERENCES}", repr(self.inference), "See above.")
            )
        check_number("fairness_weight", self.fairness_weight, minimum=0)
        check_number("smoothing", self.smoothing)
        for name in ("n_components", "num_chains", "num_draws"):
            check_integer(name, getattr(self, name))
        check_integer("num_warmup", self.num_warmup, minimum=0)
        sampling.check_chain_method(self.chain_method)
        if isinstance(self.starts, str) or not len(self.starts) or not set(self.starts) <= set(STARTS):
            raise ValueError(
                message("starts", f"be some of {STARTS}", repr(self.starts), "Leave it out for all of them.")
            )
        if self.prior is not None and not isinstance(self.prior, Prior):
            rule, remedy = "be a bayesfair.models.Prior or None", "Its fields are numbers; Prior() is the default."
            raise TypeError(message("prior", rule, type(self.prior).__name__, remedy))
        if self.inference != "nuts" and self.tempering is not False:
            rule, remedy = "be False unless inference is 'nuts'", "Leave one of them out."
            raise ValueError(message("tempering", rule, repr(self.tempering), remedy))

    def _describe(self, X, groups):
        """Names for the tree, continuous columns first, and the levels' own values."""
        columns = [str(name) for name in X.columns] if hasattr(X, "columns") else None
        where = categorical_positions(X, self.categorical_features).tolist()
        names = np.array(columns or [str(at) for at in range(self.n_features_in_)], dtype=object)
        levels = [] if self._encoder.levels is None else [part.tolist() for part in self._encoder.levels.categories_]
        return {
            "columns": columns,
            "continuous": np.delete(names, where).tolist(),
            "categorical": names[where].tolist(),
            "levels": levels,
            "groups": list(groups.names),
        }

    def _problem(self, x, codes, groups):
        weight = float(self.fairness_weight) if len(groups.names) > 1 else 0.0
        settings = self.n_components, self.covariance_type, weight, self.prior
        return inference.make_problem(x - self._encoder.middle, codes, self._encoder.n_levels, groups, *settings)

    def _starts(self, problem, num_chains):
        kinds = [self.starts[chain % len(self.starts)] for chain in range(num_chains)]
        table = problem.x, problem.codes, problem.family.n_levels, problem.groups
        partitions = starts.start_partitions(*table, self.n_components, kinds, self._seed)
        rest = problem.x, problem.codes, problem.family, problem.units, self.n_components
        return partitions, [starts.sites_of_partition(labels, *rest) for labels in partitions]

    def _chains(self, problem):
        """Chains at their starts, before warm-up."""
        betas = None
        if self.tempering is not False:
            betas = ladder(len(problem.x)) if self.tempering is True else self.tempering
        sampler = inference.make_sampler(problem, self.inference, self.smoothing, betas)
        partitions, sites = self._starts(problem, self.num_chains)
        if self.inference == "gibbs":
            sites = [{**one, "labels": jnp.asarray(labels)} for one, labels in zip(sites, partitions)]
        init = starts.unconstrained(sampler.model, problem.args, sampler.settings, sites)
        method = sampling.check_chain_method(self.chain_method)
        key, model = jax.random.PRNGKey(self._seed), (problem.args, sampler.settings)
        return sampling.start_chains(
            sampler.kernel, key, self.num_chains, self.num_warmup, init, *model, sampler.collect, method
        )

    def _fit_chains(self, problem):
        chains = self._chains(problem)
        chains, _ = sampling.advance(chains, self.num_warmup, "warm-up", self.progress_bar, keep=False)
        return self._draw(problem, chains, self.num_draws, None)

    def _draw(self, problem, chains, num_draws, before):
        chains, (sites, stats) = sampling.advance(chains, num_draws, "draws", self.progress_bar)
        flat = jax.tree.map(lambda part: part.reshape(part.shape[0] * part.shape[1], *part.shape[2:]), sites)
        sites = jax.tree.map(np.asarray, chains.constrain(flat))
        new = self._draws(problem, sites, stats, chains.num_chains, 0 if before is None else before["lp"].shape[1])
        if before is not None:
            new = {name: np.concatenate([before[name], values], 1) for name, values in new.items()}
        self._finish(problem, new, jax.tree.leaves(chains.states))
        self._live = chains
        untempered = self.inference == "nuts" and self.tempering is False
        warn_of_disagreement(self.posterior_, "tempering=True visits all modes in one chain." if untempered else "")
        return self

    def _fit_svi(self, problem):
        key = jax.random.PRNGKey(self._seed)
        _, sites = self._starts(problem, len(self.starts))
        total = self.num_chains * self.num_draws
        sites, stats, losses = inference.run_svi(problem, self.smoothing, sites, key, total, self.progress_bar)
        self.losses_, self._live = losses, None
        stats = {name: np.asarray(values)[None] for name, values in stats.items()}
        self._finish(problem, self._draws(problem, jax.tree.map(np.asarray, sites), stats, 1, 0), [])
        return self

    def _draws(self, problem, sites, stats, num_chains, num_before):
        """Everything the tree holds, by name, (chain, draw, ...); labels from psi where they were not sampled."""
        latent = {name: values for name, values in sites.items() if name not in ("gap", "means", "labels")}
        key = jax.random.fold_in(jax.random.PRNGKey(self._seed), 1 + num_before)
        labels, gaps, pointwise = inference.allocate(problem, latent, key)
        if "labels" in sites:
            labels = sites["labels"]
            gaps = np.array([gap(one, problem.groups) for one in labels]) if len(problem.groups.names) > 1 else gaps
        values = {"labels": labels, "gap": gaps, **latent}
        if pointwise.size <= POINTWISE:
            values["log_likelihood"] = pointwise
        shaped = {name: np.asarray(v).reshape(num_chains, -1, *np.shape(v)[1:]) for name, v in values.items()}
        return {**shaped, **stats}

    def _finish(self, problem, draws, leaves):
        names = self._names
        settings = {
            "estimator": type(self).__name__,
            "parameters": self.get_params(deep=False),
            "seed": self._seed,
            "names": names,
            "middle": self._encoder.middle.tolist(),
        }
        tree = build_tree(
            SimpleNamespace(**{**draws, "labels": draws["labels"].astype(np.int32)}),
            np.hstack([problem.x + self._encoder.middle, problem.codes]),
            problem.groups if len(problem.groups.names) > 1 else None,
            settings=settings,
            feature_names=names["continuous"] + names["categorical"],
            n_clusters=self.n_components,
            parameters=parameters_of(draws, problem.units, self._encoder.middle),
            point="mode",
        )
        if "column" in tree["posterior"].sizes:
            tree["posterior"] = tree["posterior"].to_dataset().assign_coords(column=names["continuous"])
        if leaves:
            tree[STATE] = state_dataset(leaves)
        self._adopt(tree, problem)
        empty = np.setdiff1d(np.arange(self.n_components), self.labels_).tolist()
        if empty:
            what = f"no row is most often in components {empty}, which are empty in some draws"
            remedy = "ask for fewer components"
            warnings.warn(f"{type(self).__name__}: {what}. Remedy: {remedy}.", ConvergenceWarning, stacklevel=4)

    def _adopt(self, tree, problem):
        """Take the tree as this estimator's posterior; everything that ends in an underscore is read from it."""
        self.posterior_, self._fitted = tree, problem
        posterior = tree["posterior"]
        self.labels_ = tree["constant_data"]["reference_labels"].values.astype(int)
        self.misclassification_probability_ = misclassification_probability(tree)
        self.weights_ = posterior["weights"].mean(("chain", "draw")).values
        if "means" in posterior:
            self.means_ = posterior["means"].mean(("chain", "draw")).values
        soft = self._psi(problem.x, problem.codes)
        several = len(problem.groups.names) > 1
        self.gap_ = gap(soft, problem.groups) if several else 0.0
        self.hard_gap_ = gap(self.labels_, problem.groups) if several else 0.0
        self.n_iter_ = self.num_warmup + posterior.sizes["draw"]

    def _psi(self, x, codes):
        """psi (N, K) averaged over the relabelled draws; x centred."""
        return inference.responsibilities(self._fitted, self._sites(), x, codes)

    def _sites(self):
        """The model's sites (draws, ...), relabelled."""
        values = sites_of(self.posterior_, self._fitted.units, self._encoder.middle)
        return {name: jnp.asarray(v.reshape(-1, *v.shape[2:]), jnp.float32) for name, v in values.items()}

    def prior_predictive(self, num_draws=50):
        """A tree with `prior_predictive` X (chain, draw, obs, feature): tables simulated from the prior, whose scale is
        the fitted table's. The fairness factor is no prior and takes no part. For `bayesfair.plots.predictive`."""
        check_is_fitted(self, "posterior_")
        num_draws = check_integer("num_draws", num_draws)
        key = jax.random.PRNGKey(self._seed)
        return self._predictive("prior_predictive", inference.prior_sites(self._fitted, key, num_draws))

    def posterior_predictive(self, num_draws=50):
        """A tree with `posterior_predictive` X (chain, draw, obs, feature): tables simulated from `num_draws` draws of the
        posterior, evenly spaced. For `bayesfair.plots.predictive`, or ArviZ."""
        check_is_fitted(self, "posterior_")
        sites = self._sites()
        total = len(sites["weights"])
        num_draws = check_integer("num_draws", num_draws, maximum=total, remedy=f"There are {total} draws.")
        chosen = np.linspace(0, total - 1, num_draws).astype(int)
        return self._predictive("posterior_predictive", {name: value[chosen] for name, value in sites.items()})

    def _predictive(self, group, sites):
        import xarray as xr

        problem, observed = self._fitted, self.posterior_["observed_data"]
        keys = jax.random.split(jax.random.PRNGKey(self._seed + 1), len(sites["weights"]))
        rows = inference.replicate_rows(problem.family, problem.units, len(problem.x), keys, sites)
        rows = np.asarray(rows, np.float64)
        rows[:, :, : problem.x.shape[1]] += self._encoder.middle
        values = (("chain", "draw", "obs", "feature"), rows[None])
        table = xr.Dataset({"X": values}, coords=observed.to_dataset().coords)
        return xr.DataTree.from_dict({group: table, "observed_data": observed.to_dataset()})

    def predict_proba(self, X):
        """P(cluster | row) (N, K), psi averaged over the draws, for unseen rows too."""
        check_is_fitted(self, "posterior_")
        columns = read_columns(self, X, self.categorical_features, reset=False)
        return self._psi(columns.continuous - self._encoder.middle, self._encoder.codes(columns.categorical))

    def predict(self, X):
        """The likeliest cluster of every row, int (N,); row by row, so that balance is not promised."""
        return self.predict_proba(X).argmax(1)

    def resume(self, num_draws=None):
        """Go on from the last draw, `num_draws` more per chain, with the data of the fit."""
        check_is_fitted(self, "posterior_")
        if self.inference == "svi":
            raise ValueError(
                message("inference", "be 'nuts' or 'gibbs'", "'svi'", "A guide is not resumed: fit again.")
            )
        num_draws = check_integer("num_draws", self.num_draws if num_draws is None else num_draws)
        if self._live is None:
            self._live = self._revive()
        return self._draw(self._fitted, self._live, num_draws, self._known_draws())

    def _revive(self):
        """The chains of a loaded run: as they start, with the states that were saved."""
        fresh = self._chains(self._fitted)
        leaves = [jnp.asarray(leaf) for leaf in leaves_of(self.posterior_[STATE])]
        return fresh._replace(states=jax.tree.unflatten(jax.tree.structure(fresh.states), leaves))

    def _known_draws(self):
        """What `_draws` gave, from the tree; clusters renumbered, which the next tree undoes."""
        tree = self.posterior_
        sites = sites_of(tree, self._fitted.units, self._encoder.middle)
        values = {"labels": tree["posterior"]["labels"].values, **sites}
        values |= {name: v.values for name, v in tree["sample_stats"].data_vars.items() if name != "balance"}
        if "log_likelihood" in tree.children:
            values["log_likelihood"] = tree["log_likelihood"]["x"].values
        return values

    def __getstate__(self):
        """Without what is compiled: `resume` makes it again from the posterior."""
        return super().__getstate__() | ({"_live": None} if hasattr(self, "_live") else {})

    def save(self, path):
        """Write posterior, data, settings and the chains' state to a netCDF file; whole or not at all."""
        check_is_fitted(self, "posterior_")
        write_tree(self.posterior_, path)

    @classmethod
    def load(cls, path):
        """The estimator that `save` wrote to `path`; it predicts, and resumes.

        Raises
        ------
        FileNotFoundError: no such file. ValueError: a damaged file, or one that holds something else.
        """
        tree, settings = read_run(path, cls)
        estimator = cls(**settings["parameters"])
        estimator._seed, estimator._names, estimator._live = settings["seed"], settings["names"], None
        return estimator._restore(tree, settings)

    def _restore(self, tree, settings):
        names, X = self._names, tree["observed_data"]["X"].values
        self.n_features_in_ = len(names["continuous"]) + len(names["categorical"])
        if names["columns"] is not None:
            self.feature_names_in_ = np.array(names["columns"], dtype=object)
        middle = np.array(settings["middle"])
        self._encoder = Encoder(middle, np.ones_like(middle), encoder_of(names["levels"]))
        x, codes = X[:, : len(middle)], X[:, len(middle) :].astype(np.int32)
        group = (
            tree["constant_data"]["group"].values if "group" in tree["constant_data"] else np.zeros(len(X), np.int32)
        )
        problem = self._problem(x, codes, Groups(group, tuple(names["groups"])))
        self._adopt(tree, problem)
        return self


def _check_spreads(x, names):
    """ValueError, with the column's name, where a column of x (N, d) spreads by more or less than SPREADS allows."""
    spread = center_and_spread(x)[1] if x.shape[1] else np.ones(0)
    outside = (spread > 0) & ((spread < SPREADS[0]) | (spread > SPREADS[1]))
    if outside.any():
        column = int(outside.argmax())
        got = f"a standard deviation of {spread[column]:.3g} in column {place(names, column)}"
        remedy = "Divide that column by it, such as by sklearn.preprocessing.StandardScaler."
        raise ValueError(message("X", f"spread by {SPREADS[0]:g} to {SPREADS[1]:g} in every column", got, remedy))
