/* One message to and fro between two sides, as `deck bench pingpong` measures it. A peer defines, before it includes this,
 *   static inline void peer_send(const void *data, size_t bytes);
 *   static inline void peer_receive(void *data, size_t bytes);
 * and calls pingpong() in both processes. Rounds are timed in groups of at least 4 us, in batches of about 20 ms. */
#pragma once
#include "peer.h"

enum { SAMPLES = 1 << 20, BATCH_NS = 20000000, GROUP_NS = 4000 };

typedef struct {
  uint64_t is_touched, bytes, rounds;
} batch_t;

typedef struct {
  size_t group, count;
  uint64_t *times;
} samples_t;

static int in_order(const void *a, const void *b) {
  uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
  return (one > other) - (one < other);
}

static void ping_batch(batch_t batch, unsigned char *out, unsigned char *in, samples_t *samples) {
  /* The two sides take turns from the first message on. */
  peer_send(&batch, sizeof batch);
  peer_receive(&batch, sizeof batch);
  uint64_t before = now_ns();
  size_t in_group = 0;
  for (uint64_t round = 1; round <= batch.rounds; round++) {
    if (batch.is_touched) memset(out, (int)(unsigned char)round, batch.bytes);
    peer_send(out, batch.bytes);
    peer_receive(in, batch.bytes);
    if (batch.is_touched) check_sum(in, batch.bytes, (unsigned char)round);
    if (++in_group == samples->group) {
      uint64_t now = now_ns();
      samples->times[samples->count++] = now - before;
      before = now;
      in_group = 0;
    }
  }
}

/* Returns the mean of a round. */
static uint64_t repeat(int is_touched, size_t bytes, uint64_t round_ns, uint64_t time_ns, unsigned char *out,
                       unsigned char *in, samples_t *samples) {
  uint64_t start = now_ns();
  samples->count = 0;
  while (now_ns() - start < time_ns && samples->count < SAMPLES) {
    uint64_t groups = BATCH_NS / ((round_ns ? round_ns : 1) * samples->group), total = 0;
    size_t first = samples->count, left = SAMPLES - first;
    if (groups < 1) groups = 1;
    if (groups > left) groups = left;
    ping_batch((batch_t){(uint64_t)is_touched, bytes, groups * samples->group}, out, in, samples);
    for (size_t i = first; i < samples->count; i++) total += samples->times[i];
    round_ns = total / (groups * samples->group);
  }
  return round_ns;
}

static void pong(unsigned char *out, unsigned char *in) {
  batch_t batch;
  for (peer_receive(&batch, sizeof batch); batch.rounds > 0; peer_receive(&batch, sizeof batch)) {
    peer_send(&batch, sizeof batch);
    for (uint64_t round = 1; round <= batch.rounds; round++) {
      peer_receive(in, batch.bytes);
      if (batch.is_touched) {
        check_sum(in, batch.bytes, (unsigned char)round);
        memset(out, (int)(unsigned char)round, batch.bytes);
        peer_send(out, batch.bytes);
      } else {
        peer_send(in, batch.bytes);
      }
    }
  }
}

static unsigned char *buffer_of(size_t bytes) {
  unsigned char *buffer = aligned_alloc(4096, (bytes + 4096) & ~(size_t)4095);
  need(buffer != NULL, "aligned_alloc");
  memset(buffer, 0, bytes);
  return buffer;
}

static void pingpong(const options_t *options, int role) {
  size_t most = sizeof(batch_t);
  for (int i = 0; i < options->points; i++) most = options->at[i] > most ? options->at[i] : most;
  unsigned char *out = buffer_of(most), *in = buffer_of(most);
  if (role != 0) {
    pong(out, in);
    return;
  }
  samples_t samples = {1, 0, malloc(SAMPLES * sizeof(uint64_t))};
  need(samples.times != NULL, "malloc");
  for (int i = 0; i < options->points; i++) {
    for (int is_touched = 0; is_touched < 2; is_touched++) {
      samples.group = 1;
      uint64_t round = repeat(is_touched, options->at[i], BATCH_NS, options->time_ns / 10, out, in, &samples);
      samples.group = (GROUP_NS + round - 1) / (round ? round : 1);
      if (samples.group < 1) samples.group = 1;
      repeat(is_touched, options->at[i], round, options->time_ns / 2, out, in, &samples);
      qsort(samples.times, samples.count, sizeof(uint64_t), in_order);
      double per = 2.0 * (double)samples.group;
      tell(options->at[i], is_touched ? "touched" : "untouched", "ns", (double)samples.times[samples.count / 2] / per);
    }
  }
  batch_t end = {0};
  peer_send(&end, sizeof end);
}
