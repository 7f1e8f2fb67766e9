/* cmd_report.c - "peakproof report": tables and plots from a run's files. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "bench/command.h"
#include "report/report.h"
#include "run/data_dir.h"

/* The folder published, in the data folder (installed) or beside lua/ (source
** tree). */
static int find_published(struct buf *out, struct err *e)
{
    char *data = NULL;
    int i, rc = data_dir(&data, e);

    for (i = 0; rc == ERR_OK && i < 2; i++) {
        out->len = 0;
        buf_printf(out, i ? "%s/../reports/published" : "%s/published", data);
        if (out->failed) rc = err_nomem(e);
        else if (access(out->data, R_OK) == 0) break;
    }
    free(data);
    if (rc == ERR_OK && i == 2)
        rc = err_set(e, ERR_RUN, "no folder published in the data folder, "
                     "or beside it (set PEAKPROOF_DATA)");
    return rc;
}

static enum report_format format_of(const char *name)
{
    static const char *const names[] = {"md", "csv", "json", "html"};
    int i;

    for (i = 3; i > 0; i--)
        if (name != NULL && strcmp(name, names[i]) == 0) break;
    return (enum report_format)i;
}

/* The next name of those written, from at on, with its folder. A folder's name
** may have line feeds itself. */
static const char *next_name(const char *dir, const char **at,
                             struct buf *name)
{
    size_t n = strcspn(*at, "\n");

    name->len = 0;
    buf_printf(name, "%s/%.*s", dir, (int)n, *at);
    *at += n + 1;
    return buf_text(name);
}

static int print_names(const struct report_said *said, const char *dir,
                       struct err *e)
{
    const char *s = buf_text(&said->written);
    struct buf text = BUF_INIT, name = BUF_INIT;

    while (*s != '\0') buf_printf(&text, "%s\n", next_name(dir, &s, &name));
    text.failed |= name.failed;
    buf_free(&name);
    return out_put(&text, e);
}

/* What the help says. */
static int print_json(const struct report_said *said, const char *dir,
                      struct err *e)
{
    struct buf name = BUF_INIT;
    json_t *v = json_object(), *files = json_array();
    const char *s = buf_text(&said->written);
    bool pictures = !said->no_gnuplot && said->warning.len == 0;

    while (*s != '\0')
        json_array_append_new(files, js_text(next_name(dir, &s, &name)));
    json_object_set_new(v, "format", json_integer(1));
    json_object_set_new(v, "files", files);
    json_object_set_new(v, "pictures", json_boolean(pictures));
    json_object_set_new(v, "finished", json_boolean(!said->unfinished));
    json_object_set_new(v, "sweep_finished", said->sweep
                        ? json_boolean(!said->sweep_unfinished)
                        : json_null());
    if (name.failed) {
        json_decref(v);
        v = NULL;
    }
    buf_free(&name);
    return out_json(v, e);
}

static void say_lines(const struct buf *lines)
{
    const char *s = buf_text(lines);

    for (; *s != '\0'; s += strcspn(s, "\n") + 1)
        say_warning("%.*s", (int)strcspn(s, "\n"), s);
}

/* Missing gnuplot is a warning: the text does not need it. */
static int run(const struct args *a, struct err *e)
{
    struct buf published = BUF_INIT;
    struct report_said said = {.written = BUF_INIT};
    struct report_options o = {
        .dir = a->n_operand > 0 ? a->operand[0] : "out",
        .format = format_of(args_text(a, "format")), .pictures = true
    };
    int rc = find_published(&published, e);

    o.published = published.data;
    if (rc == ERR_OK) rc = report_write(&o, &said, e);
    if (rc == ERR_OK && said.no_gnuplot)
        say_warning("no gnuplot, so no pictures: the .gp and .dat files are "
                    "there (apt-get install gnuplot-nox)");
    if (rc == ERR_OK) say_lines(&said.warning);
    if (rc == ERR_OK && said.written.len == 0)
        say_warning("%s: no finished case, so there is nothing to report",
                    o.dir);
    else if (rc == ERR_OK && said.unfinished)
        say_warning("%s: the run is not finished: what is written covers the "
                    "cases that are (run --resume goes on)", o.dir);
    if (rc == ERR_OK && said.sweep_unfinished)
        say_warning("%s/sweep: the run is not finished: what is written of "
                    "it covers the cases that are", o.dir);
    if (rc == ERR_OK)
        rc = a->json ? print_json(&said, o.dir, e)
                     : print_names(&said, o.dir, e);
    buf_free(&published);
    report_said_free(&said);
    return rc;
}

static const char *const formats[] = {"md", "csv", "json", "html", NULL};

static const struct command_option options[] = {
    {.name = "format", .arg = "FORMAT", .values = formats,
     .help = "what the tables are written as (default: md)"},
    {.name = NULL},
};

static const char *const examples[] = {
    "peakproof report", "peakproof report --format html out/mine", NULL
};

const struct command cmd_report = {
    .name = "report",
    .synopsis = "[--format md|csv|json|html] [--json] [DIR]",
    .about = "tables and plots from the files of a run",
    .text = "Reads the files that peakproof run wrote into DIR (default: out) "
            "and writes there: accuracy, the dry device's errors "
            "beside the published ones, the same bytes for the same records; "
            "cpu and device, for cases that computed; timing; and each plot "
            "as .dat and .gp, with .svg and .png where gnuplot is "
            "installed.\n\n"
            "Prints the names of the files it wrote. With --json: {format, "
            "files: [...], pictures: were all drawn, finished: did the run "
            "in DIR end, sweep_finished: the one in DIR/sweep (null: there "
            "is none)}. Pages cover the cases that are committed.",
    .option = options,
    .operand = "DIR",
    .max_operands = 1,
    .exits = {ERR_RUN, ERR_INPUT},
    .examples = examples,
    .run = run,
};
