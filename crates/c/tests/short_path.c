/* What posting and retrieving costs besides time, also in vain: no allocation and no system call once a mail box is in use. Allocations are
   counted by a malloc of this program's own; system calls are found by strict computing mode, in which a thread is killed at its
   first one but reading, writing and ending. The first argument is the story: a node that posts to itself, or two that post to
   one another. */
#define _GNU_SOURCE
#include "check.h"

#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

enum { ROUNDS = 1000, SIZES = 6 };
/* One for each protocol: in the slot (in a word, one line, two lines), copied, handed over; and one whose buffers rest before they are used again. */
static const size_t sizes[SIZES] = {8, 62, 100, 300, 5000, 20000};

static atomic_long allocated;
static _Thread_local int is_counted;

/* The C library's own, under the names that it keeps for programs like this one. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes) {
  allocated += is_counted;
  return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
  allocated += is_counted;
  return __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes) {
  allocated += is_counted;
  return __libc_realloc(old, bytes);
}

int posix_memalign(void **into, size_t alignment, size_t bytes) {
  allocated += is_counted;
  *into = __libc_memalign(alignment, bytes);
  return 0;
}

static deck_mbox_t *mailbox, *clone_of_it;
static deck_msg_t *sent[SIZES], *received;
static atomic_int failures, rounds_in_jail;

/* Without the checks of check.h, which print. */
static void go(void) {
  for (int round = 0; round < ROUNDS; round++) {
    for (int at = 0; at < SIZES; at++) {
      failures += deck_msg_resize(sent[at], sizes[at]) != DECK_OK;
      failures += deck_mbox_post(clone_of_it, sent[at], 10000) != DECK_OK;
      failures += deck_mbox_retrv(mailbox, received, 10000) != DECK_OK;
      failures += deck_msg_size(received) != sizes[at];
      failures += deck_mbox_retrv(mailbox, received, 0) != DECK_E_TIMEOUT;
    }
  }
}

/* Two nodes take turns and tell one another so through pipes: nobody waits inside of DECK, where a long wait sleeps. */
enum { ROUNDS_OF_TWO = 300, BURST = 5, LONG = 2000 };
static int turns[2][2];
static int is_second, has_turn;
static deck_mbox_t *other;

/* A buffer of the first's that is in flight from the second all the time. Whoever posts buffers of others has a thread of its own
   come by until all are back; the first post after a while without any wakes it, which takes system calls. */
static void keep_one_in_flight(void) {
  deck_mbox_t *kept;
  deck_msg_t *message;
  if (is_second) {
    EXPECT(DECK_OK, deck_mbox_clone(&kept, "kept", 10000));
    EXPECT(DECK_OK, deck_msg_create(&message, 0));
    EXPECT(DECK_OK, deck_mbox_retrv(mailbox, message, 10000));
    EXPECT(DECK_OK, deck_mbox_post(kept, message, 10000));
  } else {
    EXPECT(DECK_OK, deck_mbox_create(&kept, "kept"));
    EXPECT(DECK_OK, deck_msg_create(&message, 20000));
    EXPECT(DECK_OK, deck_msg_resize(message, 20000));
    EXPECT(DECK_OK, deck_mbox_post(other, message, 10000));
  }
}

/* Ends the thread if the other node has ended. Prints nothing: so does that one's end. */
static void await_turn(void) {
  char told;
  if (!has_turn && read(turns[is_second][0], &told, 1) != 1) syscall(SYS_exit, 0);
  has_turn = 1;
}

static void pass_turn(void) {
  has_turn = 0;
  if (write(turns[!is_second][1], "", 1) != 1) syscall(SYS_exit, 0);
}

static void stream(void) {
  await_turn();
  for (int at = 0; at < SIZES; at++) {
    for (int message = 0; message < BURST; message++) {
      if (is_second) {
        failures += deck_mbox_retrv(mailbox, received, 10000) != DECK_OK || deck_msg_size(received) != sizes[at];
      } else {
        failures += deck_msg_resize(sent[at], sizes[at]) != DECK_OK || deck_mbox_post(other, sent[at], 10000) != DECK_OK;
      }
    }
  }
  pass_turn();
}

