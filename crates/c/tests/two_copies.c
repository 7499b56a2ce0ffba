/* A plugin that was linked with libdeck.a is a second copy of the library in its process. By name both are nodes; the one place
   that `deck run` gives to a process is one copy's at a time, and the other is told so at once. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <dlfcn.h>

static int (*other_init)(int *, char ***), (*other_done)(void), (*other_node)(void);
static const char *(*other_error)(void);

int main(int argc, char **argv) {
  start_watchdog();
  CHECK(argc == 2);
  void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  CHECK(plugin != NULL);
  *(void **)&other_init = dlsym(plugin, "deck_init");
  *(void **)&other_done = dlsym(plugin, "deck_done");
  *(void **)&other_node = dlsym(plugin, "deck_node");
  *(void **)&other_error = dlsym(plugin, "deck_last_error");
  CHECK(other_init != NULL && other_init != deck_init);
  EXPECT(DECK_OK, deck_init(NULL, NULL));
  if (getenv("DECK_JOB") != NULL) {
    CHECK(other_init(NULL, NULL) == DECK_OK);
    CHECK(other_node() != deck_node() && deck_numnodes() == 2);
    CHECK(other_done() == DECK_OK);
  } else {
    CHECK(other_init(NULL, NULL) == DECK_E_INVALID);
    CHECK(strstr(other_error(), "another copy of DECK in this process") != NULL);
    CHECK(deck_node() == 0);
    EXPECT(DECK_OK, deck_done());
    CHECK(other_init(NULL, NULL) == DECK_OK);
    EXPECT(DECK_E_INVALID, deck_init(NULL, NULL));
    CHECK(other_done() == DECK_OK);
    EXPECT(DECK_OK, deck_init(NULL, NULL));
  }
  return deck_done();
}
