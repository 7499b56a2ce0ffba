/* Groups and collectives of three threads of one node, and what they do with wrong arguments. C and C++. */
#include "check.h"

enum { SIZE = 3, LONG = 100000 };

static deck_completion_t completion = DECK_COMPLETION_EVERYONE;

static deck_group_t *join(const char *name, int index) {
  deck_group_t *g = NULL;
  deck_group_options_t options = DECK_GROUP_OPTIONS_DEFAULT;
  options.completion = completion;
  if (completion == DECK_COMPLETION_EVERYONE) {
    EXPECT(DECK_OK, deck_group_join(&g, name, SIZE, index, 20000));
  } else {
    EXPECT(DECK_OK, deck_group_join_with(&g, name, SIZE, index, &options, 20000));
  }
  CHECK(deck_group_size(g) == SIZE);
  CHECK(index == -1 || deck_group_index(g) == index);
  return g;
}

/* Every collective once, on the group's threads. */
static void *all_collectives(void *arg) {
  int me = (int)(intptr_t)arg, root = 1;
  deck_group_t *g = join("all", me);
  int32_t own[4] = {me, me + 10, me + 20, me + 30}, out[4] = {-1, -1, -1, -1}, wide[4 * SIZE];

  EXPECT(DECK_OK, deck_barrier(g, 20000));

  int16_t data[2] = {(int16_t)me, (int16_t)(me + 5)};
  EXPECT(DECK_OK, deck_bcast(g, root, data, 2, DECK_INT16, 20000));
  CHECK(data[0] == 1 && data[1] == 6);

  EXPECT(DECK_OK, deck_reduce(g, root, own, me == root ? out : NULL, 4, DECK_INT32, DECK_SUM, 20000));
  CHECK(me == root ? out[0] == 3 && out[3] == 93 : out[0] == -1);
  EXPECT(DECK_OK, deck_allreduce(g, own, out, 4, DECK_INT32, DECK_MAX, 20000));
  CHECK(out[0] == 2 && out[3] == 32);
  EXPECT(DECK_OK, deck_scan(g, own, out, 4, DECK_INT32, DECK_SUM, 20000));
  CHECK(out[0] == me * (me + 1) / 2);
  EXPECT(DECK_OK, deck_allreduce(g, own, out, 4, DECK_INT32, DECK_XOR, 20000));
  CHECK(out[0] == (0 ^ 1 ^ 2) && out[1] == (10 ^ 11 ^ 12));

  EXPECT(DECK_OK, deck_gather(g, root, own, 4, me == root ? wide : NULL, DECK_INT32, 20000));
  for (int i = 0; me == root && i < 4 * SIZE; i++) CHECK(wide[i] == i / 4 + 10 * (i % 4));
  EXPECT(DECK_OK, deck_allgather(g, own, 4, wide, DECK_INT32, 20000));
  for (int i = 0; i < 4 * SIZE; i++) CHECK(wide[i] == i / 4 + 10 * (i % 4));
  EXPECT(DECK_OK, deck_scatter(g, root, me == root ? wide : NULL, out, 4, DECK_INT32, 20000));
  CHECK(out[0] == me && out[3] == me + 30);

  int64_t parts[SIZE] = {me, 10 + me, 20 + me}, got[SIZE];
  EXPECT(DECK_OK, deck_alltoall(g, parts, 1, got, DECK_INT64, 20000));
  for (int i = 0; i < SIZE; i++) CHECK(got[i] == 10 * me + i);

  /* The v forms: member i has i + 1 elements. */
  size_t counts[SIZE] = {1, 2, 3}, to_all[SIZE], from_all[SIZE];
  double some[3] = {me + 0.5, me + 0.5, me + 0.5}, all[6], part[3] = {-1, -1, -1};
  size_t mine = counts[me];
  EXPECT(DECK_OK, deck_gatherv(g, root, some, mine, me == root ? all : NULL, me == root ? counts : NULL, DECK_DOUBLE, 20000));
  CHECK(me != root || (all[0] == 0.5 && all[1] == 1.5 && all[2] == 1.5 && all[5] == 2.5));
  EXPECT(DECK_OK, deck_allgatherv(g, some, mine, all, counts, DECK_DOUBLE, 20000));
  CHECK(all[0] == 0.5 && all[2] == 1.5 && all[3] == 2.5);
  EXPECT(DECK_OK, deck_scatterv(g, root, me == root ? all : NULL, me == root ? counts : NULL, part, mine, DECK_DOUBLE, 20000));
  CHECK(part[0] == me + 0.5 && part[mine - 1] == me + 0.5);
  /* To each as many as it has, from each as many as this one has. */
  double outgoing[6] = {0, 1, 1, 2, 2, 2}, incoming[9];
  for (int i = 0; i < SIZE; i++) to_all[i] = counts[i], from_all[i] = mine;
  EXPECT(DECK_OK, deck_alltoallv(g, outgoing, to_all, incoming, from_all, DECK_DOUBLE, 20000));
  for (size_t i = 0; i < SIZE * mine; i++) CHECK(incoming[i] == me);

  /* One array for both; long ones; content of messages. */
  EXPECT(DECK_OK, deck_allreduce(g, own, own, 4, DECK_INT32, DECK_PROD, 20000));
  CHECK(own[0] == 0 && own[1] == 10 * 11 * 12);
  deck_msg_t *in_message, *out_message;
  EXPECT(DECK_OK, deck_msg_create(&in_message, 0));
  EXPECT(DECK_OK, deck_msg_create(&out_message, 0));
  EXPECT(DECK_OK, deck_msg_resize(in_message, LONG * sizeof(float)));
  EXPECT(DECK_OK, deck_msg_resize(out_message, LONG * sizeof(float)));
  float *in = (float *)deck_msg_data(in_message), *sum = (float *)deck_msg_data(out_message);
  for (int i = 0; i < LONG; i++) in[i] = (float)(me + i);
  EXPECT(DECK_OK, deck_allreduce(g, in, sum, LONG, DECK_FLOAT, DECK_SUM, 20000));
  for (int i = 0; i < LONG; i++) CHECK(sum[i] == (float)(3 + 3 * i));
  EXPECT(DECK_OK, deck_msg_destroy(in_message));
  EXPECT(DECK_OK, deck_msg_destroy(out_message));

  EXPECT(DECK_OK, deck_group_leave(g));
  EXPECT(DECK_E_CLOSED, deck_barrier(g, 0));
  EXPECT(DECK_E_CLOSED, deck_group_leave(g));
  return NULL;
}

