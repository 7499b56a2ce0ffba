/* Mail boxes of one node: names, clones, reply boxes, order, budgets, select, descriptors, counters, closing. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <poll.h>

static deck_msg_t *message;

static void post_number(deck_mbox_t *b, int32_t number) {
  EXPECT(DECK_OK, deck_msg_clear(message));
  EXPECT(DECK_OK, deck_msg_pack(message, DECK_INT32, &number, 1));
  EXPECT(DECK_OK, deck_mbox_post(b, message, 1000));
}

static int32_t retrieve_number(deck_mbox_t *b) {
  int32_t number = -1;
  EXPECT(DECK_OK, deck_mbox_retrv(b, message, 1000));
  EXPECT(DECK_OK, deck_msg_unpack(message, DECK_INT32, &number, 1));
  return number;
}

static void names(void) {
  deck_mbox_t *first, *second = NULL;
  EXPECT(DECK_OK, deck_mbox_create(&first, "names"));
  EXPECT(DECK_E_EXISTS, deck_mbox_create(&second, "names"));
  CHECK(second == NULL);
  SAYS("names");
  EXPECT(DECK_OK, deck_mbox_destroy(first));
  EXPECT(DECK_OK, deck_mbox_create(&second, "names"));
  EXPECT(DECK_E_CLOSED, deck_mbox_retrv(first, message, 0));
  EXPECT(DECK_OK, deck_mbox_destroy(second));
  EXPECT(DECK_E_CLOSED, deck_mbox_destroy(second));
}

/* A clone of one's own mail box is a second handle: it posts and retrieves, and goes without closing the mail box. */
static void second_handle(void) {
  deck_mbox_t *owner, *clone, *other;
  EXPECT(DECK_OK, deck_mbox_create(&owner, "second handle"));
  EXPECT(DECK_OK, deck_mbox_clone(&clone, "second handle", 1000));
  EXPECT(DECK_OK, deck_mbox_clone(&other, "second handle", 1000));
  post_number(clone, 1);
  post_number(owner, 2);
  CHECK(retrieve_number(owner) == 1);
  CHECK(retrieve_number(clone) == 2);
  EXPECT(DECK_OK, deck_mbox_destroy(clone));
  EXPECT(DECK_E_CLOSED, deck_mbox_post(clone, message, 0));
  post_number(other, 3);
  CHECK(retrieve_number(owner) == 3);
  EXPECT(DECK_OK, deck_mbox_destroy(owner));
  EXPECT(DECK_E_CLOSED, deck_mbox_post(other, message, 1000));
  EXPECT(DECK_E_CLOSED, deck_mbox_retrv(other, message, 1000));
  EXPECT(DECK_OK, deck_mbox_destroy(other));
}

static void *serve_once(void *arg) {
  deck_mbox_t *requests = arg, *reply;
  deck_msg_t *m;
  int32_t number;
  EXPECT(DECK_OK, deck_msg_create(&m, 0));
  EXPECT(DECK_OK, deck_mbox_retrv(requests, m, DECK_FOREVER));
  EXPECT(DECK_OK, deck_msg_unpack(m, DECK_INT32, &number, 1));
  EXPECT(DECK_OK, deck_msg_unpack_mbox(m, &reply, 1000));
  EXPECT(DECK_OK, deck_msg_clear(m));
  number *= 2;
  EXPECT(DECK_OK, deck_msg_pack(m, DECK_INT32, &number, 1));
  EXPECT(DECK_OK, deck_mbox_post(reply, m, 1000));
  EXPECT(DECK_OK, deck_mbox_destroy(reply));
  EXPECT(DECK_OK, deck_msg_destroy(m));
  return NULL;
}

static void reply_box(void) {
  deck_mbox_t *requests, *reply;
  deck_thread_t *server;
  int32_t number = 21;
  EXPECT(DECK_OK, deck_mbox_create(&requests, "requests"));
  EXPECT(DECK_OK, deck_mbox_create(&reply, NULL));
  EXPECT(DECK_OK, deck_thread_create(&server, serve_once, requests));
  EXPECT(DECK_OK, deck_msg_clear(message));
  EXPECT(DECK_OK, deck_msg_pack(message, DECK_INT32, &number, 1));
  EXPECT(DECK_OK, deck_msg_pack_mbox(message, reply));
  EXPECT(DECK_OK, deck_mbox_post(requests, message, 1000));
  EXPECT(DECK_OK, deck_mbox_retrv(reply, message, DECK_FOREVER));
  EXPECT(DECK_OK, deck_msg_unpack(message, DECK_INT32, &number, 1));
  CHECK(number == 42);
  EXPECT(DECK_OK, deck_thread_join(server, NULL));
  EXPECT(DECK_OK, deck_mbox_destroy(reply));
  EXPECT(DECK_OK, deck_mbox_destroy(requests));
}

