/* A stand-in for libnvidia-ml.so.1. The file named by FAKE_NVML_STATE is read anew on every call, one line each:
 *
 *   driver GENERATION                  0: no driver is loaded; another number: as after a restart of the driver
 *   hang SECONDS                       utilisation is answered only after so long
 *   gpu UUID NAME UTIL MEM_UTIL USED_MIB TOTAL_MIB ECC TEMPERATURE LOST PID,PID,...|-
 *
 * GPUs are numbered in the order of their lines. ECC -1: not supported. LOST 1: every call on it fails with 15.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, NO_DRIVER = 9, LOST = 15 };
enum { MOST_GPUS = 16, MOST_PIDS = 32 };

struct gpu {
    char uuid[80], name[80];
    unsigned util, mem_util, used_mib, total_mib, temperature, pids[MOST_PIDS], pid_count;
    int ecc, lost;
};
struct process { unsigned pid; unsigned long long used; unsigned instance, compute; };

static struct gpu gpus[MOST_GPUS];
static unsigned gpu_count, generation, hang_s, opened; /* opened: the generation that was initialised, 0 = none */

static void read_pids(struct gpu *gpu, char *list) {
    for (char *pid = strtok(list, ","); pid && gpu->pid_count < MOST_PIDS; pid = strtok(NULL, ","))
        if (*pid != '-') gpu->pids[gpu->pid_count++] = (unsigned)strtoul(pid, NULL, 10);
}

static int read_state(void) {
    const char *path = getenv("FAKE_NVML_STATE");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[1024], pids[512];
    gpu_count = generation = hang_s = 0;
    if (!file) return NO_DRIVER;
    memset(gpus, 0, sizeof gpus);
    while (fgets(line, sizeof line, file)) {
        struct gpu *gpu = &gpus[gpu_count];
        sscanf(line, "driver %u", &generation);
        sscanf(line, "hang %u", &hang_s);
        if (gpu_count < MOST_GPUS
            && sscanf(line, "gpu %79s %79s %u %u %u %u %d %u %d %511s", gpu->uuid, gpu->name, &gpu->util,
                      &gpu->mem_util, &gpu->used_mib, &gpu->total_mib, &gpu->ecc, &gpu->temperature, &gpu->lost, pids)
                   == 10) {
            read_pids(gpu, pids);
            gpu_count++;
        }
    }
    fclose(file);
    return generation ? OK : NO_DRIVER;
}

static int ready(void) {
    int status = read_state();
    if (status) return status;
    return opened == generation ? OK : UNINITIALIZED;
}

/* A handle is the address of a slot; it is looked up again by every call. */
static int at(void *handle, struct gpu **found) {
    int status = ready();
    if (status) return status;
    struct gpu *gpu = handle;
    if (gpu < gpus || gpu >= gpus + gpu_count) return INVALID;
    *found = gpu;
    return gpu->lost ? LOST : OK;
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    int status = read_state();
    if (!status) opened = generation;
    return status;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { opened = 0; return OK; }
const char *nvmlErrorString(int status) { return status == LOST ? "GPU is lost" : "an error of the stand-in"; }

int nvmlDeviceGetCount_v2(unsigned *count) {
    int status = ready();
    *count = gpu_count;
    return status;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    int status = ready();
    if (status) return status;
    if (index >= gpu_count) return INVALID;
    *handle = &gpus[index];
    return gpus[index].lost ? LOST : OK;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    int status = ready();
    if (status) return status;
    for (unsigned i = 0; i < gpu_count; i++)
        if (!strcmp(uuid, gpus[i].uuid)) {
            *handle = &gpus[i];
            return gpus[i].lost ? LOST : OK;
        }
    return NOT_FOUND;
}

#define FOR(handle) struct gpu *gpu; int status = at(handle, &gpu); if (status) return status

int nvmlDeviceGetUUID(void *handle, char *text, unsigned size) { FOR(handle); snprintf(text, size, "%s", gpu->uuid); return OK; }
int nvmlDeviceGetName(void *handle, char *text, unsigned size) { FOR(handle); snprintf(text, size, "%s", gpu->name); return OK; }
int nvmlDeviceGetUtilizationRates(void *handle, unsigned *rates) {
    FOR(handle);
    if (hang_s) sleep(hang_s);
    rates[0] = gpu->util;
    rates[1] = gpu->mem_util;
    return OK;
}
int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long *memory) {
    FOR(handle);
    memory[0] = (unsigned long long)gpu->total_mib << 20;
    memory[2] = (unsigned long long)gpu->used_mib << 20;
    memory[1] = memory[0] - memory[2];
    return OK;
}
int nvmlDeviceGetTotalEccErrors(void *handle, int type, int counter, unsigned long long *count) {
    FOR(handle);
    (void)type, (void)counter;
    if (gpu->ecc < 0) return UNSUPPORTED;
    *count = (unsigned long long)gpu->ecc;
    return OK;
}
int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *degrees) { FOR(handle); (void)sensor; *degrees = gpu->temperature; return OK; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, struct process *found) {
    FOR(handle);
    unsigned room = *count;
    *count = gpu->pid_count;
    if (gpu->pid_count && (!found || room < gpu->pid_count)) return TOO_SMALL;
    for (unsigned i = 0; i < gpu->pid_count; i++) found[i] = (struct process){gpu->pids[i], 1ULL << 20, ~0U, ~0U};
    return OK;
}