/* Started now, waited for later, in any order. */
static void *requests(void *arg) {
  int me = (int)(intptr_t)arg, is_done = 0;
  deck_group_t *g = join("requests", me);
  static float in[SIZE][LONG], out[SIZE][LONG];
  for (int i = 0; i < LONG; i++) in[me][i] = (float)me;
  deck_request_t *sum, *root, *barrier, *dropped;
  uint8_t letter = (uint8_t)('a' + me), letters[SIZE] = {0};
  EXPECT(DECK_OK, deck_start_allreduce(g, in[me], out[me], LONG, DECK_FLOAT, DECK_SUM, &sum));
  memset(in[me], 0, sizeof in[me]); /* `in` is the caller's again */
  EXPECT(DECK_OK, deck_start_allgather(g, &letter, 1, letters, DECK_CHAR, &root));
  EXPECT(DECK_OK, deck_start_bcast(g, 0, &letter, 1, DECK_UINT8, &dropped));
  EXPECT(DECK_OK, deck_request_destroy(dropped));
  EXPECT(DECK_OK, deck_start_barrier(g, &barrier));
  EXPECT(DECK_OK, deck_wait(barrier, 20000));
  EXPECT(DECK_E_CLOSED, deck_wait(barrier, 0));
  /* More than any address space has: refused before an array is touched. */
  size_t many = (size_t)1 << 50;
  deck_request_t *none = NULL;
  EXPECT(DECK_E_NOMEM, deck_start_bcast(g, 0, &letter, many, DECK_UINT8, &none));
  EXPECT(DECK_E_NOMEM, deck_allreduce(g, &letter, &letter, many, DECK_UINT8, DECK_SUM, 20000));
  CHECK(none == NULL);
  EXPECT(DECK_OK, deck_test(sum, &is_done));
  CHECK(is_done == 1 && out[me][0] == 3 && out[me][LONG - 1] == 3);
  EXPECT(DECK_OK, deck_wait(root, 0));
  CHECK(memcmp(letters, "abc", 3) == 0 && letter == 'a' + me);
  EXPECT(DECK_OK, deck_group_leave(g));
  return NULL;
}

