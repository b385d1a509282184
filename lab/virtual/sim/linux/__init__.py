"""Linux: kernel log and clock, user space, login, shell, sleep."""
