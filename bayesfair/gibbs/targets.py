"""What users may ask for by name: targets and inverse temperatures."""

from bayesfair._check import check_number, message
from bayesfair.gibbs.cut import Cut
from bayesfair.gibbs.joint import Joint
from bayesfair.gibbs.labels import Labels
from bayesfair.gibbs.optimal import Optimal
from bayesfair.gibbs.target import Dispersion

TARGETS = {kind.name: kind for kind in (Labels, Joint, Cut, Optimal)}
TEMPERATURES = "dispersion", "calibrated", "holmes-walker"


def resolve_target(target):
    """The target of that name, with its defaults, or the object itself."""
    if isinstance(target, str) and target in TARGETS:
        return TARGETS[target]()
    if isinstance(target, tuple(TARGETS.values())):
        return target
    rule = f"be one of {', '.join(map(repr, TARGETS))} or an object such as bf.gibbs.Labels(min_balance=0.8)"
    remedy = "Targets of your own are withdrawn; a loss of your own is bf.gibbs.Loss."
    raise ValueError(message("target", rule, repr(target), remedy))


def resolve_temperature(asked, found=None) -> Dispersion | str | tuple[float, ...]:
    """The law of lambda, the name of a rule, or fixed numbers above zero; `found`: the numbers of a calibration."""
    if isinstance(asked, Dispersion):
        for name, value in asked._asdict().items():
            check_number(f"inverse_temperature.{name}", value, minimum=0)
        return asked
    if isinstance(asked, str):
        if asked in TEMPERATURES:
            return {"dispersion": Dispersion(), "calibrated": found}.get(asked, asked)
        rule = f"be one of {', '.join(map(repr, TEMPERATURES))}, a number, a pair or a bf.gibbs.Dispersion"
        withdrawn = "It is withdrawn, as it makes every row look sure. " * (asked == "loss-likelihood-bootstrap")
        raise ValueError(message("inverse_temperature", rule, repr(asked), f"{withdrawn}Use 'dispersion' if in doubt."))
    numbers = tuple(asked) if isinstance(asked, (tuple, list)) or getattr(asked, "ndim", 0) else (asked,)
    remedy = "Fixed inverse temperatures are numbers above zero, as in `inverse_temperature_` of another fit."
    for one in numbers:
        check_number("inverse_temperature", one, remedy=remedy)
    return tuple(map(float, numbers))
