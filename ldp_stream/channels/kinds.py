"""The channels that a campaign can have, by what they send.

A finite channel sends a category and is decoded by a table. A vector channel sends p floats, each within
``limits``, and its payload is the decoded vector itself.
"""

from __future__ import annotations

from .cqx import CQX
from .face_exponential import FaceExponential
from .laplace import DirectLaplace
from .no_privacy import NoPrivacy
from .piecewise import Piecewise
from .privunit import PrivUnitG

__all__ = ["FiniteChannel", "Mechanism", "VectorChannel"]

FiniteChannel = CQX | FaceExponential
VectorChannel = NoPrivacy | DirectLaplace | Piecewise | PrivUnitG
Mechanism = FiniteChannel | VectorChannel
