"""The package's exceptions: one small tree, so that one ``except LdpStreamError`` catches them all.

Each message names the parameter, the value that was met and what is allowed.
"""

from __future__ import annotations

__all__ = [
    "AlreadyReported",
    "BrokerUnavailable",
    "BudgetExceeded",
    "CampaignMismatch",
    "InvalidCampaign",
    "InvalidInput",
    "InvalidReport",
    "InvalidSnapshot",
    "LdpStreamError",
    "MissingExtra",
    "NoConfidenceSet",
    "OverlappingState",
    "UnusableRow",
]


class LdpStreamError(Exception):
    """Base of every exception that the package raises on purpose."""


class InvalidInput(LdpStreamError, ValueError):
    """An argument is outside what the function allows."""


class InvalidCampaign(LdpStreamError):
    """A campaign's definition is refused; the message names every bad field."""


class InvalidReport(LdpStreamError, ValueError):
    """Bytes or fields that are not a report of this campaign."""


class InvalidSnapshot(LdpStreamError, ValueError):
    """Bytes that are not a sound snapshot: cut short, altered, or of another format version."""


class CampaignMismatch(LdpStreamError, ValueError):
    """A report, a parameters message or a state belongs to another campaign."""


class OverlappingState(LdpStreamError, ValueError):
    """Two states to merge hold the same chain, so reports could count twice."""


class AlreadyReported(LdpStreamError):
    """This device has sent its one report of the campaign."""


class BudgetExceeded(LdpStreamError):
    """The campaign asks for more privacy budget than the device's owner allows."""


class NoConfidenceSet(LdpStreamError):
    """A confidence set that does not exist; the message says why."""


class UnusableRow(LdpStreamError, ValueError):
    """One row of raw data that cannot be used; the reason is the message."""


class BrokerUnavailable(LdpStreamError):
    """No Kafka broker answers, or not in time; what was asked for may be tried again."""


class MissingExtra(LdpStreamError, ImportError):
    """An optional dependency is absent; the message names the extra to install."""
