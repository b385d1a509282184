"""Linux: the kernel's log and its clock, user space, login, shell, and sleep."""
