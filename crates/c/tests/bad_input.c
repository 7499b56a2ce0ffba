/* Every call with every kind of bad argument: a code, never a crash, and nothing changes. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

typedef struct {
  const char *what;
  void *handle;
  int code;
} bad_t;

enum { THREAD, SEMAPHORE, MESSAGE, MAILBOX, GROUP, REQUEST, SEGMENT, MUTEX, CONDITION, BARRIER, COUNTER, KINDS };

static void *nothing(void *arg) {
  return arg;
}

/* A live handle of each kind, and one that was destroyed (its place in use again, so that generations matter). */
static void *live[KINDS], *destroyed[KINDS];

static void make_named(void **into) {
  deck_segment_t *segment;
  deck_mutex_t *mutex;
  deck_cond_t *condition;
  deck_barrier_t *barrier;
  deck_counter_t *counter;
  EXPECT(DECK_OK, deck_segment_create(&segment, "s", 100, -1));
  EXPECT(DECK_OK, deck_mutex_open(&mutex, "m"));
  EXPECT(DECK_OK, deck_cond_open(&condition, "c"));
  EXPECT(DECK_OK, deck_barrier_open(&barrier, "b", 2));
  EXPECT(DECK_OK, deck_counter_open(&counter, "n"));
  into[SEGMENT] = segment, into[MUTEX] = mutex, into[CONDITION] = condition, into[BARRIER] = barrier;
  into[COUNTER] = counter;
}

static void close_named(void **made) {
  EXPECT(DECK_OK, deck_segment_close(made[SEGMENT]));
  EXPECT(DECK_OK, deck_mutex_close(made[MUTEX]));
  EXPECT(DECK_OK, deck_cond_close(made[CONDITION]));
  EXPECT(DECK_OK, deck_barrier_close(made[BARRIER]));
  EXPECT(DECK_OK, deck_counter_close(made[COUNTER]));
}

/* Long enough that the library finds them by a short way of this thread's, which must not lead anywhere afterwards. */
static void use_often(deck_sem_t *semaphore, deck_msg_t *message, deck_mbox_t *mailbox, deck_group_t *group) {
  deck_mbox_stats_t stats;
  for (int i = 0; i < 100; i++) {
    EXPECT(DECK_OK, deck_sem_post(semaphore));
    EXPECT(DECK_OK, deck_msg_clear(message));
    EXPECT(DECK_OK, deck_mbox_stats(mailbox, &stats));
    EXPECT(0, deck_group_index(group));
  }
}

static void make_handles(void) {
  deck_thread_t *thread;
  deck_sem_t *semaphore;
  deck_msg_t *message;
  deck_mbox_t *mailbox;
  deck_group_t *group;
  deck_request_t *request;
  for (int second = 0; second < 2; second++) {
    void **into = second ? live : destroyed;
    EXPECT(DECK_OK, deck_thread_create(&thread, nothing, NULL));
    EXPECT(DECK_OK, deck_sem_create(&semaphore, 0));
    EXPECT(DECK_OK, deck_msg_create(&message, 100));
    EXPECT(DECK_OK, deck_mbox_create(&mailbox, NULL));
    EXPECT(DECK_OK, deck_group_join(&group, "alone", 1, 0, 0));
    EXPECT(DECK_OK, deck_start_barrier(group, &request));
    into[THREAD] = thread, into[SEMAPHORE] = semaphore, into[MESSAGE] = message, into[MAILBOX] = mailbox;
    into[GROUP] = group, into[REQUEST] = request;
    make_named(into);
    if (!second) {
      use_often(semaphore, message, mailbox, group);
      EXPECT(DECK_OK, deck_thread_join(thread, NULL));
      EXPECT(DECK_OK, deck_sem_destroy(semaphore));
      EXPECT(DECK_OK, deck_msg_destroy(message));
      EXPECT(DECK_OK, deck_mbox_destroy(mailbox));
      EXPECT(DECK_OK, deck_request_destroy(request));
      EXPECT(DECK_OK, deck_group_leave(group));
      close_named(into);
    }
  }
}

