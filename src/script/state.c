/* state.c - see state.h */
#include "script/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"

#define MEMORY_DEFAULT (UINT64_C(256) << 20)
#define INSTRUCTIONS_DEFAULT UINT64_C(200000000)
#define SECONDS_DEFAULT 20  /* of processor time, for one call */
#define STEP 200            /* instructions between two looks of the hook */
#define LONG_TEXT (1 << 20) /* bytes; longer ones are looked after more often */

struct script *script_of(lua_State *L)
{
    struct script *s;

    memcpy(&s, lua_getextraspace(L), sizeof s);
    return s;
}

static int64_t processor_ns(void)
{
    struct timespec t;

    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0) return 0;
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int script_line(lua_State *L, char file[LUA_IDSIZE])
{
    lua_Debug ar;

    *file = '\0';
    for (int level = 0; lua_getstack(L, level, &ar); level++) {
        lua_getinfo(L, "Sl", &ar);
        if (ar.currentline <= 0 || strcmp(ar.source, SCRIPT_PRELUDE) == 0)
            continue;
        memcpy(file, ar.short_src, sizeof ar.short_src);
        return ar.currentline;
    }
    return 0;
}

/* ---- death ---------------------------------------------------------- */

static void note_where(struct script *s)
{
    char file[LUA_IDSIZE];
    int line = s->L != NULL ? script_line(s->L, file) : 0;

    if (line > 0)
        snprintf(s->where, sizeof s->where, "%s:%d: ", file, line);
}

static void die(struct script *s, enum script_death why)
{
    if (s->dead != ALIVE) return;
    s->dead = why;
    note_where(s);
}

/* What killed the script, without a place. */
static void death_text(const struct script *s, char *out, size_t size)
{
    switch (s->dead) {
    case DEAD_MEMORY:
        snprintf(out, size, "the script needs more than %llu %s of memory",
                 (unsigned long long)(s->limit >> 20 > 0 ? s->limit >> 20
                                                         : s->limit),
                 s->limit >> 20 > 0 ? "MiB" : "bytes");
        break;
    case DEAD_INSTRUCTIONS:
        snprintf(out, size, "the script runs more than %llu million "
                 "instructions (does a loop never end?)",
                 (unsigned long long)(s->allowance / 1000000));
        break;
    case DEAD_TIME:
        snprintf(out, size, "the script runs longer than %d s", s->seconds);
        break;
    case DEAD_INTERRUPTED:
        snprintf(out, size, "interrupted");
        break;
    default:
        snprintf(out, size, "out of host memory");
    }
}

static _Noreturn void raise_death(lua_State *L)
{
    char text[160];
    struct script *s = script_of(L);

    death_text(s, text, sizeof text);
    lua_pushfstring(L, "%s%s", s->where, text);
    lua_error(L);
    abort();                /* not reached: lua_error does not return */
}

/* Runs every so many instructions, and before every one once dead. */
static void hook(lua_State *L, lua_Debug *ar)
{
    struct script *s = script_of(L);

    (void)ar;
    if (s->interrupt != NULL && *s->interrupt != 0) die(s, DEAD_INTERRUPTED);
    if (s->left <= (uint64_t)s->step) die(s, DEAD_INSTRUCTIONS);
    if (processor_ns() > s->deadline_ns) die(s, DEAD_TIME);
    if (s->dead != ALIVE) {
        lua_sethook(L, hook, LUA_MASKCOUNT, 1);
        raise_death(L);
    }
    s->left -= (uint64_t)s->step;
}

/* An instruction that compares two texts goes through all their bytes: the
** longer they are, the fewer instructions pass between two looks. */
static void watch_text(struct script *s, size_t bytes)
{
    int step = (int)((uint64_t)STEP * LONG_TEXT / bytes);

    if (step >= s->step || s->dead != ALIVE) return;
    s->step = step > 0 ? step : 1;
    if (lua_gethook(s->L) == hook)
        lua_sethook(s->L, hook, LUA_MASKCOUNT, s->step);
}

