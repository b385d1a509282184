"""Boards on other hosts, as labgrid knows them: what a host exports, and who holds a place."""
