"""Stages of a long computation, loops one after the other: what one that was cut off needs to go on from where it was."""

__all__ = ["NOTHING_KEPT", "Stages"]


class Stages:
    """Of a computation that keeps nothing.

    A stage says where it is as a NamedTuple of arrays and numbers, whose class may name the arrays that have an entry for each
    row of this process in `of_rows`. Given its seed the computation comes to the same stages again.
    """

    def begin(self, kind):
        """Where the next stage was, of the class `kind`; None at its start."""
        return None

    def reached(self, state, made, *, ended=False, alone=False):
        """The stage is there, after `made` rounds. `ended`: for good. `alone`: as each process does for itself what all of them
        do, they need not be at the same place."""

    def at_once(self, kind, work):
        """`work()`, of the class `kind`: a stage of one round."""
        found = self.begin(kind)
        if found is None:
            found = work()
            self.reached(found, 1, ended=True)
        return found


NOTHING_KEPT = Stages()