void script_charge(lua_State *L, uint64_t work)
{
    struct script *s = script_of(L);

    if (work >= s->left) {
        die(s, DEAD_INSTRUCTIONS);
        raise_death(L);
    }
    s->left -= work;
}

/* ---- memory --------------------------------------------------------- */

static bool fits(const struct script *s, uint64_t more)
{
    return s->used <= s->limit && more <= s->limit - s->used;
}

/* Lua asks again, for the same, after it has collected garbage: only then
** is a refusal final. */
static bool refuse(struct script *s, const void *block, size_t bytes)
{
    note_where(s);
    if (bytes > s->limit ||
        (s->refused == block && s->refused_bytes == bytes))
        die(s, DEAD_MEMORY);
    s->refused = block;
    s->refused_bytes = bytes;
    return true;
}

/* Filling memory is work that the hook does not see: one instruction may
** join megabytes of text. Nothing can be raised here; the hook finds out. */
static void charge_growth(struct script *s, size_t bytes)
{
    uint64_t work = bytes / 64;

    s->left -= work < s->left ? work : s->left;
}

/* lua_Alloc with a limit: memory is refused before the host is asked. */
static void *allocate(void *ud, void *block, size_t old, size_t bytes)
{
    struct script *s = ud;
    void *p;

    if (block == NULL && old == LUA_TSTRING && bytes > LONG_TEXT)
        watch_text(s, bytes);
    if (block == NULL) old = 0;         /* it was a type of object */
    if (bytes == 0) {
        free(block);
        s->used -= old;
        return NULL;
    }
    if (bytes > old && !fits(s, bytes - old) && refuse(s, block, bytes))
        return NULL;
    p = realloc(block, bytes);
    if (p == NULL && bytes > old) {
        s->host_refused = true;
        return NULL;
    }
    s->refused_bytes = 0;
    if (bytes > old) charge_growth(s, bytes - old);
    s->used += bytes;
    s->used -= old;
    return p != NULL ? p : block;       /* Lua counts on shrinking */
}

void script_hold(lua_State *L, uint64_t bytes)
{
    struct script *s = script_of(L);

    if (!fits(s, bytes)) lua_gc(L, LUA_GCCOLLECT, 0);
    if (!fits(s, bytes)) {
        die(s, DEAD_MEMORY);
        raise_death(L);
    }
    s->used += bytes;
}

void script_release(lua_State *L, uint64_t bytes)
{
    script_of(L)->used -= bytes;
}

void script_nomem(lua_State *L)
{
    die(script_of(L), DEAD_HOST);
    raise_death(L);
}

/* n bytes of text, or all if there are fewer; NULL when memory runs out. */
static char *copy_text(const char *text, size_t n)
{
    size_t len = strnlen(text, n);
    char *copy = malloc(len + 1);

    if (copy == NULL) return NULL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

void script_dup(lua_State *L, char **out, const char *text)
{
    char *copy = copy_text(text, SIZE_MAX);

    if (copy == NULL) script_nomem(L);
    free(*out);
    *out = copy;
}

/* ---- errors --------------------------------------------------------- */

/* Message handler: the value raised as text, and a traceback behind it. */
static int on_error(lua_State *L)
{
    const char *text = lua_tostring(L, 1);

    if (text == NULL) {
        if (luaL_callmeta(L, 1, "__tostring") && lua_isstring(L, -1))
            text = lua_tostring(L, -1);
        else
            text = lua_pushfstring(L, "raised a %s instead of a message",
                                   luaL_typename(L, 1));
    }
    luaL_traceback(L, L, text, 1);
    return 1;
}

/* Appends up to n bytes as one line. */
static void put_line(struct buf *b, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        buf_putc(b, c < ' ' || c == 127 ? ' ' : (char)c);
    }
}

