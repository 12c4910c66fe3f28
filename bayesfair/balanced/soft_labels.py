"""Sums over soft labels softmax_k(alpha_gk - w d(x, m_k) / T), in tiles of rows that stay in a processor's cache.

Numbers of a tile are float32, as many of them at once as the processor can take; sums over tiles are float64. Rows are sorted
by group, one feature after the other, so that a tile of one group is contiguous in every feature.
"""

import numpy as np

from bayesfair._compiled import allocating, vector

TILE = 256  # rows
NEAR = np.float32(1e-4)  # distance below which the weights of the medians stop growing
LOG2E, HALF = np.float32(1.4426950408889634), np.float32(0.5)
LARGE = 1e200
LEAST = np.float32(-126.0)  # exponent of the smallest number
# exp(x) = 2^n 2^f: the Taylor coefficients of 2^f, which for f in [-1/2, 1/2] leave an error below 1e-7
C1, C2, C3 = np.float32(0.6931471805599453), np.float32(0.2402265069591007), np.float32(0.05550410866482158)
C4, C5, C6 = np.float32(0.009618129107628477), np.float32(0.0013333558146428441), np.float32(0.00015403530393381608)


@vector
def exponentials(values, bits, scale):
    """Put exp(v) in the place of every v <= 0; `scale` is a float32 view of `bits` (int32), as long as `values`."""
    one, exponent, mantissa = np.float32(1.0), np.int32(127), np.int32(23)
    for i in range(len(values)):
        power = max(values[i] * LOG2E, LEAST)
        whole = np.floor(power + HALF)
        f = power - whole
        bits[i] = (np.int32(whole) + exponent) << mantissa
        values[i] = one + f * (C1 + f * (C2 + f * (C3 + f * (C4 + f * (C5 + f * C6)))))
    for i in range(len(values)):
        values[i] *= scale[i]


@vector
def distances(x, begin, n, offset, slope, absolute, far):
    """far[:, :n] (clusters, TILE): offset_k + <slope_k, x>, or the sum of |x - slope_k|, of `n` rows from `begin` on."""
    for k in range(len(far)):
        own = far[k]
        for i in range(n):
            own[i] = offset[k]
        for j in range(len(x)):
            column, b = x[j, begin : begin + n], slope[k, j]
            if absolute:
                for i in range(n):
                    own[i] += abs(column[i] - b)
            else:
                for i in range(n):
                    own[i] += b * column[i]


@vector
def soften(far, n, weight, alpha, cold, share, spare, bits, scale):
    """Soft labels `share` of a tile at these weighted distances `far`; the sum of the logs of their denominators."""
    largest, whole = spare[0, :n], spare[1, :n]
    for i in range(n):  # array assignments would bring in seconds of checks to compile
        largest[i] = alpha[0] - cold * weight[i] * far[0, i]
        whole[i] = 0.0
    for k in range(len(far)):
        own, logit = far[k], share[k]
        for i in range(n):
            own[i] *= weight[i]
            logit[i] = alpha[k] - cold * own[i]
            largest[i] = max(largest[i], logit[i])
    for k in range(len(far)):
        soft = share[k, :n]
        for i in range(n):
            soft[i] -= largest[i]
        exponentials(soft, bits, scale)
        for i in range(n):
            whole[i] += soft[i]
    dual, product = 0.0, 1.0  # of denominators, whose logs would take half of the time
    for i in range(n):
        dual += float(largest[i])
        product *= float(whole[i])
        if product > LARGE:
            dual, product = dual + np.log(product), 1.0
        whole[i] = np.float32(1.0) / whole[i]
    dual += np.log(product)
    for k in range(len(far)):
        soft = share[k]
        for i in range(n):
            soft[i] *= whole[i]
    return dual


@vector
def dot(one, other, n):
    total = np.float32(0.0)
    for i in range(n):
        total += one[i] * other[i]
    return float(total)


@vector
def add_up(share, far, n, times, counts, slope):
    """Add a tile to the counts and their derivatives by alpha; returns its loss. Every row stands for `times` rows."""
    loss = 0.0
    for k in range(len(share)):
        held = np.float32(0.0)
        for i in range(n):
            held += share[k, i]
        counts[k] += times * float(held)
        slope[k, k] += times * float(held)
        loss += dot(share[k], far[k], n)
        for other in range(k + 1):
            both = times * dot(share[k], share[other], n)
            slope[k, other] -= both
            if other != k:
                slope[other, k] -= both
    return times * loss


@vector
def pull(x, begin, n, times, weight, share, slope, absolute, spare, mass, sums):
    """Add a tile to masses and sums (clusters, features), whose ratio is a centre: the mean, or a step to the median."""
    pulled = spare[0, :n]
    for k in range(len(share)):
        soft = share[k]
        for i in range(n):
            soft[i] *= weight[i]
        held = np.float32(0.0)
        for i in range(n):
            held += soft[i]
        for j in range(len(x)):
            column = x[j, begin : begin + n]
            if absolute:
                b, held = slope[k, j], np.float32(0.0)
                for i in range(n):
                    pulled[i] = soft[i] / max(abs(column[i] - b), NEAR)
                    held += pulled[i]
                sums[k, j] += times * dot(pulled, column, n)
            else:
                sums[k, j] += times * dot(soft, column, n)
            mass[k, j] += times * float(held)


@allocating
def add_moments(
    x, weight, first, stand_for, offset, slope, alpha, absolute, cold, wanted, counts, slopes, mass, sums, numbers
):
    """Add rows x (features, rows) to the moments of the starts that are `wanted`; `numbers` (starts, 2): loss and dual.

    Rows first[g] to first[g + 1] are of group g; each stands for so many of its group.
    """
    n_clusters = slope.shape[1]
    far, share = np.empty((n_clusters, TILE), np.float32), np.empty((n_clusters, TILE), np.float32)
    spare, bits = np.empty((2, TILE), np.float32), np.empty(TILE, np.int32)
    scale = bits.view(np.float32)
    for t in range(len(wanted)):
        if not wanted[t]:
            continue
        for g in range(len(first) - 1):
            for begin in range(first[g], first[g + 1], TILE):
                n, times = min(TILE, first[g + 1] - begin), stand_for[g]
                weights = weight[begin : begin + n]
                distances(x, begin, n, offset[t], slope[t], absolute, far)
                numbers[t, 1] += times * soften(far, n, weights, alpha[t, g], cold, share, spare, bits, scale)
                numbers[t, 0] += add_up(share, far, n, times, counts[t, g], slopes[t, g])
                pull(x, begin, n, times, weights, share, slope[t], absolute, spare, mass[t], sums[t])
