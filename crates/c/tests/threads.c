/* Threads and semaphores: results, cancelling, joining, destroying under waiters, threads that DECK did not start. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <pthread.h>
#include <sys/resource.h>

static void *answer(void *arg) {
  return (char *)arg + 1;
}

static void results(void) {
  deck_thread_t *t;
  char place[2];
  void *result = NULL;
  EXPECT(DECK_OK, deck_thread_create(&t, answer, place));
  EXPECT(DECK_OK, deck_thread_join(t, &result));
  CHECK(result == place + 1);
  EXPECT(DECK_E_CLOSED, deck_thread_join(t, &result));
  EXPECT(DECK_E_CLOSED, deck_cancel(t));
  EXPECT(DECK_OK, deck_thread_create(&t, answer, NULL));
  EXPECT(DECK_OK, deck_cancel(t));
  EXPECT(DECK_OK, deck_thread_join(t, NULL));
}

static void *exit_with(void *arg) {
  deck_mutex_t *lock;
  EXPECT(DECK_OK, deck_mutex_open(&lock, "of one that exits"));
  EXPECT(DECK_OK, deck_mutex_lock(lock, DECK_FOREVER));
  pthread_exit((char *)arg + 1);
}

/* As any thread of the system may end. What it holds is told as that of one that has died. */
static void exiting(void) {
  deck_mutex_t *lock;
  char place[2];
  EXPECT(DECK_OK, deck_mutex_open(&lock, "of one that exits"));
  for (int round = 0; round < 20; round++) {
    deck_thread_t *t;
    void *result = NULL;
    EXPECT(DECK_OK, deck_thread_create(&t, exit_with, place));
    EXPECT(DECK_OK, deck_thread_join(t, &result));
    CHECK(result == place + 1);
    EXPECT(DECK_E_OWNER_DIED, deck_mutex_lock(lock, DECK_FOREVER));
    EXPECT(DECK_OK, deck_mutex_unlock(lock));
  }
  EXPECT(DECK_OK, deck_mutex_close(lock));
}

/* As deep as a thread of the system may go. */
static void *deep(void *arg) {
  volatile char picture[6 << 20];
  picture[0] = picture[sizeof picture - 1] = 1;
  return picture[0] + picture[sizeof picture - 1] == 2 ? arg : NULL;
}

static void stacks(void) {
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_STACK, &limit) == 0);
  if (limit.rlim_cur < 8 << 20) return;
  deck_thread_t *t;
  void *result = NULL;
  EXPECT(DECK_OK, deck_thread_create(&t, deep, &limit));
  EXPECT(DECK_OK, deck_thread_join(t, &result));
  CHECK(result == &limit);
}

typedef struct {
  deck_thread_t *self;
  deck_sem_t *go;
  deck_mbox_t *box;
} stage_t;

static void *join_itself(void *arg) {
  stage_t *stage = arg;
  EXPECT(DECK_OK, deck_sem_wait(stage->go, DECK_FOREVER));
  EXPECT(DECK_E_INVALID, deck_thread_join(stage->self, NULL));
  SAYS("itself");
  return NULL;
}

static void joining_oneself(deck_sem_t *go) {
  stage_t stage = {NULL, go, NULL};
  EXPECT(DECK_OK, deck_thread_create(&stage.self, join_itself, &stage));
  EXPECT(DECK_OK, deck_sem_post(go));
  EXPECT(DECK_OK, deck_thread_join(stage.self, NULL));
}

static void *wait_for_cancel_in_semaphore(void *arg) {
  stage_t *stage = arg;
  EXPECT(DECK_E_CANCELLED, deck_sem_wait(stage->go, DECK_FOREVER));
  EXPECT(DECK_E_TIMEOUT, deck_sem_wait(stage->go, 10)); /* once */
  return NULL;
}

static void *wait_for_cancel_in_mailbox(void *arg) {
  stage_t *stage = arg;
  deck_msg_t *m;
  EXPECT(DECK_OK, deck_msg_create(&m, 0));
  EXPECT(DECK_E_CANCELLED, deck_mbox_retrv(stage->box, m, DECK_FOREVER));
  EXPECT(DECK_E_TIMEOUT, deck_mbox_retrv(stage->box, m, 10));
  EXPECT(DECK_OK, deck_msg_destroy(m));
  return NULL;
}

static void cancelling(deck_sem_t *go) {
  stage_t stage = {NULL, go, NULL};
  deck_thread_t *t;
  EXPECT(DECK_OK, deck_mbox_create(&stage.box, NULL));
  for (int round = 0; round < 20; round++) {
    EXPECT(DECK_OK, deck_thread_create(&t, wait_for_cancel_in_semaphore, &stage));
    EXPECT(DECK_OK, deck_cancel(t));
    EXPECT(DECK_OK, deck_thread_join(t, NULL));
    EXPECT(DECK_OK, deck_thread_create(&t, wait_for_cancel_in_mailbox, &stage));
    EXPECT(DECK_OK, deck_cancel(t));
    EXPECT(DECK_OK, deck_thread_join(t, NULL));
  }
  EXPECT(DECK_OK, deck_mbox_destroy(stage.box));
}

static void *join_until_cancelled(void *arg) {
  EXPECT(DECK_E_CANCELLED, deck_thread_join(arg, NULL));
  SAYS("deck_thread_join");
  return arg;
}

