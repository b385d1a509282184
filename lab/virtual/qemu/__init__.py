"""The board type qemu-virt: QEMU's "virt" machine with Debian's U-Boot, kernel and busybox."""
