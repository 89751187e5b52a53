"""The device's side of a campaign: one private report of one record, whatever the record holds.

At the parameters b of its chain the device computes, in the working scale, the contribution of its user to
the estimating equation of quantile regression,

    g_b(X, Y) = X (1{Y <= X'b} - tau),

and sends it through the campaign's channel. What decides where the report belongs is the token alone, never
the data: partition = token mod P, chain = (token div P) mod chains. A device that was asked always answers: a
missing or unreadable feature takes its centre, a missing target the public middle of its range, and no
exception depends on the record.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping, Sequence
from operator import mul
from typing import Self

from ..campaign import Campaign
from ..channels.base import CategoryPayload, VectorPayload
from ..codec import decode_report, encode_report
from ..errors import CampaignMismatch, InvalidInput
from ..reports import CategoryReport, ChainParameters, Parameters, Report, VectorReport
from .entropy import Entropy, SimulatedEntropy, SystemEntropy
from .ledger import Ledger

__all__ = ["Reporter", "contribution", "token_of"]

_TOKEN_BYTES = 16


def contribution(row: Sequence[float], y: float, b: Sequence[float], tau: float) -> list[float]:
    """Return g_b(X, Y) = X (1{Y <= X'b} - tau), p floats, all arguments in the working scale."""
    fitted = sum(map(mul, row, b))
    face = (1.0 if y <= fitted else 0.0) - tau
    return [face * value for value in row]


def token_of(secret: bytes, campaign: Campaign) -> bytes:
    """Return the 16 bytes that stand for a device in a campaign: HMAC-SHA256(secret, digest), cut."""
    return hmac.digest(secret, bytes.fromhex(campaign.digest), "sha256")[:_TOKEN_BYTES]


class Reporter:
    """Makes a user's one report in a campaign.

    Parameters
    ----------
    campaign
        The public contract.
    ledger
        The device's ledger, or the path of its file (made when it does not exist). It holds the device's
        secret and what the owner allows, and refuses a second report.

    Raises
    ------
    InvalidInput
        If the campaign's channel is "none" (not private), or the ledger's file is not a sound ledger.

    Examples
    --------
    >>> from ldp_stream.reports import ChainParameters
    >>> campaign = Campaign.model_validate({
    ...     "kind": "quantile", "name": "trips", "tau": 0.5, "epsilon": 2.0,
    ...     "target": {"lower": 0, "upper": 60},
    ...     "features": {"miles": {"lower": 0, "upper": 30}},
    ... })
    >>> start = Parameters(digest=campaign.digest_prefix, partition=0, round=0, n=0,
    ...                    chains=(ChainParameters(chain=0, beta=(0.0, 0.0)),))
    >>> device = Reporter(campaign, ledger=":memory:")
    >>> report = device.report({"miles": 3.2}, y=14.0, parameters=start)
    >>> device.resend() == report
    True
    >>> device.report({"miles": 3.2}, y=14.0, parameters=start)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ldp_stream.errors.AlreadyReported: digest = ...: this device has reported in this campaign

    Notes
    -----
    Formal guarantee: the report is epsilon-LDP in the whole record (x, y), with the campaign's epsilon, for
    every parameters message, an adversarial one included. That somebody reports, the token, the block and the
    round do not depend on the record.
    """

    def __init__(self, campaign: Campaign, ledger: Ledger | str | os.PathLike[str]) -> None:
        if not campaign.private:
            raise InvalidInput(
                'channel = "none": not private; only Reporter.simulated makes such reports, for studies'
            )
        self._prepare(campaign, SystemEntropy())
        self._ledger: Ledger | None = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        self._token = token_of(self._ledger.secret, campaign)

    @classmethod
    def simulated(cls, campaign: Campaign, seed: int | None = None) -> Self:
        """Return a stand-in for many devices, for studies: each report is a new user's; no ledger.

        Parameters
        ----------
        campaign
            The public contract; the channel "none" is allowed here.
        seed
            Seed of a reproducible simulation, which protects nobody; None draws from the operating system.
        """
        reporter = cls.__new__(cls)
        reporter._prepare(campaign, SystemEntropy() if seed is None else SimulatedEntropy(seed))
        reporter._ledger = None
        return reporter

    def _prepare(self, campaign: Campaign, entropy: Entropy) -> None:
        self.campaign = campaign
        self._entropy = entropy
        self._scale = campaign.scale
        self._levels = campaign.levels
        self._leaves = campaign.tree.leaves
        self._digest = campaign.digest_prefix

    @property
    def simulation(self) -> bool:
        """Whether this stands in for many users instead of being one user's device."""
        return self._ledger is None

    @property
    def partition(self) -> int | None:
        """The partition whose parameters this device answers; None in a simulation, which answers any."""
        return None if self._ledger is None else self.campaign.route(int.from_bytes(self._token))[0]

    def report(self, x: Mapping[str, object], y: object, parameters: Parameters) -> Report:
        """Return the report of one record at the given parameters; on a device, once per campaign.

        Parameters
        ----------
        x
            Features by name, in the user's units. Missing or unreadable ones take their centre, others are
            clipped.
        y
            Target in the user's units; missing or unreadable: the middle of its range.
        parameters
            The newest parameters message of the device's partition.

        Raises
        ------
        AlreadyReported
            If this device has reported in this campaign; see :meth:`resend`.
        BudgetExceeded
            If the device's owner does not allow the campaign's epsilon.
        CampaignMismatch
            If the parameters are of another campaign or partition, or do not have the campaign's chains.
        """
        ledger = self._ledger
        if ledger is None:
            token = self._new_token(parameters.partition)
            return self._make(x, y, self._chain(parameters, token), parameters.round, token)
        chain = self._chain(parameters, self._token)
        made = ledger.record(
            bytes.fromhex(self.campaign.digest),
            self.campaign.name,
            self.campaign.budget,
            lambda: encode_report(self._make(x, y, chain, parameters.round, self._token)),
        )
        return decode_report(made)

    def report_as(self, token: bytes, x: Mapping[str, object], y: object, parameters: Parameters) -> Report:
        """Return the report of a record of the simulated user that a token stands for.

        Parameters
        ----------
        token
            16 bytes, as :func:`token_of` makes them.
        x, y, parameters
            As in :meth:`report`.

        Raises
        ------
        InvalidInput
            On a device, whose token is its own.
        CampaignMismatch
            As in :meth:`report`.
        """
        if self._ledger is not None:
            raise InvalidInput("report_as: only Reporter.simulated stands for other users")
        return self._make(x, y, self._chain(parameters, token), parameters.round, token)

    def resend(self) -> Report | None:
        """Return the report that this device has made in this campaign, the same again, or None.

        Raises
        ------
        InvalidInput
            In a simulation, which stores nothing.
        """
        if self._ledger is None:
            raise InvalidInput(
                "Reporter.simulated: stores no report; only a device with a ledger can send again"
            )
        made = self._ledger.stored(bytes.fromhex(self.campaign.digest))
        return None if made is None else decode_report(made)

    def _new_token(self, partition: int) -> bytes:
        """Return a new user's token that belongs to the partition."""
        drawn = int.from_bytes(self._entropy.token_bytes(_TOKEN_BYTES))
        partitions = self.campaign.partitions
        return (drawn - drawn % partitions + partition % partitions).to_bytes(_TOKEN_BYTES)

    def _chain(self, parameters: Parameters, token: bytes) -> ChainParameters:
        """Return the parameters of the chain that the token names, or refuse the message."""
        if parameters.digest != self._digest:
            raise CampaignMismatch(f"parameters.digest = {parameters.digest!r}: must be {self._digest!r}")
        partition, chain = self.campaign.route(int.from_bytes(token))
        if parameters.partition != partition:
            raise CampaignMismatch(
                f"parameters.partition = {parameters.partition}: must be {partition}, by the token"
            )
        for candidate in parameters.chains:
            if candidate.chain == chain and len(candidate.beta) == self.campaign.p:
                return candidate
        raise CampaignMismatch(
            f"parameters.chains: must hold chain {chain} with {self.campaign.p} coefficients"
        )

    def _make(
        self, x: Mapping[str, object], y: object, chain: ChainParameters, round_: int, token: bytes
    ) -> Report:
        payload = self._payload(x, y, chain.beta, chain.chain)
        digest, place, name = self._digest, chain.chain, token.hex()
        if isinstance(payload, CategoryPayload):
            block, category = payload
            return CategoryReport(
                digest=digest, round=round_, chain=place, block=block, category=category, token=name
            )
        return VectorReport(digest=digest, round=round_, chain=place, values=payload.values, token=name)

    def new_chain(self) -> int:
        """Return the chain of a new simulated user, as its token would name it."""
        chains = self.campaign.chains
        return 0 if chains == 1 else self._entropy.below(chains)

    def privatize(
        self, x: Mapping[str, object], y: object, beta: Sequence[float], chain: int = 0
    ) -> CategoryPayload | VectorPayload:
        """Return one fresh private payload of a record at the coefficients ``beta``, in the working scale.

        It is what :meth:`report` sends for a chain, without the envelope: for simulations, where each call is
        a new user.

        Raises
        ------
        InvalidInput
            On a device, whose ledger allows one report.
        """
        if self._ledger is not None:
            raise InvalidInput("privatize: only Reporter.simulated does it; a device makes its one report")
        return self._payload(x, y, beta, chain)

    def _payload(
        self, x: Mapping[str, object], y: object, beta: Sequence[float], chain: int
    ) -> CategoryPayload | VectorPayload:
        scale, level = self._scale, self._levels[chain // self._leaves]
        g = contribution(scale.row(x), scale.target(y), beta, level.tau)
        return level.mechanism.privatize(g, self._entropy)