static void bad_thread(bad_t bad) {
  deck_thread_t *t = bad.handle;
  void *result = &result;
  EXPECT(bad.code, deck_cancel(t));
  EXPECT(bad.code, deck_thread_join(t, &result));
  CHECK(result == &result);
}

static void bad_semaphore(bad_t bad) {
  deck_sem_t *s = bad.handle;
  EXPECT(bad.code, deck_sem_post(s));
  EXPECT(bad.code, deck_sem_wait(s, 0));
  EXPECT(bad.code, deck_sem_wait(s, DECK_FOREVER));
  EXPECT(bad.code, deck_sem_destroy(s));
}

static void bad_message(bad_t bad) {
  deck_msg_t *m = bad.handle;
  deck_mbox_t *untouched = NULL;
  int32_t number = 5;
  EXPECT(bad.code, deck_msg_pack(m, DECK_INT32, &number, 1));
  EXPECT(bad.code, deck_msg_unpack(m, DECK_INT32, &number, 1));
  EXPECT(bad.code, deck_msg_pack(m, DECK_INT32, &number, SIZE_MAX));
  EXPECT(bad.code, deck_msg_unpack(m, DECK_INT32, &number, SIZE_MAX));
  EXPECT(bad.code, deck_msg_pack_mbox(m, live[MAILBOX]));
  EXPECT(bad.code, deck_msg_unpack_mbox(m, &untouched, 0));
  CHECK(deck_msg_data(m) == NULL);
  EXPECT(bad.code, deck_msg_fetch(m, 0, 1));
  CHECK(deck_msg_edit(m) == NULL);
  CHECK(deck_msg_size(m) == 0);
  CHECK(deck_msg_capacity(m) == 0);
  EXPECT(bad.code, deck_msg_resize(m, 10));
  EXPECT(bad.code, deck_msg_clear(m));
  EXPECT(bad.code, deck_msg_sender(m));
  EXPECT(bad.code, deck_mbox_post(live[MAILBOX], m, 0));
  EXPECT(bad.code, deck_mbox_retrv(live[MAILBOX], m, 0));
  EXPECT(bad.code, deck_msg_destroy(m));
  CHECK(number == 5 && untouched == NULL);
}

static void bad_mailbox(bad_t bad) {
  deck_mbox_t *b = bad.handle;
  deck_mbox_t *some[] = {live[MAILBOX], bad.handle};
  deck_mbox_stats_t stats;
  size_t which = 77;
  EXPECT(bad.code, deck_mbox_post(b, live[MESSAGE], 0));
  EXPECT(bad.code, deck_mbox_retrv(b, live[MESSAGE], DECK_FOREVER));
  EXPECT(bad.code, deck_mbox_select(some, 2, &which, 0));
  EXPECT(bad.code, deck_mbox_fd(b));
  EXPECT(bad.code, deck_mbox_stats(b, &stats));
  EXPECT(bad.code, deck_msg_pack_mbox(live[MESSAGE], b));
  EXPECT(bad.code, deck_mbox_destroy(b));
  CHECK(which == 77);
}

static void bad_group(bad_t bad) {
  deck_group_t *g = bad.handle;
  int32_t in[1] = {5}, out[1] = {7};
  const size_t count[1] = {1};
  EXPECT(bad.code, deck_group_index(g));
  EXPECT(bad.code, deck_group_size(g));
  EXPECT(bad.code, deck_barrier(g, DECK_FOREVER));
  EXPECT(bad.code, deck_bcast(g, 0, out, 1, DECK_INT32, DECK_FOREVER));
  EXPECT(bad.code, deck_reduce(g, 0, in, out, 1, DECK_INT32, DECK_SUM, DECK_FOREVER));
  EXPECT(bad.code, deck_allreduce(g, in, out, 1, DECK_INT32, DECK_SUM, DECK_FOREVER));
  EXPECT(bad.code, deck_scan(g, in, out, 1, DECK_INT32, DECK_SUM, DECK_FOREVER));
  EXPECT(bad.code, deck_gather(g, 0, in, 1, out, DECK_INT32, DECK_FOREVER));
  EXPECT(bad.code, deck_scatter(g, 0, in, out, 1, DECK_INT32, DECK_FOREVER));
  EXPECT(bad.code, deck_allgather(g, in, 1, out, DECK_INT32, DECK_FOREVER));
  EXPECT(bad.code, deck_alltoall(g, in, 1, out, DECK_INT32, DECK_FOREVER));
  EXPECT(bad.code, deck_gatherv(g, 0, in, 1, out, count, DECK_INT32, DECK_FOREVER));
  EXPECT(bad.code, deck_scatterv(g, 0, in, count, out, 1, DECK_INT32, DECK_FOREVER));
  EXPECT(bad.code, deck_allgatherv(g, in, 1, out, count, DECK_INT32, DECK_FOREVER));
  EXPECT(bad.code, deck_alltoallv(g, in, count, out, count, DECK_INT32, DECK_FOREVER));
  CHECK(in[0] == 5 && out[0] == 7);
}

