"""The long-running consumer: what ``ldp-stream serve`` runs."""
