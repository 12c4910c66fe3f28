"""A run of the Gibbs sampler as arrays in its tree, and back, and the folder that receives its draws as they are made."""

import os
from pathlib import Path

import numpy as np

from bayesfair._check import message
from bayesfair._files import ROOT_OF_STORE
from bayesfair.fairlets.compositions import rule_of_small_groups
from bayesfair.fairlets.decomposition import describe_gap
from bayesfair.gibbs.modes.search import FoundModes
from bayesfair.gibbs.target import Dispersion
from bayesfair.posterior.found_modes import MODE_FIGURES
from bayesfair.posterior.store import continue_run
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


class Store:
    """The place of a stored run.

    `seen` notes that its content is the estimator's. Changes since, by others or by a failed resume, are not overwritten.
    """

    def __init__(self, path):
        self.path, self._stamp = Path(path).absolute(), None

    def seen(self):
        stat = os.stat(self.path / ROOT_OF_STORE)
        self._stamp = stat.st_ino, stat.st_size, stat.st_mtime_ns
        return self

    def keep(self, name, value):
        """Give the stored run an attribute."""
        run = self.go_on(None)
        try:
            run.keep(name, value)
        finally:
            run.close()
        self.seen()

    def go_on(self, wanted):
        """The run, open for appending until it has `wanted` draws per chain."""
        known, run = self._stamp, continue_run(self.path, wanted)
        if self.seen()._stamp != known:
            run.close()
            self._stamp = known
            rule, remedy = "be unchanged since it was read", "Load it again."
            raise ValueError(message("store", rule, f"a changed {os.fspath(self.path)!r}", remedy))
        return run


class Writer:
    """Receives the draws of `gibbs.draw`, on disk, chunk by chunk. `done`: how many since it was opened.

    `begin(chains, draws)` makes the stored run of the first chunk, if there is none to go on with.
    """

    def __init__(self, begin, stored=None):
        self._begin, self.stored, self.done = begin, stored, 0

    def append(self, chains, draws):
        if self.stored is None:
            self.stored = self._begin(chains, draws)
        else:
            self.stored.append(draws, arrays_of_run(chains.law, chains.states))
        self.done += draws.labels.shape[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.stored is not None:
            self.stored.close()
