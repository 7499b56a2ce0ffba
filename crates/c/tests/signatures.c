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
static int (*const deck_msg_fetch_)(const deck_msg_t *m, size_t from, size_t bytes) = deck_msg_fetch;
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
static int (*const deck_group_join_)(deck_group_t **g, const char *name, int size, int index, int timeout_ms) =
  deck_group_join;
static int (*const deck_group_join_with_)(deck_group_t **g, const char *name, int size, int index,
                                          const deck_group_options_t *o, int timeout_ms) = deck_group_join_with;
static int (*const deck_group_index_)(const deck_group_t *g) = deck_group_index;
static int (*const deck_group_size_)(const deck_group_t *g) = deck_group_size;
static int (*const deck_group_leave_)(deck_group_t *g) = deck_group_leave;
static int (*const deck_barrier_)(deck_group_t *g, int timeout_ms) = deck_barrier;
static int (*const deck_bcast_)(deck_group_t *g, int root, void *data, size_t count, deck_type_t type,
                                  int timeout_ms) =
  deck_bcast;
static int (*const deck_reduce_)(deck_group_t *g, int root, const void *in, void *out, size_t count,
                                  deck_type_t type, deck_op_t op, int timeout_ms) =
  deck_reduce;
static int (*const deck_allreduce_)(deck_group_t *g, const void *in, void *out, size_t count, deck_type_t type,
                                  deck_op_t op, int timeout_ms) =
  deck_allreduce;
static int (*const deck_scan_)(deck_group_t *g, const void *in, void *out, size_t count, deck_type_t type,
                                  deck_op_t op, int timeout_ms) =
  deck_scan;
static int (*const deck_gather_)(deck_group_t *g, int root, const void *in, size_t count, void *out,
                                  deck_type_t type, int timeout_ms) =
  deck_gather;
static int (*const deck_scatter_)(deck_group_t *g, int root, const void *in, void *out, size_t count,
                                  deck_type_t type, int timeout_ms) =
  deck_scatter;
static int (*const deck_allgather_)(deck_group_t *g, const void *in, size_t count, void *out, deck_type_t type,
                                  int timeout_ms) =
  deck_allgather;
static int (*const deck_alltoall_)(deck_group_t *g, const void *in, size_t count, void *out, deck_type_t type,
                                  int timeout_ms) =
  deck_alltoall;
static int (*const deck_gatherv_)(deck_group_t *g, int root, const void *in, size_t count, void *out,
                                  const size_t *counts, deck_type_t type, int timeout_ms) =
  deck_gatherv;
static int (*const deck_scatterv_)(deck_group_t *g, int root, const void *in, const size_t *counts, void *out,
                                  size_t count, deck_type_t type, int timeout_ms) =
  deck_scatterv;
static int (*const deck_allgatherv_)(deck_group_t *g, const void *in, size_t count, void *out,
                                  const size_t *counts, deck_type_t type, int timeout_ms) =
  deck_allgatherv;
static int (*const deck_alltoallv_)(deck_group_t *g, const void *in, const size_t *send_counts, void *out,
                                  const size_t *recv_counts, deck_type_t type, int timeout_ms) =
  deck_alltoallv;
static int (*const deck_start_barrier_)(deck_group_t *g, deck_request_t **r) = deck_start_barrier;
static int (*const deck_start_bcast_)(deck_group_t *g, int root, void *data, size_t count, deck_type_t type,
                                  deck_request_t **r) =
  deck_start_bcast;
static int (*const deck_start_reduce_)(deck_group_t *g, int root, const void *in, void *out, size_t count,
                                  deck_type_t type, deck_op_t op, deck_request_t **r) =
  deck_start_reduce;
static int (*const deck_start_allreduce_)(deck_group_t *g, const void *in, void *out, size_t count,
                                  deck_type_t type, deck_op_t op, deck_request_t **r) =
  deck_start_allreduce;
static int (*const deck_start_scan_)(deck_group_t *g, const void *in, void *out, size_t count, deck_type_t type,
                                  deck_op_t op, deck_request_t **r) =
  deck_start_scan;
static int (*const deck_start_gather_)(deck_group_t *g, int root, const void *in, size_t count, void *out,
                                  deck_type_t type, deck_request_t **r) =
  deck_start_gather;
static int (*const deck_start_scatter_)(deck_group_t *g, int root, const void *in, void *out, size_t count,
                                  deck_type_t type, deck_request_t **r) =
  deck_start_scatter;
static int (*const deck_start_allgather_)(deck_group_t *g, const void *in, size_t count, void *out,
                                  deck_type_t type, deck_request_t **r) =
  deck_start_allgather;
static int (*const deck_start_alltoall_)(deck_group_t *g, const void *in, size_t count, void *out,
                                  deck_type_t type, deck_request_t **r) =
  deck_start_alltoall;
static int (*const deck_start_gatherv_)(deck_group_t *g, int root, const void *in, size_t count, void *out,
                                  const size_t *counts, deck_type_t type, deck_request_t **r) =
  deck_start_gatherv;
static int (*const deck_start_scatterv_)(deck_group_t *g, int root, const void *in, const size_t *counts,
                                  void *out, size_t count, deck_type_t type, deck_request_t **r) =
  deck_start_scatterv;
static int (*const deck_start_allgatherv_)(deck_group_t *g, const void *in, size_t count, void *out,
                                  const size_t *counts, deck_type_t type, deck_request_t **r) =
  deck_start_allgatherv;
static int (*const deck_start_alltoallv_)(deck_group_t *g, const void *in, const size_t *send_counts, void *out,
                                  const size_t *recv_counts, deck_type_t type, deck_request_t **r) =
  deck_start_alltoallv;
static int (*const deck_test_)(deck_request_t *r, int *is_done) = deck_test;
static int (*const deck_wait_)(deck_request_t *r, int timeout_ms) = deck_wait;
static int (*const deck_request_destroy_)(deck_request_t *r) = deck_request_destroy;
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
    &deck_msg_pack_mbox_, &deck_msg_unpack_mbox_, &deck_msg_data_, &deck_msg_fetch_, &deck_msg_edit_, &deck_msg_size_,
    &deck_msg_capacity_, &deck_msg_resize_, &deck_msg_clear_, &deck_msg_sender_, &deck_msg_destroy_,
    &deck_mbox_create_, &deck_mbox_create_with_, &deck_mbox_clone_, &deck_mbox_post_, &deck_mbox_retrv_,
    &deck_mbox_select_, &deck_mbox_fd_, &deck_mbox_stats_, &deck_mbox_destroy_,
    &deck_group_join_, &deck_group_join_with_, &deck_group_index_, &deck_group_size_, &deck_group_leave_,
    &deck_barrier_, &deck_bcast_, &deck_reduce_, &deck_allreduce_, &deck_scan_, &deck_gather_, &deck_scatter_, &deck_allgather_, &deck_alltoall_,
    &deck_gatherv_, &deck_scatterv_, &deck_allgatherv_, &deck_alltoallv_, &deck_start_barrier_, &deck_start_bcast_,
    &deck_start_reduce_, &deck_start_allreduce_, &deck_start_scan_, &deck_start_gather_, &deck_start_scatter_,
    &deck_start_allgather_, &deck_start_alltoall_, &deck_start_gatherv_, &deck_start_scatterv_,
    &deck_start_allgatherv_, &deck_start_alltoallv_, &deck_test_, &deck_wait_, &deck_request_destroy_,
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
