"""A run of the Gibbs sampler as arrays in its tree, and back."""

import numpy as np

from bayesfair.fairlets.compositions import rule_of_small_groups
from bayesfair.fairlets.decomposition import describe_gap
from bayesfair.gibbs.modes.search import FoundModes
from bayesfair.gibbs.target import Dispersion
from bayesfair.posterior.found_modes import MODE_FIGURES
from bayesfair.posterior.temperatures import LAMBDA_PRIOR

OF_TARGET = "target_"  # prefix of the arrays that a prepared target needs, beside the states of its chains


def arrays_of_run(law, states) -> dict[str, np.ndarray]:
    """The arrays from which a run continues: those of the chains' states, stacked, and those of the target."""
    stacked = {name: np.stack([getattr(state, name) for state in states]) for name in states[0]._fields}
    return stacked | {OF_TARGET + name: values for name, values in law.memory.items()}


def memory_of(arrays) -> dict[str, np.ndarray]:
    """The target's arrays among those of a run."""
    return {name.removeprefix(OF_TARGET): values for name, values in arrays.items() if name.startswith(OF_TARGET)}


def continued_states(law, arrays) -> list:
    """The states of the chains of a run."""
    kind, n_chains = law.state_type, len(arrays[law.state_type._fields[0]])
    return [kind(*(np.array(arrays[name][chain]) for name in kind._fields)) for chain in range(n_chains)]


def facts_of_law(law) -> dict:
    """Facts of a prepared target, as attributes of the tree."""
    prior, mean_size, facts = law.table.temperature, getattr(law, "mean_size", 1.0), {}
    if isinstance(prior, Dispersion):
        facts |= dict(zip(LAMBDA_PRIOR, (float(prior.shape), float(prior.rate) / mean_size)))
    if getattr(law, "gap", None):
        facts["fairlet_gap"] = describe_gap(law.gap)
    groups, composition = law.table.groups, getattr(law.target, "composition", None)
    if (
        isinstance(composition, str)
        and composition == "auto"
        and (ruled := rule_of_small_groups(groups.sizes, groups.names))
    ):
        facts["small_groups"] = ruled
    return facts


def modes_dataset(found: FoundModes):
    """The modes that were found, for the tree."""
    import xarray as xr

    columns = {name: ("mode", getattr(found, name)) for name in MODE_FIGURES}
    columns["labels"] = (("mode", "obs"), found.labels)
    masses = "measured" if found.weighed or len(found.starts) == 1 else "not known"
    return xr.Dataset(columns, attrs={"num_starts": found.num_starts, "masses": masses, "path_length": found.length})
