"""`lab web`: the farm and its results in a browser.

It reads the store, the console server and a lab's folder. Actions of operators go through `audit_log`.
"""
