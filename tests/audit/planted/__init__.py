"""Planted bugs: broken mechanisms that an audit must catch, each beside a correct one that must
survive the same audit."""

from .channels import CHANNELS
from .choices import CHOICES
from .counting import COUNTING
from .decisions import DECISIONS
from .floats import FLOATS
from .lists import LISTS
from .programs import PROGRAMS
from .registry import Planted
from .sums import SUMS

PLANTED: tuple[Planted, ...] = (
    *COUNTING,
    *LISTS,
    *SUMS,
    *CHOICES,
    *DECISIONS,
    *CHANNELS,
    *FLOATS,
    *PROGRAMS,
)

__all__ = ["PLANTED", "Planted"]
