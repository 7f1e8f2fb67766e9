/*
** cmd_doctor.c - "peakproof doctor": what works here, what is missing, and
** what to do about it.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/device.h"
#include "base/version.h"
#include "bench/command.h"
#include "bench/gpu_trial.h"
#include "model/weights_look.h"
#include "run/data_dir.h"

/* One line of the report. */
struct finding {
    const char *what;
    bool ok;
    char text[512];     /* what was found, or what is missing and the remedy */
};

enum { MAX_FINDINGS = 24 };

static bool on_path(const char *program)
{
    const char *path = getenv("PATH");
    char full[4096];

    while (path != NULL && *path != '\0') {
        int n = (int)strcspn(path, ":");
        snprintf(full, sizeof full, "%.*s/%s", n, path, program);
        if (access(full, X_OK) == 0) return true;
        path += n;
        path += *path == ':';
    }
    return false;
}

static void find_data(struct finding *f)
{
    struct err e;
    char *dir = NULL;

    f->what = "data";
    f->ok = data_dir(&dir, &e) == ERR_OK;
    snprintf(f->text, sizeof f->text, "%.500s", f->ok ? dir : e.text);
    free(dir);
}

static void find_gnuplot(struct finding *f)
{
    f->what = "gnuplot";
    f->ok = on_path("gnuplot");
    snprintf(f->text, sizeof f->text, "%s", f->ok
             ? "found: reports get pictures"
             : "not found: reports have tables, .gp and .dat files, but no "
               "pictures (make deps, or apt-get install gnuplot-nox)");
}

static void find_device(const char *name, struct finding *f)
{
    const struct dev_ops *ops;
    struct err e;

    f->what = name;
    f->ok = device_find(name, &ops, &e) == ERR_OK;
    snprintf(f->text, sizeof f->text, "%.500s",
             f->ok ? device_about(name) : e.text);
}

/* Losses have other last digits with other kernels of BLAS: which ones. */
static void find_cpu(struct finding *f)
{
    const char *blas;
    struct err e;

    find_device("cpu", f);
    if (!f->ok) return;
    f->ok = dev_cpu_blas(&blas, &e) == ERR_OK;
    if (f->ok)
        snprintf(f->text, sizeof f->text, "%s; %.300s", device_about("cpu"),
                 blas);
    else
        snprintf(f->text, sizeof f->text, "%.500s", e.text);
}

/* ---- the CUDA module ---------------------------------------------------- */

/* 13000 is 13.0; 0 is none. */
static void put_version(char out[32], int v, int major)
{
    if (v == 0)
        snprintf(out, 32, "none");
    else
        snprintf(out, 32, "%d.%d", v / major, v % major / (major / 100));
}

static void find_libraries(const struct cuda_module *m, struct finding *f)
{
    struct cuda_versions v;
    char driver[32], runtime[32], cublas[32];
    struct err e;

    f->what = "libs";
    f->ok = m->versions(&v, &e) == ERR_OK;
    if (!f->ok) {
        snprintf(f->text, sizeof f->text, "%.500s", e.text);
        return;
    }
    put_version(driver, v.driver, 1000);
    put_version(runtime, v.runtime, 1000);
    put_version(cublas, v.cublas, 10000);
    snprintf(f->text, sizeof f->text, "driver for CUDA %s%s, runtime %s, "
             "cuBLAS %s", driver, v.driver == 0 ? " (install NVIDIA's driver)"
             : "", runtime, cublas);
    f->ok = v.driver != 0;
}

static void find_nccl(const struct cuda_module *m, struct finding *f)
{
    struct cuda_versions v = {0, 0, 0, 0};
    struct err e;

    f->what = "nccl";
    f->ok = m->versions(&v, &e) == ERR_OK && v.nccl != 0;
    if (f->ok)
        snprintf(f->text, sizeof f->text, "%d.%d.%d", v.nccl / 10000,
                 v.nccl / 100 % 100, v.nccl % 100);
    else
        snprintf(f->text, sizeof f->text, "built without it, or no "
                 "libnccl.so.2: ranks share one GPU (install NCCL, then make "
                 "cuda)");
}

/* A GPU counts as good when a kernel has run on it, not when it is listed. */
static void find_gpu(const struct cuda_module *m, int gpu, int n,
                     struct finding *f)
{
    struct cuda_info g;
    struct err e;
    int i, used;

    f->what = "gpu";
    f->ok = m->info(gpu, &g, &e) == ERR_OK &&
            gpu_trial(m, gpu, &e) == ERR_OK;
    if (!f->ok) {
        snprintf(f->text, sizeof f->text, "%d: %.490s", gpu, e.text);
        return;
    }
    used = snprintf(f->text, sizeof f->text, "%d: %.200s, %d.%d, %.1f of "
                    "%.1f GB free, at %s", gpu, g.name, g.major, g.minor,
                    (double)g.free_bytes / 1e9, (double)g.total_bytes / 1e9,
                    g.bus);
    if (n > 1)
        used += snprintf(f->text + used, sizeof f->text - (size_t)used,
                         ", direct access to:");
    for (i = 0; n > 1 && i < n && i < CUDA_INFO_PEERS; i++)
        if (g.peer[i])
            used += snprintf(f->text + used, sizeof f->text - (size_t)used,
                             " %d", i);
}

