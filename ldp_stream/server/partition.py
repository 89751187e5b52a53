"""One partition of the report stream: its chains, and the rounds of parameters that its devices see.

Round r begins after a fixed public number of accepted reports (:class:`~ldp_stream.plan.RoundSchedule`)
and freezes the chains' iterates of that moment, so rounds are a function of the partition's log and a replay
makes the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..campaign import Campaign
from ..errors import InvalidReport
from ..reports import ChainParameters, Parameters
from .level_chains import LevelChains, by_number

__all__ = ["Partition"]

Array = NDArray[np.float64]


class Partition:
    """State of one partition of a campaign.

    Parameters
    ----------
    campaign
        The campaign.
    number
        The partition's number, from 0.
    """

    def __init__(self, campaign: Campaign, number: int) -> None:
        self.number = number
        self._digest = campaign.digest_prefix
        self._schedule = campaign.round_schedule
        self._live = self._schedule.stability == 0  # every report is a round: nothing to freeze
        self.levels = [LevelChains(campaign, level) for level in campaign.levels]
        self._leaves = campaign.tree.leaves
        self._n_chains = campaign.chains
        self.n = 0
        self._begin_round(0, 0)

    def _begin_round(self, number: int, start: int) -> None:
        self.round = number
        self._round_start = start
        self._round_stop = start + self._schedule.length(start)
        if not self._live:
            self._betas = self._iterates()

    def _iterates(self) -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(level.iterate(leaf)) for level in self.levels for leaf in range(self._leaves))

    def betas(self) -> tuple[tuple[float, ...], ...]:
        """Return each chain's coefficients during the round in force, working scale."""
        return self._iterates() if self._live else self._betas

    def beta(self, chain: int) -> tuple[float, ...]:
        """Return one chain's coefficients during the round in force, working scale."""
        if not self._live:
            return self._betas[chain]
        level, leaf = divmod(chain, self._leaves)
        return tuple(self.levels[level].iterate(leaf))

    def append(self, chain: int, coordinates: Sequence[int], values: Sequence[float]) -> None:
        """Fold one decoded report."""
        if self._n_chains == 1:
            self.levels[0].append(0, coordinates, values)
        else:
            level, leaf = divmod(chain, self._leaves)
            self.levels[level].append(leaf, coordinates, values)
        self.n += 1
        if self.n == self._round_stop:
            self._begin_round(self.round + 1, self.n)

    def extend(self, chain: NDArray[np.uint16], gradients: Array) -> None:
        """Fold n decoded reports in order: their chains, shape (n,), and gradients, shape (n, p)."""
        number, start = self._schedule.advance(self.round, self._round_start, self.n + len(gradients))
        split = max(start - self.n, 0)
        self._fold(chain[:split], gradients[:split])
        if number != self.round:
            self._begin_round(number, start)
        self._fold(chain[split:], gradients[split:])

    def _fold(self, chain: NDArray[np.uint16], gradients: Array) -> None:
        if len(self.levels) == 1:
            self.levels[0].extend(chain, gradients)
        else:
            level, leaf = np.divmod(chain, self._leaves)
            for number, rows in by_number(level, np.arange(len(chain))):
                self.levels[number].extend(leaf[rows], gradients[rows])
        self.n += len(gradients)

    def check_chains(self, chain: NDArray[np.uint16]) -> None:
        """Refuse a column of chain numbers that names a chain which this campaign does not have."""
        if len(chain) and int(chain.max()) >= self._n_chains:
            place = int(np.argmax(chain >= self._n_chains))
            raise InvalidReport(f"reports[{place}]: chain = {chain[place]}: must be below {self._n_chains}")

    def parameters(self) -> Parameters:
        """Return the message that devices answer during the round in force."""
        chains = tuple(ChainParameters(chain=k, beta=beta) for k, beta in enumerate(self.betas()))
        return Parameters(
            digest=self._digest, partition=self.number, round=self.round, n=self._round_start, chains=chains
        )

    # ------------------------------------------------------------------ state

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return facts and arrays from which :meth:`restore` goes on bit for bit."""
        arrays = {"betas": np.array(self.betas())}
        for place, level in enumerate(self.levels):
            for node, state in level.state():
                number = place * level.tree.nodes + node
                arrays |= {f"{number}.{name}": array for name, array in state.items()}
        return {"n": self.n, "round": self.round, "round_start": self._round_start}, arrays

    def restore(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Take over a state of :meth:`state`, of a partition of the same campaign."""
        found: dict[int, dict[str, Array]] = {}
        for name, array in arrays.items():
            number, dot, what = name.partition(".")
            if dot:
                found.setdefault(int(number), {})[what] = array
        for place, level in enumerate(self.levels):
            first = place * level.tree.nodes
            level.restore({n - first: found[n] for n in found if first <= n < first + level.tree.nodes})
        self.n = facts["n"]
        self._begin_round(facts["round"], facts["round_start"])
        self._betas = tuple(tuple(beta) for beta in arrays["betas"].tolist())
