/* deck.h - the C API of DECK, a parallel programming environment.
 *
 * A program is a set of nodes (processes) of a job; each runs many threads. Any thread may create a mail box, give it a
 * name, and retrieve from it; any thread of any node that knows the name clones the mail box and posts to it. Messages
 * move by hand-over: on one host those of more than 1 KiB without a copy, whatever their size.
 *
 *     deck_mbox_create(&box, "results");             |     deck_mbox_clone(&box, "results", DECK_FOREVER);
 *     deck_mbox_retrv(box, msg, DECK_FOREVER);       |     deck_msg_pack(msg, DECK_DOUBLE, row, columns);
 *     deck_msg_unpack(msg, DECK_DOUBLE, row, n);     |     deck_mbox_post(box, msg, DECK_FOREVER);
 *
 * Compile and run:   cc program.c $(pkg-config --cflags --libs deck) -o program && deck run -n 2 ./program
 *
 * The papers on DECK record only eight names: deck_mbox_create, deck_mbox_clone, deck_mbox_post, deck_mbox_retrv,
 * deck_msg_create, deck_msg_pack, deck_msg_unpack and deck_msg_clear. They do not record how these are called; all
 * signatures here, and all other names, are this library's own.
 *
 *
 * What holds for every call
 *
 * Result     DECK_OK (0) or a negative DECK_E_ code, unless the call says otherwise. deck_last_error() has the whole story. A
 *            failed call leaves its objects, and all results but a collective's `out`, as they were. Calls name their codes, but
 *            not these: DECK_E_NOMEM and DECK_E_SYSTEM of what makes, opens, joins, clones, locks or posts, DECK_E_CORRUPT of
 *            what reads what another node wrote, DECK_E_TIMEOUT of what opens by name (another node is stopped in there).
 * Handles    A deck_..._t * is a handle, not an address: never look behind it. NULL, a stray pointer, or a handle of another
 *            kind gives DECK_E_INVALID; a destroyed handle gives DECK_E_CLOSED, also when its place has been used again. Such
 *            mistakes never crash, and never reach another object.
 * Waiting    timeout_ms is DECK_FOREVER (-1), 0 (try: wait for nobody), or milliseconds; below -1 it is DECK_E_INVALID.
 *            What a live node has and must give, such as a ring for a clone, a try waits for: far less than the 20 ms allowed.
 *            deck_cond_wait alone may wait longer, also with 0: until it has its mutex back. Calls without a timeout end within
 *            DECK_TIMEOUT (environment, in seconds; 10 without it), except deck_thread_join and deck_done, and what waits for a
 *            node that is stopped in the same call: a second or two. Every wait ends early with DECK_E_CANCELLED after
 *            deck_cancel, with DECK_E_CLOSED when what it waits in is destroyed, and with DECK_E_PEER_LOST when a node that it
 *            needs dies.
 * Threads    Every call may be made from any thread, also from one that DECK did not start or that is ending (in handlers of
 *            exit, destructors of thread-local and static objects), but not in a signal handler; none is a cancellation
 *            point, and none may be cancelled asynchronously (pthread_cancel). A message, a group or a request is used by one
 *            thread at a time, and a second one gets DECK_E_INVALID; all else by several at once.
 * Life       Before deck_init, after deck_done and in a child forked from a node, calls give DECK_E_NOT_INITIALIZED
 *            (deck_strerror, deck_last_error and deck_version always work, deck_set_log except in such a child). Objects
 *            end with deck_done: from then on handles can only be destroyed (threads: joined), and keep descriptors and
 *            address space till then. Who ends its last thread without it (pthread_exit in main) leaves DECK's running.
 * Text       Names and lines are UTF-8 and end with a zero byte.
 * Manners    The library never aborts, exits, prints or installs signal handlers. Interrupted system calls are
 *            resumed, and SIGPIPE never arises. Should the library find itself in a state that its authors thought
 *            impossible, the call gives DECK_E_SYSTEM and says that it is a bug, with one line that helps to find it on stderr.
 *            Alone when malloc has not even some hundred bytes left the process ends: messages and tables are checked before.
 */
#ifndef DECK_H
#define DECK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif


/* ---- Codes -------------------------------------------------------------------------------------------------------
 *
 * Stable numbers. The hundreds tell what the failure is about: 1 this call, 2 a message, 3 a mail box, 4 another node,
 * 5 this node. The number is the error's page in the documentation: DECK_E_TIMEOUT is page D0102.
 */
enum {
  DECK_OK = 0,

  DECK_E_INVALID = -101,         /* an argument that no call accepts; deck_last_error() says which */
  DECK_E_TIMEOUT = -102,         /* the time was over first */
  DECK_E_CANCELLED = -103,       /* deck_cancel ended the wait */
  DECK_E_UNSUPPORTED = -104,     /* not possible in this build, or as this process was started */
  DECK_E_NOT_FOUND = -105,       /* nothing of that name: told by commands, by no call */
  DECK_E_ACCESS = -106,          /* no permission: the job is another user's, or in another network namespace */
  DECK_E_SYSTEM = -107,          /* the operating system refused something, or a bug in DECK */

  DECK_E_TYPE = -201,            /* the next element of the message has another type */
  DECK_E_TRUNCATED = -202,       /* the message has fewer elements of that type */
  DECK_E_TOO_LARGE = -203,       /* more than the budget of this node (DECK_BUDGET), or than memory can hold */
  DECK_E_NOMEM = -204,           /* not enough memory */

