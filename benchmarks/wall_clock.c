/* Preloaded into a process: its wall clock is ahead of the machine's by the nanoseconds in $OTTLA_WALL_CLOCK, a file of
 * eight bytes that others may change while the process runs. The monotonic clock stays as it is.
 * libfaketime does not fit: with its monotonic clock left alone, Python's time.sleep fails. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static const long long SECOND_NS = 1000000000LL;
static const volatile long long *ahead_ns;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void open_clock(void) {
  const char *path = getenv("OTTLA_WALL_CLOCK");
  int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(long long), PROT_READ, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED || real_clock_gettime == NULL)
    abort();
  ahead_ns = mapped;
}

int clock_gettime(clockid_t id, struct timespec *now) {
  if (real_clock_gettime == NULL) /* another library's constructor */
    real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int result = real_clock_gettime(id, now);
  if (result == 0 && ahead_ns != NULL && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
    long long wall_ns = now->tv_sec * SECOND_NS + now->tv_nsec + *ahead_ns;
    now->tv_sec = wall_ns / SECOND_NS;
    now->tv_nsec = wall_ns % SECOND_NS;
  }
  return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec wall;
  (void)zone;
  int result = clock_gettime(CLOCK_REALTIME, &wall);
  now->tv_sec = wall.tv_sec;
  now->tv_usec = wall.tv_nsec / 1000;
  return result;
}

time_t time(time_t *now) {
  struct timespec wall;
  clock_gettime(CLOCK_REALTIME, &wall);
  if (now != NULL)
    *now = wall.tv_sec;
  return wall.tv_sec;
}
