"""A move that fills and empties components of a sparse mixture, before every trajectory of an HMC kernel."""

import jax
import jax.numpy as jnp
import numpyro
from numpyro.distributions import biject_to
from numpyro.infer.util import unconstrain_fn

from bayesfair.models.exchange import BETA, observed_energy, tempered
from bayesfair.models.observed import Observed
from bayesfair.models.parameters import Mixture, sample_parameters
from bayesfair.models.priors import law_of_means
from bayesfair.models.sparse import draw_two_sided, stretched, two_sided_law, unstretched

NEAR = 0.5  # standard deviation of a mean proposed near a row or near the other component's mean
SHARES = 1.5  # scale of the logistic law of two occupied components' log odds


class Transfers:
    """HMC or NUTS on a sparse mixture; before each trajectory, K transfers between components are tried.

    For two random components k and l, S = e^x_k + e^x_l is divided again, with share r for k; log(r / (1 - r)) is drawn from
    `two_sided_law`. k gets new parameters: a mean near that of l, near a row, or from the prior, all others from the prior.
    The acceptance ratio is that of Metropolis and Hastings:

        L' / L  (r' (1 - r') / (r (1 - r)))^e0  N(m') / N(m)  q(r) q(m) / (q(r') q(m')) ,

    with L all that is observed and N the prior of means; (x_k, x_l) -> (log S, log odds) has Jacobian 1. A component is
    born if r rises from nearly 0, and dies if its weight goes to l. `inner`: a kernel of a model whose sites are those of
    `sample_parameters`.
    """

    def __init__(self, inner, mixture: Mixture, observed: Observed):
        self._inner, self._mixture, self._observed = inner.wrap_model(tempered), mixture, observed

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def wrap_model(self, wrapper):
        return Transfers(self._inner.wrap_model(wrapper), self._mixture, self._observed)

    def sample(self, state, model_args, model_kwargs):
        kwargs = model_kwargs or {}
        key, key_moves = jax.random.split(state.rng_key)
        z = self._transfers(key_moves, state.z, model_args, kwargs)
        state = self._inner.refresh(state._replace(z=z, rng_key=key), model_args, kwargs)
        return self._inner.sample(state, model_args, kwargs)

    def _transfers(self, key, z, args, kwargs):
        beta, energy = kwargs.get(BETA, 1.0), observed_energy(self._inner, args, kwargs)
        names = self._others(z)

        def one(carry, key):
            z, old = carry
            key_prior, key_move, key_accept = jax.random.split(key, 3)
            fresh = self._from_prior(key_prior, args, kwargs, names) if names else {}
            proposed, log_ratio = self.propose(key_move, z, fresh)
            new = energy(proposed)
            accepted = jnp.log(jax.random.uniform(key_accept)) < beta * (old - new) + log_ratio
            z = jax.tree.map(lambda one, other: jnp.where(accepted, one, other), proposed, z)
            return (z, jnp.where(accepted, new, old)), None

        keys = jax.random.split(key, self._mixture.n_components)
        return jax.lax.scan(one, (z, energy(z)), keys)[0][0]

    def _others(self, z):
        """Sites with a value per component, except its score and mean."""
        shared = {"weight_scores", "means", "concentration"}
        if self._mixture.family.covariance_type == "isotropic":
            shared.add("scales")
        return sorted(set(z) - shared)

    def _from_prior(self, key, args, kwargs, names):
        """Unconstrained values of these sites, for all components, from the prior."""
        with numpyro.handlers.seed(rng_seed=key):
            sites = sample_parameters(self._mixture, self._observed.units)
        z = unconstrain_fn(self.model, args, kwargs, sites)
        return {name: z[name] for name in names}

    def propose(self, key, z, fresh):
        """(unconstrained sites after a transfer, its log acceptance ratio without the likelihood)."""
        key_pair, key_share, key_mean = jax.random.split(key, 3)
        k, other = jax.random.choice(key_pair, self._mixture.n_components, (2,), replace=False)
        prior = self._mixture.prior
        typical = e0 = prior.typical_weight
        if prior.samples_concentration:
            e0 = biject_to(prior.weight.support)(z["concentration"])
        x = stretched(z["weight_scores"], typical)
        total, odds = jnp.logaddexp(x[k], x[other]), x[k] - x[other]
        new_odds = draw_two_sided(key_share, e0, SHARES)
        shares = total + jnp.stack([jax.nn.log_sigmoid(new_odds), jax.nn.log_sigmoid(-new_odds)])
        scores = z["weight_scores"].at[jnp.stack([k, other])].set(unstretched(shares, typical))
        log_ratio = _log_share(new_odds, e0) - _log_share(odds, e0)
        moved = {name: z[name].at[k].set(value[k]) for name, value in fresh.items()} | {"weight_scores": scores}
        if "means" in z:
            old, near = z["means"][k], z["means"][other]
            mean = self._draw_mean(key_mean, near)
            moved["means"] = z["means"].at[k].set(mean)
            log_ratio += self._log_mean(mean, near) - self._log_mean(old, near)
        return {**z, **moved}, log_ratio

    @property
    def _rows(self):
        """Continuous columns in standard deviations (N, d), as unconstrained means are."""
        units = self._observed.units
        return (self._observed.rows[:, : len(units.middle)] - units.middle) / units.spread

    def _draw_mean(self, key, near):
        key_which, key_row, key_noise = jax.random.split(key, 3)
        rows, which = self._rows, jax.random.randint(key_which, (), 0, 3)
        row = rows[jax.random.randint(key_row, (), 0, len(rows))]
        noise, units = jax.random.normal(key_noise, near.shape), self._observed.units
        fresh = (law_of_means(self._mixture.prior, units).sample(key_noise) - units.middle) / units.spread
        return jnp.select([which == 0, which == 1], [near + NEAR * noise, row + NEAR * noise], fresh)

    def _log_mean(self, mean, near):
        """Log of the prior over the proposal's density."""
        rows, units = self._rows, self._observed.units
        of_rows = jax.nn.logsumexp(_log_normal(mean - rows, NEAR)) - jnp.log(len(rows))
        prior = law_of_means(self._mixture.prior, units).log_prob(units.middle + units.spread * mean)
        prior += jnp.log(units.spread).sum()  # of the mean in standard deviations
        proposal = jax.nn.logsumexp(jnp.stack([_log_normal(mean - near, NEAR), of_rows, prior])) - jnp.log(3.0)
        return prior - proposal


def _log_share(odds, concentration):
    """Log of the law of a share over the proposal's density."""
    law = concentration * (jax.nn.log_sigmoid(odds) + jax.nn.log_sigmoid(-odds))
    return law - two_sided_law(odds, concentration, SHARES)


def _log_normal(difference, sd):
    """Log density (...) of differences (..., dim)."""
    dim = difference.shape[-1]
    return -0.5 * jnp.square(difference / sd).sum(-1) - dim * (jnp.log(sd) + 0.5 * jnp.log(2 * jnp.pi))