  DECK_E_EXISTS = -301,          /* the name is in use */
  DECK_E_CLOSED = -302,          /* destroyed, by its owner or under this handle */
  DECK_E_NOT_LOCKED = -303,      /* deck_cond_wait is over, and the mutex was not to be had again */

  DECK_E_PEER_LOST = -401,       /* another node died; deck_last_error() names it */
  DECK_E_OWNER_DIED = -402,      /* locked, but the last holder is gone */
  DECK_E_CORRUPT = -403,         /* bytes that another node wrote make no sense */

  DECK_E_NOT_INITIALIZED = -501  /* before deck_init, after deck_done, or in a forked child */
};

enum { DECK_FOREVER = -1 };      /* waits without a time limit */

/* A few words for a code. Never NULL, also for a number that is no code. The text is constant. */
const char *deck_strerror(int code);

/* This thread's last failure in full: the call, what happened, which peer ("node 3"), the remedy, and the page.
   Success does not erase it. Never NULL: without a failure it says so. The text belongs to the library and stays
   valid while up to three more calls fail in this thread (so an argument beside it may), or until the thread's end. */
const char *deck_last_error(void);

/* The version of the library that is running, such as "0.1.0". The text is constant. */
const char *deck_version(void);


/* ---- The log -------------------------------------------------------------------------------------------------- */

enum {
  DECK_LOG_ERROR = 1,            /* this node is lost to its job: the others have given it up */
  DECK_LOG_WARN = 2,             /* another node is lost: it died */
  DECK_LOG_INFO = 3,             /* what a user may want to know: nodes come and go */
  DECK_LOG_DEBUG = 4             /* what a developer of DECK may want to know */
};

/* Sends log lines to `write`; NULL: to nobody. Without this call nothing is logged, unless the environment has
   DECK_LOG=error|warn|info|debug, which writes lines to stderr. `line` has no line end and is valid during the call only; `ctx`
   is passed through.
   Threads: `write` is called from any thread, also from several at once and from threads of the library, and may be under way
   in another thread while this call returns: keep it, if a runtime made it, and what `ctx` points to until the process ends. It
   must return soon, not throw, not end its thread (as Python does once it finalizes: call deck_done before), nor call DECK. */
void deck_set_log(void (*write)(int level, const char *line, void *ctx), void *ctx);


/* ---- Nodes ---------------------------------------------------------------------------------------------------- */

/* Makes this process a node of the job that it was started in: by `deck run`, or by DECK_JOB=name in the
   environment; alone, of a job of one node. `argc` and `argv` are those of main, or NULL; they are left as they are.
   Waits at most DECK_TIMEOUT to be let in; waits for no other node.
   DECK_E_INVALID          this process is a node already, another has its place, or a DECK_ variable makes no sense
   DECK_E_NOT_INITIALIZED  this process was forked from a node, or has no socket to the `deck run` that it was told of
   DECK_E_UNSUPPORTED      a manager that DECK cannot join started this process as one of several
   DECK_E_ACCESS           the job belongs to another user, or runs in another network namespace
   DECK_E_CORRUPT          the job runs with another version of DECK
   DECK_E_TIMEOUT, DECK_E_PEER_LOST, DECK_E_NOMEM, DECK_E_SYSTEM   the job cannot be reached: never a lonely node instead
   May be called again after deck_done: the process then joins anew and gets a new number. */
int deck_init(int *argc, char ***argv);

/* Leaves the job in good order. What this node posted is still delivered and no other node is told of a loss, but for
   messages of others that this node posted on, if their memory cannot be reached any more (deck_mbox_retrv). It waits
   for a receiver only if that has such messages and does not read (it is stopped, say): for a second at most. This
   node's mail boxes and semaphores close: threads that wait in them get DECK_E_CLOSED or DECK_E_NOT_INITIALIZED.
   DECK's threads go on; join them before or after. Memory from deck_msg_data stays mapped until its message is
   destroyed. Blocks for three seconds at most, whatever DECK_TIMEOUT is. */
int deck_done(void);

/* This node's number, from 0 in order of joining, never reused; or a negative code. Never waits. */
int deck_node(void);

/* The highest number ever given in the job, plus one; or a negative code. Under `deck run -n N` at least N. Never waits. */
int deck_numnodes(void);

enum {
  DECK_NODE_LIVE = 0,            /* a member of the job */
  DECK_NODE_FROZEN = 1,          /* does not answer (stopped, or starved): nothing is lost if it continues */
  DECK_NODE_LEFT = 2,            /* left by deck_done */
  DECK_NODE_LOST = 3             /* died */
};

/* How node `node` is: one of the four above, or a negative code. Never waits.
   DECK_E_INVALID  that number was never given */
int deck_node_state(int node);


/* ---- Threads -------------------------------------------------------------------------------------------------- */

typedef struct deck_thread deck_thread_t;

/* Starts a thread that runs start(arg). `start` returns, or ends by pthread_exit outside of DECK's calls; no C++ exception
   leaves it, and it does not detach itself. *t is a handle to be given to deck_thread_join; it is written before this call
   returns, which may be after `start` began.
   DECK_E_SYSTEM, DECK_E_NOMEM  no more threads */
int deck_thread_create(deck_thread_t **t, void *(*start)(void *), void *arg);

