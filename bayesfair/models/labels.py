"""The label block of the hard-label model: one Gibbs sweep in O(K) per row, with group-by-cluster counts as state."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from numpyro.infer import NUTS
from numpyro.infer.gibbs import GIBBS_SITES_KWARG, CustomGibbs, Gibbs

from bayesfair.fairness.metrics import gaps_of_shares
from bayesfair.models.mixtures import labelled_mixture, table_and_mixture


def labelled_kernel(**nuts):
    """A NumPyro kernel for `labelled_mixture`: a sweep over the labels, then NUTS on the parameters.

    The table and the settings of the model are those of `MCMC.run`.

    Parameters
    ----------
    **nuts
        Settings of `numpyro.infer.NUTS`.

    Returns
    -------
    numpyro.infer.gibbs.Gibbs

    Examples
    --------
    >>> import jax, bayesfair as bf
    >>> from numpyro.infer import MCMC
    >>> data = bf.datasets.make_well_specified()
    >>> mcmc = MCMC(bf.models.labelled_kernel(), num_warmup=20, num_samples=20, progress_bar=False)
    >>> mcmc.run(jax.random.key(0), data.features, None, data.sensitive, fairness_weight=1.0)
    >>> mcmc.get_samples()["labels"].shape
    (20, 100)
    """
    return sweeping_kernel(labelled_mixture, table_and_mixture, **nuts)


def sweeping_kernel(model, described, **nuts):
    """A label sweep, then NUTS with these settings on the parameters of `model`, a form of `labelled`.

    described: gives the `Mixture` and the `Observed` of the model's arguments.
    """
    return Gibbs([(LabelSweep(described), ["labels"]), (NUTS(model, **nuts), None)])


class LabelSweep(CustomGibbs):
    """The block of the labels, for the table that a run is given."""

    def sample(self, state, model_args, model_kwargs):
        kwargs = dict(model_kwargs or {})
        sites = kwargs.pop(GIBBS_SITES_KWARG, {})
        mixture, observed = self._gibbs_fn(*model_args, **kwargs)
        member = jnp.ones((1, len(observed.rows))) if observed.member is None else observed.member
        group, sizes = member.argmax(0), (member > 0).sum(1).astype(jnp.float32)
        log_joint = mixture.row(observed.units, sites).log_joint_of(observed.table).T
        key, key_sweep = jax.random.split(state.rng_key)
        labels = label_sweep(key_sweep, state.z["labels"], log_joint, group, sizes, observed.penalty)
        return state._replace(z={"labels": labels}, rng_key=key)


def label_sweep(key, labels, log_joint, group, group_size, penalty) -> Int[Array, " obs"]:
    """Visit every label once, in random order, and draw it from its law given all others and the parameters.

    log_joint (N, K): log pi_k + log f(x_i; theta_k). penalty: lambda N. group_size (J,).
    """
    n_clusters = log_joint.shape[1]
    key_order, key_draws = jax.random.split(key)
    order = jax.random.permutation(key_order, len(labels))
    noise = jax.random.gumbel(key_draws, log_joint.shape)
    counts = jnp.zeros((n_clusters, len(group_size))).at[labels, group].add(1.0)

    def visit(state, i):
        counts, labels = state
        counts = counts.at[labels[i], group[i]].add(-1.0)
        law = conditional_law(counts, log_joint[i], group[i], group_size, penalty)
        chosen = jnp.argmax(law + noise[i]).astype(labels.dtype)
        return (counts.at[chosen, group[i]].add(1.0), labels.at[i].set(chosen)), None

    return jax.lax.scan(visit, (counts, labels), order)[0][1]


def conditional_law(counts, log_joint, group, group_size, penalty) -> Float[Array, " clusters"]:
    """Log law, up to a constant, of the label of a row of `group` that was removed from `counts` (K, J).

    Delta is a maximum over clusters of which joining changes one: the two largest of the others suffice.
    """
    member = jax.nn.one_hot(group, counts.shape[1])
    without, with_it = (gaps_of_shares(now / group_size, corner=0.0) for now in (counts, counts + member))
    best = jnp.argmax(without)
    second = jnp.max(jnp.where(jnp.arange(len(without)) == best, -jnp.inf, without), initial=0.0)
    others = jnp.where(jnp.arange(len(without)) == best, second, without[best])
    return log_joint - penalty * jnp.maximum(others, with_it)
