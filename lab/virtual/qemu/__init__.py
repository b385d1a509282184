"""Board type qemu-virt: QEMU's "virt" with Debian's U-Boot, kernel, busybox."""
