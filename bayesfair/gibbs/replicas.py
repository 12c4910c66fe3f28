"""Swaps between replicas at neighbouring inverse temperatures, and their ladder: for any sampler's replicas."""

import jax
import jax.numpy as jnp
import numpy as np

from bayesfair._check import check_integer

__all__ = ["exchange", "ladder", "swap"]

RATIO, FEWEST_ROWS = 0.6, 10  # of neighbours on the default ladder; what the hottest replica sees of the data


def exchange(key, energy, betas):
    """As many rounds of `swap` as there are replicas, parity alternating: the order (replicas,) in which their states end,
    and the share of swaps accepted (pairs,). The rounds cost nothing beside a trajectory, and mix the order well."""
    n_rounds = 2 * ((len(betas) + 1) // 2)

    def one(order, part):
        key, parity = part
        moved, accepted = swap(key, energy[order], betas, parity)
        return order[moved], accepted

    rounds = jax.random.split(key, n_rounds), jnp.arange(n_rounds) % 2
    order, accepted = jax.lax.scan(one, jnp.arange(len(betas)), rounds)
    return order, 2 * accepted.mean(0)  # every pair is tried in every other round


def swap(key, energy, betas, parity):
    """One round: the order (replicas,) after swaps of the pairs (r, r + 1) with r of this parity, and which took place.

    The probability is min(1, exp((beta_{r+1} - beta_r) (V_{r+1} - V_r))), V = `energy` (replicas,).
    """
    n_pairs = len(betas) - 1
    log_ratio = jnp.diff(betas) * jnp.diff(energy)
    accepted = (jnp.arange(n_pairs) % 2 == parity) & (jnp.log(jax.random.uniform(key, (n_pairs,))) < log_ratio)
    takes_next, takes_last = jnp.append(accepted, False), jnp.insert(accepted, 0, False)
    return jnp.arange(n_pairs + 1) + takes_next - takes_last, accepted


def ladder(n_obs, ratio=RATIO):
    """Inverse temperatures ratio^R, ..., ratio, 1, down to where the hottest replica sees about ten rows of `n_obs`.

    Neighbours swap often where 1 - ratio is below about sqrt(2 / p) for p parameters.
    """
    check_integer("n_obs", n_obs)
    n_steps = max(1, int(np.ceil(np.log(max(n_obs / FEWEST_ROWS, 1)) / -np.log(ratio))))
    return ratio ** np.arange(n_steps, -1.0, -1.0)