/* Waits for the thread to end, takes what it returned or exited with into *result (unless that is NULL), and frees t. The only
   call that waits without a limit: whoever needs one lets the thread post a semaphore as its last act. Works after
   deck_done. After DECK_E_CANCELLED the thread is as before, and can be joined.
   DECK_E_INVALID  the thread is the calling one, or another thread joins it already */
int deck_thread_join(deck_thread_t *t, void **result);

/* Ends the thread's present wait in a DECK call, or if it is in none its next, with DECK_E_CANCELLED; once. The
   thread goes on running and decides what to do. Never waits. On a thread that has ended it does nothing. */
int deck_cancel(deck_thread_t *t);


/* ---- Semaphores ----------------------------------------------------------------------------------------------- */

typedef struct deck_sem deck_sem_t;

/* A semaphore for the threads of this node, with `initial` units. The caller destroys it. */
int deck_sem_create(deck_sem_t **s, unsigned initial);

/* Adds one unit, and wakes a thread that waits for one. Never waits.
   DECK_E_INVALID  the semaphore cannot count further */
int deck_sem_post(deck_sem_t *s);

/* Takes one unit; waits up to timeout_ms for it.
   DECK_E_TIMEOUT, DECK_E_CANCELLED, DECK_E_CLOSED  no unit was taken */
int deck_sem_wait(deck_sem_t *s, int timeout_ms);

/* Ends the semaphore; threads that wait in it get DECK_E_CLOSED. Never waits. */
int deck_sem_destroy(deck_sem_t *s);


/* ---- Messages ----------------------------------------------------------------------------------------------------
 *
 * A message is a buffer that the library manages, with typed elements in the order in which they were packed. How many pack
 * calls they came from is not kept: ten packed one by one can be unpacked at once. One thread uses a message at a time.
 */

typedef struct deck_msg deck_msg_t;
typedef struct deck_mbox deck_mbox_t;

/* Types of elements. BYTE is raw, CHAR is text; the sizes of the others are in their names, FLOAT has 4 bytes, DOUBLE 8. */
typedef enum {
  DECK_BYTE = 1,
  DECK_CHAR = 2,
  DECK_INT8 = 3,
  DECK_INT16 = 4,
  DECK_INT32 = 5,
  DECK_INT64 = 6,
  DECK_UINT8 = 7,
  DECK_UINT16 = 8,
  DECK_UINT32 = 9,
  DECK_UINT64 = 10,
  DECK_FLOAT = 11,
  DECK_DOUBLE = 12
} deck_type_t;

/* An empty message with room for capacity_bytes, which may be 0: it grows when packed past its capacity. The caller
   destroys it. Never waits.
   DECK_E_NOMEM  no room */
int deck_msg_create(deck_msg_t **m, size_t capacity_bytes);

/* Appends `count` elements at `data`, which are copied. count 0 packs nothing, and data may then be NULL. If others
   still hold the content (after a post), it is first copied into a fresh buffer. Never waits.
   DECK_E_INVALID    unknown type; data is NULL or lies in the content of m itself
   DECK_E_TOO_LARGE  no memory could hold `count` elements, or elements of another type than the last follow for the
                     2^28th time
   DECK_E_NOMEM */
int deck_msg_pack(deck_msg_t *m, deck_type_t type, const void *data, size_t count);

/* Takes the next `count` elements into `data`, which has room for them. Never waits. After a failure nothing is consumed.
   DECK_E_TYPE       the next element has another type
   DECK_E_TRUNCATED  fewer than `count` of this type before an element of another type, or the end
   DECK_E_INVALID    unknown type; data is NULL or lies in the content of m itself
   DECK_E_TOO_LARGE  no memory could hold `count` elements */
int deck_msg_unpack(deck_msg_t *m, deck_type_t type, void *data, size_t count);

/* Appends the address of a mail box, one's own or a clone, with or without a name: whoever unpacks it can post
   there. Never waits. */
int deck_msg_pack_mbox(deck_msg_t *m, deck_mbox_t *b);

/* Takes the next element, the address of a mail box, and gives a clone of it, which the caller destroys. Waits up
   to timeout_ms to reach the owner.
   DECK_E_TYPE, DECK_E_TRUNCATED  the next element is no mail box, or there is none
   DECK_E_CLOSED, DECK_E_PEER_LOST  the mail box, or its node, is gone */
int deck_msg_unpack_mbox(deck_msg_t *m, deck_mbox_t **b, int timeout_ms);

/* The content, aligned to 64 bytes; NULL for a bad handle. Valid until the next pack, resize, edit, clear, retrv or
   destroy of m. To be written to after deck_msg_resize; for reading only after a post, and in a received message. */
void *deck_msg_data(deck_msg_t *m);

/* For a thread that will read `bytes` bytes of the content, from byte `from` on, at deck_msg_data: brings them (or as
   many as there are) into its core's caches and out of all others, so that whoever writes there next finds no copies
   to be taken away. Where readers do so, a message of 4 to 64 KiB that is written and read takes 0.6 to 0.9 of the time
   between near cores, and up to 256 KiB 0.35 to 0.55 between far ones. Costs as much as reading: leave it where only
   parts are looked at. Fetch long messages by pieces of some KiB, each before it is read. deck_msg_unpack does it by
   itself. Leaves content where it is that was posted more than once or is too long for caches, and all of it where the
   processor has that better (DECK_FETCH). Nobody may write the content meanwhile; it stays as it is. Never waits. */