static void cancelling_a_join(deck_sem_t *go) {
  for (int round = 0; round < 20; round++) {
    stage_t stage = {NULL, go, NULL};
    deck_thread_t *joined, *joins;
    void *still_there;
    EXPECT(DECK_OK, deck_thread_create(&joined, wait_for_cancel_in_semaphore, &stage));
    EXPECT(DECK_OK, deck_thread_create(&joins, join_until_cancelled, joined));
    EXPECT(DECK_OK, deck_cancel(joins));
    EXPECT(DECK_OK, deck_thread_join(joins, &still_there));
    EXPECT(DECK_OK, deck_cancel(joined));
    EXPECT(DECK_OK, deck_thread_join(still_there, NULL));
  }
}

static void counting(void) {
  deck_sem_t *s;
  EXPECT(DECK_OK, deck_sem_create(&s, 2));
  EXPECT(DECK_OK, deck_sem_wait(s, 0));
  EXPECT(DECK_OK, deck_sem_wait(s, 0));
  EXPECT(DECK_E_TIMEOUT, deck_sem_wait(s, 0));
  EXPECT(DECK_E_TIMEOUT, deck_sem_wait(s, 20));
  SAYS("deck_sem_wait");
  EXPECT(DECK_OK, deck_sem_post(s));
  EXPECT(DECK_OK, deck_sem_wait(s, DECK_FOREVER));
  EXPECT(DECK_OK, deck_sem_destroy(s));
  EXPECT(DECK_E_CLOSED, deck_sem_post(s));
}

static void *wait_until_destroyed(void *arg) {
  EXPECT(DECK_E_CLOSED, deck_sem_wait(arg, DECK_FOREVER));
  return NULL;
}

static void destroying_under_waiters(void) {
  enum { WAITERS = 4 };
  for (int round = 0; round < 50; round++) {
    deck_sem_t *s;
    deck_thread_t *waiters[WAITERS];
    EXPECT(DECK_OK, deck_sem_create(&s, 0));
    for (int i = 0; i < WAITERS; i++) EXPECT(DECK_OK, deck_thread_create(&waiters[i], wait_until_destroyed, s));
    EXPECT(DECK_OK, deck_sem_destroy(s));
    for (int i = 0; i < WAITERS; i++) EXPECT(DECK_OK, deck_thread_join(waiters[i], NULL));
  }
}

enum { POSTERS = 4, EACH = 500 };

static void *post_many(void *arg) {
  deck_msg_t *m;
  EXPECT(DECK_OK, deck_msg_create(&m, 0));
  for (int32_t i = 0; i < EACH; i++) {
    EXPECT(DECK_OK, deck_msg_clear(m));
    EXPECT(DECK_OK, deck_msg_pack(m, DECK_INT32, &i, 1));
    EXPECT(DECK_OK, deck_mbox_post(arg, m, DECK_FOREVER));
  }
  EXPECT(DECK_OK, deck_msg_destroy(m));
  return NULL;
}

/* Plain pthreads post; two of the node's own threads retrieve; each message comes out once. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int seen[EACH];

static void *retrieve_half(void *arg) {
  deck_msg_t *m;
  EXPECT(DECK_OK, deck_msg_create(&m, 0));
  for (int n = 0; n < POSTERS * EACH / 2; n++) {
    int32_t number;
    EXPECT(DECK_OK, deck_mbox_retrv(arg, m, DECK_FOREVER));
    EXPECT(DECK_OK, deck_msg_unpack(m, DECK_INT32, &number, 1));
    pthread_mutex_lock(&lock);
    seen[number]++;
    pthread_mutex_unlock(&lock);
  }
  EXPECT(DECK_OK, deck_msg_destroy(m));
  return NULL;
}

static void foreign_threads(void) {
  deck_mbox_t *b;
  pthread_t posters[POSTERS];
  deck_thread_t *retrievers[2];
  EXPECT(DECK_OK, deck_mbox_create(&b, NULL));
  for (int i = 0; i < 2; i++) EXPECT(DECK_OK, deck_thread_create(&retrievers[i], retrieve_half, b));
  for (int i = 0; i < POSTERS; i++) CHECK(pthread_create(&posters[i], NULL, post_many, b) == 0);
  for (int i = 0; i < POSTERS; i++) CHECK(pthread_join(posters[i], NULL) == 0);
  for (int i = 0; i < 2; i++) EXPECT(DECK_OK, deck_thread_join(retrievers[i], NULL));
  for (int i = 0; i < EACH; i++) CHECK(seen[i] == POSTERS);
  EXPECT(DECK_OK, deck_mbox_destroy(b));
}

int main(int argc, char **argv) {
  deck_sem_t *go;
  start_watchdog();
  EXPECT(DECK_OK, deck_init(&argc, &argv));
  EXPECT(DECK_OK, deck_sem_create(&go, 0));
  results();
  exiting();
  stacks();
  joining_oneself(go);
  cancelling(go);
  cancelling_a_join(go);
  counting();
  destroying_under_waiters();
  foreign_threads();
  EXPECT(DECK_OK, deck_sem_destroy(go));
  EXPECT(DECK_OK, deck_done());
  return 0;
}
