/* Any call in any order, by several threads of several nodes, which have small stacks, with handles that are good, used by
   another thread at the same time, destroyed, of another kind, or none at all: each gives a code that deck.h has, and none
   crashes or hangs.

   any_calls SEED NODE [killed]: the seed decides what each thread does, but not how they meet; a node that is to be killed
   ends itself in the middle. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum { THREADS = 4, CALLS = 5000, PLACES = 6, ROOM = 1 << 17, MEMBERS = 3 };

/* A thread that calls DECK needs no more (docs/platform.md). */
enum { STACK = 32 << 10 };

/* What comes of a call besides codes and DECK_OK: an object, or nothing that could be told. */
enum { MADE = 1, NOTHING = 2 };

enum kind { MESSAGE, BOX, SEMAPHORE, GROUP, REQUEST, SEGMENT, MUTEX, CONDITION, BARRIER, COUNTER, THREAD, KINDS };

static _Atomic(void *) objects[KINDS][PLACES];

/* What calls read and write: each thread has its own, and so have calls that were started, which may go on after their thread. */
static _Alignas(64) unsigned char given[THREADS][ROOM], taken[THREADS][ROOM], started[THREADS][2][ROOM];
static const size_t counts[MEMBERS] = {100, 0, 300};

/* That of a group which no other node is in. */
static char own_group[32];

static _Thread_local uint64_t chance;
static _Thread_local int me;

