/* What the environment says wrong is told by deck_init, with the variable's name; afterwards joining works. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

static void refused(int code, const char *variable, const char *value, const char *remedy) {
  CHECK(setenv(variable, value, 1) == 0);
  EXPECT(code, deck_init(NULL, NULL));
  SAYS(remedy);
  EXPECT(DECK_E_NOT_INITIALIZED, deck_done());
  CHECK(unsetenv(variable) == 0);
}

/* A line of the log that nobody reads any more is lost, and not the program. */
static void log_that_nobody_reads(void) {
  int ends[2], errors = dup(STDERR_FILENO);
  CHECK(errors >= 0 && pipe(ends) == 0 && close(ends[0]) == 0 && dup2(ends[1], STDERR_FILENO) >= 0);
  CHECK(setenv("DECK_LOG", "info", 1) == 0);
  int joined = deck_init(NULL, NULL), left = deck_done();
  CHECK(dup2(errors, STDERR_FILENO) >= 0 && close(errors) == 0 && close(ends[1]) == 0);
  CHECK(joined == DECK_OK && left == DECK_OK);
}

int main(void) {
  start_watchdog();
  log_that_nobody_reads();
  refused(DECK_E_INVALID, "DECK_JOB", "two words", "DECK_JOB");
  refused(DECK_E_INVALID, "DECK_JOB", "", "DECK_JOB");
  refused(DECK_E_INVALID, "DECK_HEAP", "large", "DECK_HEAP=256M");
  refused(DECK_E_INVALID, "DECK_BUDGET", "-1", "DECK_BUDGET=256M");
  refused(DECK_E_INVALID, "DECK_TIMEOUT", "soon", "DECK_TIMEOUT=30");
  refused(DECK_E_INVALID, "DECK_LAUNCH_FD", "three", "unset DECK_LAUNCH_FD");
  refused(DECK_E_NOT_INITIALIZED, "DECK_LAUNCH_FD", "999", "deck run");
  refused(DECK_E_UNSUPPORTED, "OMPI_COMM_WORLD_SIZE", "4", "Open MPI");
  EXPECT(DECK_OK, deck_init(NULL, NULL));
  CHECK(deck_node() == 0 && deck_numnodes() == 1);
  EXPECT(DECK_OK, deck_done());
  return 0;
}
