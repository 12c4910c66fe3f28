"""Tiny posteriors of units, enumerated: losses by double loops, balance by its definition, the relaxed law by its formula."""

from functools import cached_property
from itertools import product

import numpy as np
from exact_fairlets import divergence, loss_code, of_pairs

from bayesfair.gibbs import balance as sets
from bayesfair.gibbs.losses import log_g_at
from bayesfair.gibbs.units import Units, new_state

LAMBDA, STRENGTH = 0.6, 1.3
COLUMNS = {
    "3:3": ([0, 0, 0, 1, 1, 1],),
    "4:2": ([0, 0, 0, 0, 1, 1],),
    "2:2:2": ([0, 0, 1, 1, 2, 2],),
    "two attributes": ([0, 0, 0, 1, 1, 1], [0, 0, 1, 0, 1, 1]),
    "2:2": ([0, 0, 1, 1],),
    "1:1:2": ([0, 1, 2, 2],),
}
FORMS = "exact", "least", "sizes", "none", "alone"  # alone: each attribute, but not their combinations


class TinyUnits:
    """All labellings with every cluster used, and the relaxed law over them."""

    def __init__(self, columns, form, loss, n_clusters=2, weighted=False):
        self.form, self.loss, self.n_clusters = form, loss, n_clusters
        self.codes = [np.array(column) for column in COLUMNS[columns]]
        together = np.unique(np.stack(self.codes, 1), axis=0, return_inverse=True)[1].ravel()
        self.n_obs = len(together)
        rng = np.random.default_rng(3)
        self.X = rng.uniform(0.05, 0.95, (self.n_obs, 2)) * {"kl": 4, "itakura-saito": 3, "binary": 1}.get(loss, 3)
        self.weight = np.array([2.0, 1, 3, 1, 1, 4])[: self.n_obs] if weighted else np.ones(self.n_obs)
        self.loss_code = loss_code(loss)
        if form == "none":
            together = np.zeros(self.n_obs, int)
        order = np.argsort(together, kind="stable")
        first = np.concatenate([[0], np.cumsum(np.bincount(together))])
        self.units = Units(self.X, self.weight, together.astype(np.int32), order, first)
        self.families = sets.families(self.codes, None if form == "alone" else together)
        kept = self.codes if form == "alone" or len(self.codes) == 1 else [together, *self.codes]
        self.member = [code == g for code in kept for g in range(code.max() + 1)]
        self.family = np.repeat(np.arange(len(kept)), [code.max() + 1 for code in kept])
        self.states = [z for z in product(range(n_clusters), repeat=self.n_obs) if len(set(z)) == n_clusters]

    @cached_property
    def balance(self):
        if self.form == "none":
            return sets.within_one_row(*sets.families([np.zeros(self.n_obs, int)], None))
        if self.form == "least":
            return sets.at_least(0.4, *self.families)
        return sets.within_one_row(*self.families, **({"size_min": 2, "size_max": 4} if self.form == "sizes" else {}))

    def excess(self, z):
        """Rows beyond the bounds, of every group and cluster and of every size, by the definitions."""
        beyond = []
        for k in range(self.n_clusters):
            inside = np.array(z) == k
            n, size = np.array([(inside & member).sum() for member in self.member]), inside.sum()
            if self.form == "least":
                beyond += [0.4 * n[self.family == self.family[h]].max() - n[h] - sets.ROUNDING for h in range(len(n))]
            elif self.form != "none":
                beyond += [abs(n[h] - self.member[h].mean() * size) - sets.WITHIN for h in range(len(n))]
            if self.form == "sizes":
                beyond += [2 - size, size - 4]
        return np.array(beyond)

    def in_balance(self, z):
        return (self.excess(z) <= 0).all()

    def value(self, z):
        """L(z)."""
        z, total = np.array(z), 0.0
        for k in range(self.n_clusters):
            x, w = self.X[z == k], self.weight[z == k]
            if of_pairs(self.loss):
                total += sum(
                    w[i] * w[j] * divergence(self.loss, x[i], x[j]) for i, j in product(range(len(x)), repeat=2)
                ) / (2 * w.sum())
            else:
                mean = np.average(x, 0, w)
                total += sum(w[i] * divergence(self.loss, x[i], mean) for i in range(len(x)))
        return total

    def penalty(self, z):
        beyond = np.maximum(self.excess(z), 0)
        return (np.where(beyond <= sets.REACH, STRENGTH, sets.WALL) * beyond).sum()

    @cached_property
    def law(self):
        """exp(-lambda L - V), the relaxed law."""
        p = np.array([np.exp(-LAMBDA * self.value(z) - self.penalty(z)) for z in self.states])
        return p / p.sum()

    def law_given(self, centers):
        """The relaxed law given centres: prod_i exp(-lambda w_i d(x_i, m_z)) exp(-V) / prod_k g_k."""
        p = []
        for z in self.states:
            state = self.state(z)
            log_g = sum(
                log_g_at(self.loss_code.log_g, LAMBDA * state.mass[k], state.mass[k], state.total[k])
                for k in range(self.n_clusters)
            )
            paid = sum(self.weight[i] * divergence(self.loss, self.X[i], centers[z[i]]) for i in range(self.n_obs))
            p.append(np.exp(-LAMBDA * paid - self.penalty(z) - log_g))
        return np.array(p) / sum(p)

    def state(self, z):
        words = np.arange(1, 5, dtype=np.uint64)
        return new_state(words, z, self.units, self.loss_code, self.balance, self.n_clusters, STRENGTH, LAMBDA)
