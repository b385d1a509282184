"""Virtual boards: a bench process with UART adapters, a power input, boot-mode straps and media per board.

From outside a virtual board is reached the way a real one is: a serial port, a PDU over HTTP, digital outputs.
"""
