"""Virtual boards: a bench process with adapters, power, straps and media.

A virtual board is reached as a real one is: a serial port, a PDU over HTTP, digital outputs.
"""
