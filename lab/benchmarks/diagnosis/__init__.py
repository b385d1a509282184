"""Where a boot time goes: parts of a boot from the kernel, U-Boot and systemd."""
