// SPDX-License-Identifier: GPL-2.0
/*
 * The CFI flash of QEMU's "virt" machine as an MTD that can be read. Debian's arm64 kernel has MTD, but no driver for CFI
 * chips. While nobody commands the chip, its array is mapped into the address space as it is (hw/block/pflash_cfi01.c).
 */
#include <linux/io.h>
#include <linux/module.h>
#include <linux/mtd/mtd.h>

static ulong base = 0x04000000; /* the second bank, hw/arm/virt.c */
static ulong size = 0x04000000;
module_param(base, ulong, 0444);
module_param(size, ulong, 0444);

static void __iomem *window;

static int flash_read(struct mtd_info *mtd, loff_t from, size_t len, size_t *retlen, u_char *buf)
{
	memcpy_fromio(buf, window + from, len);
	*retlen = len;
	return 0;
}

static struct mtd_info flash = {
	.name = "ospi",
	.type = MTD_ROM,
	.flags = MTD_NO_ERASE,
	.erasesize = 0x40000,
	.writesize = 1,
	.owner = THIS_MODULE,
	._read = flash_read,
};

static int __init flash_init(void)
{
	int error;

	window = ioremap(base, size);
	if (!window)
		return -ENOMEM;
	flash.size = size;
	error = mtd_device_register(&flash, NULL, 0);
	if (error)
		iounmap(window);
	return error;
}

static void __exit flash_exit(void)
{
	mtd_device_unregister(&flash);
	iounmap(window);
}

module_init(flash_init);
module_exit(flash_exit);
MODULE_DESCRIPTION("QEMU virt's CFI flash, read-only");
MODULE_LICENSE("GPL");
