/* A program loads a plugin that has the library inside, or the library itself, uses it in a thread, and unloads it. Threads of
   the library's own may be on their way out still, and the system calls it in each child that is forked: its code stays. */
#define _POSIX_C_SOURCE 200809L
#ifdef PLUGIN
#include "check.h"

int use_deck(void);

int use_deck(void) {
  deck_mbox_t *box;
  deck_msg_t *message;
  EXPECT(DECK_OK, deck_init(NULL, NULL));
  EXPECT(DECK_OK, deck_mbox_create(&box, NULL));
  EXPECT(DECK_OK, deck_msg_create(&message, 0));
  CHECK(deck_mbox_fd(box) >= 0);
  EXPECT(DECK_E_TIMEOUT, deck_mbox_retrv(box, message, 1));
  EXPECT(DECK_OK, deck_msg_destroy(message));
  EXPECT(DECK_OK, deck_mbox_destroy(box));
  return deck_done();
}

#else
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);      \
      exit(1);                                                                     \
    }                                                                              \
  } while (0)

static void *library;

/* What a thread has of the library ends with the thread. */
static void *use(void *arg) {
  int (*use_deck)(void), (*init)(int *, char ***), (*done)(void);
  *(void **)&use_deck = dlsym(library, "use_deck");
  *(void **)&init = dlsym(library, "deck_init");
  *(void **)&done = dlsym(library, "deck_done");
  if (use_deck != NULL) {
    CHECK(use_deck() == 0);
  } else {
    CHECK(init != NULL && init(NULL, NULL) == 0);
    CHECK(done != NULL && done() == 0);
  }
  return arg;
}

int main(int argc, char **argv) {
  alarm(60);
  CHECK(argc == 2);
  for (int round = 0; round < 20; round++) {
    pthread_t thread;
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) fprintf(stderr, "%s\n", dlerror());
    CHECK(library != NULL);
    CHECK(pthread_create(&thread, NULL, use, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(dlclose(library) == 0);
    CHECK(dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == library);
    CHECK(dlclose(library) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  return 0;
}
#endif
