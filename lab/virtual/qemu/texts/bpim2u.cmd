# U-Boot's script on each medium of a bpim2u; @medium@ is the medium that it lies on.
# With earlycon the kernel speaks from its start; else it says nearly all at once, when it has found its UART.
setenv bootargs earlycon console=ttyS0,115200 bootmedia=@medium@ nr_cpus=1 cryptomgr.notests ${xargs}
load ${devtype} ${devnum}:${distro_bootpart} ${kernel_addr_r} /boot/kernel || exit
load ${devtype} ${devnum}:${distro_bootpart} ${fdt_addr_r} /boot/board.dtb || exit
load ${devtype} ${devnum}:${distro_bootpart} ${ramdisk_addr_r} /boot/initrd.gz || exit
setenv rdsz ${filesize}
fdt addr ${fdt_addr_r}
fdt resize
# QEMU's counter ticks every 41 ns, since it counts in whole nanoseconds, and not with the crystal's 24 MHz.
fdt set /timer clock-frequency <24390244>
# Bluetooth's UART waits for pins of a voltage regulator, and says so for ten seconds.
fdt set /soc/serial@1c28c00 status disabled
# The disks of Linux have the numbers of the slots, whichever answers first.
fdt set /aliases mmc0 /soc/mmc@1c0f000
fdt set /aliases mmc1 /soc/mmc@1c11000
@device_tree@
bootz ${kernel_addr_r} ${ramdisk_addr_r}:${rdsz} ${fdt_addr_r}
