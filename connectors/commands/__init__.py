"""The commands of ``ldp-stream``, one module each, and what they share."""
