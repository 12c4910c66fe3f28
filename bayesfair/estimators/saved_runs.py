"""A run of the Gibbs sampler as arrays in its tree, and back."""

import numpy as np

from bayesfair._arrays import on_device
from bayesfair._check import message
from bayesfair.gibbs.capabilities import HasUnits
from bayesfair.gibbs.moves.mode_jumps import Modes
from bayesfair.gibbs.problem import unscaled_loss
from bayesfair.gibbs.replicas import with_replicas
from bayesfair.gibbs.run import Run, tuned
from bayesfair.gibbs.search import FoundModes, with_jumps
from bayesfair.posterior.mode_tables import MODE_FIGURES
from bayesfair.posterior.saved import STATE

BETAS = "betas"  # name of the replicas' inverse temperatures in the state
JUMP = "modes_"  # prefix of the state's arrays of modes between which chains jump


def state_of(target, run):
    """The state from which a run continues, as arrays by name."""
    modes = target.modes if isinstance(target, HasUnits) else None
    known_modes = {} if modes is None else modes._asdict()
    state = {**target.write(run.states), "key": run.keys, **{JUMP + name: one for name, one in known_modes.items()}}
    if hasattr(target, "betas"):
        state[BETAS] = target.betas
    return {name: np.asarray(one) for name, one in state.items()}


def continued(problem, arrays, progress):
    """(the problem, with the modes between which chains jump, the run), from `state_of` and the sweeps and tuning so far."""
    arrays = {name: on_device(values) for name, values in arrays.items()}
    keys, betas = arrays.pop("key"), arrays.pop(BETAS, None)
    known_modes = {name: arrays.pop(JUMP + name) for name in Modes._fields if JUMP + name in arrays}
    target = problem.target if betas is None else with_replicas(problem.target, betas)
    moves = target.moves(problem.settings)
    if known_modes:
        target, moves = with_jumps(target, moves, Modes(**known_modes))
    run = Run(keys, progress["sweep"], target.read(arrays), tuned(moves, progress["tuning"]))
    return problem._replace(target=target), run


def modes_dataset(problem, found: FoundModes):
    """The modes that were found, for the tree, with losses in the units of the table."""
    import xarray as xr

    columns = {name: ("mode", getattr(found, name)) for name in MODE_FIGURES}
    columns["loss"] = ("mode", unscaled_loss(problem, found.loss))
    columns["labels"] = (("mode", "obs"), found.labels)
    masses = "measured" if found.weighed or len(found.starts) == 1 else "not known"
    return xr.Dataset(columns, attrs={"num_starts": found.num_starts, "masses": masses, "path_length": found.length})


def refuse_shares(path, tree, settings):
    """Raise a ValueError for a run made by an earlier version with rows in several processes."""
    if (settings.get("shares") or 1) > 1 or "fairlet_loss" in tree[STATE]:
        rule = "be a run of one process with all rows"
        got = f"{str(path)!r}, which an earlier version made with mesh(rows=...)"
        remedy = "bayesfair.posterior.read_tree reads its draws. To continue, fit all rows again in one process."
        raise ValueError(message("path", rule, got, remedy))
