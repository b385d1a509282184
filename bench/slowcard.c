/* LD_PRELOAD: large writes take as long as on a card that writes SLOWCARD_BYTES_S bytes a second. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const size_t large = 64 * 1024; /* smaller ones are pipes' and logs' */

static ssize_t paced(ssize_t done, const struct timespec *began)
{
	const char *rate = getenv("SLOWCARD_BYTES_S");
	struct timespec until = *began;
	double s;

	if (!rate || done < (ssize_t)large)
		return done;
	s = done / atof(rate);
	until.tv_sec += (time_t)s;
	until.tv_nsec += (long)((s - (time_t)s) * 1e9);
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL))
		;
	return done;
}

ssize_t write(int fd, const void *data, size_t count)
{
	ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
	struct timespec began;

	clock_gettime(CLOCK_MONOTONIC, &began);
	return paced(real(fd, data, count), &began);
}

ssize_t pwrite64(int fd, const void *data, size_t count, off64_t offset)
{
	ssize_t (*real)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
	struct timespec began;

	clock_gettime(CLOCK_MONOTONIC, &began);
	return paced(real(fd, data, count, offset), &began);
}

ssize_t pwrite(int fd, const void *data, size_t count, off_t offset)
{
	return pwrite64(fd, data, count, offset);
}