int deck_msg_fetch(const deck_msg_t *m, size_t from, size_t bytes);

/* A writable address of the same content; copies it first only if others hold the buffer. NULL for a bad handle, or
   when there is no memory for the copy. Valid as that of deck_msg_data. */
void *deck_msg_edit(deck_msg_t *m);

/* Bytes of content; 0 for a bad handle. */
size_t deck_msg_size(const deck_msg_t *m);

/* Bytes of content, all of one type, that fit without growing; 0 for a bad handle. Each change of type takes 8 bytes more. */
size_t deck_msg_capacity(const deck_msg_t *m);

/* Makes the content `bytes` raw bytes (DECK_BYTE), undefined and writable through deck_msg_data: for direct use
   instead of pack. Takes a fresh buffer if others still hold the old one. Never waits.
   DECK_E_NOMEM  and the old content is still there */
int deck_msg_resize(deck_msg_t *m, size_t bytes);

/* Makes the message empty again, for packing. Gives a received buffer back to its sender. Never waits. */
int deck_msg_clear(deck_msg_t *m);

/* The node that posted a received message, or a negative code.
   DECK_E_INVALID  the message was not received */
int deck_msg_sender(const deck_msg_t *m);

/* Ends the message. Posts of it are still delivered. Never waits.
   DECK_E_INVALID  another thread is using it, and it stays */
int deck_msg_destroy(deck_msg_t *m);


/* ---- Mail boxes --------------------------------------------------------------------------------------------------
 *
 * The node that creates a mail box owns it, and only the owner's threads retrieve. If several do, each message goes to exactly
 * one. Threads of any node post, the owner's included. Messages from one thread to one mail box arrive in the order posted.
 * Each sending node has its own budget of messages and bytes in a mail box: a slow one fills only its own.
 */

/* A mail box, possibly with a name by which other nodes clone it; NULL: anonymous, reached only through deck_msg_pack_mbox. The
   caller destroys it. Blocks for a second or two at most, if another node was stopped in here.
   DECK_E_EXISTS   a live mail box of the job has that name
   DECK_E_INVALID  the name is empty, longer than 96 bytes, not UTF-8, or begins with a byte 1
   DECK_E_TIMEOUT  another node, which is stopped, is about to create one with that name, or makes room for a new name
   DECK_E_NOMEM    here; or the job has 16,384 names of mail boxes and groups at a time */
int deck_mbox_create(deck_mbox_t **b, const char *name);

/* What deck_mbox_create_with takes. Start from DECK_MBOX_OPTIONS_DEFAULT, so that programs stay right when later
   versions add members:  deck_mbox_options_t o = DECK_MBOX_OPTIONS_DEFAULT;  o.messages_per_node = 1024; */
typedef struct {
  size_t size_of_struct;         /* sizeof(deck_mbox_options_t) of the program */
  size_t messages_per_node;      /* messages that each sending node may have waiting, at least, up to 57,344;
                                    0: the default, 28 */
  size_t bytes_per_node;         /* bytes of those that are handed over, at least; 0: the default, 64 MiB. If none
                                    waits, one of any size may. Short ones lie in the ring and are not counted */
} deck_mbox_options_t;

#define DECK_MBOX_OPTIONS_DEFAULT { sizeof(deck_mbox_options_t), 0, 0 }

/* Like deck_mbox_create, with options; NULL: the default ones.
   DECK_E_INVALID      a value out of range, or size_of_struct is not set
   DECK_E_UNSUPPORTED  an option that this version of the library does not know is not 0 */
int deck_mbox_create_with(deck_mbox_t **b, const char *name, const deck_mbox_options_t *o);

/* A clone of the mail box with that name, to post to it; waits up to timeout_ms until the name exists and its owner is
   reached. The caller destroys it. Of a mail box of this node it is a second handle, which also retrieves.
   DECK_E_TIMEOUT    no such name in that time
   DECK_E_PEER_LOST  its owner died meanwhile; DECK_E_NOMEM  here or there, or the mail box has 1,280 rings */
int deck_mbox_clone(deck_mbox_t **b, const char *name, int timeout_ms);

/* Posts the content of m. Returns as soon as m may be used again, for every size: it waits, up to timeout_ms, only for room,
   never for the receiver to retrieve, wake up or run. The content stays readable and can be posted again: one message to many
   mail boxes is one buffer. A received message is posted on without a copy. After a failure nothing was posted.
   DECK_E_TIMEOUT    no room in that time, in the mail box or in this node's budget (DECK_BUDGET); DECK_E_TOO_LARGE, at
                     once, if it is larger than that
   DECK_E_CLOSED, DECK_E_PEER_LOST  the mail box, or its node, is gone; DECK_E_NOMEM  for the owner's own ring, at its first */
int deck_mbox_post(deck_mbox_t *b, deck_msg_t *m, int timeout_ms);

/* Retrieves the next message; it replaces the content of m, with unpacking at its start. Waits up to timeout_ms.
   DECK_E_TIMEOUT, DECK_E_CLOSED    nothing came in that time; the mail box was destroyed
   DECK_E_INVALID    b is a clone of another node's mail box: only the owner's threads retrieve
   DECK_E_NOMEM      for a message that is copied, or to map the memory in which one lies: it stays, and can be had later
   DECK_E_PEER_LOST  a node that had cloned the mail box died; told once for each, after all that it had posted. Also
                     of one that left, if messages are lost that it had posted on and whose memory cannot be reached
                     any more; deck_last_error() counts them. Retrieve again.
   DECK_E_CORRUPT    what a node wrote makes no sense: what else it posted here is dropped, its clone closed. Retrieve again. */
