"""Jumps between modes: a nonequilibrium candidate, exactly accepted (DESIGN 2.7; Nilmeier, Crooks, Minh and Chodera 2011).

A jump draws centres m given the clustering, finds the mode nearest to them, chooses another one, and maps theta = (m, lambda)
to the same place of that mode. theta goes there in T small steps, and after each the clustering follows by a kernel that is
reversible for pi(z | theta_t). The changes of log pi(z, theta) at the steps add up to the work w, and the end is accepted with
probability min(1, exp(w) |dT|).

Labels move by their relaxed law on the way, but a jump begins and ends in the balanced set, so that it leaves the law on this
set as it is: jumps are made after draws, at fixed counts of draws.
"""

import numpy as np

from bayesfair._draws import Statistic
from bayesfair.balanced.labels import balanced_labels
from bayesfair.gibbs import fairlets, units
from bayesfair.gibbs.chance import accept
from bayesfair.gibbs.modes.fairlet_paths import fairlet_path
from bayesfair.gibbs.modes.places import Places
from bayesfair.gibbs.modes.unit_paths import unit_path
from bayesfair.gibbs.target import Room, empty_room

PERIOD = 1.0  # steps of jumps for every sweep
UNLIMITED = 1 << 62  # visits
PREFIX = "mode_"  # of the arrays of a run with jumps


class UnitPaths:
    """What modes need of units: sums of clusters, paths, and states numbered anew."""

    def __init__(self, law):
        self.law = law

    def sums(self, state):
        """(lambda, weights (K,), sums (K, d)) of the clusters."""
        return state.number[units.LAMBDA], state.mass, state.total

    def strength(self, state):
        """The penalties of the relaxed law (K, H + 1), which a mode has learnt."""
        return state.strength

    def numbered(self, state, cluster, words, strength):
        """The state with the clusters `cluster` in this order, another generator, and these penalties."""
        law, label = self.law, np.argsort(cluster)[state.label]
        n_clusters, lam = law.table.n_clusters, state.number[units.LAMBDA]
        renumbered = units.new_state(words, label, law.units, law.code, law.balance, n_clusters, strength, lam)
        renumbered.number[units.EACH] = state.number[units.EACH]
        return renumbered

    def clustered(self, state):
        """(places (n, d), weights and clusters) of what is clustered."""
        return self.law.table.X, self.law.table.weight, state.label

    def from_centers(self, state, centers):
        """A state near these centres (K, d), balanced."""
        label = balanced_labels(self.law.problem, centers)
        return self.law.state(0, label, state.number[units.LAMBDA])

    def path(self, state, places: Places, length):
        """(the mode of origin, log of exp(w) |dT|, -inf if refused) of a path from this state, which it changes."""
        law = self.law
        return unit_path(law.units, law.code, law.balance, law.schedule, places, state, length)

    def waited(self, state):
        """Draws since the last jump (1,), which can be changed in place."""
        return state.step[units.DRAWS : units.DRAWS + 1]


class FairletPaths:
    """What modes need of fairlets, see `UnitPaths`."""

    def __init__(self, law):
        self.law = law

    def sums(self, state):
        return state.value[fairlets.LAMBDA], state.weight, state.sums

    def strength(self, state):
        return np.zeros((len(state.weight), 0))

    def numbered(self, state, cluster, words, strength):
        law, own = self.law, np.argsort(cluster)[state.cluster]
        lambdas = state.value[[fairlets.LAMBDA_F, fairlets.LAMBDA]]
        return fairlets.new_state(words, law.data, law.code, state.fairlet, own, law.table.n_clusters, *lambdas)

    def clustered(self, state):
        return state.total / state.mass[:, None], state.mass, state.cluster

    def from_centers(self, state, centers):
        divergence, (x, *_) = self.law.table.loss.dissimilarity.divergence, self.clustered(state)
        nearest = np.stack([divergence(x, center) for center in centers], 1).argmin(1)
        return self.law.state(0, state.fairlet, nearest, *state.value[[fairlets.LAMBDA_F, fairlets.LAMBDA]])

    def path(self, state, places: Places, length):
        law = self.law
        return fairlet_path(law.data, law.code, law.plan, places, state, length)

    def waited(self, state):
        return state.step[fairlets.DRAWS : fairlets.DRAWS + 1]


def paths_of(law) -> UnitPaths | FairletPaths | None:
    """The paths between modes of this law; None without a density, without conjugate centres, or with one cluster."""
    if "lp" not in law.statistics or not law.table.loss.has_conjugate_centers or law.table.n_clusters == 1:
        return None
    return UnitPaths(law) if law.state_type is units.UnitState else FairletPaths(law)


class JumpingLaw:
    """A law whose chains jump between modes after draws; otherwise it is `law`."""

    def __init__(self, law, places: Places, length: int):
        self.law, self.places, self.length, self.paths = law, places, length, paths_of(law)
        self.statistics = law.statistics | {"jump_acceptance": Statistic("figure")}

    def __getattr__(self, name):
        if name == "law" or name.startswith("__"):  # a copy that is being made has no law yet
            raise AttributeError(name)
        return getattr(self.law, name)

    @property
    def memory(self) -> dict:
        """Arrays that a continued run needs beside its table and states: also where the modes are."""
        places = {PREFIX + name: values for name, values in self.places._asdict().items()}
        return self.law.memory | places | {PREFIX + "length": np.array(self.length)}

    def period(self, thinning: int) -> int:
        """Draws between jumps."""
        return max(1, round(self.length / (PERIOD * thinning)))

    def advance(self, state, thinning: int, visits: int, room: Room, first: int) -> int:
        """Go on with a chain, as `law` does, and jump after every so many draws."""
        waited, period, draw, n_obs = self.paths.waited(state), self.period(thinning), first, len(self.law.table.X)
        while draw < len(room.scalars) and visits > 0:
            last = min(len(room.scalars), draw + max(1, period - int(waited[0])))
            scalars = np.empty((last - draw, len(self.law.statistics)))
            part = Room(room.labels[draw:last], room.fairlets[draw:last], scalars)
            now = draw + self.law.advance(state, thinning, visits, part, 0)
            room.scalars[draw:now, :-1], room.scalars[draw:now, -1] = scalars[: now - draw], np.nan
            waited += now - draw
            visits -= ((now - draw) * thinning + self.length) * n_obs
            if now < last:
                return now
            if waited[0] >= period:
                room.scalars[now - 1, -1] = self.jump(state)
                waited[0] = 0
            draw = now
        return draw

    def learn(self, state, n_sweeps: int):
        """Sweeps that nobody reads: penalties stay as they are, so that they suit all modes."""
        self.advance(state, max(n_sweeps, 1), UNLIMITED, empty_room(self, 1), 0)

    def jump(self, state) -> float:
        """Try a jump, in place; the probability with which it was accepted."""
        before = [part.copy() for part in state]
        _, log_ratio = self.paths.path(state, self.places, self.length)
        is_taken = accept(state.words, log_ratio)
        for name, part, old in zip(state._fields, state, before):
            if name == "step" or not (is_taken or name == "words"):  # counters are of the sweeps alone
                part[...] = old
        return float(np.exp(min(log_ratio, 0.0)))


def with_jumps_of(law, memory: dict | None):
    """The law of a run that continues, with jumps if it had them."""
    if memory is None or PREFIX + "length" not in memory:
        return law
    places = Places(*(np.ascontiguousarray(memory[PREFIX + name], float) for name in Places._fields))
    return JumpingLaw(law, places, int(memory[PREFIX + "length"]))
