/* A bare futex. `wake`, between two processes: how long from the begin of the wake to the return of the sleeper. Both sleep AT
 * milliseconds before each wake, as both nodes of `deck bench wake` do. `idle`: the processor time of a process that sleeps for AT seconds
 * and does nothing else. */
#include "peer.h"
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

typedef struct {
  uint32_t word __attribute__((aligned(64)));
  uint64_t posted_ns __attribute__((aligned(64)));
  uint32_t never __attribute__((aligned(64)));
} shared_t;

static long futex(uint32_t *word, int operation, uint32_t value, const struct timespec *timeout) {
  return syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}

static int in_order(const void *a, const void *b) {
  uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
  return (one > other) - (one < other);
}

static void sleeper(shared_t *shared, size_t at, uint32_t wakes) {
  uint64_t *times = malloc(wakes * sizeof *times);
  need(times != NULL, "malloc");
  for (uint32_t wake = 0; wake < wakes; wake++) {
    while (__atomic_load_n(&shared->word, __ATOMIC_ACQUIRE) == wake) futex(&shared->word, FUTEX_WAIT, wake, NULL);
    uint64_t now = now_ns();
    times[wake] = now - shared->posted_ns;
  }
  qsort(times, wakes, sizeof *times, in_order);
  tell(at, "median", "ns", (double)times[wakes / 2]);
  tell(at, "p90", "ns", (double)times[wakes * 9 / 10]);
  free(times);
}

static void waker(shared_t *shared, size_t at, uint32_t wakes) {
  struct timespec pause = {(time_t)(at / 1000), (long)(at % 1000) * 1000000};
  for (uint32_t wake = 0; wake < wakes; wake++) {
    futex(&shared->never, FUTEX_WAIT, 0, &pause);
    shared->posted_ns = now_ns();
    __atomic_store_n(&shared->word, wake + 1, __ATOMIC_RELEASE);
    futex(&shared->word, FUTEX_WAKE, 1, NULL);
  }
}

static double processor_time_ms(void) {
  struct timespec used;
  need(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0, "clock_gettime");
  return (double)used.tv_sec * 1e3 + (double)used.tv_nsec / 1e6;
}

static void idle(size_t at) {
  static uint32_t never;
  struct timespec all = {(time_t)at, 0};
  double before = processor_time_ms();
  futex(&never, FUTEX_WAIT, 0, &all);
  tell(at, "processor time", "ms", processor_time_ms() - before);
}

int main(int argc, char **argv) {
  options_t options = options_of(argc, argv);
  if (is(options.measure, "idle")) {
    stay_apart(&options, 0);
    for (int i = 0; i < options.points; i++) idle(options.at[i]);
    return 0;
  }
  if (!is(options.measure, "wake")) return fprintf(stderr, "a bare futex does wake and idle only\n"), 2;
  for (int i = 0; i < options.points; i++) {
    shared_t *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    need(shared != MAP_FAILED, "mmap");
    uint32_t wakes = (uint32_t)(options.time_ns / (options.at[i] * 1000000));
    if (wakes < 3) wakes = 3;
    pid_t child = fork_bound();
    stay_apart(&options, child == 0);
    if (child == 0) {
      waker(shared, options.at[i], wakes);
      _exit(0);
    }
    sleeper(shared, options.at[i], wakes);
    int status = 0;
    need(waitpid(child, &status, 0) == child && status == 0, "the waker");
  }
  return 0;
}