static uint64_t bits(void) {
  chance += 0x9e3779b97f4a7c15;
  uint64_t word = (chance ^ (chance >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  return word ^ (word >> 31);
}

static unsigned below(unsigned limit) {
  return (unsigned)((bits() >> 32) * limit >> 32);
}

/* True one time in `times`. */
static int seldom(unsigned times) {
  return below(times) == 0;
}

/* Mostly an object of this kind, if there is one. */
static void *any(enum kind kind) {
  void *handle = atomic_load(&objects[kind][below(PLACES)]);
  switch (below(64)) {
    case 0: return NULL;
    case 1: return (void *)(uintptr_t)bits();
    case 2: return &objects;
    case 3: return atomic_load(&objects[below(KINDS)][below(PLACES)]);
    case 4: return (void *)((uintptr_t)handle ^ (uintptr_t)1 << below(64));
    default: return handle;
  }
}

static int end(enum kind kind, void *handle) {
  switch (kind) {
    case MESSAGE: return deck_msg_destroy(handle);
    case BOX: return deck_mbox_destroy(handle);
    case SEMAPHORE: return deck_sem_destroy(handle);
    case GROUP: return deck_group_leave(handle);
    case REQUEST: return deck_request_destroy(handle);
    case SEGMENT: return deck_segment_close(handle);
    case MUTEX: return deck_mutex_close(handle);
    case CONDITION: return deck_cond_close(handle);
    case BARRIER: return deck_barrier_close(handle);
    case COUNTER: return deck_counter_close(handle);
    case THREAD: return deck_thread_join(handle, NULL);
    default: abort();
  }
}

/* What was made comes in place of another object, whose handle others may be using. */
static int put(enum kind kind, int code, void **made) {
  if (code != DECK_OK) return code;
  void *before = atomic_exchange(&objects[kind][below(PLACES)], *made);
  int ended = before == NULL ? DECK_OK : end(kind, before);
  return ended == DECK_OK ? MADE : ended;
}

/* A number that a call gives shows nothing either. */
static int number(int code) {
  return code < 0 ? code : NOTHING;
}

/* A name that others use, too. */
static const char *name(void) {
  static const char *const names[] = {"a", "b", "c", "d", "", NULL};
  return names[below(seldom(30) ? 6 : 4)];
}

static int moment(void) {
  static const int milliseconds[] = {0, 0, 1, 1, 3, 10, 30};
  return milliseconds[below(7)];
}

static size_t size(void) {
  static const unsigned limits[] = {70, 70, 5000, 70000, 3000000};
  return below(limits[below(5)]);
}

static size_t count(void) {
  return seldom(3) ? below(4000) : 100;
}

static deck_type_t type(void) {
  return (deck_type_t)(seldom(40) ? below(300) : DECK_BYTE + below(DECK_DOUBLE - DECK_BYTE + 1));
}

static deck_op_t operation(void) {
  return (deck_op_t)(seldom(40) ? below(300) : DECK_SUM + below(DECK_XOR - DECK_SUM + 1));
}

static int root(void) {
  return (int)below(MEMBERS + 1) - (int)seldom(40);
}

/* Something that a thread may be cancelled in. */
static void *waits(void *arg) {
  for (int round = 0; round < 20; round++) deck_sem_wait(atomic_load(&objects[SEMAPHORE][round % PLACES]), 1);
  return arg;
}

static int of_messages(void) {
  void *made = NULL, *message = any(MESSAGE);
  switch (below(14)) {
    case 0: return put(MESSAGE, deck_msg_create((deck_msg_t **)&made, size()), &made);
    case 1: return deck_msg_pack(message, type(), given[me], count());
    case 2: return deck_msg_unpack(message, type(), taken[me], below(seldom(2) ? 4000 : 20));
    case 3: return deck_msg_pack_mbox(message, any(BOX));
    case 4: return put(BOX, deck_msg_unpack_mbox(message, (deck_mbox_t **)&made, moment()), &made);
    case 5: return deck_msg_data(message), NOTHING;
    case 6: return deck_msg_edit(message), NOTHING;
    case 7: return deck_msg_fetch(message, seldom(4) ? bits() : below(100), seldom(4) ? bits() : below(9000));
    case 8: return deck_msg_size(message), NOTHING;
    case 9: return deck_msg_capacity(message), NOTHING;
    case 10: return deck_msg_resize(message, seldom(100) ? bits() : size());
    case 11: return deck_msg_clear(message);
    case 12: return number(deck_msg_sender(message));
    default: return seldom(6) ? deck_msg_destroy(message) : NOTHING;
  }
}

static int of_mail_boxes(void) {
  void *made = NULL, *box = any(BOX);
  deck_mbox_options_t options = DECK_MBOX_OPTIONS_DEFAULT;
  deck_mbox_stats_t stats;
  deck_mbox_t *boxes[] = {any(BOX), box, any(BOX), any(BOX), any(BOX)};
  size_t which;
  switch (below(14)) {
    case 0: return put(BOX, deck_mbox_create((deck_mbox_t **)&made, seldom(4) ? NULL : name()), &made);
    case 1:
      options.messages_per_node = seldom(4) ? bits() : below(100);
      options.bytes_per_node = seldom(4) ? bits() : size();
      return put(BOX, deck_mbox_create_with((deck_mbox_t **)&made, name(), seldom(4) ? NULL : &options), &made);
    case 2: return put(BOX, deck_mbox_clone((deck_mbox_t **)&made, name(), moment()), &made);
    case 3: case 4: case 5: return deck_mbox_post(box, any(MESSAGE), moment());
    case 6: case 7: case 8: return deck_mbox_retrv(box, any(MESSAGE), moment());
    case 9: return deck_mbox_select(boxes, below(6), &which, moment());
    case 10: return number(deck_mbox_fd(box));
    case 11: return deck_mbox_stats(box, &stats);
    case 12: return seldom(4) ? deck_mbox_destroy(box) : NOTHING;
    default: return number(deck_node_state((int)below(5) - 1));
  }
}

static int of_threads(void) {
  void *made = NULL, *semaphore = any(SEMAPHORE);
  switch (below(8)) {
    case 0: return put(SEMAPHORE, deck_sem_create((deck_sem_t **)&made, below(3)), &made);
    case 1: case 2: return deck_sem_post(semaphore);
    case 3: case 4: return deck_sem_wait(semaphore, moment());
    case 5: return seldom(4) ? deck_sem_destroy(semaphore) : NOTHING;
    case 6: return seldom(8) ? put(THREAD, deck_thread_create((deck_thread_t **)&made, waits, NULL), &made) : NOTHING;
    default: return deck_cancel(any(THREAD));
  }
}

static int of_groups(void) {
  void *made = NULL, *group = any(GROUP), *in = given[me], *out = taken[me];
  deck_group_options_t options = DECK_GROUP_OPTIONS_DEFAULT;
  int is_pair = seldom(2), is_alone = seldom(4);
  const char *group_name = is_alone ? own_group : is_pair ? "pair" : name();
  int members = is_alone ? 1 : is_pair ? 2 : 1 + (int)below(MEMBERS);
  switch (below(22)) {
    case 0: case 1: case 2: return put(GROUP, deck_group_join((deck_group_t **)&made, group_name, members, -1, 30), &made);
    case 3:
      options.completion = (deck_completion_t)below(3);
      return put(GROUP, deck_group_join_with((deck_group_t **)&made, name(), members, (int)below(3), &options, 30), &made);
    case 4: return number(deck_group_index(group));
    case 5: return number(deck_group_size(group));
    case 6: return seldom(4) ? deck_group_leave(group) : NOTHING;
    case 7: case 8: return deck_barrier(group, moment());
    case 9: return deck_bcast(group, root(), out, count(), type(), moment());
    case 10: return deck_reduce(group, root(), in, out, count(), type(), operation(), moment());
    case 11: case 12: return deck_allreduce(group, in, out, count(), type(), operation(), moment());
    case 13: return deck_scan(group, in, out, count(), type(), operation(), moment());
    case 14: return deck_gather(group, root(), in, count(), out, type(), moment());
    case 15: return deck_scatter(group, root(), in, out, count(), type(), moment());
    case 16: return deck_allgather(group, in, count(), out, type(), moment());
    case 17: return deck_alltoall(group, in, count(), out, type(), moment());
    case 18: return deck_gatherv(group, root(), in, 100, out, counts, type(), moment());
    case 19: return deck_scatterv(group, root(), in, counts, out, 100, type(), moment());
    case 20: return deck_allgatherv(group, in, 100, out, counts, type(), moment());
    default: return deck_alltoallv(group, in, counts, out, counts, type(), moment());
  }
}

static int start(deck_request_t **request) {
  void *group = any(GROUP), *in = started[me][0], *out = started[me][1];
  switch (below(13)) {
    case 0: return deck_start_barrier(group, request);
    case 1: return deck_start_bcast(group, root(), out, count(), type(), request);
    case 2: return deck_start_reduce(group, root(), in, out, count(), type(), operation(), request);
    case 3: return deck_start_allreduce(group, in, out, count(), type(), operation(), request);
    case 4: return deck_start_scan(group, in, out, count(), type(), operation(), request);
    case 5: return deck_start_gather(group, root(), in, count(), out, type(), request);
    case 6: return deck_start_scatter(group, root(), in, out, count(), type(), request);
    case 7: return deck_start_allgather(group, in, count(), out, type(), request);
    case 8: return deck_start_alltoall(group, in, count(), out, type(), request);
    case 9: return deck_start_gatherv(group, root(), in, 100, out, counts, type(), request);
    case 10: return deck_start_scatterv(group, root(), in, counts, out, 100, type(), request);
    case 11: return deck_start_allgatherv(group, in, 100, out, counts, type(), request);
    default: return deck_start_alltoallv(group, in, counts, out, counts, type(), request);
  }
}

static int of_requests(void) {
  void *made = NULL, *request = any(REQUEST);
  int is_done;
  switch (below(6)) {
    case 0: case 1: return put(REQUEST, start((deck_request_t **)&made), &made);
    case 2: case 3: return deck_test(request, &is_done);
    case 4: return deck_wait(request, moment());
    default: return seldom(4) ? deck_request_destroy(request) : NOTHING;
  }
}

static int of_segments(void) {
  void *made = NULL, *segment = any(SEGMENT);
  int home = (int)below(5) - 1;
  switch (below(7)) {
    case 0: return put(SEGMENT, deck_segment_create((deck_segment_t **)&made, name(), seldom(40) ? bits() : size(), home), &made);
    case 1: return put(SEGMENT, deck_segment_open((deck_segment_t **)&made, name(), moment()), &made);
    case 2: return deck_segment_data(segment), NOTHING;
    case 3: return deck_segment_size(segment), NOTHING;
    case 4: return number(deck_segment_home(segment));
    case 5: return seldom(2) ? deck_segment_close(segment) : NOTHING;
    default: return deck_last_error() != NULL && deck_strerror(-(int)below(700)) != NULL ? NOTHING : DECK_E_SYSTEM;
  }
}

static int waits_in_a_condition(void *mutex) {
  int code = deck_mutex_lock(mutex, 1);
  if (code != DECK_OK && code != DECK_E_OWNER_DIED) return code;
  code = deck_cond_wait(any(CONDITION), seldom(8) ? any(MUTEX) : mutex, moment());
  deck_mutex_unlock(mutex);
  return code;
}

static int of_locks(void) {
  void *made = NULL, *mutex = any(MUTEX);
  switch (below(12)) {
    case 0: return put(MUTEX, deck_mutex_open((deck_mutex_t **)&made, name()), &made);
    case 1: case 2: return deck_mutex_lock(mutex, moment());
    case 3: case 4: case 5: return deck_mutex_unlock(mutex);
    case 6: return seldom(4) ? deck_mutex_close(mutex) : NOTHING;
    case 7: return put(CONDITION, deck_cond_open((deck_cond_t **)&made, name()), &made);
    case 8: return waits_in_a_condition(mutex);
    case 9: return deck_cond_signal(any(CONDITION));
    case 10: return deck_cond_broadcast(any(CONDITION));
    default: return seldom(4) ? deck_cond_close(any(CONDITION)) : NOTHING;
  }
}

static int of_counters(void) {
  void *made = NULL, *barrier = any(BARRIER), *counter = any(COUNTER);
  int64_t value, amount = (int64_t)(bits() >> below(64));
  switch (below(8)) {
    case 0: return put(BARRIER, deck_barrier_open((deck_barrier_t **)&made, name(), seldom(8) ? below(4) : 2), &made);
    case 1: return deck_barrier_wait(barrier, moment());
    case 2: return seldom(4) ? deck_barrier_close(barrier) : NOTHING;
    case 3: return put(COUNTER, deck_counter_open((deck_counter_t **)&made, name()), &made);
    case 4: return deck_counter_add(counter, seldom(2) ? amount : -amount, &value);
    case 5: return deck_counter_read(counter, &value);
    case 6: return deck_counter_wait(counter, seldom(2) ? amount : -amount, seldom(2) ? NULL : &value, moment());
    default: return seldom(4) ? deck_counter_close(counter) : NOTHING;
  }
}

static int (*const areas[])(void) = {of_messages, of_mail_boxes, of_threads,  of_groups,
                                     of_requests, of_segments,   of_locks,    of_counters};
enum { AREAS = sizeof areas / sizeof *areas };

/* How many calls of each area did something with an object: a test in which all are refused would show nothing. */
static atomic_uint good[AREAS];

struct orders {
  uint64_t seed;
  int thread;
  int is_killed;
};

static void *calls(void *arg) {
  const struct orders *orders = arg;
  me = orders->thread;
  chance = orders->seed * THREADS + (unsigned)me;
  for (int call = 0; call < CALLS; call++) {
    unsigned area = below(AREAS);
    int code = areas[area]();
    if (code == DECK_OK) good[area]++;
    if (code < 0) {
      CHECK(strcmp(deck_strerror(code), "not a code of DECK") != 0);
      /* Nobody writes what DECK alone may write, and a panic would be one of DECK's own. */
      CHECK(code != DECK_E_CORRUPT && strstr(deck_last_error(), "a bug in DECK") == NULL);
    }
    if (orders->is_killed && me == 0 && call == CALLS / 2) raise(SIGKILL);
  }
  return NULL;
}

int main(int argc, char **argv) {
  pthread_t threads[THREADS];
  pthread_attr_t small;
  struct orders orders[THREADS];
  start_watchdog();
  CHECK(argc >= 3);
  /* The least that a thread may have is more on some machines: 128 KiB on aarch64. */
  size_t stack = PTHREAD_STACK_MIN > STACK ? PTHREAD_STACK_MIN : STACK;
  CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, stack) == 0);
  printf("DECK %s, seed %s, node %s\n", deck_version(), argv[1], argv[2]);
  snprintf(own_group, sizeof own_group, "of node %s", argv[2]);
  EXPECT(DECK_OK, deck_init(&argc, &argv));
  for (int thread = 0; thread < THREADS; thread++) {
    uint64_t seed = strtoull(argv[1], NULL, 10) * 16 + strtoull(argv[2], NULL, 10);
    orders[thread] = (struct orders){seed, thread, argc > 3 && strcmp(argv[3], "killed") == 0};
    CHECK(pthread_create(&threads[thread], &small, calls, &orders[thread]) == 0);
  }
  for (int thread = 0; thread < THREADS; thread++) CHECK(pthread_join(threads[thread], NULL) == 0);
  for (int area = 0; area < AREAS; area++) CHECK(good[area] > 0);
  for (int place = 0; place < PLACES; place++) {
    void *thread = atomic_load(&objects[THREAD][place]);
    if (thread != NULL) deck_thread_join(thread, NULL);
  }
  EXPECT(DECK_OK, deck_done());
  return 0;
}
