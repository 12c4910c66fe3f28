"""A run of a fair mixture: the table, the chains and the draws so far; it predicts and simulates rows."""

from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from bayesfair._arrays import on_device, stack
from bayesfair._check import attempt
from bayesfair._draws import Draws, Statistic
from bayesfair._jit import usual_settings
from bayesfair._tables import Encoder
from bayesfair.engines.mixture import check_has_density
from bayesfair.fairness.groups import Groups
from bayesfair.fairness.metrics import gap
from bayesfair.models.exchange import ladder
from bayesfair.models.factor import membership
from bayesfair.models.guide import draw_from_guide
from bayesfair.models.observed import Observed, observe, rows_of
from bayesfair.models.parameters import Mixture
from bayesfair.models.predictive import allocate, mean_psi, prior_sites, replicate_rows
from bayesfair.models.priors import Prior
from bayesfair.models.sampler import LEAPFROG_STEPS, Sampler, advance, constrained, start_states, unconstrained
from bayesfair.models.starts import sites_of_partition, start_partitions

POINTWISE = 50_000_000  # largest number of log-likelihoods kept: 200 MB
LOGS = "log_likelihood", "log_prior"
STATISTICS = {  # per draw
    "lp": Statistic("quantity"),
    "occupied": Statistic("quantity"),
    "concentration": Statistic("parameter"),
    "gap": Statistic("quantity"),
    "diverging": Statistic("figure"),
    "num_steps": Statistic("figure"),
    "swap_rate": Statistic("figure"),
}
DIMENSIONS = {
    "weights": ("cluster",),
    "means": ("cluster", "continuous"),
    "scales": ("cluster", "continuous"),
    "correlation_cholesky": ("cluster", "continuous", "continuous_bis"),
}


class RunSettings(NamedTuple):
    """Settings of a run, by the names of the estimator's arguments."""

    n_components: int
    covariance_type: str
    fairness_weight: float
    prior: Prior | None
    smoothing: float
    inference: str
    tempering: Any
    num_warmup: int

    def sampler(self, family, n_obs) -> Sampler:
        """The sampler for a table with `n_obs` rows."""
        mixture = Mixture(family, self.n_components, self.prior or Prior(), self.smoothing)
        kind, betas = self.inference, None
        is_switch = isinstance(self.tempering, (bool, np.bool_))
        if not is_switch or self.tempering:
            betas = ladder(n_obs) if is_switch else self.tempering
            kind, betas = "exchange", tuple(np.atleast_1d(np.asarray(betas, np.float32)).tolist())
        return Sampler(mixture, kind, self.num_warmup, LEAPFROG_STEPS.get(kind), betas)


