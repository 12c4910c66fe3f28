"""What an exchange of rows between two fairlets costs: formulas on plain arrays, which loops over proposals call.

Row a of fairlet f, of weight w, goes to fairlet h, and row b, of weight v, comes back. If nobody comes back v is 0, and b any
row. The clusters of f and h are k and q.
"""

from bayesfair._compiled import inlined, inner
from bayesfair.gibbs.losses import KMEANS, between, copy_row, joining, leaving, log_g_at, paid_at


@inner
def copy_center(total, mass, f, x):
    """The centre of fairlet f."""
    for e in range(len(x)):
        x[e] = total[f, e] / mass[f]


# What fairlets pay


@inlined
def price(x, weight, loss, row, other, middle, i, j):
    """What row i pays for the anchor j, with w v / (w + v) twice for their weights."""
    far = 0.0
    if loss.kind == KMEANS:
        for e in range(len(row)):
            off = 1.0 * x[i, e] - x[j, e]
            far += off * off
    else:
        copy_row(x, i, row)
        copy_row(x, j, other)
        far = between(loss, row, other, middle)
    return 2.0 * weight[i] * weight[j] / (weight[i] + weight[j]) * far


@inner
def hub_loss(x, weight, loss, row, members, size, f, center):
    """What the members of fairlet f pay for this centre."""
    paid = 0.0
    for t in range(size[f]):
        copy_row(x, members[f, t], row)
        paid += weight[members[f, t]] * paid_at(loss.paid, row, center)
    return paid


# What an exchange changes in L_f


@inlined
def anchored_change(x, weight, loss, row, other, middle, anchors, a, v, b, f, h):
    """Change of the anchored L_f."""
    change = 0.0
    for z in range(2 if v > 0.0 else 1):
        i, here, there = (a, f, h) if z == 0 else (b, h, f)
        change += price(x, weight, loss, row, other, middle, i, anchors[there])
        change -= price(x, weight, loss, row, other, middle, i, anchors[here])
    return change


@inner
def anchors_change(x, weight, loss, row, other, middle, members, size, a, b, f, h):
    """Change of the anchored L_f if the anchors a of f and b of h change places: the others then pay for the other one."""
    change = 0.0
    for z in range(2):
        g, here, there = (f, a, b) if z == 0 else (h, b, a)
        for t in range(size[g]):
            if members[g, t] != here:
                change += price(x, weight, loss, row, other, middle, members[g, t], there)
                change -= price(x, weight, loss, row, other, middle, members[g, t], here)
    return change


@inner
def hub_change(x, weight, loss, row, members, size, f_old, f_new, h_old, h_new, a, w, b, v, f, h):
    """Change of L_f with hubs, given the centres of both fairlets before and after."""
    change = hub_loss(x, weight, loss, row, members, size, f, f_new)
    change -= hub_loss(x, weight, loss, row, members, size, f, f_old)
    change += hub_loss(x, weight, loss, row, members, size, h, h_new)
    change -= hub_loss(x, weight, loss, row, members, size, h, h_old)
    copy_row(x, a, row)
    change += w * (paid_at(loss.paid, row, h_new) - paid_at(loss.paid, row, f_new))
    copy_row(x, b, row)
    return change + v * (paid_at(loss.paid, row, f_new) - paid_at(loss.paid, row, h_new))


# What an exchange changes in what two sets of rows pay to their own means


@inlined
def squares_change(x, a, w, b, v, total, mass, f, h):
    """The change for squared distances, from sums over the sets f and h.

    With g = v b - w a, c = v - w, means m and weights W of the sets it is
    (m_h - m_f) (2 g - c (m_f + m_h)) - |g - c m_f|^2 / (W_f + c) - |g - c m_h|^2 / (W_h - c).
    """
    c, per_f, per_h = v - w, 1.0 / mass[f], 1.0 / mass[h]
    straight, bent_f, bent_h = 0.0, 0.0, 0.0
    for e in range(x.shape[1]):
        g, mean_f, mean_h = v * x[b, e] - w * x[a, e], total[f, e] * per_f, total[h, e] * per_h
        off_f, off_h = g - c * mean_f, g - c * mean_h
        straight += (mean_h - mean_f) * (off_f + off_h)
        bent_f += off_f * off_f
        bent_h += off_h * off_h
    return straight - bent_f / (mass[f] + c) - bent_h / (mass[h] - c)


@inner
def replaced(x, loss, row, rest, old, new, total, mass, alone, out, w, incoming, v):
    """The change of one set for any Bregman loss: `out` leaves, `incoming` comes. `alone`: `out` is all of the set."""
    change = 0.0
    for e in range(len(row)):
        row[e] = x[out, e]
        rest[e] = total[e] - w * row[e]
    if w > 0.0 and not alone:
        change -= leaving(loss, row, w, total, mass, old, new)
    if v > 0.0:
        copy_row(x, incoming, row)
        change += joining(loss, row, v, rest, 0.0 if alone else mass - w, old, new)
    return change


@inner
def pulled(x, loss, old, new, center, total, mass, lam, out, w, incoming, v):
    """Given the centre of a cluster: change of lambda W d(mean, centre) + log g if `out` leaves and `incoming` comes."""
    then = mass - w + v
    for e in range(len(old)):
        old[e] = total[e] / mass
        new[e] = (total[e] - w * x[out, e] + v * x[incoming, e]) / then
    change = lam * (then * paid_at(loss.paid, new, center) - mass * paid_at(loss.paid, old, center))
    for e in range(len(new)):
        new[e] *= then
    return change + log_g_at(loss.log_g, lam * then, then, new) - log_g_at(loss.log_g, lam * mass, mass, total)


# What an exchange changes in L_c of a loss of pairs


@inner
def new_centers(x, a, w, b, v, total, mass, f, h, f_old, f_new, h_old, h_new):
    """The centres of both fairlets before and after."""
    copy_center(total, mass, f, f_old)
    copy_center(total, mass, h, h_old)
    for e in range(len(f_old)):
        g = v * x[b, e] - w * x[a, e]
        f_new[e] = (total[f, e] + g) / (mass[f] + v - w)
        h_new[e] = (total[h, e] - g) / (mass[h] - v + w)


@inner
def pairs_change(loss, cluster, total, mass, weight, reach, pairs, z, f_old, f_new, h_old, h_new, f, h, gain):
    """Change of (mean size) L_c if fairlets f and h take their new centres, and f gains this weight from h."""
    k, q = cluster[f], cluster[h]
    far_f, far_h = 0.0, 0.0
    for j in range(len(cluster)):
        if j != f and j != h and (cluster[j] == k or cluster[j] == q):
            copy_center(total, mass, j, z)
            if cluster[j] == k:
                far_f += mass[j] * paid_at(loss.paid, z, f_new)
            if cluster[j] == q:
                far_h += mass[j] * paid_at(loss.paid, z, h_new)
    mass_f, mass_h = mass[f] + gain, mass[h] - gain
    own = mass_f * far_f - mass[f] * reach[f, k]
    other = mass_h * far_h - mass[h] * reach[h, q]
    if k == q:
        both = mass_f * mass_h * paid_at(loss.paid, f_new, h_new) + mass[f] * mass[h] * paid_at(loss.paid, f_old, h_old)
        return (own + other + both) / weight[k]
    change = (pairs[k] + 2.0 * own) / (2.0 * (weight[k] + gain)) - pairs[k] / (2.0 * weight[k])
    return change + (pairs[q] + 2.0 * other) / (2.0 * (weight[q] - gain)) - pairs[q] / (2.0 * weight[q])
