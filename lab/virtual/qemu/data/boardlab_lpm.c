// SPDX-License-Identifier: GPL-2.0
/*
 * Low-power states for QEMU's "virt" machine, whose PSCI has no SYSTEM_SUSPEND: "deep" (mem) and "shallow" (standby).
 *
 * The machine waits for an interrupt that was armed to wake it. Its exit latency has two settable shares, as that of a
 * real board: the firmware's, while the kernel's clock stands still, and the kernel's own.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/suspend.h>

static unsigned int deep_firmware_ms = 40, deep_kernel_ms = 120;
static unsigned int shallow_firmware_ms = 10, shallow_kernel_ms = 20;
module_param(deep_firmware_ms, uint, 0644);
module_param(deep_kernel_ms, uint, 0644);
module_param(shallow_firmware_ms, uint, 0644);
module_param(shallow_kernel_ms, uint, 0644);

static suspend_state_t entered;

static bool is_deep(void)
{
	return entered == PM_SUSPEND_MEM;
}

static int lpm_valid(suspend_state_t state)
{
	return state == PM_SUSPEND_MEM || state == PM_SUSPEND_STANDBY;
}

/* Interrupts are masked, and only those that may wake the machine are enabled: one of them ends the wait. */
static int lpm_enter(suspend_state_t state)
{
	entered = state;
	pr_info("boardlab_lpm: entering %s\n", is_deep() ? "deep" : "shallow");
	asm volatile("dsb sy\n\twfi" ::: "memory");
	mdelay(is_deep() ? deep_firmware_ms : shallow_firmware_ms);
	pr_info("boardlab_lpm: leaving %s\n", is_deep() ? "deep" : "shallow");
	return 0;
}

/* The kernel's clock runs again. */
static void lpm_wake(void)
{
	mdelay(is_deep() ? deep_kernel_ms : shallow_kernel_ms);
}

static const struct platform_suspend_ops lpm_ops = {
	.valid = lpm_valid,
	.enter = lpm_enter,
	.wake = lpm_wake,
};

static int __init lpm_init(void)
{
	suspend_set_ops(&lpm_ops);
	return 0;
}

static void __exit lpm_exit(void)
{
	suspend_set_ops(NULL);
}

module_init(lpm_init);
module_exit(lpm_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Low-power states for a virtual board");