int deck_mbox_retrv(deck_mbox_t *b, deck_msg_t *m, int timeout_ms);

/* Waits up to timeout_ms until one of n mail boxes of this node has something to retrieve (a message, or a loss to
   be told), and puts its place in the array into *which. Another thread may retrieve it first: then retrieve with a
   timeout of 0. A long wait for more than 128 takes a thread for each further 127 while it lasts.
   DECK_E_INVALID  n is 0, boxes or which is NULL, or one of them is no mail box of this node */
int deck_mbox_select(deck_mbox_t *const *boxes, size_t n, size_t *which, int timeout_ms);

/* A descriptor that is readable while there is something to retrieve: for poll, epoll and event loops. What is there now, or
   left after a retrv, shows at once; what is posted to an empty mail box some ten microseconds later (a millisecond with more
   than 120 of them, some with thousands), by a thread that the first call starts (more, for so many). Costs posters nothing
   unless asked for. Do not read from it or close it: deck_mbox_destroy does, so take it out of event loops first. Never waits.
   DECK_E_INVALID  b is a clone of another node's mail box; DECK_E_SYSTEM  no descriptor or thread is to be had */
int deck_mbox_fd(deck_mbox_t *b);

/* Counters since the creation of the mail box (owner) or since the clone (clone), of this node. */
typedef struct {
  uint64_t posted;               /* messages posted */
  uint64_t retrieved;            /* messages retrieved */
  uint64_t bytes_posted;         /* bytes of content of those */
  uint64_t bytes_retrieved;
  uint64_t waits;                /* retrieves and posts that slept, until there was a message or room */
  uint64_t held_back;            /* posts that found no room at first */
  uint64_t by_short;             /* messages retrieved (owner) or posted (clone): in a packet of the ring, */
  uint64_t by_buffered;          /* through a copy, */
  uint64_t by_zero_copy;         /* handed over without a copy */
  uint64_t lanes;                /* rings of their own that single threads of this node have, having held one another up */
  uint64_t reserved[6];          /* for later versions; 0 */
} deck_mbox_stats_t;

/* Reads the counters into *s. Never waits. */
int deck_mbox_stats(const deck_mbox_t *b, deck_mbox_stats_t *s);

/* Ends the handle. Never waits for receivers.
   Owner: the mail box closes; threads that wait in it, and posters of all nodes, get DECK_E_CLOSED; what was not
   retrieved is dropped; the name is free on return.
   Clone: lets go; what was posted through it is delivered, and a call under way in it ends by its own timeout. */
int deck_mbox_destroy(deck_mbox_t *b);


/* ---- Groups and collectives --------------------------------------------------------------------------------------
 *
 * A group is `size` threads of any nodes that meet under a name. Each has a handle of its own and an index, 0 to size - 1.
 * All members call the same collectives in the same order, with the same root, type, operation and count (the forms
 * ending in v: with counts that fit). A call returns when this member's part is done, which is after all have come to it
 * (unless the group was joined with DECK_COMPLETION_OWN).
 *
 * Sizes      Anything from 0 up, also more than this node's budget: long data travels in pieces. Arrays that lie in the
 *            content of a message made in this node (deck_msg_data, deck_msg_edit), with more than 16 KiB for each receiver,
 *            are read there by the others, without a copy; in the forms ending in v they are copied.
 * Arrays     `in` and `out` do not overlap (DECK_E_INVALID); reduce, allreduce and scan also take one array for both, and copy
 *            it. What a member does not need may be NULL: out of a gather or reduce except at the root, in of a scatter except
 *            at the root, and their counts.
 *            After a call that failed, `out` (data of a bcast) is undefined: a part of it may have been written.
 * Bits       Reductions fold in the order of indexes: the same inputs give the same bits in every run. Integers wrap; BYTE is
 *            unsigned, CHAR is C's char. MIN and MAX of floats give NaN if one is; AND, OR and XOR do not exist for floats.
 * Waiting    DECK_E_TIMEOUT and DECK_E_CANCELLED: deck_last_error() names the members that are absent. Nothing is lost: the
 *            same call again with the same arrays goes on where it was, and until then all others are DECK_E_INVALID; leave
 *            those arrays as they are. Others may read a copy of a long one from then on, for which the first such end, also of
 *            a try, takes time and memory (100 MB: 50 ms). The same after DECK_E_NOMEM: no memory for what this node gives.
 * Loss       A member that died or left is named to all whose calls need it: DECK_E_PEER_LOST or DECK_E_CLOSED, now and
 *            later. What is left to do is to leave.
 * Mistakes   Members that call different things get DECK_E_INVALID, all of them, and the group goes on. DECK_E_TOO_LARGE: no
 *            memory could hold so many elements.
 * Threads    A group is used by one thread at a time; a second one gets DECK_E_INVALID.
 */

typedef struct deck_group deck_group_t;

/* What reductions do with two elements. */
typedef enum {
  DECK_SUM = 1,
  DECK_PROD = 2,
  DECK_MIN = 3,
  DECK_MAX = 4,
  DECK_AND = 5,
  DECK_OR = 6,
  DECK_XOR = 7
} deck_op_t;

