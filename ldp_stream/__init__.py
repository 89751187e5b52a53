"""Statistics on streams that nobody has to be trusted with.

The public names are loaded when first used: a device that only makes reports loads neither numpy nor river.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .campaign import Campaign
    from .client.ledger import Ledger
    from .client.reporter import Reporter
    from .estimators.quantile import PrivateQuantileRegressor
    from .inference.ellipsoid import Ellipsoid
    from .inference.regions import Interval
    from .privacy import PrivacyBudget
    from .report_batch import ReportBatch
    from .server.aggregator import Aggregator
    from .server.estimate import Estimate

__version__ = "0.1.0"

__all__ = [
    "Aggregator",
    "Campaign",
    "Ellipsoid",
    "Estimate",
    "Interval",
    "Ledger",
    "PrivacyBudget",
    "PrivateQuantileRegressor",
    "ReportBatch",
    "Reporter",
]

_HOME = {
    "Aggregator": "server.aggregator",
    "Campaign": "campaign",
    "Ellipsoid": "inference.ellipsoid",
    "Estimate": "server.estimate",
    "Interval": "inference.regions",
    "Ledger": "client.ledger",
    "PrivacyBudget": "privacy",
    "PrivateQuantileRegressor": "estimators.quantile",
    "ReportBatch": "report_batch",
    "Reporter": "client.reporter",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
