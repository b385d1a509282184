"""The performance guide's sections, one module each: needs, commands, numbers."""
