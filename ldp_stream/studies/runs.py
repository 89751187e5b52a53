"""One study: R replications of a campaign, by method (SN, DC, HiGrad) and step rule (power, adaptive).

Replications, and the chains of one replication that run side by side, are columns of arrays.
"""

from __future__ import annotations

import numpy as np

from .chains import Runner
from .devices import Devices
from .plan import Found, Plan
from .power import power_dc, power_higrad, power_sn
from .tuned import open_sn, pilots, tuned_dc, tuned_higrad, tuned_sn

__all__ = ["run"]

_POWER = {"sn": power_sn, "dc10": power_dc, "dc20": power_dc, "higrad": power_higrad}
_TUNED = {"sn": tuned_sn, "dc10": tuned_dc, "dc20": tuned_dc, "higrad": tuned_higrad}


def run(plan: Plan, devices: Devices, replications: int, rng: np.random.Generator) -> Found:
    """Return what R replications come to after n reports each."""
    runner = Runner(devices, plan.radius, rng)
    if plan.steps in ("power", "corrected"):
        return _POWER[plan.method](plan, runner, replications)
    if plan.method == "sn" and plan.horizon is None:
        return open_sn(plan, runner, replications)
    groups = [
        (pilot.where, _TUNED[plan.method](plan, runner, pilot))
        for pilot in pilots(plan, runner, replications)
    ]
    return Found.gather(groups)