/* Whether text begins with "CHUNK:" of the script's own file. */
static bool names_chunk(const struct script *s, const char *text)
{
    size_t n = strlen(s->chunk);

    return strncmp(text, s->chunk, n) == 0 && text[n] == ':';
}

/* Whether text begins with "file:line:". */
static bool names_place(const char *text)
{
    const char *p = strchr(text, ':');

    if (p == NULL || p == text || p[1] < '0' || p[1] > '9') return false;
    for (p++; *p >= '0' && *p <= '9'; p++) continue;
    return *p == ':';
}

/* Frames of a traceback, innermost first, as many as fit: luaL_traceback
** writes one a line after a tab. */
static void put_frames(struct buf *b, const char *frames, size_t room)
{
    for (const char *p = strchr(frames, '\t'); p != NULL;) {
        size_t n = strcspn(++p, "\n");
        if (strncmp(p, "[C]: in ?", 9) != 0) {
            if (b->len + n + 5 > room) return;
            buf_puts(b, "\n    ");
            put_line(b, p, n);
        }
        p = strchr(p + n, '\t');
    }
}

/* What is there with --unsafe alone, and what to use instead. */
static void put_hint(const struct script *s, const char *text, size_t n,
                     struct buf *b)
{
    static const char *const library[] = {"os", "io", "debug", "package",
                                          "coroutine"};
    char global[32];
    size_t i, len;

    for (i = 0; !s->unsafe && i < sizeof library / sizeof *library; i++) {
        const char *at;
        len = (size_t)snprintf(global, sizeof global, "(global '%s')",
                               library[i]);
        at = strstr(text, global);
        if (at == NULL || (size_t)(at - text) + len > n) continue;
        buf_printf(b, " (%s is there with --unsafe alone; options after -- "
                   "and csv.rows{file} need none)", library[i]);
    }
}

/* Fills e from "message\nstack traceback:\n\tframe..." (or a message). */
static int report(const struct script *s, const char *text, struct err *e)
{
    static const char mark[] = "\nstack traceback:";
    const char *frames = NULL, *p;
    struct buf b = BUF_INIT;
    size_t room = e == NULL ? 0 : sizeof e->text - 1, head;

    for (p = text; (p = strstr(p, mark)) != NULL; p++) frames = p;
    head = frames != NULL ? (size_t)(frames - text) : strlen(text);
    if (names_chunk(s, text)) {
        buf_puts(&b, s->path);
        text += strlen(s->chunk);
        head -= strlen(s->chunk);
    } else if (!names_place(text) && strcmp(text, "interrupted") != 0) {
        buf_printf(&b, "%s: ", s->path);
    }
    put_line(&b, text, head < room ? head : room);
    put_hint(s, text, head, &b);
    if (frames != NULL) put_frames(&b, frames + sizeof mark - 1, room);
    if (b.failed) {
        buf_free(&b);
        return err_nomem(e);
    }
    err_set(e, ERR_INPUT, "%s", buf_text(&b));
    buf_free(&b);
    return ERR_INPUT;
}

static int report_death(const struct script *s, struct err *e)
{
    char text[sizeof s->where + 160];
    size_t n = strlen(s->where);

    if (s->dead == DEAD_HOST) return err_nomem(e);
    if (s->dead == DEAD_INTERRUPTED)
        return err_set(e, ERR_INTERRUPTED, "interrupted");
    memcpy(text, s->where, n + 1);
    death_text(s, text + n, sizeof text - n);
    return report(s, text, e);
}