/* Every form that can be started, all of them under way at once; waited for from the last to the first. */
static void *all_started(void *arg) {
  int me = (int)(intptr_t)arg, root = 2, n = 0, is_root = me == root;
  deck_group_t *g = join("all started", me);
  deck_request_t *r[12];
  int32_t own[2] = {me + 1, 10 * me}, sum[2] = {-1, -1}, before[2], gathered[2 * SIZE], part[2], everybody[2 * SIZE];
  int32_t to_all[2 * SIZE], wide[2 * SIZE], outgoing[6] = {0, 1, 1, 2, 2, 2};
  for (int i = 0; i < 2 * SIZE; i++) wide[i] = 100 * me + i;
  EXPECT(DECK_OK, deck_start_reduce(g, root, own, is_root ? sum : NULL, 2, DECK_INT32, DECK_SUM, &r[n++]));
  EXPECT(DECK_OK, deck_start_scan(g, own, before, 2, DECK_INT32, DECK_SUM, &r[n++]));
  EXPECT(DECK_OK, deck_start_gather(g, root, own, 2, is_root ? gathered : NULL, DECK_INT32, &r[n++]));
  EXPECT(DECK_OK, deck_start_scatter(g, root, is_root ? wide : NULL, part, 2, DECK_INT32, &r[n++]));
  EXPECT(DECK_OK, deck_start_allgather(g, own, 2, everybody, DECK_INT32, &r[n++]));
  EXPECT(DECK_OK, deck_start_alltoall(g, wide, 2, to_all, DECK_INT32, &r[n++]));
  /* Member i has i + 1 elements. */
  size_t counts[SIZE] = {1, 2, 3}, mine = counts[me], from_all[SIZE] = {mine, mine, mine};
  int32_t some[3] = {me, me, me}, all[6], all_at_root[6], parted[3] = {-1, -1, -1}, incoming[9];
  EXPECT(DECK_OK, deck_start_gatherv(g, root, some, mine, is_root ? all_at_root : NULL, is_root ? counts : NULL, DECK_INT32, &r[n++]));
  EXPECT(DECK_OK, deck_start_scatterv(g, root, is_root ? outgoing : NULL, is_root ? counts : NULL, parted, mine, DECK_INT32, &r[n++]));
  EXPECT(DECK_OK, deck_start_allgatherv(g, some, mine, all, counts, DECK_INT32, &r[n++]));
  EXPECT(DECK_OK, deck_start_alltoallv(g, outgoing, counts, incoming, from_all, DECK_INT32, &r[n++]));
  while (n > 0) EXPECT(DECK_OK, deck_wait(r[--n], 20000));

  CHECK(is_root ? sum[0] == 6 && sum[1] == 30 : sum[0] == -1);
  CHECK(before[0] == (me + 1) * (me + 2) / 2 && before[1] == 5 * me * (me + 1));
  for (int i = 0; i < SIZE; i++) {
    CHECK(everybody[2 * i] == i + 1 && everybody[2 * i + 1] == 10 * i);
    CHECK(to_all[2 * i] == 100 * i + 2 * me && to_all[2 * i + 1] == 100 * i + 2 * me + 1);
    CHECK(!is_root || (gathered[2 * i] == i + 1 && gathered[2 * i + 1] == 10 * i));
  }
  CHECK(part[0] == 100 * root + 2 * me && part[1] == 100 * root + 2 * me + 1);
  for (int i = 0; i < 6; i++) CHECK(all[i] == outgoing[i] && (!is_root || all_at_root[i] == outgoing[i]));
  for (size_t i = 0; i < 3; i++) CHECK(parted[i] == (i < mine ? me : -1));
  for (size_t i = 0; i < SIZE * mine; i++) CHECK(incoming[i] == me);
  EXPECT(DECK_OK, deck_group_leave(g));
  return NULL;
}