/* Libraries and GPUs, where the module loads; n is the findings so far. */
static int find_cuda(struct finding f[MAX_FINDINGS], int n)
{
    const struct cuda_module *m;
    struct err e;
    int gpus, i;

    if (device_module(&m, &e) != ERR_OK) return n;
    find_libraries(m, &f[n++]);
    find_nccl(m, &f[n++]);
    if (m->count(&gpus, &e) != ERR_OK) return n;
    for (i = 0; i < gpus && n < MAX_FINDINGS; i++)
        find_gpu(m, i, gpus, &f[n++]);
    return n;
}

static int print_json(const struct finding *f, int n, struct err *e)
{
    json_t *v = json_object(), *list = json_array();
    int i;

    for (i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:s, s:b, s:s}", "what",
                                              f[i].what, "ok", f[i].ok,
                                              "text", f[i].text));
    json_object_set_new(v, "format", json_integer(1));
    json_object_set_new(v, "version", json_string(peakproof_version));
    json_object_set_new(v, "findings", list);
    return out_json(v, e);
}

static int print(const struct args *a, const struct finding *f, int n,
                 struct err *e)
{
    struct buf b = BUF_INIT;
    int i;

    if (a->json) return print_json(f, n, e);
    for (i = 0; i < n; i++)
        buf_printf(&b, "%-8s %-3s %s\n", f[i].what, f[i].ok ? "ok" : "-",
                   f[i].text);
    return out_put(&b, e);
}

/* ---- a folder of weights ------------------------------------------------- */

static struct finding finding(const char *what, bool ok, const char *text,
                              size_t len)
{
    struct finding f = {.what = what, .ok = ok};

    snprintf(f.text, sizeof f.text, "%.*s",
             (int)(len < sizeof f.text ? len : sizeof f.text - 1), text);
    return f;
}

/* What the folder holds, what is missing, what lies beside. */
static int look_at(const struct args *a, const char *folder, struct err *e)
{
    struct finding f[MAX_FINDINGS];
    struct stored_look w;
    const char *p;
    int n = 0, rc = stored_look(folder, &w, e);

    if (rc != ERR_OK) {
        stored_look_free(&w);
        return rc;
    }
    f[n++] = finding("weights", w.trouble.len == 0, buf_text(&w.held),
                     w.held.len);
    for (p = buf_text(&w.trouble); *p != '\0' && n < MAX_FINDINGS - 1;
         p += strcspn(p, "\n") + 1)
        f[n++] = finding("trouble", false, p, strcspn(p, "\n"));
    if (w.beside.len > 0)
        f[n++] = finding("beside", true, buf_text(&w.beside), w.beside.len);
    rc = print(a, f, n, e);
    if (rc == ERR_OK && w.trouble.len > 0)
        rc = err_set(e, ERR_INPUT, "doctor: %s: does not load: %.*s", folder,
                     (int)strcspn(w.trouble.data, "\n"), w.trouble.data);
    stored_look_free(&w);
    return rc;
}

static int run(const struct args *a, struct err *e)
{
    const char *folder = args_text(a, "weights");
    struct finding f[MAX_FINDINGS];
    int n = 0, i, rc;

    if (folder != NULL) return look_at(a, folder, e);
    find_data(&f[n++]);
    find_gnuplot(&f[n++]);
    for (i = 0; device_names[i] != NULL; i++)
        if (strcmp(device_names[i], "cpu") == 0) find_cpu(&f[n++]);
        else find_device(device_names[i], &f[n++]);
    n = find_cuda(f, n);
    rc = print(a, f, n, e);
    if (rc == ERR_OK && !f[0].ok)
        rc = err_set(e, ERR_RUN, "doctor: %.800s", f[0].text);
    return rc;
}

static const char *const examples[] = {
    "peakproof doctor", "peakproof doctor --json",
    "peakproof doctor --weights Qwen3-30B-A3B", NULL
};

static const struct command_option options[] = {
    {.name = "weights", .arg = "DIR",
     .help = "say what a folder of config.json and safetensors files holds, "
             "and whether it loads (exit 3 where it does not)"},
    {.name = NULL},
};

const struct command cmd_doctor = {
    .name = "doctor",
    .synopsis = "[--weights DIR] [--json]",
    .about = "what works on this machine, what is missing, what to do about it",
    .text = "Looks for the data folder, gnuplot and each device, and where "
            "the CUDA module loads for its libraries and GPUs; each GPU has "
            "to run a kernel, a product and a copy. A device that is not "
            "there is no failure; a missing data folder is.",
    .operand = "nothing",
    .exits = {ERR_RUN, ERR_INPUT},
    .option = options,
    .examples = examples,
    .run = run,
};
