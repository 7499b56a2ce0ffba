/* The least that two processes can do to pass a message: a ring of 64-byte slots in shared memory, one writer, one reader, the
 * flag in the last byte of the slot. No credits, no names, nothing can fail: a limit, not a library.
 *
 * Built several times, since which tricks help depends on the processor:
 *   PREFETCH  the writer asks for the next slot for writing, before it is needed
 *   DEMOTE    the writer pushes the written line towards the shared cache
 *   WIDE      one 64-byte store instead of a copy and a flag (AVX-512)
 *   APART     slots with a free line between them, of which every eleventh is used (docs/design/018-slots-of-two-lines.md)
 *   PAUSE     the reader pauses between two looks
 *   BATON     no ring: one slot that both write in turn (docs/design/019-batons.md) */
#include "peer.h"
#include <sys/mman.h>
#include <sys/wait.h>
#ifdef WIDE
#include <immintrin.h>
#endif

#if defined(BATON)
enum { SLOTS = 1, PITCH = 64, NEXT = 1 };
#elif defined(APART)
enum { SLOTS = 32, PITCH = 128, NEXT = 11 };
#else
enum { SLOTS = 64, PITCH = 64, NEXT = 1 };
#endif
enum { SLOT_BYTES = 64, PAYLOAD_MAX = 62 };

typedef struct {
  unsigned char slots[SLOTS][PITCH] __attribute__((aligned(4096)));
} ring_t;

static ring_t *sending, *receiving;
static uint64_t sent, received;

/* Which of the two processes this is. */
static int side;

/* Never 0, and never that of the lap before; where both write, none of the other side's either. */
static inline unsigned char flag_of(uint64_t position, int writer) {
#ifdef BATON
  return (unsigned char)(position % 127 * 2 + 1 + (unsigned)writer);
#else
  (void)writer;
  return (unsigned char)((position / SLOTS) % 255 + 1);
#endif
}

static inline unsigned char *slot_of(ring_t *ring, uint64_t position) { return ring->slots[position * NEXT % SLOTS]; }

static inline void peer_send(const void *data, size_t bytes) {
  unsigned char *slot = slot_of(sending, sent), flag = flag_of(sent, side);
  sent++;
#ifdef WIDE
  __m512i line = _mm512_maskz_loadu_epi8(((__mmask64)1 << bytes) - 1, data);
  line = _mm512_mask_blend_epi8((__mmask64)1 << 63, line, _mm512_set1_epi8((char)flag));
  _mm512_store_si512((void *)slot, line);
  __asm__ volatile("" ::: "memory");
#else
  memcpy(slot, data, bytes);
  __atomic_store_n(&slot[SLOT_BYTES - 1], flag, __ATOMIC_RELEASE);
#endif
#ifdef DEMOTE
  __asm__ volatile("cldemote (%0)" ::"r"(slot) : "memory");
#endif
#ifdef PREFETCH
  __asm__ volatile("prefetchw (%0)" ::"r"(slot_of(sending, sent)));
#endif
}

static inline void peer_receive(void *data, size_t bytes) {
  unsigned char *slot = slot_of(receiving, received), flag = flag_of(received, !side);
  received++;
  while (__atomic_load_n(&slot[SLOT_BYTES - 1], __ATOMIC_ACQUIRE) != flag) {
#ifdef PAUSE
    __builtin_ia32_pause();
#endif
  }
  memcpy(data, slot, bytes);
}

#include "pingpong.h"

int main(int argc, char **argv) {
  options_t options = options_of(argc, argv);
  for (int i = 0; i < options.points; i++)
    if (!is(options.measure, "pingpong") || options.at[i] > PAYLOAD_MAX) {
      fprintf(stderr, "a bare ring does pingpong of up to %d bytes\n", PAYLOAD_MAX);
      return 2;
    }
  ring_t *rings = mmap(NULL, 2 * sizeof(ring_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(rings != MAP_FAILED, "mmap");
  memset(rings, 0, 2 * sizeof(ring_t));
  pid_t child = fork_bound();
  int role = child == 0;
  stay_apart(&options, role);
  side = role;
#ifdef BATON
  sending = receiving = &rings[0];
#else
  sending = &rings[role];
  receiving = &rings[!role];
#endif
  pingpong(&options, role);
  int status = 0;
  return role == 0 && (waitpid(child, &status, 0) != child || status != 0);
}