static deck_msg_t *filled(float **content, float value) {
  deck_msg_t *message;
  EXPECT(DECK_OK, deck_msg_create(&message, 0));
  EXPECT(DECK_OK, deck_msg_resize(message, LONG * sizeof(float)));
  *content = (float *)deck_msg_data(message);
  for (int i = 0; i < LONG; i++) (*content)[i] = value;
  return message;
}

/* Started with arrays in messages, which are used where they lie, whatever becomes of the messages. */
static void *started_in_messages(void *arg) {
  int me = (int)(intptr_t)arg, root = 1;
  deck_group_t *g = join("in messages", me);
  deck_request_t *request, *dropped;
  float *data, *in, *out;
  deck_msg_t *whole = filled(&data, (float)me), *input = filled(&in, (float)(me + 1)), *output = filled(&out, -1);

  EXPECT(DECK_OK, deck_start_bcast(g, root, data, LONG, DECK_FLOAT, &request));
  EXPECT(DECK_OK, deck_wait(request, 20000));
  CHECK(data[0] == root && data[LONG - 1] == root && deck_msg_edit(whole) == data);

  /* Who takes a new address writes a copy; who destroys the message takes nothing away. */
  EXPECT(DECK_OK, deck_start_allreduce(g, in, out, LONG, DECK_FLOAT, DECK_SUM, &request));
  if (me == 0) {
    EXPECT(DECK_OK, deck_msg_destroy(input));
  } else {
    float *copy = (float *)deck_msg_edit(input);
    for (int i = 0; i < LONG; i++) copy[i] = 99;
    EXPECT(DECK_OK, deck_msg_destroy(input));
  }
  input = filled(&in, 50);
  EXPECT(DECK_OK, deck_wait(request, 20000));
  for (int i = 0; i < LONG; i++) CHECK(out[i] == 6);
  CHECK(deck_msg_edit(output) == out && deck_msg_edit(input) == in);

  /* One array for both, and in the forms that end in v. */
  for (int i = 0; i < LONG; i++) out[i] = (float)me;
  EXPECT(DECK_OK, deck_start_scan(g, out, out, LONG, DECK_FLOAT, DECK_SUM, &request));
  EXPECT(DECK_OK, deck_wait(request, 20000));
  for (int i = 0; i < LONG; i++) CHECK(out[i] == (float)(me * (me + 1) / 2));
  size_t counts[SIZE] = {LONG / 3, LONG / 3, LONG / 3};
  EXPECT(DECK_OK, deck_start_gatherv(g, root, data, counts[me], me == root ? out : NULL, me == root ? counts : NULL, DECK_FLOAT, &request));
  EXPECT(DECK_OK, deck_wait(request, 20000));
  CHECK(me != root || (out[0] == root && out[SIZE * (LONG / 3) - 1] == root));

  /* A request that nobody waits for is carried to its end for the others. */
  EXPECT(DECK_OK, deck_start_allreduce(g, data, out, LONG, DECK_FLOAT, DECK_MAX, &dropped));
  if (me == 2) {
    EXPECT(DECK_OK, deck_request_destroy(dropped));
    EXPECT(DECK_OK, deck_msg_destroy(whole));
    EXPECT(DECK_OK, deck_msg_destroy(output));
    whole = filled(&data, 77), output = filled(&out, 77);
  } else {
    EXPECT(DECK_OK, deck_wait(dropped, 20000));
  }
  EXPECT(DECK_OK, deck_barrier(g, 20000));
  for (int i = 0; i < LONG; i++) CHECK(out[i] == (me == 2 ? 77 : root));

  EXPECT(DECK_OK, deck_msg_destroy(whole));
  EXPECT(DECK_OK, deck_msg_destroy(input));
  EXPECT(DECK_OK, deck_msg_destroy(output));
  EXPECT(DECK_OK, deck_group_leave(g));
  return NULL;
}

static void on_threads(void *(*run)(void *)) {
  deck_thread_t *threads[SIZE];
  for (int i = 0; i < SIZE; i++) EXPECT(DECK_OK, deck_thread_create(&threads[i], run, (void *)(intptr_t)i));
  for (int i = 0; i < SIZE; i++) EXPECT(DECK_OK, deck_thread_join(threads[i], NULL));
}

