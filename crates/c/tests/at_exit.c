/* Who cleans up may use DECK: handlers of exit, in the thread that ends the process, and destructors of keys in any thread that
   ends. Both come when the thread has destroyed what is thread-local. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <pthread.h>

static deck_mutex_t *mutex, *held;
static pthread_key_t keys[3];

static void leave_locked(void *arg) {
  (void)arg;
  EXPECT(DECK_OK, deck_mutex_lock(mutex, 0));
}

static void unlock(void *arg) {
  (void)arg;
  EXPECT(DECK_OK, deck_mutex_unlock(mutex));
}

/* What it holds it unlocks when it has ended, in the destructor of a key that is younger than the library's. */
static void *end_locked(void *key) {
  EXPECT(DECK_OK, deck_mutex_lock(mutex, 0));
  CHECK(pthread_setspecific(*(pthread_key_t *)key, key) == 0);
  return NULL;
}

static void *end_with_a_key(void *key) {
  CHECK(pthread_setspecific(*(pthread_key_t *)key, key) == 0);
  EXPECT(DECK_OK, deck_mutex_lock(mutex, 0));
  EXPECT(DECK_OK, deck_mutex_unlock(mutex));
  return NULL;
}

static void clean_up(void) {
  EXPECT(DECK_OK, deck_mutex_unlock(held));
  EXPECT(DECK_OK, deck_mutex_lock(mutex, 0));
  EXPECT(DECK_E_INVALID, deck_mutex_lock(mutex, 0));
  SAYS("this thread holds it");
  EXPECT(DECK_OK, deck_mutex_unlock(mutex));
  EXPECT(DECK_OK, deck_mutex_close(held));
  EXPECT(DECK_OK, deck_mutex_close(mutex));
  EXPECT(DECK_OK, deck_done());
  if (puts("cleaned up") < 0 || fflush(stdout) != 0) _exit(1);
}

int main(void) {
  pthread_t thread;
  start_watchdog();
  EXPECT(DECK_OK, deck_init(NULL, NULL));
  EXPECT(DECK_OK, deck_mutex_open(&mutex, "at exit"));
  EXPECT(DECK_OK, deck_mutex_open(&held, "held"));
  /* The library makes a key of its own when a mutex is locked first: the destructors of these come before and after its. */
  for (int round = 0; round < 2; round++) {
    CHECK(pthread_key_create(&keys[round], leave_locked) == 0);
    CHECK(pthread_create(&thread, NULL, end_with_a_key, &keys[round]) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    EXPECT(DECK_E_OWNER_DIED, deck_mutex_lock(mutex, 1000));
    EXPECT(DECK_OK, deck_mutex_unlock(mutex));
  }
  CHECK(pthread_key_create(&keys[2], unlock) == 0);
  CHECK(pthread_create(&thread, NULL, end_locked, &keys[2]) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  EXPECT(DECK_OK, deck_mutex_lock(mutex, 1000));
  EXPECT(DECK_OK, deck_mutex_unlock(mutex));
  EXPECT(DECK_OK, deck_mutex_lock(held, 0));
  EXPECT(DECK_E_INVALID, deck_mutex_lock(NULL, 0));
  CHECK(atexit(clean_up) == 0);
  return 0;
}
