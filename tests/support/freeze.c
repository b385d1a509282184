/* What a frozen disk and a suspended host look like to a process, for frozen_host.py. Preloaded (ld.so(8), LD_PRELOAD).
 *
 * BOARDLAB_FREEZE names a file of 80 bytes that whoever freezes writes and every process with this library maps:
 *
 *     int64 behind_ns[4]   how far CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME are behind the kernel's
 *     int64 still_ns[4]    what they show while they stand still; 0 while they run
 *     int64 blocked        not 0: whoever writes to a recording waits until it is 0 again
 *
 * A host that suspends leaves the first two clocks behind (clock_gettime(2)), a virtual machine that is paused all of
 * them, until somebody sets the wall clock. Timers and time-outs go on; a timer that is set for a time of CLOCK_MONOTONIC
 * fires when the clock shown here comes to it, unless that jumps meanwhile.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000LL
#define CLOCKS 4
#define LOOK_NS 500000 /* between two looks of a writer that waits */

struct frozen {
    volatile int64_t behind_ns[CLOCKS];
    volatile int64_t still_ns[CLOCKS];
    volatile int64_t blocked;
};

static struct frozen *frozen;

__attribute__((constructor)) static void map_state(void)
{
    const char *path = getenv("BOARDLAB_FREEZE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *state;

    if (fd < 0)
        return;
    state = mmap(NULL, sizeof *frozen, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (state != MAP_FAILED)
        frozen = state;
}

static int number_of(clockid_t id)
{
    switch (id) {
    case CLOCK_MONOTONIC_RAW:
        return 0;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
        return 1;
    case CLOCK_BOOTTIME:
        return 2;
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
        return 3;
    default:
        return -1;
    }
}

int clock_gettime(clockid_t id, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    int number = number_of(id), result;
    int64_t ns;

    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    result = real(id, now);
    if (result != 0 || number < 0 || !frozen)
        return result;
    ns = frozen->still_ns[number];
    if (ns == 0)
        ns = now->tv_sec * NS_PER_S + now->tv_nsec - frozen->behind_ns[number];
    now->tv_sec = ns / NS_PER_S;
    now->tv_nsec = ns % NS_PER_S;
    return 0;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *wanted, struct itimerspec *old)
{
    static int (*real)(int, int, const struct itimerspec *, struct itimerspec *);
    struct itimerspec moved = *wanted;
    int64_t ns = moved.it_value.tv_sec * NS_PER_S + moved.it_value.tv_nsec;

    if (!real)
        real = (int (*)(int, int, const struct itimerspec *, struct itimerspec *))dlsym(RTLD_NEXT, "timerfd_settime");
    if (frozen && ns != 0 && (flags & TFD_TIMER_ABSTIME)) {
        ns += frozen->behind_ns[1];
        moved.it_value.tv_sec = ns / NS_PER_S;
        moved.it_value.tv_nsec = ns % NS_PER_S;
    }
    return real(fd, flags, &moved, old);
}

static int is_recording(int fd)
{
    char link[32], path[4096];
    ssize_t length;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length < 4)
        return 0;
    path[length] = '\0';
    return strstr(path, "/recordings/") && (!strcmp(path + length - 4, ".log") || !strcmp(path + length - 4, ".idx"));
}

static void wait_for_disk(int fd)
{
    const struct timespec look = {0, LOOK_NS};

    if (!frozen || !frozen->blocked || !is_recording(fd))
        return;
    while (frozen->blocked)
        nanosleep(&look, NULL);
}

#define WAITING(type, name, arguments, values)                                                                                 \
    type name arguments                                                                                                        \
    {                                                                                                                          \
        static type(*real) arguments;                                                                                          \
                                                                                                                               \
        if (!real)                                                                                                             \
            real = (type(*) arguments)dlsym(RTLD_NEXT, #name);                                                                 \
        wait_for_disk(fd);                                                                                                     \
        return real values;                                                                                                    \
    }

WAITING(ssize_t, write, (int fd, const void *data, size_t count), (fd, data, count))
WAITING(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
WAITING(ssize_t, pwrite, (int fd, const void *data, size_t count, off_t place), (fd, data, count, place))
WAITING(ssize_t, pwrite64, (int fd, const void *data, size_t count, off64_t place), (fd, data, count, place))
