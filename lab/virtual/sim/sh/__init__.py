"""Command language that U-Boot's hush and Linux' sh share.

It covers the part that drives boards.

Words with quotes, variables, command substitution and sums; lists, pipelines, redirections, `if`, `for`, `while`,
groups and functions. Not there: here-documents, `case`, arrays, job control, patterns in expansions.
"""