static void *cancelled(void *arg) {
  deck_group_t *g = NULL;
  EXPECT(DECK_E_CANCELLED, deck_group_join(&g, "cancelled", 2, 0, DECK_FOREVER));
  SAYS("index 1 is absent");
  CHECK(g == NULL);
  return arg;
}

/* The root waits for nobody, until the others are too far behind. */
static void *ahead(void *arg) {
  int32_t me = (int32_t)(intptr_t)arg, data = me;
  deck_group_t *g = join("ahead", me);
  for (int round = 0; round < 16; round++) {
    data = me == 0 ? round : -1;
    EXPECT(DECK_OK, deck_bcast(g, 0, &data, 1, DECK_INT32, me == 0 ? 0 : 20000));
    CHECK(data == round);
  }
  EXPECT(DECK_OK, deck_barrier(g, 20000));
  EXPECT(DECK_OK, deck_group_leave(g));
  return NULL;
}

static void bad_options(void) {
  deck_group_t *g = NULL;
  deck_group_options_t options = DECK_GROUP_OPTIONS_DEFAULT;
  options.completion = 2;
  EXPECT(DECK_E_INVALID, deck_group_join_with(&g, "options", 1, 0, &options, 0));
  options.completion = DECK_COMPLETION_OWN;
  options.size_of_struct = 0;
  EXPECT(DECK_E_INVALID, deck_group_join_with(&g, "options", 1, 0, &options, 0));
  SAYS("group options of 0 bytes");
  struct {
    deck_group_options_t known;
    size_t unknown;
  } newer = {{sizeof newer, 0}, 1};
  EXPECT(DECK_E_UNSUPPORTED, deck_group_join_with(&g, "options", 1, 0, &newer.known, 0));
  CHECK(g == NULL);
  EXPECT(DECK_OK, deck_group_join_with(&g, "options", 1, 0, NULL, 0));
  EXPECT(DECK_OK, deck_group_leave(g));
}

static void absent_members(void) {
  deck_group_t *g = NULL;
  deck_thread_t *thread;
  EXPECT(DECK_E_TIMEOUT, deck_group_join(&g, "absent", 3, 1, 50));
  SAYS("index 0, index 2 are absent");
  EXPECT(DECK_OK, deck_thread_create(&thread, cancelled, NULL));
  EXPECT(DECK_OK, deck_cancel(thread));
  EXPECT(DECK_OK, deck_thread_join(thread, NULL));
}