static void starts_in_bad_group(bad_t bad) {
  deck_group_t *g = bad.handle;
  deck_request_t *untouched = NULL;
  int32_t in[1] = {5}, out[1] = {7};
  const size_t count[1] = {1};
  EXPECT(bad.code, deck_start_barrier(g, &untouched));
  EXPECT(bad.code, deck_start_bcast(g, 0, out, 1, DECK_INT32, &untouched));
  EXPECT(bad.code, deck_start_reduce(g, 0, in, out, 1, DECK_INT32, DECK_SUM, &untouched));
  EXPECT(bad.code, deck_start_allreduce(g, in, out, 1, DECK_INT32, DECK_SUM, &untouched));
  EXPECT(bad.code, deck_start_scan(g, in, out, 1, DECK_INT32, DECK_SUM, &untouched));
  EXPECT(bad.code, deck_start_gather(g, 0, in, 1, out, DECK_INT32, &untouched));
  EXPECT(bad.code, deck_start_scatter(g, 0, in, out, 1, DECK_INT32, &untouched));
  EXPECT(bad.code, deck_start_allgather(g, in, 1, out, DECK_INT32, &untouched));
  EXPECT(bad.code, deck_start_alltoall(g, in, 1, out, DECK_INT32, &untouched));
  EXPECT(bad.code, deck_start_gatherv(g, 0, in, 1, out, count, DECK_INT32, &untouched));
  EXPECT(bad.code, deck_start_scatterv(g, 0, in, count, out, 1, DECK_INT32, &untouched));
  EXPECT(bad.code, deck_start_allgatherv(g, in, 1, out, count, DECK_INT32, &untouched));
  EXPECT(bad.code, deck_start_alltoallv(g, in, count, out, count, DECK_INT32, &untouched));
  EXPECT(bad.code, deck_group_leave(g));
  CHECK(in[0] == 5 && out[0] == 7 && untouched == NULL);
}

static void bad_member(bad_t bad) {
  bad_group(bad);
  starts_in_bad_group(bad);
}

static void bad_request(bad_t bad) {
  deck_request_t *r = bad.handle;
  int is_done = 7;
  EXPECT(bad.code, deck_test(r, &is_done));
  EXPECT(bad.code, deck_wait(r, DECK_FOREVER));
  EXPECT(bad.code, deck_request_destroy(r));
  CHECK(is_done == 7);
}

static void bad_segment(bad_t bad) {
  deck_segment_t *s = bad.handle;
  CHECK(deck_segment_data(s) == NULL);
  CHECK(deck_segment_size(s) == 0);
  EXPECT(bad.code, deck_segment_home(s));
  EXPECT(bad.code, deck_segment_close(s));
}

static void bad_mutex(bad_t bad) {
  deck_mutex_t *m = bad.handle;
  EXPECT(bad.code, deck_mutex_lock(m, DECK_FOREVER));
  EXPECT(bad.code, deck_mutex_unlock(m));
  EXPECT(bad.code, deck_cond_wait(live[CONDITION], m, DECK_FOREVER));
  EXPECT(bad.code, deck_mutex_close(m));
}

