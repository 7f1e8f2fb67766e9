/* cmd_version.c - "peakproof version" */
#include <csv.h>
#include <lua.h>

#include "base/version.h"
#include "bench/command.h"

static int run(const struct args *a, struct err *e)
{
    struct buf b = BUF_INIT;

    if (a->json)
        return out_json(json_pack("{s:i, s:s, s:s, s:s, s:s, s:s}", "format",
                                  1, "release", peakproof_release, "version",
                                  peakproof_version, "lua",
                                  LUA_RELEASE, "jansson",
                                  jansson_version_str(), "compiler",
                                  __VERSION__), e);
    buf_printf(&b, "peakproof %s (%s)\n%s\njansson %s\nlibcsv %d.%d.%d\n"
               "compiler %s\n", peakproof_release, peakproof_version,
               LUA_RELEASE, jansson_version_str(), CSV_MAJOR, CSV_MINOR,
               CSV_RELEASE, __VERSION__);
    return out_put(&b, e);
}

static const char *const examples[] = {"peakproof version", NULL};

const struct command cmd_version = {
    .name = "version",
    .synopsis = "[--json]",
    .about = "versions of the program and of what it is built with",
    .text = "Prints one line for the program (release; tag and commit) and for "
            "each library that it was built with.",
    .operand = "nothing",
    .examples = examples,
    .run = run,
};
