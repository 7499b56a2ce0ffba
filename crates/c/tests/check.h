/* What the test programs share: a check that says where and why it failed, and a watchdog against hanging. */
#ifndef CHECK_H
#define CHECK_H

#include <deck.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                                  \
  do {                                                                                                    \
    if (!(condition)) {                                                                                   \
      fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, deck_last_error());     \
      exit(1);                                                                                            \
    }                                                                                                     \
  } while (0)

#define EXPECT(code, call)                                                                                \
  do {                                                                                                    \
    int expected_ = (code), got_ = (call);                                                                \
    if (got_ != expected_) {                                                                              \
      fprintf(stderr, "%s:%d: %s gave %d (%s), not %d (%s)\n%s\n", __FILE__, __LINE__, #call, got_,       \
              deck_strerror(got_), expected_, deck_strerror(expected_), deck_last_error());               \
      exit(1);                                                                                            \
    }                                                                                                     \
  } while (0)

/* The last error of this thread mentions `part`. */
#define SAYS(part) CHECK(strstr(deck_last_error(), (part)) != NULL)

static inline void start_watchdog(void) {
  alarm(60);
}

#endif
