"""Parts of a boot time, from the kernel, U-Boot and systemd."""
