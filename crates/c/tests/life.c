/* The life of a node: nothing works before deck_init, in a forked child, or after deck_done; joining again starts
   anew. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <dirent.h>
#include <sched.h>
#include <sys/wait.h>

static deck_thread_t *thread;
static deck_sem_t *semaphore;
static deck_msg_t *message;
static deck_mbox_t *mailbox;

static void *wait_in_semaphore(void *arg) {
  int code = deck_sem_wait(arg, DECK_FOREVER);
  CHECK(code == DECK_E_CLOSED || code == DECK_E_NOT_INITIALIZED);
  return NULL;
}

static void *wait_in_mailbox(void *arg) {
  deck_msg_t *own;
  int code = deck_msg_create(&own, 0);
  if (code == DECK_OK) {
    code = deck_mbox_retrv(arg, own, DECK_FOREVER);
    EXPECT(DECK_OK, deck_msg_destroy(own));
  }
  CHECK(code == DECK_E_CLOSED || code == DECK_E_NOT_INITIALIZED);
  return NULL;
}

/* Every call but those that end objects. */
static void use_everything(int code) {
  deck_thread_t *t = NULL;
  deck_sem_t *s = NULL;
  deck_msg_t *m = NULL;
  deck_mbox_t *b = NULL;
  deck_mbox_stats_t stats;
  int32_t number = 1;
  size_t which;
  EXPECT(code, deck_cancel(thread));
  EXPECT(code, deck_sem_post(semaphore));
  EXPECT(code, deck_sem_wait(semaphore, DECK_FOREVER));
  EXPECT(code, deck_msg_pack(message, DECK_INT32, &number, 1));
  EXPECT(code, deck_msg_unpack(message, DECK_INT32, &number, 1));
  EXPECT(code, deck_msg_pack_mbox(message, mailbox));
  EXPECT(code, deck_msg_unpack_mbox(message, &b, DECK_FOREVER));
  CHECK(deck_msg_data(message) == NULL && deck_msg_edit(message) == NULL);
  CHECK(deck_msg_size(message) == 0 && deck_msg_capacity(message) == 0);
  EXPECT(code, deck_msg_resize(message, 5));
  EXPECT(code, deck_msg_clear(message));
  EXPECT(code, deck_msg_sender(message));
  EXPECT(code, deck_mbox_post(mailbox, message, DECK_FOREVER));
  EXPECT(code, deck_mbox_retrv(mailbox, message, DECK_FOREVER));
  EXPECT(code, deck_mbox_select(&mailbox, 1, &which, DECK_FOREVER));
  EXPECT(code, deck_mbox_fd(mailbox));
  EXPECT(code, deck_mbox_stats(mailbox, &stats));
  if (code == DECK_E_NOT_INITIALIZED) {
    EXPECT(code, deck_done());
    EXPECT(code, deck_node());
    EXPECT(code, deck_numnodes());
    EXPECT(code, deck_node_state(0));
    EXPECT(code, deck_thread_create(&t, wait_in_semaphore, NULL));
    EXPECT(code, deck_sem_create(&s, 1));
    EXPECT(code, deck_msg_create(&m, 1));
    EXPECT(code, deck_mbox_create(&b, "life"));
    EXPECT(code, deck_mbox_create_with(&b, NULL, NULL));
    EXPECT(code, deck_mbox_clone(&b, "life", DECK_FOREVER));
    SAYS("deck_mbox_clone");
    CHECK(t == NULL && s == NULL && m == NULL && b == NULL);
  }
}

static void destroy_nothing(int code) {
  EXPECT(code, deck_thread_join(thread, NULL));
  EXPECT(code, deck_sem_destroy(semaphore));
  EXPECT(code, deck_msg_destroy(message));
  EXPECT(code, deck_mbox_destroy(mailbox));
}

static void create_everything(void) {
  EXPECT(DECK_OK, deck_sem_create(&semaphore, 0));
  EXPECT(DECK_OK, deck_msg_create(&message, 0));
  EXPECT(DECK_OK, deck_msg_pack(message, DECK_CHAR, "kept", 4));
  EXPECT(DECK_OK, deck_mbox_create(&mailbox, "life"));
  EXPECT(DECK_OK, deck_thread_create(&thread, wait_in_semaphore, semaphore));
}

static void destroy_everything(void) {
  EXPECT(DECK_OK, deck_thread_join(thread, NULL));
  EXPECT(DECK_OK, deck_sem_destroy(semaphore));
  EXPECT(DECK_OK, deck_msg_destroy(message));
  EXPECT(DECK_OK, deck_mbox_destroy(mailbox));
}

static void ignore_line(int level, const char *line, void *ctx) {
  CHECK(level >= DECK_LOG_ERROR && level <= DECK_LOG_DEBUG && line != NULL && ctx == &message);
}