/* Joins the group `name` of `size` threads, up to 1024, and waits up to timeout_ms until all have come. `index` is 0 to
   size - 1, or -1 in every member: given in order of arrival. The caller leaves it. A name has 1 to 89 bytes. Names of
   groups and of mail boxes do not collide, but a job can have 16,384 of both together at a time. A name can
   be used again, with any size, when all members of its last group have left or died. Once all have come there is a group,
   which nobody ends for want of time: a member whose node cannot be met in time is told of by the first call.
   DECK_E_TIMEOUT, DECK_E_CANCELLED  deck_last_error() names the indexes that are absent
   DECK_E_INVALID  size, index or name cannot be, or another member gave another size
   DECK_E_EXISTS   the index is taken, or all members have come already
   DECK_E_PEER_LOST, DECK_E_CLOSED  a member died, or left, before this one had met it; DECK_E_NOMEM */
int deck_group_join(deck_group_t **g, const char *name, int size, int index, int timeout_ms);

/* When a collective call of a member ends. */
typedef enum {
  DECK_COMPLETION_EVERYONE = 0,  /* when all members have come: each is told in this very call who is absent */
  DECK_COMPLETION_OWN = 1        /* when the member's own part is done, as in MPI: the root of a broadcast waits for nobody */
} deck_completion_t;

/* What deck_group_join_with takes. Start from DECK_GROUP_OPTIONS_DEFAULT, so that programs stay right when later versions
   add members:  deck_group_options_t o = DECK_GROUP_OPTIONS_DEFAULT;  o.completion = DECK_COMPLETION_OWN; */
typedef struct {
  size_t size_of_struct;         /* sizeof(deck_group_options_t) of the program */
  size_t completion;             /* a deck_completion_t */
} deck_group_options_t;

#define DECK_GROUP_OPTIONS_DEFAULT { sizeof(deck_group_options_t), 0 }

/* Like deck_group_join, with options, the same in every member; NULL: the default ones.
 *
 * With DECK_COMPLETION_OWN, bcast, reduce, gather, scatter and scan of up to 16 KiB a block (and 64 KiB at the root) wait only
 * for those from whom the member takes something, and it gets up to 16 calls ahead of the slowest (8 in which it gives more
 * than 32 bytes); all other calls wait for all. The next call that needs the absent tells of them, or one that is so far ahead.
 * Members that call different things get DECK_E_INVALID in that call or in one of the 16 after it, and in the next that waits
 * for all at the latest. When a node has died, each call that has to wait ends with its name.
 * DECK_E_INVALID      also if another member gave other options (all who have come by then get it), a value out of range, or
 *                     size_of_struct is not set
 * DECK_E_UNSUPPORTED  an option that this version of the library does not know is not 0 */
int deck_group_join_with(deck_group_t **g, const char *name, int size, int index, const deck_group_options_t *o,
                         int timeout_ms);

/* This member's index, how many members there are; or a negative code. Never wait. */
int deck_group_index(const deck_group_t *g);
int deck_group_size(const deck_group_t *g);

/* Leaves the group and frees g; its requests can only be destroyed then (DECK_E_CLOSED). Members whose calls need this one get
   DECK_E_CLOSED. Waits a second at most. */
int deck_group_leave(deck_group_t *g);

/* Waits until all members have come. */
int deck_barrier(deck_group_t *g, int timeout_ms);

/* `data` of member `root` to everybody. */
int deck_bcast(deck_group_t *g, int root, void *data, size_t count, deck_type_t type, int timeout_ms);

/* The reduction of all `in`, element by element, to `out` of the root. */
int deck_reduce(deck_group_t *g, int root, const void *in, void *out, size_t count, deck_type_t type, deck_op_t op,
                int timeout_ms);

/* ... to everybody. */
int deck_allreduce(deck_group_t *g, const void *in, void *out, size_t count, deck_type_t type, deck_op_t op,
                   int timeout_ms);

/* ... of members 0 to i to member i. */
int deck_scan(deck_group_t *g, const void *in, void *out, size_t count, deck_type_t type, deck_op_t op, int timeout_ms);

/* `count` elements from everybody to the root, in the order of indexes: out has count x size. */
int deck_gather(deck_group_t *g, int root, const void *in, size_t count, void *out, deck_type_t type, int timeout_ms);

/* Part i of the root's `in`, which has count x size elements, to member i. */
int deck_scatter(deck_group_t *g, int root, const void *in, void *out, size_t count, deck_type_t type, int timeout_ms);

/* `count` elements from everybody to everybody: out has count x size. */
int deck_allgather(deck_group_t *g, const void *in, size_t count, void *out, deck_type_t type, int timeout_ms);

/* Part i of everybody's `in` to member i: in and out have count x size. */
int deck_alltoall(deck_group_t *g, const void *in, size_t count, void *out, deck_type_t type, int timeout_ms);

/* The same with counts for each member, in the order of indexes; blocks lie one behind the other. `count` is this member's
   own. Where a block is not as long as its receiver expects, the receiver gets DECK_E_INVALID. */
int deck_gatherv(deck_group_t *g, int root, const void *in, size_t count, void *out, const size_t *counts,
                 deck_type_t type, int timeout_ms);