static void budgets(void) {
  deck_mbox_t *b;
  deck_mbox_options_t options = DECK_MBOX_OPTIONS_DEFAULT;
  options.messages_per_node = 2;
  options.bytes_per_node = 100000;
  EXPECT(DECK_OK, deck_mbox_create_with(&b, "budgets", &options));
  post_number(b, 1);
  post_number(b, 2);
  EXPECT(DECK_E_TIMEOUT, deck_mbox_post(b, message, 0));
  EXPECT(DECK_E_TIMEOUT, deck_mbox_post(b, message, 20));
  CHECK(retrieve_number(b) == 1);
  post_number(b, 3);
  CHECK(retrieve_number(b) == 2);
  CHECK(retrieve_number(b) == 3);
  EXPECT(DECK_OK, deck_msg_resize(message, 100001));
  EXPECT(DECK_OK, deck_mbox_post(b, message, 0)); /* into an empty ring a message of any size */
  EXPECT(DECK_E_TIMEOUT, deck_mbox_post(b, message, 20));
  EXPECT(DECK_OK, deck_mbox_retrv(b, message, 0));
  CHECK(deck_msg_size(message) == 100001);
  EXPECT(DECK_OK, deck_mbox_destroy(b));
}

/* More than the node may have posted at all (DECK_BUDGET) is refused at once. */
static void too_large(void) {
  deck_mbox_t *b;
  EXPECT(DECK_OK, deck_mbox_create(&b, NULL));
  EXPECT(DECK_OK, deck_msg_resize(message, (16 << 20) + 1));
  EXPECT(DECK_E_TOO_LARGE, deck_mbox_post(b, message, DECK_FOREVER));
  SAYS("DECK_BUDGET");
  CHECK(deck_msg_size(message) == (16 << 20) + 1);
  EXPECT(DECK_OK, deck_msg_resize(message, 16 << 20));
  EXPECT(DECK_OK, deck_mbox_post(b, message, 0));
  EXPECT(DECK_OK, deck_mbox_destroy(b));
}

/* Sizes on both sides of every protocol's threshold, from one thread: the order is the order of posting. */
static void order(void) {
  static const size_t sizes[] = {0, 1, 61, 62, 63, 64, 4096, 70000, 5, 1 << 20, 62, 0, 300};
  const size_t count = sizeof sizes / sizeof sizes[0];
  deck_mbox_t *b;
  EXPECT(DECK_OK, deck_mbox_create(&b, NULL));
  for (size_t i = 0; i < count; i++) {
    EXPECT(DECK_OK, deck_msg_resize(message, sizes[i]));
    if (sizes[i] > 0) memset(deck_msg_data(message), (int)i, sizes[i]);
    EXPECT(DECK_OK, deck_mbox_post(b, message, 1000));
  }
  for (size_t i = 0; i < count; i++) {
    EXPECT(DECK_OK, deck_mbox_retrv(b, message, 1000));
    CHECK(deck_msg_size(message) == sizes[i]);
    const unsigned char *content = deck_msg_data(message);
    CHECK(deck_msg_fetch(message, 0, SIZE_MAX) == DECK_OK && deck_msg_fetch(message, SIZE_MAX, 1) == DECK_OK);
    for (size_t at = 0; at < sizes[i]; at++) CHECK(content[at] == i);
  }
  EXPECT(DECK_OK, deck_mbox_destroy(b));
}

static void selecting(void) {
  deck_mbox_t *boxes[3];
  size_t which = 99;
  for (int i = 0; i < 3; i++) EXPECT(DECK_OK, deck_mbox_create(&boxes[i], NULL));
  EXPECT(DECK_E_TIMEOUT, deck_mbox_select(boxes, 3, &which, 0));
  EXPECT(DECK_E_TIMEOUT, deck_mbox_select(boxes, 3, &which, 20));
  CHECK(which == 99);
  post_number(boxes[2], 7);
  EXPECT(DECK_OK, deck_mbox_select(boxes, 3, &which, DECK_FOREVER));
  CHECK(which == 2 && retrieve_number(boxes[2]) == 7);
  EXPECT(DECK_OK, deck_mbox_destroy(boxes[1]));
  EXPECT(DECK_E_CLOSED, deck_mbox_select(boxes, 3, &which, DECK_FOREVER));
  EXPECT(DECK_OK, deck_mbox_destroy(boxes[0]));
  EXPECT(DECK_OK, deck_mbox_destroy(boxes[2]));
}

static void *select_until_closed(void *arg) {
  size_t which = 99;
  EXPECT(DECK_E_CLOSED, deck_mbox_select(arg, 2, &which, DECK_FOREVER));
  CHECK(which == 99);
  return NULL;
}

static void closing_what_is_selected_from(void) {
  for (int round = 0; round < 20; round++) {
    deck_mbox_t *boxes[2];
    deck_thread_t *selects;
    for (int i = 0; i < 2; i++) EXPECT(DECK_OK, deck_mbox_create(&boxes[i], NULL));
    EXPECT(DECK_OK, deck_thread_create(&selects, select_until_closed, boxes));
    EXPECT(DECK_OK, deck_mbox_destroy(boxes[round % 2]));
    EXPECT(DECK_OK, deck_thread_join(selects, NULL));
    EXPECT(DECK_OK, deck_mbox_destroy(boxes[1 - round % 2]));
  }
}

