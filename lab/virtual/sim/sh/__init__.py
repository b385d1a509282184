"""The command language that U-Boot's hush and Linux' sh have in common, as far as boards are driven with it.

Words with quotes, variables, command substitution and sums; lists, pipelines, redirections, `if`, `for`, `while`,
groups and functions. Not there: here-documents, `case`, arrays, job control, patterns in expansions.
"""
