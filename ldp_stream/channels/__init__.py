"""Privacy channels: frozen values that privatize, decode and state their exact law; no state, no I/O."""
