/* The MPI twin of apps/povray-farm: process 0 is the manager and hands out slices; all others run POV-Ray on them and send
 * finished lines while a slice is being rendered, then the slice.
 *
 *   mpirun -n 3 povray_farm --scene FILE.pov [--size WxH] [--slices N] [--antialias T] [--patient 1] [--pixels FILE.bin]
 */
#define _GNU_SOURCE
#include "twin.h"

#include <libgen.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORK, LINES, SLICE };
/* Rows that POV-Ray renders together: slices begin at multiples, as in the farm. */
enum { BLOCK = 32 };

static uint32_t width, height, slices;
/* As it was typed, or NULL. */
static const char *threshold;

static uint32_t first_of(uint32_t slice) {
    uint32_t first = first_row(slice, slices, (height + BLOCK - 1) / BLOCK) * BLOCK;
    return first < height ? first : height;
}

static void manage(int workers, bool patient, uint8_t *picture) {
    uint32_t next = 0, finished = 0;
    size_t row = (size_t)width * 3;
    uint8_t *message = malloc(sizeof(uint32_t) + row * height);
    while (finished < slices || workers > 0) {
        MPI_Status status;
        int bytes;
        wait_for_any(patient, &status);
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        MPI_Recv(message, bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (bytes > 0) {
            uint32_t first;
            memcpy(&first, message, sizeof first);
            memcpy(picture + first * row, message + sizeof first, (size_t)bytes - sizeof first);
            finished += status.MPI_TAG == SLICE;
        }
        if (status.MPI_TAG != SLICE)
            continue;
        int order = next < slices ? (int)next : -1;
        MPI_Send(&order, 1, MPI_INT, status.MPI_SOURCE, WORK, MPI_COMM_WORLD);
        next += order >= 0;
        workers -= order < 0;
    }
    free(message);
}

static void post(int tag, uint32_t first, uint32_t last, const uint8_t *pixels) {
    size_t bytes = (size_t)(last - first) * width * 3;
    uint8_t *message = malloc(sizeof first + bytes);
    memcpy(message, &first, sizeof first);
    memcpy(message + sizeof first, pixels, bytes);
    MPI_Send(message, (int)(sizeof first + bytes), MPI_BYTE, 0, tag, MPI_COMM_WORLD);
    free(message);
}

static void post_lines(uint32_t first, uint32_t last, const uint8_t *pixels) {
    post(LINES, first, last, pixels);
}

/* The farm's options. The farm, which is safe Rust, has setpriv ask the kernel for POV-Ray's end with its own, and a shell look whether
 * it was too late: two programs before POV-Ray for each slice. Here the child itself asks. */
static pid_t start(const char *scene, const char *folder, const char *picture, uint32_t first, uint32_t last) {
    char *words[24], text[8][4096];
    int count = 0;
    snprintf(text[0], sizeof text[0], "+I%s", scene);
    snprintf(text[1], sizeof text[1], "+O%s", picture);
    snprintf(text[2], sizeof text[2], "+L%s", folder);
    snprintf(text[3], sizeof text[3], "+W%u", width);
    snprintf(text[4], sizeof text[4], "+H%u", height);
    snprintf(text[5], sizeof text[5], "+SR%u", first + 1);
    snprintf(text[6], sizeof text[6], "+ER%u", last);
    words[count++] = "povray";
    for (int i = 0; i < 7; i++)
        words[count++] = text[i];
    if (threshold) {
        snprintf(text[7], sizeof text[7], "+A%s", threshold);
        words[count++] = text[7];
        words[count++] = "+AM2";
    } else {
        words[count++] = "-A";
    }
    char *rest[] = {"+FP", "-D", "-J", "-P", "+WT1", "-GS", "-GR", "-GD", NULL};
    for (int i = 0; rest[i]; i++)
        words[count++] = rest[i];
    words[count] = NULL;
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (freopen("/dev/null", "w", stdout) && freopen("/dev/null", "w", stderr))
            execvp("povray", words);
        _exit(127);
    }
    return child;
}

static void work(const char *scene) {
    char folder[4096], own[] = "/tmp/povray-twin-XXXXXX", picture[64], state[64];
    snprintf(folder, sizeof folder, "%s", scene);
    char *beside = dirname(folder);
    if (!mkdtemp(own))
        MPI_Abort(MPI_COMM_WORLD, 1);
    snprintf(picture, sizeof picture, "%s/slice.ppm", own);
    snprintf(state, sizeof state, "%s/slice.pov-state", own);
    uint8_t *pixels = malloc((size_t)width * height * 3);
    MPI_Send(NULL, 0, MPI_BYTE, 0, SLICE, MPI_COMM_WORLD);
    for (;;) {
        int slice, status;
        MPI_Recv(&slice, 1, MPI_INT, 0, WORK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (slice < 0)
            break;
        uint32_t first = first_of(slice), last = first_of(slice + 1);
        pid_t child = start(scene, beside, picture, first, last);
        struct pollfd end = {(int)syscall(SYS_pidfd_open, child, 0), POLLIN, 0};
        povray_lines *lines = povray_state(state, width, first, last);
        while (poll(&end, 1, 100) == 0)
            povray_news(lines, post_lines);
        povray_forget(lines);
        close(end.fd);
        waitpid(child, &status, 0);
        if (status != 0 || !povray_rows(picture, width, height, first, last, pixels)) {
            fprintf(stderr, "povray failed on slice %d\n", slice);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        post(SLICE, first, last, pixels);
    }
    unlink(picture);
    rmdir(own);
    free(pixels);
}

int main(int argc, char **argv) {
    int rank, processes;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    size_of(argc, argv, "640x480", &width, &height);
    slices = (uint32_t)number(argc, argv, "--slices", "16");
    threshold = option(argc, argv, "--antialias", NULL);
    if (slices > (height + BLOCK - 1) / BLOCK)
        slices = (height + BLOCK - 1) / BLOCK;
    uint8_t *picture = rank == 0 ? malloc((size_t)width * height * 3) : NULL;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    if (rank == 0) {
        manage(processes - 1, number(argc, argv, "--patient", "0"), picture);
        printf("%.4f s\n", MPI_Wtime() - start);
        save(option(argc, argv, "--pixels", NULL), picture, (size_t)width * height * 3);
    } else {
        work(option(argc, argv, "--scene", ""));
    }
    free(picture);
    MPI_Finalize();
    return 0;
}
