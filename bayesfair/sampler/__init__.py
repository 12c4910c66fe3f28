"""The Gibbs sampler as sequential kernels in Numba, which is to replace `bayesfair.gibbs`; nothing uses it yet.

Chance, losses, kernels, targets, and the run that draws: every kernel is a plain loop, and tests hold its own transition
matrix against the enumerated posterior.
"""

__all__ = []
