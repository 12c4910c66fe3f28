"""From a table and groups to a target in units that suit float32, and back to the units of the table."""

import warnings
from typing import NamedTuple

import numpy as np

from bayesfair._arrays import MANY
from bayesfair._check import message
from bayesfair._draws import Draws
from bayesfair._progress import one_step
from bayesfair._scaling import ScaledRows, Scaling, check_float32, scaling_of
from bayesfair.gibbs.loss import Loss
from bayesfair.gibbs.target import Settings, Table, Target
from bayesfair.gibbs.targets import resolve_target
from bayesfair.gibbs.targets.fairlets import FairletTarget
from bayesfair.gibbs.targets.fixed_units import FixedUnits
from bayesfair.gibbs.temperature import Dispersion

LARGEST_TEMPERATURE = 1e30  # in units near the spread: sums of energies stay within float32
LARGEST_LOG = 450  # of a loss, base 2: squares of sums over rows and of inverse temperatures fit float64


class Problem(NamedTuple):
    """A table in the sampler's units, the settings, and the resulting target."""

    table: Table
    settings: Settings
    target: Target


def make_problem(table: Table, settings: Settings, state=None, progress_bar=False) -> Problem:
    """The target of a table, and both in the sampler's scaling. `state`: the arrays from which a run goes on."""
    kind, loss, X = resolve_target(settings.target), settings.loss, table.X
    loss.dissimilarity.check(X)
    Z, scaling = _scaled(X, loss, table.names, where_asked=issubclass(kind, FixedUnits))
    table = table._replace(X=Z, scaling=scaling)
    own = _scaled_temperature(settings.inverse_temperature, scaling, loss)
    settings = settings._replace(inverse_temperature=own)
    with one_step(kind.preparing, progress_bar and state is None and kind.preparing):
        table = kind.prepared(table, settings, state)
    target = kind.make(table, settings)
    if len(Z) >= MANY and Z is not X and isinstance(target, FairletTarget):
        table = table._replace(X=np.asarray(target.x)[:-1])  # one copy in these units suffices
    return Problem(table, settings, target)


def _scaled(X, loss: Loss, names, where_asked):
    """(X in units near its spread, its `Scaling`) if that changes the units alone; `where_asked`: scaled when read."""
    degree = _degree(loss)
    if not degree:
        check_float32(X, names=names)
        return X, Scaling(np.zeros(X.shape[1]), 0)
    with warnings.catch_warnings():  # of costs that underflow to 0: an error follows below
        warnings.simplefilter("ignore", RuntimeWarning)
        dtype = np.float64 if len(X) < MANY else np.float32  # the type that the sampler uses
        scaling = scaling_of(X, names=names, degree=degree, precision=np.float32)
        Z = ScaledRows(X, scaling, dtype) if where_asked else scaling.rows(X, dtype)
        if not where_asked:
            Z.flags.writeable = False  # a target may use them without a copy
    if abs(degree * scaling.exponent) > LARGEST_LOG:
        rule, remedy = "have a spread whose powers fit float64", "Divide every column by it."
        raise ValueError(message("X", rule, f"a standard deviation near {2.0**scaling.exponent:.3g}", remedy))
    return Z, scaling


def _degree(loss: Loss):
    """h of L(s X + a) = s^h L(X) if the loss has a whole one, else 0."""
    exact = loss.homogeneous and loss.translation_invariant and float(loss.degree).is_integer()
    return int(loss.degree) if exact else 0


def _scaled_temperature(inverse_temperature, scaling: Scaling, loss: Loss):
    """A user's inverse temperature, or rate of its prior, from the units of the table to the sampler's."""
    degree, cost = _degree(loss), scaling.cost
    if isinstance(inverse_temperature, Dispersion):
        return inverse_temperature._replace(rate=float(cost(inverse_temperature.rate, -degree)))
    if not isinstance(inverse_temperature, tuple):
        return inverse_temperature
    own = tuple(float(cost(part, degree)) for part in inverse_temperature)
    if not all(1 / LARGEST_TEMPERATURE <= part <= LARGEST_TEMPERATURE for part in own):
        rule = f"suit X, whose standard deviation is near {2.0**scaling.exponent:.3g}"
        remedy = f"Pass numbers near {cost(1.0, -degree):.1g}, or 'dispersion'."
        raise ValueError(message("inverse_temperature", rule, inverse_temperature, remedy))
    return own


def unscaled(problem: Problem, draws: Draws) -> Draws:
    """The draws with every scalar in the units of the table, by the power that it declares."""
    told = {name: _told(problem, values, draws.statistics[name].power) for name, values in draws.scalars.items()}
    return draws._replace(scalars=told)


def unscaled_loss(problem: Problem, losses):
    """Clustering losses in the units of the table."""
    return _told(problem, np.asarray(losses, float), 1)


def _told(problem: Problem, values, power: int):
    """`values` times a power of the unit of the loss, in float64 if float32 cannot hold the result."""
    power *= _degree(problem.settings.loss)
    if power == 0:
        return values
    told = problem.table.scaling.cost(values, power)
    with np.errstate(over="ignore", under="ignore"):
        single = told.astype(values.dtype)
    return single if (single.astype(float) == told).all() else told
