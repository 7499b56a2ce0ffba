/* deck.h stands alone, twice, in C and in C++, and its constants keep their numbers. */
#include <deck.h>
#include <deck.h>

#ifdef __cplusplus
#define MUST(condition, name) static_assert(condition, name)
#else
#define MUST(condition, name) _Static_assert(condition, name)
#endif

MUST(DECK_OK == 0 && DECK_FOREVER == -1, "success and for ever");
MUST(DECK_E_INVALID == -101 && DECK_E_TIMEOUT == -102 && DECK_E_CANCELLED == -103, "codes of a call");
MUST(DECK_E_UNSUPPORTED == -104 && DECK_E_NOT_FOUND == -105 && DECK_E_ACCESS == -106, "codes of a call");
MUST(DECK_E_SYSTEM == -107, "codes of a call");
MUST(DECK_E_TYPE == -201 && DECK_E_TRUNCATED == -202, "codes of a message");
MUST(DECK_E_TOO_LARGE == -203 && DECK_E_NOMEM == -204, "codes of a message");
MUST(DECK_E_EXISTS == -301 && DECK_E_CLOSED == -302 && DECK_E_NOT_LOCKED == -303, "codes of a mail box");
MUST(DECK_E_PEER_LOST == -401 && DECK_E_OWNER_DIED == -402 && DECK_E_CORRUPT == -403, "codes of a node");
MUST(DECK_E_NOT_INITIALIZED == -501, "codes of this node");
MUST(DECK_NODE_LIVE == 0 && DECK_NODE_FROZEN == 1 && DECK_NODE_LEFT == 2 && DECK_NODE_LOST == 3, "states");
MUST(DECK_LOG_ERROR == 1 && DECK_LOG_WARN == 2 && DECK_LOG_INFO == 3 && DECK_LOG_DEBUG == 4, "log levels");
MUST(DECK_BYTE == 1 && DECK_CHAR == 2 && DECK_INT8 == 3 && DECK_INT64 == 6, "element types");
MUST(DECK_UINT8 == 7 && DECK_UINT64 == 10 && DECK_FLOAT == 11 && DECK_DOUBLE == 12, "element types");
MUST(DECK_SUM == 1 && DECK_PROD == 2 && DECK_MIN == 3 && DECK_MAX == 4, "operations");
MUST(DECK_AND == 5 && DECK_OR == 6 && DECK_XOR == 7, "operations");
MUST(sizeof(deck_mbox_options_t) == 3 * sizeof(size_t), "layout of the options");
MUST(sizeof(deck_group_options_t) == 2 * sizeof(size_t), "layout of the options of groups");
MUST(sizeof(deck_mbox_stats_t) == 16 * sizeof(uint64_t), "layout of the counters");
MUST(offsetof(deck_mbox_stats_t, by_zero_copy) == 8 * sizeof(uint64_t), "layout of the counters");
MUST(offsetof(deck_mbox_stats_t, lanes) == 9 * sizeof(uint64_t), "layout of the counters");

int main(void) {
  deck_mbox_options_t options = DECK_MBOX_OPTIONS_DEFAULT;
  int is_default = options.messages_per_node == 0 && options.bytes_per_node == 0;
  return options.size_of_struct == sizeof options && is_default ? 0 : 1;
}
