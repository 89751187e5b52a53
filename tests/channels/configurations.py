"""The CQX channels that the tests of this folder go through."""

from __future__ import annotations

from ldp_stream.channels.cqx import CQX

MIDPOINT, FROM_ZERO, TO_ZERO, UNEVEN = (-1.0, 1.0), (0.0, 1.0), (-1.0, 0.0), (-1.0, 0.3)
SHORT = (-0.1875, 1.0)

CHANNELS = {
    "no features": CQX(1.0, 0.5, (), q=2, s=1),
    "no features, extreme level": CQX(0.3, 0.97, (), q=5, s=1),
    "one midpoint feature": CQX(1.0, 0.5, (MIDPOINT,), q=2, s=1),
    "one one-sided feature, whole block": CQX(2.0, 0.9, (FROM_ZERO,), q=3, s=2),
    "worked example": CQX(1.0, 0.5, (MIDPOINT,) * 3, q=2, s=1),
    "extreme level, mixed centres": CQX(0.7, 0.1, (MIDPOINT, FROM_ZERO, TO_ZERO), q=4, s=1),
    "pairs, mixed centres": CQX(2.0, 0.9, (FROM_ZERO, UNEVEN, MIDPOINT), q=2, s=2),
    "pairs, three points": CQX(1.5, 0.25, (SHORT, TO_ZERO), q=3, s=2),
    "triples": CQX(4.0, 0.5, (MIDPOINT, FROM_ZERO, UNEVEN, SHORT), q=2, s=3),
    "triples, one-sided": CQX(4.0, 0.9, (FROM_ZERO, FROM_ZERO, MIDPOINT), q=3, s=3),
    "whole block": CQX(3.0, 0.75, (MIDPOINT, TO_ZERO, UNEVEN), q=3, s=4),
    "tiny epsilon": CQX(1e-6, 0.3, (MIDPOINT, FROM_ZERO), q=2, s=2),
    "smallest epsilon": CQX(1e-17, 0.5, (FROM_ZERO,), q=2, s=1),
    "large epsilon": CQX(30.0, 0.5, (MIDPOINT, FROM_ZERO), q=2, s=2),
    "huge epsilon": CQX(250.0, 0.5, (MIDPOINT, FROM_ZERO), q=3, s=2),
    "fine grid": CQX(2.0, 0.6, (UNEVEN, MIDPOINT), q=50, s=1),
    "intercept always": CQX(2.0, 0.75, (MIDPOINT, FROM_ZERO, UNEVEN), q=3, s=2, intercept=1.0),
    "intercept alone always": CQX(1.0, 0.6, (), q=2, s=1, intercept=1.0),
    "whole block, said twice": CQX(2.0, 0.25, (MIDPOINT, TO_ZERO), q=2, s=3, intercept=1.0),
    "intercept seldom": CQX(1.0, 0.9, (MIDPOINT, TO_ZERO), q=4, s=1, intercept=0.11),
    "intercept often, triples": CQX(3.0, 0.25, (MIDPOINT, FROM_ZERO, SHORT), q=2, s=3, intercept=0.9),
    "sheared": CQX(1.0, 0.5, (FROM_ZERO, UNEVEN, MIDPOINT), q=2, s=1, shear=True),
    "sheared, intercept often": CQX(
        2.0, 0.75, (TO_ZERO, FROM_ZERO, UNEVEN), q=3, s=2, intercept=0.75, shear=True
    ),
    "sheared, intercept always": CQX(
        4.0, 0.9, (FROM_ZERO, TO_ZERO, MIDPOINT), q=2, s=3, intercept=1, shear=True
    ),
    "sheared, whole block": CQX(2.0, 0.25, (FROM_ZERO, SHORT), q=3, s=3, shear=True),
    "extreme tau": CQX(1.0, 1e-6, (MIDPOINT, FROM_ZERO), q=3, s=2),
}