static void bad_arguments(void) {
  deck_group_t *g = NULL, *one;
  deck_request_t *r = NULL;
  int32_t in[4] = {1, 2, 3, 4}, out[4] = {0};
  size_t count = 4;
  int is_done;
  EXPECT(DECK_E_INVALID, deck_group_join(NULL, "g", 1, 0, 0));
  EXPECT(DECK_E_INVALID, deck_group_join(&g, NULL, 1, 0, 0));
  EXPECT(DECK_E_INVALID, deck_group_join(&g, "g", 0, -1, 0));
  EXPECT(DECK_E_INVALID, deck_group_join(&g, "g", -1, -1, 0));
  EXPECT(DECK_E_INVALID, deck_group_join(&g, "g", 2, 2, 0));
  EXPECT(DECK_E_INVALID, deck_group_join(&g, "g", 2, -2, 0));
  EXPECT(DECK_E_INVALID, deck_group_join(&g, "g", 1, 0, -2));
  CHECK(g == NULL);
  EXPECT(DECK_OK, deck_group_join(&one, "one", 1, -1, 0));
  EXPECT(DECK_E_EXISTS, deck_group_join(&g, "one", 1, -1, 0));

  EXPECT(DECK_E_INVALID, deck_barrier(one, -2));
  EXPECT(DECK_E_INVALID, deck_bcast(one, 1, in, 4, DECK_INT32, 0));
  EXPECT(DECK_E_INVALID, deck_bcast(one, -1, in, 4, DECK_INT32, 0));
  EXPECT(DECK_E_INVALID, deck_bcast(one, 0, NULL, 4, DECK_INT32, 0));
  EXPECT(DECK_E_INVALID, deck_bcast(one, 0, in, 4, (deck_type_t)0, 0));
  EXPECT(DECK_E_INVALID, deck_bcast(one, 0, in, 4, (deck_type_t)13, 0));
  EXPECT(DECK_E_TOO_LARGE, deck_bcast(one, 0, in, SIZE_MAX / 2, DECK_INT32, 0));
  EXPECT(DECK_E_INVALID, deck_allreduce(one, in, out, 4, DECK_INT32, (deck_op_t)0, 0));
  EXPECT(DECK_E_INVALID, deck_allreduce(one, in, out, 4, DECK_INT32, (deck_op_t)8, 0));
  EXPECT(DECK_E_INVALID, deck_allreduce(one, in, out, 4, DECK_FLOAT, DECK_AND, 0));
  EXPECT(DECK_E_INVALID, deck_allreduce(one, NULL, out, 4, DECK_INT32, DECK_SUM, 0));
  EXPECT(DECK_E_INVALID, deck_allreduce(one, in, NULL, 4, DECK_INT32, DECK_SUM, 0));
  EXPECT(DECK_E_INVALID, deck_allreduce(one, in, in + 1, 3, DECK_INT32, DECK_SUM, 0));
  SAYS("overlap");
  EXPECT(DECK_E_INVALID, deck_allgather(one, in, 4, in, DECK_INT32, 0));
  EXPECT(DECK_E_INVALID, deck_allgatherv(one, in, 4, out, NULL, DECK_INT32, 0));
  EXPECT(DECK_E_INVALID, deck_start_barrier(one, NULL));
  EXPECT(DECK_E_INVALID, deck_start_bcast(one, 1, in, 4, DECK_INT32, &r));
  CHECK(r == NULL);

  EXPECT(DECK_OK, deck_allgatherv(one, in, 4, out, &count, DECK_INT32, 0));
  CHECK(out[3] == 4);
  EXPECT(DECK_OK, deck_bcast(one, 0, NULL, 0, DECK_INT32, 0));
  EXPECT(DECK_OK, deck_allreduce(one, NULL, NULL, 0, DECK_INT32, DECK_SUM, 0));

  void *bad[] = {NULL, (void *)1, &one, (void *)((uintptr_t)one + 1)};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    g = (deck_group_t *)bad[i];
    r = (deck_request_t *)bad[i];
    EXPECT(DECK_E_INVALID, deck_group_index(g));
    EXPECT(DECK_E_INVALID, deck_group_size(g));
    EXPECT(DECK_E_INVALID, deck_barrier(g, DECK_FOREVER));
    EXPECT(DECK_E_INVALID, deck_group_leave(g));
    EXPECT(DECK_E_INVALID, deck_test(r, &is_done));
    EXPECT(DECK_E_INVALID, deck_wait(r, DECK_FOREVER));
    EXPECT(DECK_E_INVALID, deck_request_destroy(r));
  }
  EXPECT(DECK_E_INVALID, deck_wait((deck_request_t *)one, 0));
  EXPECT(DECK_OK, deck_start_barrier(one, &r));
  EXPECT(DECK_E_INVALID, deck_test(r, NULL));
  EXPECT(DECK_OK, deck_test(r, &is_done));
  CHECK(is_done == 1);
  EXPECT(DECK_E_CLOSED, deck_test(r, &is_done));
  EXPECT(DECK_OK, deck_group_leave(one));
}

int main(void) {
  start_watchdog();
  EXPECT(DECK_E_NOT_INITIALIZED, deck_barrier(NULL, 0));
  EXPECT(DECK_OK, deck_init(NULL, NULL));
  for (int own = 0; own < 2; own++) {
    completion = own ? DECK_COMPLETION_OWN : DECK_COMPLETION_EVERYONE;
    on_threads(all_collectives);
    on_threads(requests);
    on_threads(all_started);
    on_threads(started_in_messages);
  }
  on_threads(ahead);
  bad_options();
  absent_members();
  bad_arguments();
  deck_group_t *past;
  EXPECT(DECK_OK, deck_group_join(&past, "past", 1, -1, 0));
  EXPECT(DECK_OK, deck_done());
  EXPECT(DECK_E_NOT_INITIALIZED, deck_barrier(past, 0));
  EXPECT(DECK_OK, deck_group_leave(past));
  return 0;
}
