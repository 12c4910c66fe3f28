"""Replica exchange (parallel tempering) around any HMC kernel of NumPyro, for posteriors with several modes."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpyro.infer.mcmc import MCMCKernel
from numpyro.primitives import Messenger
from numpyro.util import is_prng_key

from bayesfair._check import check_integer, message
from bayesfair.models.factor import Factor

RATIO, FEWEST_ROWS = 0.6, 10  # ratio of neighbours on the default ladder; rows that the hottest replica sees
BETA = "_inverse_temperature"  # keyword that passes a replica's inverse temperature to the tempered model


class ExchangeState(NamedTuple):
    """The state of all replicas. `z`, `potential_energy`, `diverging`: of the coldest replica, whose `z` is the draw.

    `replicas`: states of the inner kernel, hottest first. `swap_rate` (pairs,): accepted swaps so far over those tried.
    """

    z: Any
    potential_energy: Float[Array, ""]
    diverging: Array
    replicas: Any
    swap_rate: Float[Array, " pairs"]
    i: Int[Array, ""]
    rng_key: Array


class ReplicaExchange(MCMCKernel):
    """A NumPyro kernel that samples a model at several inverse temperatures and lets neighbours exchange states.

    The law at inverse temperature beta is p(Theta) [p(x | Theta) exp(-lambda N Delta)]^beta. The draws are those at
    beta = 1. It works with every `chain_method`.

    Parameters
    ----------
    inner : numpyro.infer.HMC or numpyro.infer.NUTS
        A kernel on a model.
    inverse_temperatures : array-like of shape (n_replicas,)
        Increasing, the last one 1, see `ladder`.

    Raises
    ------
    ValueError
        If the inverse temperatures do not increase to 1.

    Notes
    -----
    Everything observed is tempered, together with the factor of `fairness`. Tempering lambda alone would leave
    the modes of the likelihood apart. Several rounds of exchanges follow every trajectory, of even and odd pairs in turn.
    Each replica keeps its own step size and mass matrix.

    Extra fields of a run are "swap_rate" (n_pairs,) and "potential_energy".

    References
    ----------
    Earl and Deem (2005). Syed, Bouchard-Côté, Deligiannidis and Doucet (2022).

    Examples
    --------
    >>> import jax, numpy as np, numpyro, bayesfair as bf
    >>> from numpyro.distributions import Normal
    >>> from numpyro.infer import MCMC, NUTS
    >>> def model(x):  # its two modes are m and -m
    ...     m = numpyro.sample("m", Normal(0.0, 1.0))
    ...     numpyro.sample("x", Normal(abs(m), 1.0), obs=x)
    >>> kernel = bf.models.ReplicaExchange(NUTS(model), bf.models.ladder(100))
    >>> mcmc = MCMC(kernel, num_warmup=200, num_samples=1000, progress_bar=False)
    >>> mcmc.run(jax.random.key(0), np.linspace(-1.0, 2.0, 100))
    >>> round(float((mcmc.get_samples()["m"] > 0).mean()), 1)  # the share of one mode
    0.5
    """

    sample_field = "z"
    default_fields = ("z", "diverging")

    def __init__(self, inner, inverse_temperatures):
        betas = check_ladder("inverse_temperatures", inverse_temperatures)
        self._inner, self._betas, self._many = inner.wrap_model(tempered), jnp.asarray(betas), False

    @property
    def model(self):
        return self._inner.model

    def init(self, rng_key, num_warmup, init_params, model_args, model_kwargs):
        self._many = not is_prng_key(rng_key)  # one key per chain if MCMC vectorises
        start = partial(self._init, num_warmup, model_args, model_kwargs or {})
        if not self._many:
            return start(rng_key, init_params)
        return jax.vmap(start, in_axes=(0, None if init_params is None else 0))(rng_key, init_params)

    def _init(self, num_warmup, args, kwargs, key, init_params):
        key, key_replicas = jax.random.split(key)

        def one(key, beta):
            return self._inner.init(key, num_warmup, init_params, args, {**kwargs, BETA: beta})

        replicas = jax.vmap(one)(jax.random.split(key_replicas, len(self._betas)), self._betas)
        return self._state(replicas, jnp.zeros(len(self._betas) - 1), jnp.zeros((), int), key)

    def _state(self, replicas, swap_rate, i, key) -> ExchangeState:
        coldest = jax.tree.map(lambda part: part[-1], replicas)
        return ExchangeState(coldest.z, coldest.potential_energy, coldest.diverging, replicas, swap_rate, i, key)

    def sample(self, state, model_args, model_kwargs):
        step = partial(self._sample, model_args, model_kwargs or {})
        return jax.vmap(step)(state) if self._many else step(state)

    def _sample(self, args, kwargs, state: ExchangeState) -> ExchangeState:
        def move(replica, beta):
            return self._inner.sample(replica, args, {**kwargs, BETA: beta})

        def refresh(replica, beta):
            return self._inner.refresh(replica, args, {**kwargs, BETA: beta})

        key, key_swap = jax.random.split(state.rng_key)
        replicas = jax.vmap(move)(state.replicas, self._betas)
        energies = jax.vmap(observed_energy(self._inner, args, kwargs))(replicas.z)
        order, accepted = exchange(key_swap, energies, self._betas)
        replicas = replicas._replace(z=jax.tree.map(lambda part: part[order], replicas.z))
        replicas = jax.vmap(refresh)(replicas, self._betas)
        rate = state.swap_rate + (accepted - state.swap_rate) / (state.i + 1)
        return self._state(replicas, rate, state.i + 1, key)

    def postprocess_fn(self, model_args, model_kwargs):
        return self._inner.postprocess_fn(model_args, {**(model_kwargs or {}), BETA: 1.0})


def observed_energy(kernel, args, kwargs):
    """What beta multiplies, as a function of unconstrained sites: exact, as a `tempered` potential is linear in beta."""

    def energy(z):
        return jax.grad(lambda beta: kernel.get_potential_fn(args, {**kwargs, BETA: beta})(z))(1.0)

    return energy


def tempered(model):
    """`model` with the likelihood to the power of the keyword `_inverse_temperature`."""
    return partial(_tempered_model, model)


def _tempered_model(model, *args, **kwargs):
    with Tempering(kwargs.pop(BETA, 1.0)):
        return model(*args, **kwargs)


class Tempering(Messenger):
    """Multiplies the log density of observed sites and of the factor of fairness by beta."""

    def __init__(self, beta):
        self.beta = beta
        super().__init__()

    def process_message(self, msg):
        if msg["type"] == "sample" and (msg["is_observed"] or isinstance(msg["fn"], Factor)):
            msg["scale"] = self.beta if msg.get("scale") is None else self.beta * msg["scale"]


def check_ladder(argument, inverse_temperatures):
    """Inverse temperatures of replicas as an array; a ValueError if they are none."""
    try:
        betas = np.asarray(inverse_temperatures, dtype=np.float32)
    except (TypeError, ValueError):
        betas = np.zeros(0, np.float32)
    if betas.ndim != 1 or len(betas) < 2 or not (np.diff(betas) > 0).all() or betas[0] < 0 or betas[-1] != 1:
        rule = "be two or more increasing numbers from 0 on, the last one 1"
        raise ValueError(message(argument, rule, repr(inverse_temperatures), "See bayesfair.models.ladder."))
    return betas


def exchange(key, energy, betas):
    """Order (replicas,) of the states after as many rounds of `swap` as replicas, and the share of swaps accepted (pairs,)."""
    n_rounds = 2 * ((len(betas) + 1) // 2)

    def one(order, part):
        key, parity = part
        moved, accepted = swap(key, energy[order], betas, parity)
        return order[moved], accepted

    rounds = jax.random.split(key, n_rounds), jnp.arange(n_rounds) % 2
    order, accepted = jax.lax.scan(one, jnp.arange(len(betas)), rounds)
    return order, 2 * accepted.mean(0)  # every pair is tried in every other round


def swap(key, energy, betas, parity):
    """One round: the order (replicas,) after swaps of the pairs (r, r + 1) with r of this parity, and which were made.

    The probability is min(1, exp((beta_{r+1} - beta_r) (V_{r+1} - V_r))), V = `energy` (replicas,).
    """
    n_pairs = len(betas) - 1
    log_ratio = jnp.diff(betas) * jnp.diff(energy)
    accepted = (jnp.arange(n_pairs) % 2 == parity) & (jnp.log(jax.random.uniform(key, (n_pairs,))) < log_ratio)
    takes_next, takes_last = jnp.append(accepted, False), jnp.insert(accepted, 0, False)
    return jnp.arange(n_pairs + 1) + takes_next - takes_last, accepted


def ladder(n_obs, ratio=RATIO):
    """Inverse temperatures for `ReplicaExchange`, a geometric sequence that ends at 1.

    The hottest replica sees about ten rows.

    Parameters
    ----------
    n_obs : int, at least 1
        Number of rows.
    ratio : float, default 0.6
        Ratio of neighbours, between 0 and 1. Neighbours exchange states often if 1 - ratio is below about sqrt(2 / p) for
        p parameters.

    Returns
    -------
    numpy.ndarray
        Increasing.

    Raises
    ------
    ValueError
        If there is no row.

    Examples
    --------
    >>> import bayesfair as bf
    >>> float(bf.models.ladder(100)[-1])
    1.0
    """
    check_integer("n_obs", n_obs)
    n_steps = max(1, int(np.ceil(np.log(max(n_obs / FEWEST_ROWS, 1)) / -np.log(ratio))))
    return ratio ** np.arange(n_steps, -1.0, -1.0)
