/* Two nodes: one loses, closes, leaves or stops, and the other is told. The first argument is the story. The processes
   are split before either joins, and meet through DECK_JOB; node 0 is the parent. Pipes order what they do. */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>

static deck_msg_t *message;
static pid_t child;
static int to_child[2], to_parent[2];

static void say(int pipe[2]) {
  CHECK(write(pipe[1], "!", 1) == 1);
}

static void hear(int pipe[2]) {
  char byte;
  CHECK(read(pipe[0], &byte, 1) == 1);
}

static void join(int number) {
  EXPECT(DECK_OK, deck_init(NULL, NULL));
  CHECK(deck_node() == number);
  EXPECT(DECK_OK, deck_msg_create(&message, 0));
}

static int post(deck_mbox_t *b, size_t bytes, int timeout_ms) {
  EXPECT(DECK_OK, deck_msg_resize(message, bytes));
  memset(deck_msg_data(message), (int)(bytes % 251), bytes);
  return deck_mbox_post(b, message, timeout_ms);
}

static void retrieve(deck_mbox_t *b, size_t bytes) {
  EXPECT(DECK_OK, deck_mbox_retrv(b, message, 10000));
  CHECK(deck_msg_size(message) == bytes && deck_msg_sender(message) == 1 - deck_node());
  const unsigned char *content = deck_msg_data(message);
  for (size_t i = 0; i < bytes; i++) CHECK(content[i] == bytes % 251);
}

