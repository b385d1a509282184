"""Rails of virtual boards: a load by state, and sensors.

The sensors are simulated at the wire.
"""