static void bad_condition(bad_t bad) {
  deck_cond_t *c = bad.handle;
  EXPECT(DECK_OK, deck_mutex_lock(live[MUTEX], 0));
  EXPECT(bad.code, deck_cond_wait(c, live[MUTEX], DECK_FOREVER));
  EXPECT(DECK_OK, deck_mutex_unlock(live[MUTEX]));
  EXPECT(bad.code, deck_cond_signal(c));
  EXPECT(bad.code, deck_cond_broadcast(c));
  EXPECT(bad.code, deck_cond_close(c));
}

static void bad_barrier(bad_t bad) {
  deck_barrier_t *b = bad.handle;
  EXPECT(bad.code, deck_barrier_wait(b, DECK_FOREVER));
  EXPECT(bad.code, deck_barrier_close(b));
}

static void bad_counter(bad_t bad) {
  deck_counter_t *c = bad.handle;
  int64_t value = 7;
  EXPECT(bad.code, deck_counter_add(c, 1, &value));
  EXPECT(bad.code, deck_counter_read(c, &value));
  EXPECT(bad.code, deck_counter_wait(c, 1, &value, DECK_FOREVER));
  EXPECT(bad.code, deck_counter_close(c));
  CHECK(value == 7);
}

static void bad_handles(void) {
  static void (*const calls[KINDS])(bad_t) = {bad_thread,  bad_semaphore, bad_message,   bad_mailbox, bad_member, bad_request,
                                              bad_segment, bad_mutex,     bad_condition, bad_barrier, bad_counter};
  static const char *const said_of_a_destroyed_one[KINDS] = {
    "was joined: closed; join a thread once", "was destroyed: closed; create it again", "create it again",
    "create or clone it again", "was left: closed; join", "has ended, or was destroyed: closed; use a request no more",
    "is not open any more: closed; open it again", "open it again", "open it again", "open it again", "open it again"};
  char on_the_stack[64] = {0};
  char *on_the_heap = calloc(1, 64);
  for (int kind = 0; kind < KINDS; kind++) {
    void *off_by_one = (void *)((uintptr_t)live[kind] + 1), *next_place = (void *)((uintptr_t)live[kind] + (1u << 20));
    bad_t all[] = {
      {"NULL", NULL, DECK_E_INVALID},
      {"1", (void *)1, DECK_E_INVALID},
      {"-1", (void *)UINTPTR_MAX, DECK_E_INVALID},
      {"stack", on_the_stack, DECK_E_INVALID},
      {"heap", on_the_heap, DECK_E_INVALID},
      {"off by one", off_by_one, DECK_E_INVALID},
      {"a place that was never used", next_place, DECK_E_INVALID},
      {"another kind", live[(kind + 1) % KINDS], DECK_E_INVALID},
      {"a destroyed one of another kind", destroyed[(kind + 2) % KINDS], DECK_E_INVALID},
      {"a destroyed one", destroyed[kind], DECK_E_CLOSED},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
      calls[kind](all[i]);
      CHECK(strlen(deck_last_error()) > 10);
    }
    SAYS(said_of_a_destroyed_one[kind]); /* the last of them */
  }
  free(on_the_heap);
}

static void bad_arguments_of_groups(void) {
  deck_group_t *g = NULL;
  char too_long[91] = {0};
  memset(too_long, 'x', sizeof too_long - 1);
  const char *names[] = {NULL, "", "not UTF-8: \xff\xfe", too_long};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    EXPECT(DECK_E_INVALID, deck_group_join(&g, names[i], 1, 0, 0));
    EXPECT(DECK_E_INVALID, deck_group_join_with(&g, names[i], 1, 0, NULL, 0));
  }
  EXPECT(DECK_E_INVALID, deck_group_join_with(NULL, "new", 1, 0, NULL, 0));
  EXPECT(DECK_E_INVALID, deck_group_join_with(&g, "new", 1025, 0, NULL, 0));
  EXPECT(DECK_E_INVALID, deck_group_join_with(&g, "new", 1, 1, NULL, 0));
  EXPECT(DECK_E_INVALID, deck_group_join_with(&g, "new", 1, 0, NULL, -2));
  CHECK(g == NULL);
  /* The longest name. */
  too_long[89] = 0;
  EXPECT(DECK_OK, deck_group_join(&g, too_long, 1, 0, 0));
  EXPECT(DECK_OK, deck_group_leave(g));
}

