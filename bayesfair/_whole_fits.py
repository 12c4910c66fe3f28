"""A fit changes its estimator as a whole or not at all."""

from functools import wraps

from bayesfair._usual import usual_settings


def whole_or_not(method):
    """Decorator of methods that fit: a failure leaves the estimator unchanged.

    Yet a new posterior stays, whatever follows: an error, Ctrl-C, or a warning that is an error.
    """

    @wraps(method)
    def whole(self, *arguments, **named):
        before = vars(self).copy()
        try:
            with usual_settings():
                return method(self, *arguments, **named)
        except BaseException as error:
            stopped = isinstance(error, KeyboardInterrupt)
            if vars(self).get("posterior_") is before.get("posterior_"):
                vars(self).clear()
                vars(self).update(before)
                if stopped:  # in one sentence, without the many lines of compiled loops
                    raise KeyboardInterrupt(nothing_kept(before)) from None
            elif stopped:
                missing = "what is computed from it, such as `labels_`, may be missing"
                error.add_note(
                    f"`posterior_` is kept; {missing}. Save the estimator and load it to compute that again."
                )
            raise

    return whole


def nothing_kept(attributes):
    """The sentence that ends a fit without a result, of an estimator that had these attributes."""
    earlier = ", and the earlier fit stays" if any(name.endswith("_") for name in attributes) else ""
    return f"Stopped before there was a result: nothing new is kept{earlier}."
