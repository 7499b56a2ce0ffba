/* Every call of deck.h with the type that programs may rely on. Compiles as C and as C++ when the header agrees, links
   when the library has them all. */
#include <deck.h>
#include <stdio.h>

static const char *(*const deck_strerror_)(int code) = deck_strerror;
static const char *(*const deck_last_error_)(void) = deck_last_error;
static const char *(*const deck_version_)(void) = deck_version;
static void (*const deck_set_log_)(void (*write)(int level, const char *line, void *ctx), void *ctx) = deck_set_log;
static int (*const deck_init_)(int *argc, char ***argv) = deck_init;
static int (*const deck_done_)(void) = deck_done;
static int (*const deck_node_)(void) = deck_node;
static int (*const deck_numnodes_)(void) = deck_numnodes;
static int (*const deck_node_state_)(int node) = deck_node_state;
static int (*const deck_thread_create_)(deck_thread_t **t, void *(*start)(void *), void *arg) = deck_thread_create;
static int (*const deck_thread_join_)(deck_thread_t *t, void **result) = deck_thread_join;
static int (*const deck_cancel_)(deck_thread_t *t) = deck_cancel;
static int (*const deck_sem_create_)(deck_sem_t **s, unsigned initial) = deck_sem_create;
static int (*const deck_sem_post_)(deck_sem_t *s) = deck_sem_post;
static int (*const deck_sem_wait_)(deck_sem_t *s, int timeout_ms) = deck_sem_wait;
static int (*const deck_sem_destroy_)(deck_sem_t *s) = deck_sem_destroy;
static int (*const deck_msg_create_)(deck_msg_t **m, size_t capacity_bytes) = deck_msg_create;
static int (*const deck_msg_pack_)(deck_msg_t *m, deck_type_t type, const void *data, size_t count) = deck_msg_pack;
static int (*const deck_msg_unpack_)(deck_msg_t *m, deck_type_t type, void *data, size_t count) = deck_msg_unpack;
static int (*const deck_msg_pack_mbox_)(deck_msg_t *m, deck_mbox_t *b) = deck_msg_pack_mbox;
static int (*const deck_msg_unpack_mbox_)(deck_msg_t *m, deck_mbox_t **b, int timeout_ms) = deck_msg_unpack_mbox;
static void *(*const deck_msg_data_)(deck_msg_t *m) = deck_msg_data;
static void *(*const deck_msg_edit_)(deck_msg_t *m) = deck_msg_edit;
static size_t (*const deck_msg_size_)(const deck_msg_t *m) = deck_msg_size;
static size_t (*const deck_msg_capacity_)(const deck_msg_t *m) = deck_msg_capacity;
static int (*const deck_msg_resize_)(deck_msg_t *m, size_t bytes) = deck_msg_resize;
static int (*const deck_msg_clear_)(deck_msg_t *m) = deck_msg_clear;
static int (*const deck_msg_sender_)(const deck_msg_t *m) = deck_msg_sender;
static int (*const deck_msg_destroy_)(deck_msg_t *m) = deck_msg_destroy;
static int (*const deck_mbox_create_)(deck_mbox_t **b, const char *name) = deck_mbox_create;
static int (*const deck_mbox_create_with_)(deck_mbox_t **b, const char *name, const deck_mbox_options_t *o) =
  deck_mbox_create_with;
static int (*const deck_mbox_clone_)(deck_mbox_t **b, const char *name, int timeout_ms) = deck_mbox_clone;
static int (*const deck_mbox_post_)(deck_mbox_t *b, deck_msg_t *m, int timeout_ms) = deck_mbox_post;
static int (*const deck_mbox_retrv_)(deck_mbox_t *b, deck_msg_t *m, int timeout_ms) = deck_mbox_retrv;
static int (*const deck_mbox_select_)(deck_mbox_t *const *boxes, size_t n, size_t *which, int timeout_ms) =
  deck_mbox_select;
static int (*const deck_mbox_fd_)(deck_mbox_t *b) = deck_mbox_fd;
static int (*const deck_mbox_stats_)(const deck_mbox_t *b, deck_mbox_stats_t *s) = deck_mbox_stats;
static int (*const deck_mbox_destroy_)(deck_mbox_t *b) = deck_mbox_destroy;
static int (*const deck_segment_create_)(deck_segment_t **s, const char *name, size_t bytes, int home_node) =
  deck_segment_create;
