/* A libnvidia-ml that knows two devices and does as the file named by FAKE_NVML says: one word, read at each call.
   fine, gone (the driver), unsupported (all that a device need not tell), old (no second version of the memory figures),
   hang. What computes on the first device is in the file of that name with ".pids": a number a line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, FUNCTION_NOT_FOUND = 13 };

static int ready;

static int says(const char *word) {
    char text[32] = "";
    FILE *file = fopen(getenv("FAKE_NVML"), "r");
    if (file) {
        if (!fgets(text, sizeof text, file)) text[0] = 0;
        fclose(file);
    }
    return strncmp(text, word, strlen(word)) == 0;
}

static int state(void) {
    while (says("hang")) usleep(10000);
    if (says("gone")) return DRIVER_NOT_LOADED;
    return ready ? OK : UNINITIALIZED;
}

int nvmlInit_v2(void) {
    if (says("gone")) return DRIVER_NOT_LOADED;
    ready = 1;
    return OK;
}

int nvmlInitWithFlags(unsigned flags) { return nvmlInit_v2(); }

int nvmlShutdown(void) {
    ready = 0;
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = 2;
    return state();
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    *handle = (void *)(unsigned long)(index + 1);
    return state();
}

int nvmlDeviceGetName(void *handle, char *name, unsigned length) {
    snprintf(name, length, "Made Up %lu", (unsigned long)handle - 1);
    return state();
}

int nvmlDeviceGetMinorNumber(void *handle, unsigned *minor) {
    *minor = (unsigned long)handle - 1;
    return state();
}

struct memory { unsigned long long total, free, used; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };

int nvmlDeviceGetMemoryInfo(void *handle, struct memory *memory) {
    *memory = (struct memory){80000, 80000 - 9000, 9000};
    return state();
}

int nvmlDeviceGetMemoryInfo_v2(void *handle, struct memory_v2 *memory) {
    if (says("old")) return FUNCTION_NOT_FOUND;
    memory->total = 80000;
    memory->reserved = 500;
    memory->used = 7000 + (unsigned long)handle - 1;
    return state();
}

struct utilization { unsigned gpu, memory; };

int nvmlDeviceGetUtilizationRates(void *handle, struct utilization *rates) {
    if (says("unsupported")) return NOT_SUPPORTED;
    *rates = (struct utilization){40 + (unsigned long)handle - 1, 3};
    return state();
}

int nvmlDeviceGetTemperature(void *handle, unsigned sensor, unsigned *degrees) {
    if (says("unsupported")) return NOT_SUPPORTED;
    *degrees = 60 + (unsigned long)handle - 1;
    return state();
}

int nvmlDeviceGetPerformanceState(void *handle, unsigned *performance) {
    *performance = says("unsupported") ? 32 : 8;
    return state();
}

int nvmlDeviceGetTotalEccErrors(void *handle, unsigned kind, unsigned counter, unsigned long long *count) {
    if (says("unsupported")) return NOT_SUPPORTED;
    *count = 10 * counter + 5 - kind;
    return state();
}

struct process { unsigned pid; unsigned long long memory; unsigned instance, part; };

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, struct process *found) {
    char path[4096];
    unsigned room = found ? *count : 0, pid;
    if (says("unsupported")) return NOT_SUPPORTED;
    *count = 0;
    snprintf(path, sizeof path, "%s.pids", getenv("FAKE_NVML"));
    FILE *file = handle == (void *)1 ? fopen(path, "r") : NULL;
    if (file) {
        while (fscanf(file, "%u", &pid) == 1) {
            if (*count < room) found[*count] = (struct process){pid, 100, -1, -1};
            ++*count;
        }
        fclose(file);
    }
    return *count > room ? INSUFFICIENT_SIZE : state();
}

const char *nvmlErrorString(int error) { return "an error"; }