int deck_scatterv(deck_group_t *g, int root, const void *in, const size_t *counts, void *out, size_t count,
                  deck_type_t type, int timeout_ms);
int deck_allgatherv(deck_group_t *g, const void *in, size_t count, void *out, const size_t *counts, deck_type_t type,
                    int timeout_ms);
int deck_alltoallv(deck_group_t *g, const void *in, const size_t *send_counts, void *out, const size_t *recv_counts,
                   deck_type_t type, int timeout_ms);

/* Collectives that are started, and waited for later. A start never waits; `in` and counts may be used again when it
   returns, `out` (data of a bcast) belongs to the library until the request has ended, when the result is put there. Requests
   of a group are carried in the order in which they were started, while this member is in a call of the group, not of another:
   wait in the same order in all members, or test in turn. What a short one has to say is said by the start. A blocking call
   first waits for all that was started. An array is copied when its call is started, and a result when it has ended. Arrays of
   more than 16 KiB, and of 16 bytes for each message of this node, in the content of a message made in this node are used where
   they lie: as after a post, writing there before the request has ended needs a new address (deck_msg_edit), that of a copy. */
typedef struct deck_request deck_request_t;

int deck_start_barrier(deck_group_t *g, deck_request_t **r);
int deck_start_bcast(deck_group_t *g, int root, void *data, size_t count, deck_type_t type, deck_request_t **r);
int deck_start_reduce(deck_group_t *g, int root, const void *in, void *out, size_t count, deck_type_t type, deck_op_t op,
                      deck_request_t **r);
int deck_start_allreduce(deck_group_t *g, const void *in, void *out, size_t count, deck_type_t type, deck_op_t op,
                         deck_request_t **r);
int deck_start_scan(deck_group_t *g, const void *in, void *out, size_t count, deck_type_t type, deck_op_t op,
                    deck_request_t **r);
int deck_start_gather(deck_group_t *g, int root, const void *in, size_t count, void *out, deck_type_t type,
                      deck_request_t **r);
int deck_start_scatter(deck_group_t *g, int root, const void *in, void *out, size_t count, deck_type_t type,
                       deck_request_t **r);
int deck_start_allgather(deck_group_t *g, const void *in, size_t count, void *out, deck_type_t type,
                         deck_request_t **r);
int deck_start_alltoall(deck_group_t *g, const void *in, size_t count, void *out, deck_type_t type,
                        deck_request_t **r);
int deck_start_gatherv(deck_group_t *g, int root, const void *in, size_t count, void *out, const size_t *counts,
                       deck_type_t type, deck_request_t **r);
int deck_start_scatterv(deck_group_t *g, int root, const void *in, const size_t *counts, void *out, size_t count,
                        deck_type_t type, deck_request_t **r);
int deck_start_allgatherv(deck_group_t *g, const void *in, size_t count, void *out, const size_t *counts,
                          deck_type_t type, deck_request_t **r);
int deck_start_alltoallv(deck_group_t *g, const void *in, const size_t *send_counts, void *out,
                         const size_t *recv_counts, deck_type_t type, deck_request_t **r);

/* Goes on as far as is possible without waiting. *is_done becomes 1 if the request has ended: its result is in place, and
   r is freed; else 0. Errors are those of the blocking call; r stays, to be destroyed. If deck_last_error() says that an
   earlier call differed (DECK_COMPLETION_OWN), that is told once, and the result is got by testing again. */
int deck_test(deck_request_t *r, int *is_done);

/* Waits up to timeout_ms for the end of the request; then its result is in place, and r is freed. After a timeout it can
   be waited for again. Errors are those of the blocking call; r stays. As for deck_test, a result may be got after one. */
int deck_wait(deck_request_t *r, int timeout_ms);

/* Frees r. The collective, which the other members count on, is carried to its end by later calls; its result is dropped.
   `out` in a message's content may still be written there till then: clear or destroy that message, or take a new address. */
int deck_request_destroy(deck_request_t *r);


/* ---- Shared segments ---------------------------------------------------------------------------------------------
 *
 * Memory under a name, which all nodes map. It is allocated, all of it and zeroed, in the memory of its home, a node. It
 * lives as long as any node has it open, whatever becomes of its home and its creator; then its name is free again. Keep
 * order in it with what follows: mutexes, condition variables, barriers and counters. Each kind has names of its own, of
 * 1 to 95 bytes; a job can have 4,096 at a time: what is open, counters not at 0, mutexes of dead holders, broken barriers.
 */

typedef struct deck_segment deck_segment_t;

/* Creates the segment `name` of `bytes` zeroed bytes in the memory of node home_node; -1: of this one. Waits, no longer than
   DECK_TIMEOUT, for a home that has not joined yet, and until it has the memory. The caller closes it.
   DECK_E_EXISTS   somebody has a segment of that name open; deck_last_error() names a node
   DECK_E_INVALID  an impossible name, 0 bytes, or a home that the job does not expect
   DECK_E_NOMEM    here, or at the home
   DECK_E_SYSTEM   this process has no descriptor left for it
   DECK_E_PEER_LOST, DECK_E_CLOSED  the home died, or left */
int deck_segment_create(deck_segment_t **s, const char *name, size_t bytes, int home_node);

/* Opens the segment `name`, waiting up to timeout_ms until somebody has created it. The caller closes it.
   DECK_E_TIMEOUT  nobody created it in that time, or those who have it are frozen
   DECK_E_NOMEM    this process has no descriptor left for it */
