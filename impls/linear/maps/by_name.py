"""All feature maps by name, and how they are built."""

from ..parameters import refuse_bad_features
from .cosine import Cosine
from .efficient import Efficient
from .favor import Favor
from .feature_map import ELEMENTWISE, FeatureMap
from .quadratic import Quadratic
from .taylor import Taylor

FEATURES = 256
"""Default of FAVOR+'s m: near the D log D of Choromanski et al. 2020, theorem 4, at D = 64."""

OTHERS: dict[str, type[FeatureMap]] = {"cosine": Cosine, "quadratic": Quadratic, "taylor": Taylor, "efficient": Efficient}


def feature_map(name: str, D: int, features: int | None = None) -> FeatureMap:
    """Build the map of that name for keys of width D.

    Raises ValueError where there is none, or where `features` is given to one that draws none.
    """
    if name == "favor":
        refuse_bad_features(FEATURES if features is None else features)
        return Favor(D, features or FEATURES)
    if features is not None:
        raise ValueError(f"features={features!r}: must be left out, feature_map={name!r} draws none; favor does")
    if name in ELEMENTWISE:
        return ELEMENTWISE[name]()
    if name in OTHERS:
        return OTHERS[name]()
    raise ValueError(f"feature_map={name!r}: must be one of {', '.join([*ELEMENTWISE, *OTHERS, 'favor'])}")
