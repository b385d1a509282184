"""`lab web`: the farm and its results in a browser. It only reads: the store, the console server, a lab's folder."""
