"""U-Boot: start-up, countdown, prompt, commands, and the way to the kernel."""
