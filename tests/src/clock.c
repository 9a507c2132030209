/* Preloaded into a process: its wall clock shows what the test says, in seconds from the machine's, and jumps when the test says
   something else. What measures time, the monotonic clock, stays as it is, unless TEST_CLOCK_MONOTONIC is set. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift(void) {
  const char *file = getenv("TEST_CLOCK");
  char text[32];
  ssize_t length = -1;
  int opened = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
  if (opened >= 0) {
    length = read(opened, text, sizeof text - 1);
    close(opened);
  }
  if (length < 0) return 0;
  text[length] = 0;
  return atol(text);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = (int)syscall(SYS_clock_gettime, clock, now);
  int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  int is_shifted = is_wall || (clock == CLOCK_MONOTONIC && getenv("TEST_CLOCK_MONOTONIC"));
  if (!failed && is_shifted) now->tv_sec += shift();
  return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  int failed = (int)syscall(SYS_gettimeofday, now, zone);
  if (!failed) now->tv_sec += shift();
  return failed;
}

time_t time(time_t *result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result) *result = now.tv_sec;
  return now.tv_sec;
}
