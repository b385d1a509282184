"""Does a board type fit a release? A bare log of a boot, without stamps, read as a live boot would be.

The moments, the flow, the evidence and the verdict come from the recognition of live boots (`lab.run.rewatch`), which is
given made-up stamps. So nothing here says anything about time.
"""