static void bad_arguments_of_named(void) {
  deck_segment_t *segment = NULL;
  deck_mutex_t *mutex = NULL;
  deck_cond_t *condition = NULL;
  deck_barrier_t *barrier = NULL;
  deck_counter_t *counter = NULL;
  char too_long[97] = {0};
  memset(too_long, 'x', sizeof too_long - 1);
  const char *names[] = {NULL, "", "not UTF-8: \xff\xfe", too_long};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    EXPECT(DECK_E_INVALID, deck_segment_create(&segment, names[i], 100, -1));
    EXPECT(DECK_E_INVALID, deck_segment_open(&segment, names[i], 0));
    EXPECT(DECK_E_INVALID, deck_mutex_open(&mutex, names[i]));
    EXPECT(DECK_E_INVALID, deck_cond_open(&condition, names[i]));
    EXPECT(DECK_E_INVALID, deck_barrier_open(&barrier, names[i], 2));
    EXPECT(DECK_E_INVALID, deck_counter_open(&counter, names[i]));
  }
  EXPECT(DECK_E_INVALID, deck_segment_create(NULL, "new", 100, -1));
  EXPECT(DECK_E_INVALID, deck_segment_create(&segment, "new", 0, -1));
  EXPECT(DECK_E_INVALID, deck_segment_create(&segment, "new", 100, -2));
  EXPECT(DECK_E_INVALID, deck_segment_open(NULL, "s", 0));
  EXPECT(DECK_E_INVALID, deck_segment_open(&segment, "s", -2));
  EXPECT(DECK_E_INVALID, deck_mutex_open(NULL, "m"));
  EXPECT(DECK_E_INVALID, deck_mutex_lock(live[MUTEX], -2));
  EXPECT(DECK_E_INVALID, deck_mutex_unlock(live[MUTEX]));
  EXPECT(DECK_E_INVALID, deck_cond_open(NULL, "c"));
  EXPECT(DECK_E_INVALID, deck_cond_wait(live[CONDITION], live[MUTEX], -2));
  EXPECT(DECK_E_INVALID, deck_cond_wait(live[CONDITION], live[MUTEX], 0));
  EXPECT(DECK_E_INVALID, deck_barrier_open(NULL, "b", 2));
  EXPECT(DECK_E_INVALID, deck_barrier_open(&barrier, "b", 0));
  EXPECT(DECK_E_INVALID, deck_barrier_wait(live[BARRIER], -2));
  EXPECT(DECK_E_INVALID, deck_counter_open(NULL, "n"));
  EXPECT(DECK_E_INVALID, deck_counter_read(live[COUNTER], NULL));
  EXPECT(DECK_E_INVALID, deck_counter_wait(live[COUNTER], 1, NULL, -2));
  CHECK(segment == NULL && mutex == NULL && condition == NULL && barrier == NULL && counter == NULL);
}

/* Through all of this the live objects are as they were. */
static void live_as_before(void) {
  deck_group_t *g = live[GROUP];
  int is_done = 0;
  int64_t value = 7;
  EXPECT(DECK_E_TIMEOUT, deck_mbox_retrv(live[MAILBOX], live[MESSAGE], 0));
  EXPECT(DECK_E_TIMEOUT, deck_sem_wait(live[SEMAPHORE], 0));
  EXPECT(DECK_OK, deck_thread_join(live[THREAD], NULL));
  EXPECT(DECK_OK, deck_test(live[REQUEST], &is_done));
  CHECK(is_done == 1);
  EXPECT(DECK_OK, deck_barrier(g, 0));
  EXPECT(DECK_OK, deck_group_leave(g));
  CHECK(deck_segment_size(live[SEGMENT]) == 100 && deck_segment_data(live[SEGMENT]) != NULL);
  EXPECT(DECK_OK, deck_mutex_lock(live[MUTEX], 0));
  EXPECT(DECK_E_TIMEOUT, deck_cond_wait(live[CONDITION], live[MUTEX], 0));
  EXPECT(DECK_OK, deck_mutex_unlock(live[MUTEX]));
  EXPECT(DECK_E_TIMEOUT, deck_barrier_wait(live[BARRIER], 0));
  EXPECT(DECK_OK, deck_counter_read(live[COUNTER], &value));
  CHECK(value == 0);
  close_named(live);
}