static void *clone_and_retrieve(void *arg) {
  deck_mbox_t *clone;
  deck_msg_t *m;
  EXPECT(DECK_OK, deck_msg_create(&m, 0));
  EXPECT(DECK_OK, deck_mbox_clone(&clone, "early", DECK_FOREVER));
  EXPECT(DECK_OK, deck_mbox_retrv(clone, m, DECK_FOREVER));
  EXPECT(DECK_OK, deck_mbox_destroy(clone));
  EXPECT(DECK_OK, deck_msg_destroy(m));
  return arg;
}

/* A clone that is there before the creating call has returned retrieves like any other. */
static void early_clones(void) {
  for (int round = 0; round < 20; round++) {
    deck_mbox_t *b;
    deck_thread_t *clones;
    EXPECT(DECK_OK, deck_thread_create(&clones, clone_and_retrieve, NULL));
    EXPECT(DECK_OK, deck_mbox_create(&b, "early"));
    post_number(b, round);
    EXPECT(DECK_OK, deck_thread_join(clones, NULL));
    EXPECT(DECK_OK, deck_mbox_destroy(b));
  }
}

static void names_of_the_library(void) {
  deck_mbox_t *b = NULL;
  EXPECT(DECK_E_INVALID, deck_mbox_create(&b, "\001group:g"));
  SAYS("choose another name");
  EXPECT(DECK_E_INVALID, deck_mbox_clone(&b, "\001group:g", 0));
  CHECK(b == NULL);
}

static void descriptor(void) {
  deck_mbox_t *b;
  EXPECT(DECK_OK, deck_mbox_create(&b, NULL));
  struct pollfd poller = {deck_mbox_fd(b), POLLIN, 0};
  CHECK(poller.fd >= 0 && deck_mbox_fd(b) == poller.fd);
  CHECK(poll(&poller, 1, 0) == 0);
  for (int32_t round = 0; round < 3; round++) {
    post_number(b, round);
    post_number(b, round);
    CHECK(poll(&poller, 1, 5000) == 1 && poller.revents == POLLIN);
    CHECK(retrieve_number(b) == round);
    CHECK(poll(&poller, 1, 5000) == 1);
    CHECK(retrieve_number(b) == round);
    CHECK(poll(&poller, 1, 0) == 0);
  }
  EXPECT(DECK_OK, deck_mbox_destroy(b));
}

static void counters(void) {
  deck_mbox_t *b;
  deck_mbox_stats_t stats;
  memset(&stats, 0xff, sizeof stats);
  EXPECT(DECK_OK, deck_mbox_create(&b, NULL));
  EXPECT(DECK_OK, deck_mbox_stats(b, &stats));
  CHECK(stats.posted == 0 && stats.retrieved == 0 && stats.lanes == 0 && stats.reserved[5] == 0);
  post_number(b, 1);
  post_number(b, 2);
  CHECK(retrieve_number(b) == 1);
  EXPECT(DECK_OK, deck_mbox_stats(b, &stats));
  CHECK(stats.posted == 2 && stats.retrieved == 1 && stats.bytes_posted == 2 * sizeof(int32_t));
  EXPECT(DECK_OK, deck_mbox_destroy(b));
}

static void *wait_until_closed(void *arg) {
  deck_msg_t *m;
  EXPECT(DECK_OK, deck_msg_create(&m, 0));
  EXPECT(DECK_E_CLOSED, deck_mbox_retrv(arg, m, DECK_FOREVER));
  EXPECT(DECK_OK, deck_msg_destroy(m));
  return arg;
}

/* Waiters that wait already and waiters that come later both learn that the mail box is gone. */
static void closing(void) {
  for (int round = 0; round < 50; round++) {
    deck_mbox_t *b;
    deck_thread_t *waiters[2];
    EXPECT(DECK_OK, deck_mbox_create(&b, "closing"));
    for (int i = 0; i < 2; i++) EXPECT(DECK_OK, deck_thread_create(&waiters[i], wait_until_closed, b));
    EXPECT(DECK_OK, deck_mbox_destroy(b));
    for (int i = 0; i < 2; i++) {
      void *result = NULL;
      EXPECT(DECK_OK, deck_thread_join(waiters[i], &result));
      CHECK(result == b);
    }
  }
}

int main(int argc, char **argv) {
  start_watchdog();
  CHECK(setenv("DECK_BUDGET", "16M", 1) == 0);
  EXPECT(DECK_OK, deck_init(&argc, &argv));
  EXPECT(DECK_OK, deck_msg_create(&message, 0));
  names();
  second_handle();
  reply_box();
  budgets();
  too_large();
  order();
  selecting();
  closing_what_is_selected_from();
  early_clones();
  names_of_the_library();
  descriptor();
  counters();
  closing();
  EXPECT(DECK_OK, deck_msg_destroy(message));
  EXPECT(DECK_OK, deck_done());
  return 0;
}