/* A message to and fro: short ones go on a baton if there is one, long ones are handed over. */
static void converse(int at) {
  await_turn();
  if (is_second) {
    failures += deck_mbox_retrv(mailbox, received, 10000) != DECK_OK || deck_msg_size(received) != sizes[at];
    failures += deck_mbox_post(other, received, 10000) != DECK_OK;
    pass_turn();
    return;
  }
  failures += deck_msg_resize(sent[at], sizes[at]) != DECK_OK || deck_mbox_post(other, sent[at], 10000) != DECK_OK;
  pass_turn();
  await_turn();
  failures += deck_mbox_retrv(mailbox, received, 10000) != DECK_OK || deck_msg_size(received) != sizes[at];
}

static void go_in_turns(void) {
  for (int round = 0; round < ROUNDS_OF_TWO; round++) {
    stream();
    for (int at = 0; at < SIZES; at++) converse(at);
    for (int again = 0; again < BURST; again++) converse(0);
  }
  /* The second leaves when all is over: not while the first still retrieves, whose mail box is told of it. */
  await_turn();
  pass_turn();
  if (!is_second) await_turn();
}

/* Nobody says when it is whose turn: so they wait for one another, and come to a baton. */
static void converse_for_long(void) {
  for (int round = 0; round < LONG; round++) {
    if (!is_second) failures += deck_mbox_post(other, sent[0], 10000) != DECK_OK;
    failures += deck_mbox_retrv(mailbox, received, 10000) != DECK_OK;
    if (is_second) failures += deck_mbox_post(other, received, 10000) != DECK_OK;
  }
}

static void *in_jail(void *rounds) {
  void (*go_on)(void) = *(void (**)(void))rounds;
  /* In use by this thread, too. */
  go_on();
  is_counted = 1;
  go_on();
  is_counted = 0;
  CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
  go_on();
  rounds_in_jail = ROUNDS;
  syscall(SYS_exit, 0);
  return NULL;
}

static void *before_a_baton_and_after(void *unused) {
  void (*go_on)(void) = go_in_turns;
  (void)unused;
  go_in_turns();
  is_counted = 1;
  go_in_turns();
  is_counted = 0;
  converse_for_long();
  return in_jail(&go_on);
}

static void create_messages(void) {
  EXPECT(DECK_OK, deck_msg_create(&received, 0));
  for (int at = 0; at < SIZES; at++) {
    EXPECT(DECK_OK, deck_msg_create(&sent[at], sizes[at]));
  }
}

static void expect_nothing_of(void *(*run)(void *), void *argument) {
  /* The counter counts. */
  is_counted = 1;
  free(malloc(1));
  is_counted = 0;
  CHECK(allocated == 1);
  allocated = 0;

  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run, argument) == 0);
  /* A thread that is killed says nothing: its end is all there is to wait for. */
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(rounds_in_jail == ROUNDS && "a system call ended the rounds: strace -f with this program and its arguments tells which");
  CHECK(failures == 0);
  CHECK(allocated == 0);
  EXPECT(DECK_OK, deck_done());
}

static void one_node(void) {
  void (*go_on)(void) = go;
  EXPECT(DECK_OK, deck_init(NULL, NULL));
  EXPECT(DECK_OK, deck_mbox_create(&mailbox, "short path"));
  EXPECT(DECK_OK, deck_mbox_clone(&clone_of_it, "short path", 10000));
  create_messages();
  expect_nothing_of(in_jail, &go_on);
}

static void two_nodes(void) {
  const char *names[2] = {"first", "second"};
  CHECK(pipe(turns[0]) == 0 && pipe(turns[1]) == 0 && signal(SIGPIPE, SIG_IGN) != SIG_ERR);
  pid_t child = fork();
  CHECK(child >= 0);
  is_second = child == 0;
  if (is_second) {
    start_watchdog();
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
  }
  has_turn = !is_second;
  close(turns[is_second][1]);
  close(turns[!is_second][0]);
  EXPECT(DECK_OK, deck_init(NULL, NULL));
  EXPECT(DECK_OK, deck_mbox_create(&mailbox, names[is_second]));
  EXPECT(DECK_OK, deck_mbox_clone(&other, names[!is_second], 10000));
  create_messages();
  keep_one_in_flight();
  expect_nothing_of(before_a_baton_and_after, NULL);
  if (!is_second) {
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

int main(int argc, char **argv) {
  start_watchdog();
  CHECK(argc == 2);
  if (strcmp(argv[1], "one") == 0) {
    one_node();
  } else {
    two_nodes();
  }
  return 0;
}