class MixtureRun(NamedTuple):
    """A fair mixture of one table, its chains and draws so far: it draws, continues, predicts and simulates rows.

    `x` (N, d) float64 not centred, `codes` (N, c): the table by `encoder`. `states`: of the chains' kernels. `draws`:
    by name (chain, draw, ...), the sites without "means", "labels", the STATISTICS, "log_prior" except for sparse
    mixtures, and "log_likelihood" (chain, draw, N) if it is small enough. `losses`: of a guide.
    """

    x: np.ndarray
    codes: np.ndarray
    groups: Groups
    encoder: Encoder
    sampler: Sampler
    observed: Observed
    seed: int
    states: Any = None
    draws: dict | None = None
    losses: np.ndarray | None = None

    @property
    def mixture(self) -> Mixture:
        return self.sampler.mixture

    @property
    def key(self):
        return jax.random.PRNGKey(self.seed)

    def start(self, kinds):
        """One chain per kind of start, before warm-up."""
        partitions, sites = self._starts(kinds)
        sites |= self.mixture.weight_sites(sites.pop("weights"))
        if self.sampler.kind == "gibbs":
            sites["labels"] = on_device(partitions)
        init = unconstrained(self.sampler, self.observed, sites)
        keys = jax.random.split(self.key, len(kinds))
        return self._replace(states=start_states(self.sampler, self.observed, keys, init))

    def _starts(self, kinds):
        x, k = self.x - self.encoder.middle, self.mixture.n_components
        partitions = start_partitions(x, self.codes, self.encoder.n_levels, self.groups, k, kinds, self.seed)
        rest = x, self.codes, self.mixture.family, self.observed.units, k
        return partitions, stack([sites_of_partition(labels, *rest) for labels in partitions])

    def warm_up(self, method, progress_bar=False):
        chains = self.sampler, self.observed, self.states
        states, _ = advance(*chains, self.sampler.num_warmup, method, progress_bar, keep=False)
        return self._replace(states=states)

    def draw(self, num_draws, method, progress_bar=False):
        """Make `num_draws` more draws per chain; Ctrl-C keeps those already made."""
        chains = self.sampler, self.observed, self.states
        states, (z, figures) = advance(*chains, num_draws, method, progress_bar)
        sites = constrained(self.sampler, self.observed, jax.tree.map(_flat, z))
        return self._with_draws(sites, figures)._replace(states=states)

    def draw_from_guide(self, kinds, num_draws, progress_bar=False):
        """Draws from a normal guide, fitted from the best of these kinds of starts, as one chain."""
        starts, key = self._starts(kinds)[1], self.key
        sites, lp, losses = draw_from_guide(self.sampler, self.observed, starts, key, num_draws, progress_bar)
        return self._with_draws(sites, {"lp": np.asarray(lp)[None]})._replace(losses=losses)

    def _with_draws(self, sites, figures):
        """Append draws; labels are drawn from psi if they are not sites."""
        several, sites = len(self.groups.names) > 1, dict(sites)
        labels = sites.pop("labels", None)
        member = membership(self.groups.code, len(self.groups.names))
        done = 0 if self.draws is None else self.draws["lp"].shape[1]
        keys = jax.random.split(jax.random.fold_in(self.key, 1 + done), len(sites["weights"]))
        drawn, gaps, pointwise, prior = allocate(self.mixture, self.observed, member, keys, sites)
        if labels is not None and several:
            gaps = attempt("`gap`", lambda: [gap(one, self.groups) for one in np.asarray(labels)])
        values = {"labels": drawn if labels is None else labels, **({} if gaps is None else {"gap": gaps}), **sites}
        if self.mixture.prior.is_sparse:
            values["occupied"] = [len(np.unique(one)) for one in np.asarray(values["labels"])]
        else:
            values["log_prior"] = prior
        if pointwise.size <= POINTWISE:
            values["log_likelihood"] = pointwise
        num_chains = len(figures["lp"])
        new = {name: np.asarray(v).reshape(num_chains, -1, *np.shape(v)[1:]) for name, v in values.items()} | figures
        if self.draws is not None:
            new = {name: np.concatenate([self.draws[name], new[name]], 1) for name in new if name in self.draws}
        return self._replace(draws=new)

    @property
    def labelled(self) -> Draws:
        """Labels and scalars of the draws."""
        scalars = {name: self.draws[name] for name in STATISTICS if name in self.draws}
        return Draws(self.draws["labels"].astype(np.int32), scalars, STATISTICS)

    @property
    def parameters(self):
        """{name: (dimensions after chain and draw, array)} of the draws, in the units of the table."""
        values = {name: self.draws[name] for name in DIMENSIONS if name in self.draws}
        if "means" in values:
            values["means"] = self.encoder.middle + values["means"]
        named = {name: (DIMENSIONS[name][: value.ndim - 2], value) for name, value in values.items()}
        levels = sorted(name for name in self.draws if name.startswith("levels_"))
        return named | {name: (("cluster", name.replace("levels", "level")), self.draws[name]) for name in levels}

    def with_draws(self, draws: Draws, values, **others):
        """The run with these draws, these values of `parameters`, and the `others` replaced."""
        sites = dict(values)
        if "means" in sites:
            sites["means"] = sites["means"] - self.encoder.middle
        return self._replace(draws=sites | {"labels": draws.labels} | draws.scalars | others)

    @property
    def sites(self):
        """The sites of the draws (draws, ...), in the form of the programs."""
        known = {name: value for name, value in self.draws.items() if name not in (*STATISTICS, "labels", *LOGS)}
        return {name: on_device(_flat(value), float) for name, value in known.items()}

    @usual_settings()
    def psi(self, x, codes):
        """psi (N, K) of any rows, averaged over the draws; each row sums to 1 in float64."""
        rows = rows_of(x - self.encoder.middle, codes)
        psi = np.asarray(mean_psi(self.mixture, self.observed.units, rows, self.sites), np.float64)
        check_has_density(np.isfinite(psi).all(1))
        return psi / psi.sum(1, keepdims=True)

    @usual_settings()
    def simulate(self, sites):
        """A table (draws, N, d + c) like the run's, in its units, simulated from each draw of the sites."""
        num_draws = len(jax.tree.leaves(sites)[0])
        keys = jax.random.split(jax.random.PRNGKey(self.seed + 1), num_draws)
        rows = replicate_rows(self.mixture, self.observed.units, len(self.x), keys, sites)
        return np.asarray(rows, np.float64) + np.r_[self.encoder.middle, np.zeros(self.codes.shape[1])]

    @usual_settings()
    def prior_sites(self, num_draws):
        return prior_sites(self.mixture, self.observed.units, jax.random.split(self.key, num_draws))

    def state(self):
        """The arrays, by name, from which `with_state` continues; none for a guide."""
        return {f"leaf_{at}": np.asarray(leaf) for at, leaf in enumerate(jax.tree.leaves(self.states))}

    def with_state(self, arrays, num_chains):
        """The run with the chains' states from `state`."""
        start = partial(start_states, self.sampler, self.observed)
        like = jax.eval_shape(start, jax.random.split(self.key, num_chains))
        leaves = [on_device(arrays[f"leaf_{at}"]) for at in range(len(arrays))]
        return self._replace(states=jax.tree.unflatten(jax.tree.structure(like), leaves))


def make_run(x, codes, groups, encoder, seed, settings: RunSettings) -> MixtureRun:
    """The run for a checked table, x (N, d) float64 and `codes` (N, c), before any chain."""
    fairness_weight = float(settings.fairness_weight) if len(groups.names) > 1 else 0.0
    X, levels = x - encoder.middle if x.shape[1] else None, codes if codes.shape[1] else None
    wanted = {"covariance_type": settings.covariance_type, "fairness_weight": fairness_weight}
    known = groups if fairness_weight > 0 else None
    observed, family = observe(X, levels, known, n_levels=encoder.n_levels or None, **wanted)
    sampler = settings.sampler(family, len(x))
    sampler.kernel(observed)  # checks inverse temperatures before any computation
    return MixtureRun(x, codes, groups, encoder, sampler, observed, seed)


def _flat(part):
    return part.reshape(part.shape[0] * part.shape[1], *part.shape[2:])
