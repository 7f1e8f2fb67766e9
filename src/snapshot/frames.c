/* frames.c - which frame of a stack names its allocation, see compose.h */
#include <ctype.h>
#include <string.h>

#include "snapshot/compose.h"

static bool ends(const char *s, const char *with)
{
    size_t n = strlen(s), m = strlen(with);

    return n >= m && strcmp(s + n - m, with) == 0;
}

/* A cell of a notebook has no file: <ipython-input-3>, /tmp/ipykernel_1/2.py,
** and neither has code that torch generates. */
static bool is_python(const char *file)
{
    return ends(file, ".py") || strncmp(file, "<ipython", 8) == 0
        || strncmp(file, "<string>", 8) == 0
        || strncmp(file, "<stdin>", 7) == 0;
}

/* torch and Python's own library, by where they are installed. */
static bool is_library(const char *file)
{
    const char *lib = strstr(file, "/lib/python");

    if (strstr(file, "-packages/torch/") != NULL
        || strstr(file, "/torchinductor_") != NULL
        || strncmp(file, "torch/", 6) == 0)
        return true;
    return lib != NULL && strstr(lib, "-packages/") == NULL;
}

const struct stack_frame *compose_user_frame(const struct stacks *s,
                                             uint32_t stack)
{
    uint32_t n = stacks_depth(s, stack);
    const struct stack_frame *python = NULL;

    for (uint32_t i = 0; i < n; i++) {
        const struct stack_frame *f = stacks_at(s, stack, i);

        if (!is_python(f->file)) continue;
        if (!is_library(f->file)) return f;
        if (python == NULL) python = f;
    }
    if (python != NULL) return python;
    return n > 0 ? stacks_at(s, stack, 0) : NULL;
}