/* A clone of a mail box of this session is not taken for one of an earlier session that was never destroyed. */
static void clones_after_leaks(void) {
  deck_mbox_t *leaked, *b, *clone;
  deck_msg_t *m;
  deck_mbox_stats_t stats;
  EXPECT(DECK_OK, deck_init(NULL, NULL));
  EXPECT(DECK_OK, deck_mbox_create(&leaked, "again"));
  EXPECT(DECK_OK, deck_done());
  EXPECT(DECK_OK, deck_init(NULL, NULL));
  EXPECT(DECK_OK, deck_msg_create(&m, 0));
  EXPECT(DECK_OK, deck_mbox_create(&b, "again"));
  EXPECT(DECK_OK, deck_mbox_clone(&clone, "again", DECK_FOREVER));
  EXPECT(DECK_OK, deck_mbox_post(clone, m, DECK_FOREVER));
  EXPECT(DECK_OK, deck_mbox_retrv(clone, m, DECK_FOREVER));
  EXPECT(DECK_OK, deck_mbox_stats(clone, &stats));
  CHECK(stats.retrieved == 1);
  EXPECT(DECK_OK, deck_msg_destroy(m));
  EXPECT(DECK_OK, deck_mbox_destroy(clone));
  EXPECT(DECK_OK, deck_mbox_destroy(b));
  EXPECT(DECK_OK, deck_done());
  EXPECT(DECK_OK, deck_mbox_destroy(leaked));
}

static int descriptors(void) {
  DIR *folder = opendir("/proc/self/fd");
  int count = 0;
  CHECK(folder != NULL);
  while (readdir(folder) != NULL) count++;
  closedir(folder);
  return count;
}

/* What ended with its handles leaves nothing of the job in a thread that has waited and goes on, nor of its groups. */
static void nothing_stays(void) {
  int before = descriptors();
  deck_sem_t *s;
  deck_group_t *g;
  double numbers[5000] = {0};
  EXPECT(DECK_OK, deck_init(NULL, NULL));
  EXPECT(DECK_OK, deck_sem_create(&s, 0));
  EXPECT(DECK_E_TIMEOUT, deck_sem_wait(s, 5));
  EXPECT(DECK_OK, deck_sem_destroy(s));
  EXPECT(DECK_OK, deck_group_join(&g, "life", 1, 0, DECK_FOREVER));
  EXPECT(DECK_OK, deck_allreduce(g, numbers, numbers, 5000, DECK_DOUBLE, DECK_SUM, DECK_FOREVER));
  EXPECT(DECK_OK, deck_group_leave(g));
  EXPECT(DECK_OK, deck_done());
  /* A thread of the library's own that is held up may still be on its way out. */
  while (descriptors() != before) sched_yield();
}

static void in_a_forked_child(void) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    start_watchdog();
    deck_set_log(NULL, NULL);
    use_everything(DECK_E_NOT_INITIALIZED);
    destroy_nothing(DECK_E_NOT_INITIALIZED);
    EXPECT(DECK_E_NOT_INITIALIZED, deck_init(NULL, NULL));
    SAYS("forked");
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char **argv) {
  start_watchdog();
  CHECK(strlen(deck_last_error()) > 0);
  deck_set_log(ignore_line, &message);
  use_everything(DECK_E_NOT_INITIALIZED);
  SAYS("call deck_init first");
  destroy_nothing(DECK_E_NOT_INITIALIZED);

  EXPECT(DECK_OK, deck_init(&argc, &argv));
  CHECK(deck_node() >= 0 && deck_numnodes() > deck_node());
  EXPECT(DECK_NODE_LIVE, deck_node_state(deck_node()));
  create_everything();
  in_a_forked_child();
  deck_thread_t *waiting;
  EXPECT(DECK_OK, deck_thread_create(&waiting, wait_in_mailbox, mailbox));
  const char *content = deck_msg_data(message);
  EXPECT(DECK_OK, deck_done());

  use_everything(DECK_E_NOT_INITIALIZED);
  CHECK(memcmp(content, "kept", 4) == 0); /* mapped as long as the message's handle lives */
  EXPECT(DECK_OK, deck_thread_join(waiting, NULL));
  destroy_everything();
  destroy_nothing(DECK_E_NOT_INITIALIZED);

  for (int again = 0; again < 3; again++) {
    EXPECT(DECK_OK, deck_init(NULL, NULL));
    EXPECT(DECK_E_INVALID, deck_init(NULL, NULL));
    create_everything(); /* the name is free again */
    EXPECT(DECK_OK, deck_done());
    EXPECT(DECK_OK, deck_init(NULL, NULL));
    use_everything(DECK_E_CLOSED);
    SAYS("before deck_done");
    destroy_everything();
    destroy_nothing(DECK_E_CLOSED);
    EXPECT(DECK_OK, deck_done());
  }
  clones_after_leaks();
  nothing_stays();
  deck_set_log(NULL, NULL);
  return 0;
}