static int (*const deck_segment_open_)(deck_segment_t **s, const char *name, int timeout_ms) = deck_segment_open;
static void *(*const deck_segment_data_)(deck_segment_t *s) = deck_segment_data;
static size_t (*const deck_segment_size_)(const deck_segment_t *s) = deck_segment_size;
static int (*const deck_segment_home_)(const deck_segment_t *s) = deck_segment_home;
static int (*const deck_segment_close_)(deck_segment_t *s) = deck_segment_close;
static int (*const deck_mutex_open_)(deck_mutex_t **m, const char *name) = deck_mutex_open;
static int (*const deck_mutex_lock_)(deck_mutex_t *m, int timeout_ms) = deck_mutex_lock;
static int (*const deck_mutex_unlock_)(deck_mutex_t *m) = deck_mutex_unlock;
static int (*const deck_mutex_close_)(deck_mutex_t *m) = deck_mutex_close;
static int (*const deck_cond_open_)(deck_cond_t **c, const char *name) = deck_cond_open;
static int (*const deck_cond_wait_)(deck_cond_t *c, deck_mutex_t *m, int timeout_ms) = deck_cond_wait;
static int (*const deck_cond_signal_)(deck_cond_t *c) = deck_cond_signal;
static int (*const deck_cond_broadcast_)(deck_cond_t *c) = deck_cond_broadcast;
static int (*const deck_cond_close_)(deck_cond_t *c) = deck_cond_close;
static int (*const deck_barrier_open_)(deck_barrier_t **b, const char *name, unsigned size) = deck_barrier_open;
static int (*const deck_barrier_wait_)(deck_barrier_t *b, int timeout_ms) = deck_barrier_wait;
static int (*const deck_barrier_close_)(deck_barrier_t *b) = deck_barrier_close;
static int (*const deck_counter_open_)(deck_counter_t **c, const char *name) = deck_counter_open;
static int (*const deck_counter_add_)(deck_counter_t *c, int64_t amount, int64_t *value) = deck_counter_add;
static int (*const deck_counter_read_)(deck_counter_t *c, int64_t *value) = deck_counter_read;
static int (*const deck_counter_wait_)(deck_counter_t *c, int64_t at_least, int64_t *value, int timeout_ms) =
  deck_counter_wait;
static int (*const deck_counter_close_)(deck_counter_t *c) = deck_counter_close;

int main(void) {
  const void *const calls[] = {
    &deck_strerror_, &deck_last_error_, &deck_version_, &deck_set_log_, &deck_init_, &deck_done_, &deck_node_,
    &deck_numnodes_, &deck_node_state_, &deck_thread_create_, &deck_thread_join_, &deck_cancel_, &deck_sem_create_,
    &deck_sem_post_, &deck_sem_wait_, &deck_sem_destroy_, &deck_msg_create_, &deck_msg_pack_, &deck_msg_unpack_,
    &deck_msg_pack_mbox_, &deck_msg_unpack_mbox_, &deck_msg_data_, &deck_msg_edit_, &deck_msg_size_,
    &deck_msg_capacity_, &deck_msg_resize_, &deck_msg_clear_, &deck_msg_sender_, &deck_msg_destroy_,
    &deck_mbox_create_, &deck_mbox_create_with_, &deck_mbox_clone_, &deck_mbox_post_, &deck_mbox_retrv_,
    &deck_mbox_select_, &deck_mbox_fd_, &deck_mbox_stats_, &deck_mbox_destroy_,
    &deck_segment_create_, &deck_segment_open_, &deck_segment_data_, &deck_segment_size_, &deck_segment_home_,
    &deck_segment_close_, &deck_mutex_open_, &deck_mutex_lock_, &deck_mutex_unlock_, &deck_mutex_close_,
    &deck_cond_open_, &deck_cond_wait_, &deck_cond_signal_, &deck_cond_broadcast_, &deck_cond_close_,
    &deck_barrier_open_, &deck_barrier_wait_, &deck_barrier_close_, &deck_counter_open_, &deck_counter_add_,
    &deck_counter_read_, &deck_counter_wait_, &deck_counter_close_,
  };
  size_t count = sizeof calls / sizeof calls[0];
  for (size_t i = 0; i < count; i++) {
    if (calls[i] == NULL) return 1;
  }
  printf("%d calls\n", (int)count);
  return 0;
}
