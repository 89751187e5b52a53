"""What runs on a user's device: entropy, the ledger, and the making of a report.

Nothing here imports numpy, scipy or river.
"""

from __future__ import annotations

from .entropy import Entropy, SimulatedEntropy, SystemEntropy
from .ledger import Ledger

__all__ = ["Entropy", "Ledger", "SimulatedEntropy", "SystemEntropy"]
