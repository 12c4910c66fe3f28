"""Newton's step on the duals of a start that are held: an equation for each, solved by Cholesky's factors."""

import numpy as np

from bayesfair._compiled import allocating, vector

SINGULAR = 1e-12  # relative to the largest diagonal entry: smallest pivot


@vector
def product(one, other, n):
    total = 0.0
    for i in range(n):
        total += one[i] * other[i]
    return total


@vector
def solve(matrix, wanted):
    """Put the solution in the place of `wanted`, and Cholesky's factor in that of the lower half of the matrix."""
    n, tiny = len(matrix), 0.0
    for i in range(n):
        tiny = max(tiny, SINGULAR * matrix[i, i])
    for i in range(n):
        for j in range(i):
            matrix[i, j] = (matrix[i, j] - product(matrix[i], matrix[j], j)) / matrix[j, j]
        matrix[i, i] = np.sqrt(max(matrix[i, i] - product(matrix[i], matrix[i], i), tiny))
        wanted[i] = (wanted[i] - product(matrix[i], wanted, i)) / matrix[i, i]
    for i in range(n - 1, -1, -1):
        wanted[i] /= matrix[i, i]
        for j in range(i):
            wanted[j] -= matrix[i, j] * wanted[i]


@allocating
def held_steps(A, held, slope, excess, ridge, step):
    """The steps (starts, rows, clusters) of the duals of A's rows that are `held`; the others stay."""
    for t in range(len(step)):
        row, cluster = np.nonzero(held[t])
        n = len(row)
        curvature, wanted = np.zeros((n, n)), np.empty(n)
        for a in range(n):
            wanted[a] = excess[t, row[a], cluster[a]]
            curvature[a, a] = ridge[t]
            for b in range(a + 1):
                for g in range(A.shape[1]):
                    curvature[a, b] += A[row[a], g] * A[row[b], g] * slope[t, g, cluster[a], cluster[b]]
        solve(curvature, wanted)
        for a in range(n):
            step[t, row[a], cluster[a]] = wanted[a]
