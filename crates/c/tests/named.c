/* Segments, mutexes, condition variables, barriers and counters: what works, what is refused, what closing does. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <pthread.h>

static void segments(void) {
  deck_segment_t *s, *same, *none = NULL;
  EXPECT(DECK_E_TIMEOUT, deck_segment_open(&none, "board", 0));
  EXPECT(DECK_OK, deck_segment_create(&s, "board", 10000, -1));
  EXPECT(DECK_E_EXISTS, deck_segment_create(&none, "board", 10000, -1));
  SAYS("node 0");
  EXPECT(DECK_OK, deck_segment_open(&same, "board", 0));
  unsigned char *bytes = deck_segment_data(s), *others = deck_segment_data(same);
  CHECK(bytes != NULL && bytes[0] == 0 && bytes[9999] == 0);
  CHECK(deck_segment_size(s) == 10000 && deck_segment_size(same) == 10000);
  EXPECT(0, deck_segment_home(s));
  bytes[9999] = 7;
  CHECK(others[9999] == 7);
  EXPECT(DECK_OK, deck_segment_close(s));
  EXPECT(DECK_E_CLOSED, deck_segment_close(s));
  CHECK(deck_segment_data(s) == NULL && deck_segment_size(s) == 0);
  CHECK(others[9999] == 7);
  EXPECT(DECK_OK, deck_segment_close(same));
  EXPECT(DECK_OK, deck_segment_create(&s, "board", 1, 0));
  CHECK(*(unsigned char *)deck_segment_data(s) == 0);
  EXPECT(DECK_OK, deck_segment_close(s));

  EXPECT(DECK_E_INVALID, deck_segment_create(&none, "none", 0, -1));
  EXPECT(DECK_E_INVALID, deck_segment_create(&none, "", 1, -1));
  EXPECT(DECK_E_INVALID, deck_segment_create(&none, NULL, 1, -1));
  EXPECT(DECK_E_INVALID, deck_segment_create(NULL, "none", 1, -1));
  EXPECT(DECK_E_INVALID, deck_segment_create(&none, "none", 1, -2));
  EXPECT(DECK_E_INVALID, deck_segment_create(&none, "none", 1, 1));
  EXPECT(DECK_E_INVALID, deck_segment_create(&none, "\xff", 1, -1));
  EXPECT(DECK_E_NOMEM, deck_segment_create(&none, "huge", (size_t)1 << 50, -1));
  EXPECT(DECK_E_INVALID, deck_segment_open(&none, "none", -2));
  CHECK(none == NULL);
}

static void *lock_and_end(void *arg) {
  EXPECT(DECK_OK, deck_mutex_lock(arg, 0));
  return NULL;
}

static void *lock_in_vain(void *arg) {
  EXPECT(DECK_E_TIMEOUT, deck_mutex_lock(arg, 0));
  EXPECT(DECK_E_TIMEOUT, deck_mutex_lock(arg, 20));
  SAYS("node 0 holds");
  EXPECT(DECK_E_INVALID, deck_mutex_unlock(arg));
  return NULL;
}

static void in_thread(void *(*run)(void *), void *arg) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run, arg) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

static void mutexes(void) {
  deck_mutex_t *m, *none = NULL;
  EXPECT(DECK_E_INVALID, deck_mutex_open(&none, NULL));
  EXPECT(DECK_E_INVALID, deck_mutex_open(NULL, "m"));
  EXPECT(DECK_OK, deck_mutex_open(&m, "m"));
  EXPECT(DECK_E_INVALID, deck_mutex_unlock(m));
  EXPECT(DECK_E_INVALID, deck_mutex_lock(m, -2));
  EXPECT(DECK_OK, deck_mutex_lock(m, DECK_FOREVER));
  EXPECT(DECK_E_INVALID, deck_mutex_lock(m, 0));
  EXPECT(DECK_E_INVALID, deck_mutex_close(m));
  in_thread(lock_in_vain, m);
  EXPECT(DECK_OK, deck_mutex_unlock(m));
  in_thread(lock_and_end, m);
  EXPECT(DECK_E_OWNER_DIED, deck_mutex_lock(m, 1000));
  EXPECT(DECK_OK, deck_mutex_unlock(m));
  EXPECT(DECK_OK, deck_mutex_lock(m, 0));
  EXPECT(DECK_OK, deck_mutex_unlock(m));
  EXPECT(DECK_OK, deck_mutex_close(m));
  EXPECT(DECK_E_CLOSED, deck_mutex_lock(m, 0));
}

typedef struct {
  deck_mutex_t *m;
  deck_cond_t *c;
  deck_barrier_t *b;
  deck_counter_t *n;
  int value;
} stage_t;

static void *set_and_signal(void *arg) {
  stage_t *stage = arg;
  EXPECT(DECK_OK, deck_mutex_lock(stage->m, DECK_FOREVER));
  stage->value = 1;
  EXPECT(DECK_OK, deck_mutex_unlock(stage->m));
  EXPECT(DECK_OK, deck_cond_signal(stage->c));
  return NULL;
}

static void conditions(stage_t *stage) {
  deck_cond_t *none = NULL;
  EXPECT(DECK_E_INVALID, deck_cond_open(&none, ""));
  EXPECT(DECK_OK, deck_cond_signal(stage->c));
  EXPECT(DECK_OK, deck_cond_broadcast(stage->c));
  EXPECT(DECK_E_INVALID, deck_cond_wait(stage->c, stage->m, 0));
  EXPECT(DECK_OK, deck_mutex_lock(stage->m, 0));
  EXPECT(DECK_E_TIMEOUT, deck_cond_wait(stage->c, stage->m, 10));
  EXPECT(DECK_E_INVALID, deck_cond_wait(stage->c, (deck_mutex_t *)stage->c, 10));
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, set_and_signal, stage) == 0);
  while (!stage->value) EXPECT(DECK_OK, deck_cond_wait(stage->c, stage->m, 20000));
  EXPECT(DECK_OK, deck_mutex_unlock(stage->m));
  CHECK(pthread_join(thread, NULL) == 0);
}

static void plain_arguments_come_first(void) {
  deck_segment_t *none = NULL;
  EXPECT(DECK_E_INVALID, deck_segment_open(&none, NULL, -2));
  SAYS("a timeout of -2 ms");
  EXPECT(DECK_E_INVALID, deck_segment_create(&none, NULL, 1, -2));
  SAYS("no node -2");
  CHECK(none == NULL);
}

static void *come_and_count(void *arg) {
  stage_t *stage = arg;
  EXPECT(DECK_OK, deck_barrier_wait(stage->b, DECK_FOREVER));
  EXPECT(DECK_OK, deck_counter_add(stage->n, 5, NULL));
  return NULL;
}

static void barriers_and_counters(stage_t *stage) {
  deck_barrier_t *other = NULL;
  int64_t value = -1;
  EXPECT(DECK_E_INVALID, deck_barrier_open(&other, "b", 3));
  EXPECT(DECK_E_INVALID, deck_barrier_open(&other, "none", 0));
  EXPECT(DECK_E_TIMEOUT, deck_barrier_wait(stage->b, 10));
  SAYS("1 of 2");
  EXPECT(DECK_E_TIMEOUT, deck_counter_wait(stage->n, 1, &value, 10));
  CHECK(value == -1);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, come_and_count, stage) == 0);
  EXPECT(DECK_OK, deck_barrier_wait(stage->b, 20000));
  EXPECT(DECK_OK, deck_counter_wait(stage->n, 5, &value, 20000));
  CHECK(value == 5 && pthread_join(thread, NULL) == 0);
  EXPECT(DECK_OK, deck_counter_add(stage->n, -7, &value));
  CHECK(value == -2);
  EXPECT(DECK_E_INVALID, deck_counter_add(stage->n, INT64_MIN, &value));
  EXPECT(DECK_OK, deck_counter_read(stage->n, &value));
  CHECK(value == -2);
  EXPECT(DECK_E_INVALID, deck_counter_read(stage->n, NULL));
}

static void *wait_until_closed(void *arg) {
  EXPECT(DECK_E_CLOSED, deck_counter_wait(arg, 1000, NULL, DECK_FOREVER));
  return NULL;
}

int main(void) {
  start_watchdog();
  stage_t stage = {0};
  deck_mutex_t *early = NULL;
  EXPECT(DECK_E_NOT_INITIALIZED, deck_mutex_open(&early, "m"));
  EXPECT(DECK_OK, deck_init(NULL, NULL));
  segments();
  plain_arguments_come_first();
  mutexes();
  EXPECT(DECK_OK, deck_mutex_open(&stage.m, "stage"));
  EXPECT(DECK_OK, deck_cond_open(&stage.c, "stage"));
  EXPECT(DECK_OK, deck_barrier_open(&stage.b, "b", 2));
  EXPECT(DECK_OK, deck_counter_open(&stage.n, "n"));
  conditions(&stage);
  barriers_and_counters(&stage);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, wait_until_closed, stage.n) == 0);
  EXPECT(DECK_OK, deck_counter_close(stage.n));
  EXPECT(DECK_E_INVALID, deck_counter_read(stage.n, NULL));
  CHECK(pthread_join(thread, NULL) == 0);
  EXPECT(DECK_OK, deck_barrier_close(stage.b));
  EXPECT(DECK_OK, deck_cond_close(stage.c));
  EXPECT(DECK_OK, deck_done());
  EXPECT(DECK_E_NOT_INITIALIZED, deck_mutex_lock(stage.m, 0));
  EXPECT(DECK_OK, deck_mutex_close(stage.m));
  return 0;
}
