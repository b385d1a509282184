// SPDX-License-Identifier: GPL-2.0
/*
 * The CFI flash of QEMU's "virt" machine as an MTD: two 16-bit chips side by side, with Intel's commands. Debian's arm64 kernel
 * has MTD, but no driver for CFI chips. While nobody commands the chips, their array is mapped into the address space as it is
 * (hw/block/pflash_cfi01.c).
 */
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/mtd/mtd.h>
#include <linux/mutex.h>

#define BOTH(command) ((u32)(command) << 16 | (command))
#define CHUNK 2048u /* bytes of a buffered write; the chips' buffers hold 4096 */
#define TRIES 1000
#define READY BOTH(0x80)
#define TROUBLE BOTH(0x3a) /* erase, program, voltage, protection (Intel's status register) */

static ulong base = 0x04000000; /* the second bank, hw/arm/virt.c */
static ulong size = 0x04000000;
module_param(base, ulong, 0444);
module_param(size, ulong, 0444);

static void __iomem *window;
static u32 stage[CHUNK / 4];
static DEFINE_MUTEX(chips);

static void command(u32 value, loff_t at)
{
	writel(BOTH(value), window + at);
}

/* Wait until the chips are ready, and let them show their array again. */
static int settled(loff_t at)
{
	int tries;
	u32 status = 0;

	for (tries = 0; tries < TRIES; tries++) {
		status = readl(window + at);
		if ((status & READY) == READY)
			break;
		usleep_range(10, 100);
	}
	command(0x50, at);
	command(0xff, at);
	return (status & READY) != READY ? -ETIMEDOUT : status & TROUBLE ? -EIO : 0;
}

static int flash_read(struct mtd_info *mtd, loff_t from, size_t len, size_t *retlen, u_char *buf)
{
	mutex_lock(&chips);
	memcpy_fromio(buf, window + from, len);
	mutex_unlock(&chips);
	*retlen = len;
	return 0;
}

/* Write within CHUNK; what is not to be written of the first and the last word stays as it is. */
static int write_chunk(loff_t to, size_t len, const u_char *buf)
{
	loff_t begin = to & ~3LL;
	size_t words = (to + len + 3 - begin) / 4, i;

	memcpy_fromio(stage, window + begin, words * 4);
	memcpy((u8 *)stage + (to - begin), buf, len);
	command(0xe8, begin);
	command(words - 1, begin);
	for (i = 0; i < words; i++)
		writel(stage[i], window + begin + i * 4);
	command(0xd0, begin);
	return settled(begin);
}

static int flash_write(struct mtd_info *mtd, loff_t to, size_t len, size_t *retlen, const u_char *buf)
{
	int error = 0;

	mutex_lock(&chips);
	while (len && !error) {
		size_t count = min_t(size_t, len, CHUNK - (to & (CHUNK - 1)));

		error = write_chunk(to, count, buf);
		if (!error)
			*retlen += count;
		to += count;
		buf += count;
		len -= count;
	}
	mutex_unlock(&chips);
	return error;
}

static int flash_erase(struct mtd_info *mtd, struct erase_info *what)
{
	u64 at;
	int error = 0;

	mutex_lock(&chips);
	for (at = what->addr; at < what->addr + what->len && !error; at += mtd->erasesize) {
		command(0x20, at);
		command(0xd0, at);
		error = settled(at);
		if (error)
			what->fail_addr = at;
	}
	mutex_unlock(&chips);
	return error;
}

static struct mtd_info flash = {
	.name = "ospi",
	.type = MTD_NORFLASH,
	.flags = MTD_CAP_NORFLASH,
	.erasesize = 0x40000,
	.writesize = 1,
	.writebufsize = CHUNK,
	.owner = THIS_MODULE,
	._read = flash_read,
	._write = flash_write,
	._erase = flash_erase,
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
MODULE_DESCRIPTION("QEMU virt's CFI flash");
MODULE_LICENSE("GPL");
