/* The MPI twin of apps/scheduler: processes 0 and 1 are consumers, 2 and 3 producers; more are homes of queues only. The queues
 * lie in windows of their homes and are reached by one-sided calls alone: locks of passive targets for the turns at their ends,
 * atomic counts for what was put in and taken out.
 *
 *   mpirun -n 4 scheduler [--place q0=N,q1=N,q2=N] [--tasks N] [--slots N] [--wait poll|yield|sleep] [--record FILE.json]
 *                         [--history FILE.csv]
 */
#define _GNU_SOURCE
#include "twin.h"

#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>

enum { QUEUES = 3, OF_A_KIND = 2, PROCESSES = 2 * OF_A_KIND, TASK_BYTES = 2048, LINE = 64 };
static const int shares[QUEUES] = {3, 2, 1};

/* A word in the memory of a process. */
struct word {
    MPI_Win window;
    int home;
    MPI_Aint at;
};

struct queue {
    int home;
    int64_t slots;
    /* Slots behind the two counts, each of these in a cache line of its own. */
    MPI_Win memory;
    struct word put_in, taken_out;
    /* The next places, each in a window of its own, whose lock is the turn at that end. */
    struct word tail, head;
};

/* A task that was put into a queue or taken out, and its place in the order of all that ever were in it. */
struct done {
    int64_t place;
    uint32_t queue, producer, number, padding;
};

static struct queue queues[QUEUES];
static struct word arrived, rounds[OF_A_KIND];
static struct done *done;
static size_t done_count;
static enum { POLL, YIELD, SLEEP } manner;

static void fail(const char *format, ...) {
    va_list values;
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int64_t add(const struct word *word, int64_t more) {
    int64_t before = 0;
    MPI_Fetch_and_op(&more, &before, MPI_INT64_T, word->home, word->at, more ? MPI_SUM : MPI_NO_OP, word->window);
    MPI_Win_flush(word->home, word->window);
    return before;
}

static int64_t read_word(const struct word *word) {
    return add(word, 0);
}

/* One-sided calls wake nobody: whoever waits looks again and again. */
static void wait_for(const struct word *word, int64_t least) {
    const struct timespec nap = {0, 20000};
    while (read_word(word) < least) {
        if (manner == YIELD)
            sched_yield();
        else if (manner == SLEEP)
            nanosleep(&nap, NULL);
    }
}

/* The next place at an end of a queue. MPI may put the lock off until something is done under it, so this is read after locking:
 * only then is it this process's turn. */
static int64_t begin_turn(const struct word *end) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, end->home, 0, end->window);
    return read_word(end);
}

static void end_turn(const struct word *end, bool has_moved) {
    if (has_moved)
        add(end, 1);
    MPI_Win_unlock(end->home, end->window);
}

static MPI_Aint slot(const struct queue *queue, int64_t place) {
    return 2 * LINE + (MPI_Aint)(place % queue->slots) * TASK_BYTES;
}

static int64_t put(const struct queue *queue, const uint8_t *task) {
    int64_t place = begin_turn(&queue->tail);
    wait_for(&queue->taken_out, place + 1 - queue->slots);
    MPI_Put(task, TASK_BYTES, MPI_BYTE, queue->home, slot(queue, place), TASK_BYTES, MPI_BYTE, queue->memory);
    /* The task is there before the count says so. */
    MPI_Win_flush(queue->home, queue->memory);
    add(&queue->put_in, 1);
    end_turn(&queue->tail, true);
    return place;
}

/* Whether there was one. */
static bool take(uint32_t number) {
    const struct queue *queue = &queues[number];
    uint8_t task[TASK_BYTES];
    int64_t place = begin_turn(&queue->head);
    if (place == read_word(&queue->put_in)) {
        end_turn(&queue->head, false);
        return false;
    }
    MPI_Get(task, TASK_BYTES, MPI_BYTE, queue->home, slot(queue, place), TASK_BYTES, MPI_BYTE, queue->memory);
    MPI_Win_flush(queue->home, queue->memory);
    add(&queue->taken_out, 1);
    end_turn(&queue->head, true);
    struct done *one = &done[done_count++];
    *one = (struct done){.place = place, .queue = number};
    if (!scheduler_run(task, &one->producer, &one->number))
        fail("task %" PRId64 " of q%u is not what was put in", place, number);
    return true;
}

