"""Everything that touches files, sockets, clocks and terminals; installed as ``ldp_stream.connectors``."""