static void bad_arguments(void) {
  int32_t numbers[4] = {0};
  size_t which;
  deck_msg_t *m = live[MESSAGE];
  deck_mbox_t *b = live[MAILBOX], *clone = NULL;

  EXPECT(DECK_E_INVALID, deck_init(NULL, NULL));
  SAYS("already node");
  EXPECT(DECK_E_INVALID, deck_node_state(-1));
  EXPECT(DECK_E_INVALID, deck_node_state(1000000));

  EXPECT(DECK_E_INVALID, deck_thread_create(NULL, nothing, NULL));
  deck_thread_t *thread = NULL;
  EXPECT(DECK_E_INVALID, deck_thread_create(&thread, NULL, NULL));
  CHECK(thread == NULL);
  EXPECT(DECK_E_INVALID, deck_sem_create(NULL, 1));
  EXPECT(DECK_E_INVALID, deck_sem_wait(live[SEMAPHORE], -2));

  EXPECT(DECK_E_INVALID, deck_msg_create(NULL, 10));
  EXPECT(DECK_E_INVALID, deck_msg_pack(m, (deck_type_t)0, numbers, 1));
  EXPECT(DECK_E_INVALID, deck_msg_pack(m, (deck_type_t)13, numbers, 1));
  EXPECT(DECK_E_INVALID, deck_msg_pack(m, (deck_type_t)(256 + DECK_BYTE), numbers, 1));
  EXPECT(DECK_E_INVALID, deck_msg_unpack(m, (deck_type_t)-1, numbers, 1));
  EXPECT(DECK_E_INVALID, deck_msg_pack(m, DECK_INT32, NULL, 1));
  EXPECT(DECK_E_INVALID, deck_msg_unpack(m, DECK_INT32, NULL, 1));
  EXPECT(DECK_OK, deck_msg_pack(m, DECK_INT32, NULL, 0));
  EXPECT(DECK_OK, deck_msg_unpack(m, DECK_INT32, NULL, 0));
  EXPECT(DECK_E_TOO_LARGE, deck_msg_pack(m, DECK_INT32, numbers, SIZE_MAX));
  EXPECT(DECK_E_TOO_LARGE, deck_msg_pack(m, DECK_DOUBLE, numbers, SIZE_MAX / 8 + 2));
  EXPECT(DECK_E_TOO_LARGE, deck_msg_unpack(m, DECK_BYTE, numbers, SIZE_MAX));
  EXPECT(DECK_E_TRUNCATED, deck_msg_unpack(m, DECK_BYTE, numbers, SIZE_MAX / 4));
  CHECK(deck_msg_size(m) == 0);
  EXPECT(DECK_OK, deck_msg_pack(m, DECK_INT32, numbers, 4));
  EXPECT(DECK_E_INVALID, deck_msg_pack(m, DECK_INT32, deck_msg_data(m), 4));
  EXPECT(DECK_E_INVALID, deck_msg_unpack(m, DECK_INT32, deck_msg_data(m), 4));
  EXPECT(DECK_E_INVALID, deck_msg_sender(m));
  EXPECT(DECK_E_NOMEM, deck_msg_resize(m, SIZE_MAX / 4));
  CHECK(deck_msg_size(m) == 16);
  EXPECT(DECK_OK, deck_msg_clear(m));
  EXPECT(DECK_E_INVALID, deck_msg_unpack_mbox(m, NULL, 0));
  EXPECT(DECK_E_INVALID, deck_msg_unpack_mbox(m, &clone, -2));
  EXPECT(DECK_E_TRUNCATED, deck_msg_unpack_mbox(m, &clone, 0));

  EXPECT(DECK_E_INVALID, deck_mbox_create(NULL, "bad input"));
  EXPECT(DECK_E_INVALID, deck_mbox_create(&clone, ""));
  EXPECT(DECK_E_INVALID, deck_mbox_create(&clone, "not UTF-8: \xff\xfe"));
  EXPECT(DECK_E_INVALID, deck_mbox_create_with(NULL, NULL, NULL));
  deck_mbox_options_t options = DECK_MBOX_OPTIONS_DEFAULT;
  options.size_of_struct = 0;
  EXPECT(DECK_E_INVALID, deck_mbox_create_with(&clone, NULL, &options));
  options.size_of_struct = (size_t)1 << 40;
  EXPECT(DECK_E_INVALID, deck_mbox_create_with(&clone, NULL, &options));
  struct {
    deck_mbox_options_t known;
    size_t newer;
  } later = {{sizeof later, 0, 0}, 1};
  EXPECT(DECK_E_UNSUPPORTED, deck_mbox_create_with(&clone, NULL, &later.known));
  deck_mbox_options_t huge = {sizeof huge, SIZE_MAX, 0};
  EXPECT(DECK_E_INVALID, deck_mbox_create_with(&clone, NULL, &huge));

  EXPECT(DECK_E_INVALID, deck_mbox_clone(NULL, "bad input", 0));
  EXPECT(DECK_E_INVALID, deck_mbox_clone(&clone, NULL, 0));
  EXPECT(DECK_E_INVALID, deck_mbox_clone(&clone, "bad input", -2));
  EXPECT(DECK_E_INVALID, deck_mbox_clone(&clone, "\xff", 0));
  EXPECT(DECK_E_TIMEOUT, deck_mbox_clone(&clone, "a name that nobody ever creates", 50));
  EXPECT(DECK_E_INVALID, deck_mbox_post(b, m, -2));
  EXPECT(DECK_E_INVALID, deck_mbox_retrv(b, m, -3));
  EXPECT(DECK_E_INVALID, deck_mbox_select(NULL, 1, &which, 0));
  EXPECT(DECK_E_INVALID, deck_mbox_select(&b, 0, &which, 0));
  EXPECT(DECK_E_INVALID, deck_mbox_select(&b, 1, NULL, 0));
  EXPECT(DECK_E_INVALID, deck_mbox_select(&b, SIZE_MAX, &which, 0));
  SAYS("correct the count");
  EXPECT(DECK_E_INVALID, deck_mbox_select(&b, 1, &which, -2));
  EXPECT(DECK_E_INVALID, deck_mbox_stats(b, NULL));
  /* Plain arguments come before handles. */
  EXPECT(DECK_E_INVALID, deck_mbox_stats(destroyed[MAILBOX], NULL));
  EXPECT(DECK_E_INVALID, deck_msg_unpack_mbox(destroyed[MESSAGE], NULL, 0));
  CHECK(clone == NULL);

  bad_arguments_of_groups();
  bad_arguments_of_named();
  live_as_before();
}