static void produce(uint32_t producer, uint32_t tasks) {
    uint8_t bytes[TASK_BYTES];
    for (uint32_t number = 0; number < tasks; number++) {
        uint32_t queue = scheduler_priority(producer, number);
        scheduler_task(producer, number, bytes);
        int64_t place = put(&queues[queue], bytes);
        add(&arrived, 1);
        done[done_count++] = (struct done){place, queue, producer, number, 0};
    }
}

/* Rounds through the queues until all tasks have arrived and none is left; no consumer gets more than a round ahead. */
static void consume(int consumer, int64_t all) {
    for (int64_t own = 0;;) {
        for (int other = 0; other < OF_A_KIND; other++)
            if (other != consumer)
                wait_for(&rounds[other], own);
        /* Before the queues are looked at: what arrived until now is in them, or was taken. */
        int64_t seen = read_word(&arrived);
        size_t before = done_count;
        for (uint32_t queue = 0; queue < QUEUES; queue++)
            for (int share = 0; share < shares[queue] && take(queue); share++)
                ;
        if (done_count > before) {
            own++;
            add(&rounds[consumer], 1);
        } else if (seen == all) {
            /* Nobody waits for this one any more. */
            add(&rounds[consumer], all);
            return;
        } else {
            wait_for(&arrived, seen + 1);
        }
    }
}

/* A window of so many zeroed bytes at home. */
static MPI_Win window(int rank, int home, MPI_Aint bytes) {
    MPI_Win made;
    void *memory;
    MPI_Win_allocate(rank == home ? bytes : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &made);
    if (rank == home)
        memset(memory, 0, (size_t)bytes);
    return made;
}

static void open_all(int rank, const int *homes, int64_t slots) {
    MPI_Win shop = window(rank, 0, (1 + OF_A_KIND) * LINE);
    arrived = (struct word){shop, 0, 0};
    for (int consumer = 0; consumer < OF_A_KIND; consumer++)
        rounds[consumer] = (struct word){shop, 0, (1 + consumer) * LINE};
    for (int number = 0; number < QUEUES; number++) {
        int home = homes[number];
        MPI_Win memory = window(rank, home, 2 * LINE + (MPI_Aint)slots * TASK_BYTES);
        queues[number] = (struct queue){
            home, slots, memory,
            .put_in = {memory, home, 0}, .taken_out = {memory, home, LINE},
            .tail = {window(rank, home, LINE), home, 0}, .head = {window(rank, home, LINE), home, 0},
        };
    }
    /* Nobody looks at a word before all are zero. */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, shop);
    for (int number = 0; number < QUEUES; number++)
        MPI_Win_lock_all(MPI_MODE_NOCHECK, queues[number].memory);
}

static void close_all(void) {
    MPI_Win_unlock_all(arrived.window);
    MPI_Win_free(&arrived.window);
    for (int number = 0; number < QUEUES; number++) {
        MPI_Win_unlock_all(queues[number].memory);
        MPI_Win_free(&queues[number].memory);
        MPI_Win_free(&queues[number].tail.window);
        MPI_Win_free(&queues[number].head.window);
    }
}

/* What all processes did, one after the other: process p from ends[p - 1] up to ends[p]. */
static struct done *all_done;
static size_t ends[PROCESSES];
static double times[PROCESSES];

static size_t begin_of(int process) {
    return process > 0 ? ends[process - 1] : 0;
}

