/* The library comes to a program that has run for a while, with threads from before and after: each finds its own objects. What a thread is the
 * favourite of stands in memory of its own, which the loader has to make for threads that did not expect it. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>

/* check.h's messages ask for these, and this program has no library when it begins. */
static const char *(*last_error)(void), *(*strerror_of)(int);
const char *deck_last_error(void) { return last_error == NULL ? "there is no library yet" : last_error(); }
const char *deck_strerror(int code) { return strerror_of == NULL ? "" : strerror_of(code); }

static int (*msg_create)(deck_msg_t **, size_t), (*msg_clear)(deck_msg_t *), (*msg_destroy)(deck_msg_t *);
static int (*msg_pack)(deck_msg_t *, deck_type_t, const void *, size_t), (*msg_unpack)(deck_msg_t *, deck_type_t, void *, size_t);
static int (*mbox_create)(deck_mbox_t **, const char *), (*mbox_post)(deck_mbox_t *, deck_msg_t *, int);
static int (*mbox_retrv)(deck_mbox_t *, deck_msg_t *, int), (*mbox_destroy)(deck_mbox_t *);

enum { THREADS = 4, ROUNDS = 2000, PATIENCE = 10000 };

static pthread_barrier_t begin;

static void *talk_to_oneself(void *arg) {
  deck_msg_t *message;
  deck_mbox_t *box;
  pthread_barrier_wait(&begin);
  EXPECT(DECK_OK, msg_create(&message, 0));
  EXPECT(DECK_OK, mbox_create(&box, NULL));
  for (int32_t round = 0; round < ROUNDS; round++) {
    int32_t sent[2] = {*(int *)arg, round}, got[2] = {0};
    EXPECT(DECK_OK, msg_clear(message));
    EXPECT(DECK_OK, msg_pack(message, DECK_INT32, sent, 2));
    EXPECT(DECK_OK, mbox_post(box, message, PATIENCE));
    EXPECT(DECK_OK, mbox_retrv(box, message, PATIENCE));
    EXPECT(DECK_OK, msg_unpack(message, DECK_INT32, got, 2));
    CHECK(memcmp(sent, got, sizeof sent) == 0);
  }
  EXPECT(DECK_OK, mbox_destroy(box));
  EXPECT(DECK_OK, msg_destroy(message));
  return NULL;
}

static void *library;

static void *found(const char *name) {
  void *place = dlsym(library, name);
  CHECK(place != NULL);
  return place;
}

/* ISO C has no conversion from an object's address to a function's; POSIX has this one. */
#define FIND(function, name) (*(void **)&(function) = found(name))

int main(int argc, char **argv) {
  start_watchdog();
  CHECK(argc == 2);
  pthread_t threads[THREADS];
  int numbers[THREADS];
  CHECK(pthread_barrier_init(&begin, NULL, THREADS) == 0);
  for (int i = 0; i < THREADS; i++) {
    numbers[i] = i;
    if (i == THREADS / 2) {
      int (*init)(int *, char ***);
      library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
      if (library == NULL) fprintf(stderr, "%s\n", dlerror());
      CHECK(library != NULL);
      FIND(last_error, "deck_last_error"), FIND(strerror_of, "deck_strerror");
      FIND(msg_create, "deck_msg_create"), FIND(msg_clear, "deck_msg_clear"), FIND(msg_destroy, "deck_msg_destroy");
      FIND(msg_pack, "deck_msg_pack"), FIND(msg_unpack, "deck_msg_unpack");
      FIND(mbox_create, "deck_mbox_create"), FIND(mbox_destroy, "deck_mbox_destroy");
      FIND(mbox_post, "deck_mbox_post"), FIND(mbox_retrv, "deck_mbox_retrv"), FIND(init, "deck_init");
      EXPECT(DECK_OK, init(&argc, &argv));
    }
    CHECK(pthread_create(&threads[i], NULL, talk_to_oneself, &numbers[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  int (*leave)(void);
  FIND(leave, "deck_done");
  EXPECT(DECK_OK, leave());
  return 0;
}
