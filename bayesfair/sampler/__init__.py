"""The Gibbs posterior: chance, losses, kernels, targets, and the run that draws. Every kernel is a plain loop in Numba."""