/* The failed call's message is on top of the stack; pops it. */
static int script_error(struct script *s, int status, struct err *e)
{
    static const char nomem[] = "not enough memory";
    const char *text = lua_tostring(s->L, -1);
    int rc;

    if (s->dead == ALIVE && s->host_refused) s->dead = DEAD_HOST;
    /* a growing buffer asks once only, and gives up with this text */
    if (s->dead == ALIVE && (status == LUA_ERRMEM || (text != NULL &&
        strncmp(text, nomem, sizeof nomem - 1) == 0)))
        s->dead = DEAD_MEMORY;
    if (s->dead != ALIVE)
        rc = report_death(s, e);
    else
        rc = report(s, text != NULL ? text : "error in error handling", e);
    lua_pop(s->L, 1);
    return rc;
}

/* ---- calls ---------------------------------------------------------- */

int script_call(struct script *s, int n, int results, struct err *e)
{
    lua_State *L = s->L;
    int handler = lua_gettop(L) - n, status;

    lua_pushcfunction(L, on_error);
    lua_insert(L, handler);
    s->left = s->allowance;
    s->deadline_ns = processor_ns() + (int64_t)s->seconds * 1000000000;
    lua_sethook(L, hook, LUA_MASKCOUNT, s->dead == ALIVE ? s->step : 1);
    status = lua_pcall(L, n, results, handler);
    lua_sethook(L, NULL, 0, 0);
    lua_remove(L, handler);
    if (status != LUA_OK) return script_error(s, status, e);
    if (s->dead == ALIVE) return ERR_OK;
    lua_settop(L, handler - 1);         /* it caught its own death */
    return report_death(s, e);
}

int script_protect(struct script *s, lua_CFunction f, void *ctx, int n,
                   int results, struct err *e)
{
    lua_pushcfunction(s->L, f);
    lua_pushlightuserdata(s->L, ctx);
    lua_rotate(s->L, -(n + 2), 2);
    return script_call(s, n + 1, results, e);
}

/* ---- life ----------------------------------------------------------- */

static bool set_names(struct script *s, const char *path, const char *data_dir)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);

    s->path = copy_text(strcmp(path, "-") == 0 ? "stdin" : path, SIZE_MAX);
    if (s->path == NULL) return false;
    s->chunk = copy_text(slash != NULL ? slash + 1 : s->path, SIZE_MAX);
    s->dir = n > 0 ? copy_text(path, n) : copy_text(".", 1);
    s->data_dir = copy_text(data_dir, SIZE_MAX);
    return s->path != NULL && s->chunk != NULL && s->dir != NULL &&
           s->data_dir != NULL;
}

int script_new(const char *path, const char *data_dir,
               const struct scenario_limits *limits, lua_CFunction open,
               struct script **out, struct err *e)
{
    struct script *s = calloc(1, sizeof *s);
    int rc;

    if (s == NULL) return err_nomem(e);
    s->limit = limits->memory_bytes != 0 ? limits->memory_bytes
                                         : MEMORY_DEFAULT;
    s->allowance = limits->instructions != 0 ? limits->instructions
                                             : INSTRUCTIONS_DEFAULT;
    s->seconds = limits->seconds != 0 ? limits->seconds : SECONDS_DEFAULT;
    s->step = STEP;
    s->interrupt = limits->interrupt;
    s->unsafe = limits->unsafe;
    if (set_names(s, path, data_dir)) s->L = lua_newstate(allocate, s);
    if (s->L == NULL) {
        s->dead = s->refused_bytes > 0 ? DEAD_MEMORY : DEAD_HOST;
        rc = report_death(s, e);
        script_free(s);
        return rc;
    }
    memcpy(lua_getextraspace(s->L), &s, sizeof s);
    rc = script_protect(s, open, NULL, 0, 0, e);
    if (rc != ERR_OK) {
        script_free(s);
        return rc;
    }
    *out = s;
    return ERR_OK;
}

void script_free(struct script *s)
{
    if (s == NULL) return;
    if (s->L != NULL) lua_close(s->L);
    source_free(&s->source);
    buf_free(&s->found);
    buf_free(&s->text);
    free(s->path);
    free(s->chunk);
    free(s->dir);
    free(s->data_dir);
    free(s);
}