static void collect(int rank, int processes, double own) {
    int bytes = (int)(done_count * sizeof *done), *counts = calloc(2 * (size_t)processes, sizeof *counts);
    int *places = counts + processes;
    double *told = calloc((size_t)processes, sizeof *told);
    MPI_Gather(&bytes, 1, MPI_INT, counts, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Gather(&own, 1, MPI_DOUBLE, told, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (int process = 1; process < processes; process++)
        places[process] = places[process - 1] + counts[process - 1];
    if (rank == 0) {
        memcpy(times, told, sizeof times);
        for (int process = 0; process < PROCESSES; process++)
            ends[process] = begin_of(process) + (size_t)counts[process] / sizeof *done;
        all_done = malloc((ends[PROCESSES - 1] + 1) * sizeof *all_done);
    }
    MPI_Gatherv(done, bytes, MPI_BYTE, all_done, counts, places, MPI_BYTE, 0, MPI_COMM_WORLD);
    free(counts);
    free(told);
}

/* Every task ran once, and each queue gave out in the order in which it took in. */
static void check(uint32_t tasks) {
    size_t places = (size_t)tasks * OF_A_KIND;
    /* Which task was put in and taken out at each place of each queue, plus one; whether each task ran. */
    uint64_t *seen[2] = {calloc(QUEUES * places, sizeof **seen), calloc(QUEUES * places, sizeof **seen)};
    bool *has_run = calloc(places, sizeof *has_run);
    for (int process = 0; process < PROCESSES; process++) {
        bool is_producer = process >= OF_A_KIND;
        int64_t last_place[QUEUES] = {-1, -1, -1}, last_number[QUEUES] = {-1, -1, -1};
        for (size_t at = begin_of(process); at < ends[process]; at++) {
            const struct done *one = &all_done[at];
            uint64_t task = (uint64_t)one->producer * tasks + one->number;
            if (one->producer >= OF_A_KIND || one->number >= tasks || scheduler_priority(one->producer, one->number) != one->queue)
                fail("task %u of producer %u was in queue %u", one->number, one->producer, one->queue);
            bool is_next = one->place > last_place[one->queue] && (!is_producer || one->number > last_number[one->queue]);
            if (!is_next || one->place >= (int64_t)places || seen[is_producer][one->queue * places + (size_t)one->place])
                fail("process %d used queue %u out of order at place %" PRId64, process, one->queue, one->place);
            last_place[one->queue] = one->place;
            last_number[one->queue] = one->number;
            seen[is_producer][one->queue * places + (size_t)one->place] = task + 1;
            if (!is_producer && has_run[task])
                fail("task %u of producer %u ran twice", one->number, one->producer);
            has_run[task] |= !is_producer;
        }
    }
    if (memcmp(seen[0], seen[1], QUEUES * places * sizeof **seen) != 0)
        fail("a queue did not give out what it took in, in that order");
    for (size_t task = 0; task < places; task++)
        if (!has_run[task])
            fail("task %zu of producer %zu never ran", task % tasks, task / tasks);
    free(seen[0]);
    free(seen[1]);
    free(has_run);
}

static const char *kind(int process) {
    return process < OF_A_KIND ? "consumer" : "producer";
}

static void count(int process, int *accesses) {
    memset(accesses, 0, QUEUES * sizeof *accesses);
    for (size_t at = begin_of(process); at < ends[process]; at++)
        accesses[all_done[at].queue]++;
}

/* What the scheduler prints, character by character. */
static void tell(uint32_t tasks, const char *record) {
    double longest = 0;
    for (int process = 0; process < PROCESSES; process++)
        longest = times[process] > longest ? times[process] : longest;
    printf("%u tasks of %d bytes in %.2f %s: each ran once, in the order of its queue\n", OF_A_KIND * tasks, TASK_BYTES,
           longest < 1.0 ? longest * 1e3 : longest, longest < 1.0 ? "ms" : "s");
    printf("            node      q0      q1      q2\n");
    for (int process = 0; process < PROCESSES; process++) {
        int of[QUEUES];
        count(process, of);
        printf("%s %-3d%4d%8d%8d%8d\n", kind(process), process % OF_A_KIND, process, of[0], of[1], of[2]);
    }
    printf("home            %8d%8d%8d\n", queues[0].home, queues[1].home, queues[2].home);
    if (record)
        printf("what was read and written where is in %s\n", record);
}

static void save_record(const char *path) {
    char text[4096], *end = text;
    end += sprintf(end, "{\"deck_access_record\": 1, \"program\": \"scheduler\",\n \"processes\": [");
    for (int process = 0; process < PROCESSES; process++)
        end += sprintf(end, "%s{\"id\": \"%s %d\", \"node\": %d}", process ? ", " : "", kind(process), process % OF_A_KIND, process);
    end += sprintf(end, "],\n \"segments\": [");
    for (int queue = 0; queue < QUEUES; queue++)
        end += sprintf(end, "%s{\"id\": \"q%d\", \"home\": %d, \"bytes\": %" PRId64 "}", queue ? ", " : "", queue,
                       queues[queue].home, queues[queue].slots * TASK_BYTES);
    end += sprintf(end, "],\n \"accesses\": [");
    const char *separator = "";
    for (int process = 0; process < PROCESSES; process++) {
        int of[QUEUES];
        count(process, of);
        for (int queue = 0; queue < QUEUES; queue++) {
            if (of[queue] == 0)
                continue;
            end += sprintf(end, "%s\n  {\"process\": \"%s %d\", \"segment\": \"q%d\", \"op\": \"%s\", \"count\": %d, \"size\": %d}",
                           separator, kind(process), process % OF_A_KIND, queue, process < OF_A_KIND ? "read" : "write", of[queue],
                           TASK_BYTES);
            separator = ",";
        }
    }
    end += sprintf(end, "]}\n");
    save(path, text, (size_t)(end - text));
}

/* What each process did, in its order. */
static void save_history(const char *path) {
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) {
        if (path)
            fail("%s cannot be written", path);
        return;
    }
    fprintf(file, "process,queue,place,producer,task\n");
    for (int process = 0; process < PROCESSES; process++)
        for (size_t at = begin_of(process); at < ends[process]; at++)
            fprintf(file, "%s %d,%u,%" PRId64 ",%u,%u\n", kind(process), process % OF_A_KIND, all_done[at].queue,
                    all_done[at].place, all_done[at].producer, all_done[at].number);
    if (fclose(file) != 0)
        fail("%s cannot be written", path);
}

int main(int argc, char **argv) {
    int rank, processes, homes[QUEUES];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    const char *place = option(argc, argv, "--place", "q0=0,q1=0,q2=0"), *way = option(argc, argv, "--wait", "poll");
    uint32_t tasks = (uint32_t)number(argc, argv, "--tasks", "600");
    int64_t slots = number(argc, argv, "--slots", "64");
    manner = strcmp(way, "yield") == 0 ? YIELD : strcmp(way, "sleep") == 0 ? SLEEP : POLL;
    if (sscanf(place, "q0=%d,q1=%d,q2=%d", &homes[0], &homes[1], &homes[2]) != QUEUES)
        fail("use --place q0=0,q1=0,q2=3");
    for (int queue = 0; queue < QUEUES; queue++)
        if (processes < PROCESSES || homes[queue] < 0 || homes[queue] >= processes)
            fail("use 4 processes or more, and place queues on these");
    if (tasks == 0 || tasks % 6 != 0 || slots < 1)
        fail("use --tasks 600 (a multiple of 6) and --slots 64");
    open_all(rank, homes, slots);
    done = malloc((size_t)tasks * OF_A_KIND * sizeof *done);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    if (rank < OF_A_KIND)
        consume(rank, (int64_t)tasks * OF_A_KIND);
    else if (rank < PROCESSES)
        produce((uint32_t)(rank - OF_A_KIND), tasks);
    double own = MPI_Wtime() - start;
    /* Nobody reports while others still work, as in the original. */
    MPI_Barrier(MPI_COMM_WORLD);
    collect(rank, processes, own);
    if (rank == 0) {
        check(tasks);
        const char *record = option(argc, argv, "--record", NULL);
        if (record)
            save_record(record);
        save_history(option(argc, argv, "--history", NULL));
        tell(tasks, record);
    }
    close_all();
    free(done);
    free(all_done);
    MPI_Finalize();
    return 0;
}