static void texts(void) {
  static const int codes[] = {
    DECK_OK, DECK_E_INVALID, DECK_E_TIMEOUT, DECK_E_CANCELLED, DECK_E_UNSUPPORTED, DECK_E_NOT_FOUND, DECK_E_ACCESS,
    DECK_E_SYSTEM, DECK_E_TYPE, DECK_E_TRUNCATED, DECK_E_TOO_LARGE, DECK_E_NOMEM, DECK_E_EXISTS, DECK_E_CLOSED,
    DECK_E_NOT_LOCKED, DECK_E_PEER_LOST, DECK_E_OWNER_DIED, DECK_E_CORRUPT, DECK_E_NOT_INITIALIZED,
  };
  const size_t count = sizeof codes / sizeof codes[0];
  for (size_t i = 0; i < count; i++) {
    CHECK(strcmp(deck_strerror(codes[i]), deck_strerror(12345)) != 0);
    for (size_t j = 0; j < i; j++) CHECK(strcmp(deck_strerror(codes[i]), deck_strerror(codes[j])) != 0);
  }
  CHECK(deck_version()[0] >= '0' && deck_version()[0] <= '9');
}

int main(int argc, char **argv) {
  start_watchdog();
  texts();
  EXPECT(DECK_OK, deck_init(&argc, &argv));
  make_handles();
  bad_handles();
  bad_arguments();
  EXPECT(DECK_OK, deck_done());
  return 0;
}
