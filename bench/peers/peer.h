/* What all peers written in C share: the command line, clocks, processors, the window of a stream, the result lines.
 *
 * Every peer is called as   PEER MEASURE CPUS SECONDS AT...   with CPUS such as 0,1 and points AT as `deck bench` has them, and
 * prints one JSON object a line for each figure. Times are taken as `deck bench` takes them (crates/cli/src/bench/clock.rs). */
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  const char *measure;
  int cpus[2];
  uint64_t time_ns;
  int points;
  size_t at[64];
} options_t;

static options_t options_of(int argc, char **argv) {
  options_t options = {0};
  if (argc < 5 || argc - 4 > 64 || sscanf(argv[2], "%d,%d", &options.cpus[0], &options.cpus[1]) != 2) {
    fprintf(stderr, "type: %s MEASURE CPU,CPU SECONDS AT...\n", argv[0]);
    exit(2);
  }
  options.measure = argv[1];
  options.time_ns = (uint64_t)(atof(argv[3]) * 1e9);
  options.points = argc - 4;
  for (int i = 0; i < options.points; i++) options.at[i] = strtoull(argv[4 + i], NULL, 10);
  return options;
}

static inline int is(const char *one, const char *other) { return strcmp(one, other) == 0; }

static inline void need(int condition, const char *what) {
  if (condition) return;
  perror(what);
  exit(1);
}

/* Like node 0 of a benchmark whose nodes are apart: role 0 on the first processor, all others on the second. */
static inline void stay_apart(const options_t *options, int role) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(options->cpus[role != 0], &set);
  need(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
}

static inline void stay_together(const options_t *options) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(options->cpus[0], &set);
  CPU_SET(options->cpus[1], &set);
  need(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
}

/* Forks a process that ends with this one: whoever polls for a partner that is gone polls for ever. */
static inline pid_t fork_bound(void) {
  pid_t parent = getpid(), child = fork();
  need(child >= 0, "fork");
  if (child == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)) _exit(1);
  return child;
}

static inline uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline void tell(size_t at, const char *what, const char *unit, double value) {
  printf("{\"at\": %zu, \"what\": \"%s\", \"unit\": \"%s\", \"value\": %.6g}\n", at, what, unit, value);
  fflush(stdout);
}

static inline uint64_t word_at(const unsigned char *bytes) {
  uint64_t word;
  memcpy(&word, bytes, sizeof word);
  return word;
}

#define TURN 128
static inline uint64_t sum_of_turns(const unsigned char *bytes, size_t turns) {
  uint64_t sums[TURN / 8] = {0}, sum = 0;
  for (size_t turn = 0; turn < turns; turn++)
    for (int word = 0; word < TURN / 8; word++) sums[word] += word_at(bytes + TURN * turn + 8 * word);
  for (int word = 0; word < TURN / 8; word++) sum += sums[word];
  return sum;
}

/* Adds up words of eight bytes, 16 in one turn of the loop (crates/cli/src/bench/content.rs tells why), and single bytes at the end. */
static inline uint64_t sum_of(const unsigned char *bytes, size_t count) {
  uint64_t sum = count < TURN ? 0 : sum_of_turns(bytes, count / TURN);
  size_t i = count / TURN * TURN;
  for (; i + 8 <= count; i += 8) sum += word_at(bytes + i);
  for (; i < count; i++) sum += bytes[i];
  return sum;
}

static inline void check_sum(const unsigned char *bytes, size_t count, unsigned char value) {
  uint64_t expected = 0x0101010101010101u * (uint64_t)value * (count / 8) + (uint64_t)value * (count % 8);
  uint64_t found = sum_of(bytes, count);
  if (found == expected) return;
  fprintf(stderr, "a message of %zu bytes of %d arrived with the sum %" PRIu64 "\n", count, value, found);
  exit(1);
}

/* A stream is posted 64 messages at a time between two looks at the clock. */
#define STRIDE 64

/* The time in which things count, behind a warm-up: the same for all threads that begin together, whether they run or not. */
typedef struct {
  uint64_t begin_ns, end_ns, from, to;
  int has_from, has_to;
} window_t;

static inline window_t window_of(uint64_t begin_ns, uint64_t time_ns) {
  return (window_t){.begin_ns = begin_ns + time_ns / 5, .end_ns = begin_ns + time_ns / 5 + time_ns};
}

/* True once the window is over. */
static inline int window_look(window_t *window, uint64_t count, uint64_t now) {
  if (!window->has_from && now >= window->begin_ns) window->from = count, window->has_from = 1;
  if (!window->has_to && now >= window->end_ns) window->to = count, window->has_to = 1;
  return window->has_to;
}

static inline void window_close(window_t *window, uint64_t count, uint64_t now) {
  if (window_look(window, count, now)) return;
  window->end_ns = now;
  window->to = count;
  window->has_to = 1;
}

static inline double window_rate(const window_t *window) {
  if (!window->has_from || !window->has_to || window->end_ns <= window->begin_ns) return 0;
  return (double)(window->to - window->from) * 1e9 / (double)(window->end_ns - window->begin_ns);
}

/* How long a sender streams: longer than the receiver counts, whoever began first. */
static inline uint64_t stream_ns(uint64_t time_ns) { return time_ns + 2 * (time_ns / 5); }

/* Results of the threads of one process: all together, and the slowest as a share of the mean. */
static inline void tell_threads(size_t count, const char *what, const double *rates) {
  double sum = 0, slowest = rates[0];
  char name[64];
  for (size_t i = 0; i < count; i++) {
    sum += rates[i];
    if (rates[i] < slowest) slowest = rates[i];
  }
  tell(count, what, "messages/s", sum);
  snprintf(name, sizeof name, "%s, slowest", what);
  tell(count, name, "of mean", sum > 0 ? slowest * (double)count / sum : 0);
}
