"""The rails of virtual boards: a load that follows the board's state, and the sensors on it at the wire."""