static void end_child(int signal) {
  int status;
  if (signal != 0) CHECK(kill(child, signal) == 0);
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(signal != 0 ? WIFSIGNALED(status) && WTERMSIG(status) == signal : WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static deck_mbox_t *small_box(const char *name) {
  deck_mbox_t *b;
  deck_mbox_options_t options = DECK_MBOX_OPTIONS_DEFAULT;
  options.messages_per_node = 2;
  EXPECT(DECK_OK, deck_mbox_create_with(&b, name, &options));
  return b;
}

/* What the dead node had posted still comes, then its loss, once; the mail box goes on. */
static void killed_child(void) {
  deck_mbox_t *theirs;
  join(1);
  EXPECT(DECK_OK, deck_mbox_clone(&theirs, "inbox", 10000));
  EXPECT(DECK_OK, post(theirs, 4, 1000));
  EXPECT(DECK_OK, post(theirs, 300, 1000));
  EXPECT(DECK_OK, post(theirs, 3 << 20, 1000));
  (void)small_box("child");
  say(to_parent);
  pause();
}

static void *post_for_ever(void *arg) {
  deck_msg_t *own;
  EXPECT(DECK_OK, deck_msg_create(&own, 0));
  int code;
  do {
    code = deck_mbox_post(arg, own, DECK_FOREVER);
  } while (code == DECK_OK);
  CHECK(strstr(deck_last_error(), "node 1") != NULL);
  EXPECT(DECK_OK, deck_msg_destroy(own));
  return (void *)(intptr_t)code;
}

static void killed(void) {
  deck_mbox_t *inbox, *theirs;
  deck_thread_t *poster;
  void *code;
  join(0);
  EXPECT(DECK_OK, deck_mbox_create(&inbox, "inbox"));
  say(to_child);
  hear(to_parent);
  EXPECT(DECK_OK, deck_mbox_clone(&theirs, "child", 10000));
  EXPECT(DECK_OK, deck_thread_create(&poster, post_for_ever, theirs));
  EXPECT(DECK_NODE_LIVE, deck_node_state(1));
  end_child(SIGKILL);
  retrieve(inbox, 4);
  retrieve(inbox, 300);
  retrieve(inbox, 3 << 20);
  EXPECT(DECK_E_PEER_LOST, deck_mbox_retrv(inbox, message, 10000));
  SAYS("node 1");
  CHECK(deck_msg_size(message) == 3 << 20); /* a failed call leaves its objects as they were */
  EXPECT(DECK_E_TIMEOUT, deck_mbox_retrv(inbox, message, 0));
  EXPECT(DECK_NODE_LOST, deck_node_state(1));
  EXPECT(DECK_OK, deck_thread_join(poster, &code));
  CHECK((intptr_t)code == DECK_E_PEER_LOST);
  EXPECT(DECK_E_PEER_LOST, post(theirs, 4, 0));
  SAYS("node 1");
  EXPECT(DECK_OK, deck_mbox_destroy(theirs));
  EXPECT(DECK_E_TIMEOUT, deck_mbox_clone(&theirs, "child", 0));
  EXPECT(DECK_OK, deck_mbox_destroy(small_box("child"))); /* the name of the dead is free */
}

/* A mail box that its owner destroys: whoever waits to post, and whoever posts later. */
static void closed_child(void) {
  join(1);
  deck_mbox_t *own = small_box("child");
  say(to_parent);
  hear(to_child);
  EXPECT(DECK_OK, deck_mbox_destroy(own));
  EXPECT(DECK_OK, deck_mbox_destroy(small_box("child")));
  say(to_parent);
  hear(to_child);
  EXPECT(DECK_OK, deck_done());
}

static void closed(void) {
  deck_mbox_t *theirs;
  deck_thread_t *poster;
  deck_mbox_stats_t stats;
  void *code;
  join(0);
  say(to_child);
  hear(to_parent);
  EXPECT(DECK_OK, deck_mbox_clone(&theirs, "child", 10000));
  EXPECT(DECK_E_INVALID, deck_mbox_retrv(theirs, message, 0));
  SAYS("node 1");
  EXPECT(DECK_OK, deck_thread_create(&poster, post_for_ever, theirs));
  do {
    EXPECT(DECK_OK, deck_mbox_stats(theirs, &stats));
  } while (stats.posted < 2);
  say(to_child);
  EXPECT(DECK_OK, deck_thread_join(poster, &code));
  CHECK((intptr_t)code == DECK_E_CLOSED);
  EXPECT(DECK_E_CLOSED, post(theirs, 100000, DECK_FOREVER));
  hear(to_parent);
  EXPECT(DECK_E_TIMEOUT, deck_mbox_clone(&theirs, "child", 0));
  EXPECT(DECK_NODE_LIVE, deck_node_state(1));
  say(to_child);
  end_child(0);
}

/* An orderly end is no loss: what was posted comes, and then nothing is told. */
static void left_child(void) {
  deck_mbox_t *theirs;
  join(1);
  (void)small_box("child");
  EXPECT(DECK_OK, deck_mbox_clone(&theirs, "inbox", 10000));
  say(to_parent);
  hear(to_child);
  EXPECT(DECK_OK, post(theirs, 5, 1000));
  EXPECT(DECK_OK, post(theirs, 1 << 20, 1000));
  EXPECT(DECK_OK, deck_done());
}

static void left(void) {
  deck_mbox_t *inbox, *theirs;
  join(0);
  EXPECT(DECK_OK, deck_mbox_create(&inbox, "inbox"));
  say(to_child);
  hear(to_parent);
  EXPECT(DECK_OK, deck_mbox_clone(&theirs, "child", 10000));
  say(to_child);
  end_child(0);
  retrieve(inbox, 5);
  retrieve(inbox, 1 << 20);
  EXPECT(DECK_E_TIMEOUT, deck_mbox_retrv(inbox, message, 50));
  EXPECT(DECK_NODE_LEFT, deck_node_state(1));
  EXPECT(DECK_E_CLOSED, post(theirs, 5, DECK_FOREVER));
  CHECK(deck_numnodes() == 2);
}

/* A stopped node is no lost one: posts need only room, waits end at their own deadline and say so, and nothing is lost. */
static void frozen_child(void) {
  join(1);
  deck_mbox_t *own = small_box("child");
  (void)small_box("other");
  say(to_parent);
  hear(to_child);
  for (size_t bytes = 1; bytes <= 3; bytes++) retrieve(own, bytes * 1000);
  EXPECT(DECK_OK, deck_done());
}

static void frozen(void) {
  deck_mbox_t *inbox, *theirs, *other;
  int status;
  join(0);
  EXPECT(DECK_OK, deck_mbox_create(&inbox, "inbox"));
  say(to_child);
  hear(to_parent);
  EXPECT(DECK_OK, deck_mbox_clone(&theirs, "child", 10000));
  CHECK(kill(child, SIGSTOP) == 0 && waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
  EXPECT(DECK_NODE_FROZEN, deck_node_state(1));
  EXPECT(DECK_OK, post(theirs, 1000, 0));
  EXPECT(DECK_OK, post(theirs, 2000, 0));
  EXPECT(DECK_E_TIMEOUT, post(theirs, 3000, 500));
  SAYS("frozen");
  SAYS("node 1");
  EXPECT(DECK_E_TIMEOUT, deck_mbox_clone(&other, "other", 500));
  SAYS("frozen");
  EXPECT(DECK_E_TIMEOUT, deck_mbox_retrv(inbox, message, 50));
  EXPECT(DECK_NODE_FROZEN, deck_node_state(1));
  CHECK(kill(child, SIGCONT) == 0);
  say(to_child);
  EXPECT(DECK_OK, post(theirs, 3000, 10000));
  end_child(0);
  EXPECT(DECK_E_TIMEOUT, deck_mbox_retrv(inbox, message, 0));
  EXPECT(DECK_NODE_LEFT, deck_node_state(1));
}

/* A member that dies is named to the other, whose call is under way, and the group can do nothing more. */
static void group_child(void) {
  deck_group_t *g;
  double in = 2, out = 0;
  join(1);
  EXPECT(DECK_OK, deck_group_join(&g, "pair", 2, 1, 10000));
  EXPECT(DECK_OK, deck_allreduce(g, &in, &out, 1, DECK_DOUBLE, DECK_SUM, 10000));
  CHECK(out == 42);
  pause();
}

static void *kill_child(void *arg) {
  end_child(SIGKILL);
  return arg;
}

static void group(void) {
  deck_group_t *g;
  deck_thread_t *killer;
  double in = 40, out = 0;
  join(0);
  say(to_child);
  EXPECT(DECK_OK, deck_group_join(&g, "pair", 2, 0, 10000));
  EXPECT(DECK_OK, deck_allreduce(g, &in, &out, 1, DECK_DOUBLE, DECK_SUM, 10000));
  CHECK(out == 42);
  EXPECT(DECK_E_TIMEOUT, deck_allreduce(g, &in, &out, 1, DECK_DOUBLE, DECK_SUM, 50));
  SAYS("index 1 (node 1) is absent");
  EXPECT(DECK_OK, deck_thread_create(&killer, kill_child, NULL));
  EXPECT(DECK_E_PEER_LOST, deck_allreduce(g, &in, &out, 1, DECK_DOUBLE, DECK_SUM, DECK_FOREVER));
  SAYS("index 1 (node 1, died) is absent");
  EXPECT(DECK_OK, deck_thread_join(killer, NULL));
  EXPECT(DECK_E_PEER_LOST, deck_barrier(g, DECK_FOREVER));
  EXPECT(DECK_OK, deck_group_leave(g));
}

/* A node dies that holds a mutex, made a segment, and has a barrier and a counter open. */
static void holder_child(void) {
  deck_segment_t *s;
  deck_mutex_t *m;
  deck_barrier_t *b;
  deck_counter_t *n;
  join(1);
  EXPECT(DECK_OK, deck_segment_create(&s, "board", 100, 1));
  EXPECT(DECK_OK, deck_mutex_open(&m, "m"));
  EXPECT(DECK_OK, deck_barrier_open(&b, "b", 2));
  EXPECT(DECK_OK, deck_counter_open(&n, "n"));
  EXPECT(DECK_OK, deck_mutex_lock(m, 0));
  memset(deck_segment_data(s), 7, 100);
  say(to_parent);
  pause();
}

static void *wait_to_be_told(void *arg) {
  deck_barrier_t *b = arg;
  EXPECT(DECK_E_PEER_LOST, deck_barrier_wait(b, DECK_FOREVER));
  SAYS("node 1");
  return NULL;
}

static void holder(void) {
  deck_segment_t *s;
  deck_mutex_t *m;
  deck_barrier_t *b;
  deck_counter_t *n;
  deck_thread_t *waiter;
  join(0);
  say(to_child);
  hear(to_parent);
  EXPECT(DECK_OK, deck_segment_open(&s, "board", 10000));
  EXPECT(1, deck_segment_home(s));
  EXPECT(DECK_OK, deck_mutex_open(&m, "m"));
  EXPECT(DECK_OK, deck_barrier_open(&b, "b", 2));
  EXPECT(DECK_OK, deck_counter_open(&n, "n"));
  EXPECT(DECK_E_TIMEOUT, deck_mutex_lock(m, 10));
  SAYS("node 1");
  EXPECT(DECK_OK, deck_thread_create(&waiter, wait_to_be_told, b));
  end_child(SIGKILL);
  EXPECT(DECK_E_OWNER_DIED, deck_mutex_lock(m, 10000));
  SAYS("node 1");
  CHECK(((unsigned char *)deck_segment_data(s))[99] == 7);
  EXPECT(DECK_OK, deck_mutex_unlock(m));
  EXPECT(DECK_OK, deck_mutex_lock(m, 0));
  EXPECT(DECK_OK, deck_mutex_unlock(m));
  EXPECT(DECK_OK, deck_thread_join(waiter, NULL));
  EXPECT(DECK_E_PEER_LOST, deck_barrier_wait(b, 0));
  EXPECT(DECK_E_PEER_LOST, deck_counter_wait(n, 1, NULL, 10)); /* once */
  SAYS("node 1");
  EXPECT(DECK_E_TIMEOUT, deck_counter_wait(n, 1, NULL, 10));
}

/* With its standard descriptors closed, for whatever comes by them now. Errors can be told all the same. */
static int errors;

static void close_standard(void) {
  errors = fcntl(2, F_DUPFD_CLOEXEC, 100);
  CHECK(errors >= 0);
  for (int fd = 0; fd <= 2; fd++) close(fd);
}

static void check_standard(void) {
  bool closed = true;
  for (int fd = 0; fd <= 2; fd++) closed &= fcntl(fd, F_GETFD) == -1;
  CHECK(dup2(errors, 2) == 2);
  CHECK(closed);
}

static void meet_unheard(int number) {
  deck_mbox_t *own, *theirs;
  deck_segment_t *s;
  close_standard();
  join(number);
  EXPECT(DECK_OK, deck_mbox_create(&own, number == 0 ? "parent" : "child"));
  CHECK(deck_mbox_fd(own) > 2);
  if (number == 0) say(to_child);
  EXPECT(DECK_OK, deck_mbox_clone(&theirs, number == 0 ? "child" : "parent", 10000));
  EXPECT(DECK_OK, post(theirs, 3 << 20, 1000));
  retrieve(own, 3 << 20);
  EXPECT(DECK_OK, number == 0 ? deck_segment_create(&s, "board", 100, 0) : deck_segment_open(&s, "board", 10000));
  check_standard();
}

static void unheard_child(void) {
  meet_unheard(1);
  say(to_parent);
  pause();
}

static void unheard(void) {
  meet_unheard(0);
  hear(to_parent);
  end_child(SIGKILL);
}

static const struct {
  const char *name;
  void (*parent)(void), (*child)(void);
} stories[] = {
  {"killed", killed, killed_child},
  {"closed", closed, closed_child},
  {"left", left, left_child},
  {"frozen", frozen, frozen_child},
  {"group", group, group_child},
  {"holder", holder, holder_child},
  {"unheard", unheard, unheard_child},
};

int main(int argc, char **argv) {
  CHECK(argc == 2 && getenv("DECK_JOB") != NULL);
  CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0);
  for (size_t i = 0; i < sizeof stories / sizeof stories[0]; i++) {
    if (strcmp(stories[i].name, argv[1]) != 0) continue;
    child = fork();
    CHECK(child >= 0);
    start_watchdog();
    if (child == 0) {
      hear(to_child);
      stories[i].child();
    } else {
      stories[i].parent();
      EXPECT(DECK_OK, deck_done());
    }
    return 0;
  }
  fprintf(stderr, "no story %s\n", argv[1]);
  return 2;
}