int deck_segment_open(deck_segment_t **s, const char *name, int timeout_ms);

/* Its first byte, aligned to a page; NULL for a bad handle. Valid until the segment is closed. */
void *deck_segment_data(deck_segment_t *s);

/* Its size as it was created; 0 for a bad handle. */
size_t deck_segment_size(const deck_segment_t *s);

/* The node whose memory it is, or a negative code. */
int deck_segment_home(const deck_segment_t *s);

/* Lets go of it: its memory is not to be touched through this handle any more. Never waits. */
int deck_segment_close(deck_segment_t *s);


/* ---- Mutexes -----------------------------------------------------------------------------------------------------
 *
 * One thread of all nodes has a mutex at a time. At first whoever comes takes a free one; a thread that has waited for a
 * millisecond is served before newcomers, and of several the one first that has waited longest. If the thread or the node
 * that holds it ends without unlocking, the next one has it and is told.
 */

typedef struct deck_mutex deck_mutex_t;

/* The mutex `name`, created on its first open, by any node. The caller closes it. */
int deck_mutex_open(deck_mutex_t **m, const char *name);

/* Locks it, waiting up to timeout_ms.
   DECK_E_OWNER_DIED  it IS locked, but its last holder died, left, or ended its thread inside; told once
   DECK_E_TIMEOUT     deck_last_error() names the holder, and says if it is frozen
   DECK_E_INVALID     this thread holds it already */
int deck_mutex_lock(deck_mutex_t *m, int timeout_ms);

/* Unlocks it. Never waits.
   DECK_E_INVALID  this thread does not hold it */
int deck_mutex_unlock(deck_mutex_t *m);

/* Ends the handle; threads that wait through it get DECK_E_CLOSED. The mutex lives on under its name. Never waits.
   DECK_E_INVALID  this thread holds it, be it through another handle, and this one stays */
int deck_mutex_close(deck_mutex_t *m);


/* ---- Condition variables ----------------------------------------------------------------------------------------- */

typedef struct deck_cond deck_cond_t;

/* The condition variable `name`, created on its first open, by any node. The caller closes it. */
int deck_cond_open(deck_cond_t **c, const char *name);

/* Unlocks m, waits up to timeout_ms for a signal, and locks m again. May return for no reason: look at what you wait for,
   and wait again. Getting m back may take up to a second longer, with 0 too, if others hold it.
   After DECK_OK, DECK_E_TIMEOUT, DECK_E_CANCELLED, DECK_E_CLOSED (c was closed) and DECK_E_OWNER_DIED m is locked.
   DECK_E_NOT_LOCKED       the wait is over, but m was not to be had again in time: it is NOT locked
   DECK_E_NOT_INITIALIZED  this node has left: m is not locked
   DECK_E_INVALID          this thread does not hold m */
int deck_cond_wait(deck_cond_t *c, deck_mutex_t *m, int timeout_ms);

/* Wakes the thread that has waited longest, if any waits. m need not be locked. Never waits. */
int deck_cond_signal(deck_cond_t *c);

/* Wakes all threads that wait. Never waits. */
int deck_cond_broadcast(deck_cond_t *c);

/* Ends the handle; threads that wait through it get DECK_E_CLOSED. Never waits. */
int deck_cond_close(deck_cond_t *c);


/* ---- Barriers ---------------------------------------------------------------------------------------------------- */

typedef struct deck_barrier deck_barrier_t;

/* The barrier `name` for `size` threads of any nodes, created on its first open. The caller closes it.
   DECK_E_INVALID  it was opened with another size before, or size is not 1 to 1,048,576 */
int deck_barrier_open(deck_barrier_t **b, const char *name, unsigned size);

/* Waits up to timeout_ms until `size` threads have come. After a failure this thread does not count as having come.
   DECK_E_PEER_LOST  a node died that had the barrier open: now, and in every later call */
int deck_barrier_wait(deck_barrier_t *b, int timeout_ms);

/* Ends the handle; threads that wait through it get DECK_E_CLOSED. Never waits. */
int deck_barrier_close(deck_barrier_t *b);


/* ---- Counters ---------------------------------------------------------------------------------------------------- */

typedef struct deck_counter deck_counter_t;

/* The counter `name`, created with the value 0 on its first open, by any node. The caller closes it. */
int deck_counter_open(deck_counter_t **c, const char *name);

/* Adds `amount`, which may be negative; the new value goes to *value, unless that is NULL. Never waits.
   DECK_E_INVALID  the sum does not fit into 64 bits, and nothing was added */
int deck_counter_add(deck_counter_t *c, int64_t amount, int64_t *value);

/* The value now goes to *value. Never waits.
   DECK_E_INVALID  value is NULL */
int deck_counter_read(deck_counter_t *c, int64_t *value);

/* Waits up to timeout_ms until the value is at_least or more; it goes to *value, unless that is NULL.
   DECK_E_PEER_LOST  a node died that had the counter open. Wait again, if the others can do without it: a death is told
                     once through each handle, to the waits that it falls into or else to the next */
int deck_counter_wait(deck_counter_t *c, int64_t at_least, int64_t *value, int timeout_ms);

/* Ends the handle; threads that wait through it get DECK_E_CLOSED. Never waits. */
int deck_counter_close(deck_counter_t *c);

#ifdef __cplusplus
}
#endif

#endif /* DECK_H */
