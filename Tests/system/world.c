/* What a test preloads into a server (LD_PRELOAD): the disk and the clock on the wall become what a file says, from one call
 * to the next. The file is named by WORLD and holds two numbers of 64 bits: microseconds that a sync takes longer, and
 * milliseconds by which the clock on the wall is ahead. Other clocks stay as they are.
 *
 * It asks the kernel itself instead of the function that it hides: to look that up could ask for memory, and an allocator
 * may read a clock before it can give any. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct world {
  int64_t sync_microseconds, wall_milliseconds;
};

static volatile struct world *world;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("WORLD");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *at = mmap(NULL, sizeof(struct world), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (at != MAP_FAILED) world = at;
}

static void stall(void) {
  int64_t left = world ? world->sync_microseconds : 0;
  struct timespec pause = {left / 1000000, left % 1000000 * 1000};
  while (left > 0 && syscall(SYS_nanosleep, &pause, &pause) != 0) {
  }
}

int fdatasync(int file) {
  stall();
  return (int)syscall(SYS_fdatasync, file);
}

int fsync(int file) {
  stall();
  return (int)syscall(SYS_fsync, file);
}

static void leap(struct timespec *now) {
  int64_t ahead = world ? world->wall_milliseconds : 0;
  now->tv_sec += ahead / 1000;
  now->tv_nsec += ahead % 1000 * 1000000;
  if (now->tv_nsec < 0) {
    now->tv_nsec += 1000000000;
    now->tv_sec -= 1;
  } else if (now->tv_nsec >= 1000000000) {
    now->tv_nsec -= 1000000000;
    now->tv_sec += 1;
  }
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int code = (int)syscall(SYS_clock_gettime, clock, now);
  if (code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) leap(now);
  return code;
}

/* A database server's clock. `time`, with which certificates are looked at, stays as it is. */
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec exact;
  (void)zone;
  int code = clock_gettime(CLOCK_REALTIME, &exact);
  if (code == 0) {
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
  }
  return code;
}
