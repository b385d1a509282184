"""Check of a board type against a bare log of a boot.

The moments, the flow, the evidence and the verdict come from the recognition of live boots (`lab.run.rewatch`) with
made-up stamps. So no result concerns time.
"""
