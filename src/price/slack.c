/* slack.c - see slack.h */
#include <math.h>

#include "base/num.h"
#include "price/slack.h"

#define SMALLEST 512
#define SEGMENT (INT64_C(20) << 20)         /* of large blocks up to */
#define OWN_SEGMENT (INT64_C(10) << 20)     /* and then one each, in steps of */
#define OWN_STEP (INT64_C(2) << 20)
#define WORKSPACE_REST (OWN_STEP - 1024)
#define MOST (INT64_C(1) << 53)
#define DEVIATIONS 3
#define CHEAP 50                /* a part that is soon paid */

/* ---- one block ----------------------------------------------------------- */

/* Holes have no size of their own: one is as likely between s and 2 s as
** between 2 s and 4 s. So with u of 1 MiB it exceeds a block of b by less
** than t with the chance t / (b + t), and of what a block keeps then
**
**   mean     b (ln(1 + u / b) - u / (b + u))          = 3 u^2 / (6 b + 8 u)
**   square   b u (1 + b / (b + u) - 2 b / u ln(1 + u / b)) = u^3 / (3 b + 5 u)
**
** where the fractions are within 11 % for every b from u on. Segments of their
** own have a rest that is known; into those of others they fall as the least of
** them would. */
static int64_t expected(int64_t bytes)
{
    int64_t b = num_min(bytes, OWN_SEGMENT), rest;
    int64_t mean = 3 * LARGE_BLOCK * LARGE_BLOCK / (6 * b + 8 * LARGE_BLOCK);

    if (bytes < OWN_SEGMENT) return mean;
    rest = num_round_up(bytes, OWN_STEP) - bytes;
    return num_max(mean, rest <= LARGE_BLOCK ? rest : 0);
}

static int64_t square(int64_t bytes)
{
    int64_t b = num_min(bytes, OWN_SEGMENT);

    return (INT64_C(1) << 60) / (3 * b + 5 * LARGE_BLOCK);
}

static int64_t root(int64_t x)
{
    int64_t r = (int64_t)sqrt((double)x);

    while (r > 0 && r > x / r) r--;
    while (r + 1 <= x / (r + 1)) r++;
    return r;
}

/* ---- sums ---------------------------------------------------------------- */

static int64_t join_grain(int64_t a, int64_t b)
{
    if (a == 0 || b == 0) return a + b;
    return a <= LARGE_BLOCK || b <= LARGE_BLOCK ? 1 : num_gcd(a, b);
}

/* A segment of its own must not have a rest either. */
static int64_t grain_of(int64_t bytes)
{
    int64_t block = num_round_up(bytes, SMALLEST);

    if (bytes < OWN_SEGMENT) return block;
    return join_grain(block, num_round_up(bytes, OWN_STEP));
}

static void add_rest(struct blocks *b, int64_t rest)
{
    int i = WORKSPACES;

    if (rest <= b->rest[WORKSPACES - 1]) return;
    while (--i > 0 && b->rest[i - 1] < rest) b->rest[i] = b->rest[i - 1];
    b->rest[i] = rest;
}

/* False: no blocks of the large pool. */
static bool count(struct blocks *b, int64_t n, int64_t *bytes, int64_t *mean)
{
    int64_t i, rest;

    if (n == 0 || *bytes == 0) return false;
    b->tensors += n;
    if (*bytes <= LARGE_BLOCK) return false;
    *bytes = num_min(*bytes, MOST);
    *mean = expected(*bytes);
    rest = WORKSPACE_REST - *bytes - *mean;
    b->large += n;
    b->grain = join_grain(b->grain, grain_of(*bytes));
    for (i = 0; rest > 0 && i < num_min(n, WORKSPACES); i++)
        add_rest(b, rest);
    return true;
}

void blocks_add(struct blocks *b, int64_t n, int64_t bytes)
{
    int64_t mean;

    if (!count(b, n, &bytes, &mean)) return;
    b->mean += n * mean;
    b->square += n * square(bytes);
}

void blocks_fresh(struct blocks *b, int64_t n, int64_t bytes)
{
    int64_t mean, fit, rest;

    if (!count(b, n, &bytes, &mean)) return;
    b->square += n * square(bytes);
    if (bytes >= OWN_SEGMENT) {
        b->mean += n * mean;
        return;
    }
    fit = SEGMENT / bytes;          /* the last of a segment may keep it */
    rest = SEGMENT - fit * num_round_up(bytes, SMALLEST);
    if (rest <= LARGE_BLOCK) b->mean += n / fit * num_max(0, rest);
}

void blocks_alike(struct blocks *b, int64_t n, int64_t bytes)
{
    int64_t mean;

    if (!count(b, n, &bytes, &mean)) return;
    b->mean += n * mean;
    b->square += n * n * square(bytes);
}

void blocks_repeat(struct blocks *b)
{
    b->alike += root(b->square);
    b->square = 0;
}

static int64_t half_rest(int64_t bytes, int64_t hole)
{
    int64_t rest;

    if (hole <= LARGE_BLOCK || hole > MOST) return 0;
    rest = num_round_up(num_min(bytes, MOST), hole) - bytes;
    return rest <= LARGE_BLOCK ? num_max(0, rest / 2) : 0;
}

void blocks_in_hole(struct blocks *b, int64_t n, int64_t bytes, int64_t hole,
                    int64_t other)
{
    int64_t half = num_max(half_rest(bytes, hole), half_rest(bytes, other));

    if (bytes <= LARGE_BLOCK || bytes > MOST) return;
    b->mean += n * num_max(0, half - expected(bytes));
}

void blocks_join(struct blocks *b, const struct blocks *other)
{
    int i;

    b->tensors += other->tensors;
    b->large += other->large;
    b->mean += other->mean;
    b->alike += other->alike;
    b->square += other->square;
    b->grain = join_grain(b->grain, other->grain);
    for (i = 0; i < WORKSPACES && other->rest[i] > 0; i++)
        add_rest(b, other->rest[i]);
}

void blocks_grain(struct blocks *b, int64_t bytes)
{
    if (bytes > LARGE_BLOCK)
        b->grain = join_grain(b->grain, grain_of(num_min(bytes, MOST)));
}

void blocks_drop(struct blocks *b, const struct blocks *other)
{
    b->tensors -= other->tensors;
    b->large -= other->large;
    b->mean -= other->mean;
    b->alike -= other->alike;
    b->square -= other->square;
}

/* ---- the bytes ----------------------------------------------------------- */

int64_t blocks_slack(const struct blocks *b, int64_t bytes)
{
    int64_t kept = b->mean, spread;
    int i;

    /* holes between blocks of one grain have it too: nothing is left of them */
    if (b->rest[0] == 0 && join_grain(b->grain, SEGMENT) > LARGE_BLOCK)
        return b->tensors * SMALLEST;
    spread = root(num_sadd(num_smul(b->alike, b->alike),
                           num_smul(DEVIATIONS * DEVIATIONS, b->square)));
    for (i = 0; i < WORKSPACES; i++) kept += b->rest[i];
    kept += num_max(spread, num_min(2 * spread, bytes / CHEAP - kept));
    return b->tensors * SMALLEST + num_min(kept, b->large * LARGE_BLOCK);
}

int64_t blocks_most(int64_t tensors, int64_t large)
{
    return tensors * SMALLEST + large * LARGE_BLOCK;
}
