/* slack.c - see slack.h */
#include <assert.h>
#include <math.h>

#include "base/num.h"
#include "price/slack.h"

#define SEGMENT (INT64_C(20) << 20)     /* of large blocks up to OWN_SEGMENT */
#define WORKSPACE_REST (OWN_STEP - 1024)
#define MOST (INT64_C(1) << 53)
/* A normal law exceeds three deviations once in 740 times. */
#define DEVIATIONS 3
/* What two blocks that repeat keep is correlated by no more than a ninth on
** average (pricing.md 13, measured): three deviations of the sum of many are
** one of all alike. */
#define ALIKE_DEVIATIONS 1
/* A planner admits with a tenth on top. While all of it is less than a fiftieth
** the spread counts twice; what could be kept at most, which no wave exceeds,
** is charged up to a hundredth. */
#define CHEAP 50
#define SURE 100

/* ---- one block ----------------------------------------------------------- */

/* Holes have no size of their own: one is as likely between s and 2 s as
** between 2 s and 4 s. So with u of 1 MiB it exceeds a block of b by less
** than t with the chance t / (b + t), and of what a block keeps then
**
**   mean     b (ln(1 + u / b) - u / (b + u))          = 3 u^2 / (6 b + 8 u)
**   square   b u (1 + b / (b + u) - 2 b / u ln(1 + u / b)) = u^3 / (3 b + 5 u)
**
** where the fractions are within 11 % for every b from u on. Blocks that could
** have segments of their own fall into those of others, where the least of
** them stand for all. Where all holes have one size it is known. */
static int64_t expected(int64_t bytes, int64_t hole)
{
    int64_t rest = hole - num_round_up(bytes, SMALLEST_BLOCK);
    int64_t b = num_min(bytes, OWN_SEGMENT);

    if (hole > 0) return rest > 0 && rest <= LARGE_BLOCK ? rest : 0;
    return 3 * LARGE_BLOCK * LARGE_BLOCK / (6 * b + 8 * LARGE_BLOCK);
}

static int64_t square(int64_t bytes, int64_t hole)
{
    int64_t b = num_min(bytes, OWN_SEGMENT);

    return hole > 0 ? 0 : (INT64_C(1) << 60) / (3 * b + 5 * LARGE_BLOCK);
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
    return a < LEAST_GRAIN || b < LEAST_GRAIN ? 1 : num_gcd(a, b);
}

/* A segment of its own must not have a rest either. */
static int64_t grain_of(int64_t bytes)
{
    int64_t block = num_round_up(bytes, SMALLEST_BLOCK);

    if (bytes < OWN_SEGMENT) return block;
    return join_grain(block, num_round_up(bytes, OWN_STEP));
}

static void add_least(struct blocks *b, struct least x)
{
    int i = WORKSPACES - 1;

    if (b->least[i].bytes > 0 && b->least[i].bytes <= x.bytes) return;
    for (; i > 0 && (b->least[i - 1].bytes == 0
                     || b->least[i - 1].bytes > x.bytes); i--)
        b->least[i] = b->least[i - 1];
    b->least[i] = x;
}

/* What one is charged beyond its mean to fill what a workspace leaves. */
static int64_t rest_of(int64_t bytes, int64_t hole)
{
    return WORKSPACE_REST - bytes - expected(bytes, hole);
}

/* Where there is none any more, one more block changes nothing. */
static void count_grain(struct blocks *b, int64_t n, int64_t bytes)
{
    int64_t grain;

    if (b->base == 0 && b->grain > 0 && b->grain < LEAST_GRAIN) return;
    grain = grain_of(bytes);
    b->grain = join_grain(b->grain, grain);
    if (b->base > 0 && grain % b->base != 0) b->odd += n;
}

/* False: no blocks of the large pool. own: what of a block's variance is
** summed. */
static bool count(struct blocks *b, int64_t n, int64_t *bytes, bool own)
{
    int64_t i;

    if (n == 0 || *bytes == 0) return false;
    b->tensors += n;
    if (*bytes <= LARGE_BLOCK) return false;
    *bytes = num_min(*bytes, MOST);
    b->large += n;
    count_grain(b, n, *bytes);
    if (rest_of(*bytes, b->hole) <= 0) return true;
    for (i = 0; i < num_min(n, WORKSPACES); i++)
        add_least(b, (struct least){*bytes,
                                    own ? square(*bytes, b->hole) : 0});
    return true;
}

/* Into the smallest room that segments have, or into a new one: what it keeps
** there is known. */
static void lay(struct blocks *b, int64_t bytes)
{
    int64_t block = num_round_up(bytes, SMALLEST_BLOCK), rest;
    int i, at = ROOMS;

    for (i = 0; i < ROOMS; i++)
        if (b->room[i] >= block && (at == ROOMS || b->room[i] < b->room[at]))
            at = i;
    if (at < ROOMS)
        rest = b->room[at] - block;
    else if (bytes >= OWN_SEGMENT)
        rest = num_round_up(block, OWN_STEP) - block;
    else
        rest = SEGMENT - block;
    for (i = 0; at == ROOMS && i < ROOMS; i++)
        if (b->room[i] == 0) at = i;
    if (rest <= LARGE_BLOCK) b->mean += rest;
    else if (at == ROOMS) b->mean += LARGE_BLOCK;    /* lost sight of */
    if (at < ROOMS) b->room[at] = rest > LARGE_BLOCK ? rest : 0;
}

void blocks_add(struct blocks *b, int64_t n, int64_t bytes)
{
    int64_t i;

    if (!count(b, n, &bytes, true)) return;
    for (i = 0; b->hole > 0 && i < n; i++)
        if (expected(bytes, b->hole) == 0) lay(b, bytes);
    b->mean += n * expected(bytes, b->hole);
    b->square += n * square(bytes, b->hole);
}

/* Segments of their own have a rest that is known; the last block of a shared
** one may keep what is left. */
void blocks_fresh(struct blocks *b, int64_t n, int64_t bytes)
{
    int64_t fit, rest;

    if (!count(b, n, &bytes, true)) return;
    b->square += n * square(bytes, 0);
    if (bytes >= OWN_SEGMENT) {
        rest = num_round_up(bytes, OWN_STEP) - bytes;
        b->mean += n * num_max(expected(bytes, 0),
                               rest <= LARGE_BLOCK ? rest : 0);
        return;
    }
    fit = SEGMENT / bytes;
    rest = SEGMENT - fit * num_round_up(bytes, SMALLEST_BLOCK);
    if (rest <= LARGE_BLOCK) b->mean += n / fit * num_max(0, rest);
}

void blocks_alike(struct blocks *b, int64_t n, int64_t bytes)
{
    if (!count(b, n, &bytes, false)) return;
    b->mean += n * expected(bytes, 0);
    b->square += n * n * square(bytes, 0);
}

void blocks_repeat(struct blocks *b)
{
    b->alike += root(b->square);
    b->square = 0;
}

static int64_t hole_rest(int64_t bytes, int64_t hole)
{
    int64_t row, rest;

    if (hole <= LARGE_BLOCK || hole > MOST) return 0;
    row = num_ceil_div(bytes, hole);
    rest = row * hole - bytes;
    return rest <= LARGE_BLOCK ? rest / num_max(2, row) : 0;
}

void blocks_in_hole(struct blocks *b, int64_t n, int64_t bytes, int64_t hole,
                    int64_t other)
{
    int64_t rest;

    if (bytes <= LARGE_BLOCK || bytes > MOST) return;
    rest = num_max(hole_rest(bytes, hole), hole_rest(bytes, other));
    b->mean += n * num_max(0, rest - expected(bytes, 0));
}

/* How many fit, besides others, or none where they are not such that share. */
static int64_t that_fit(int64_t n, int64_t bytes, int64_t room)
{
    if (n == 0 || bytes <= LARGE_BLOCK || bytes >= OWN_SEGMENT) return 0;
    return room / num_round_up(bytes, SMALLEST_BLOCK);
}

/* A layer's part of what so many blocks of each size leave of a segment. */
static int64_t packed_rest(const int64_t n[3], const int64_t count[3],
                           int64_t rest)
{
    int64_t least = INT64_MAX;
    int i;

    if (rest <= 0 || rest > LARGE_BLOCK) return 0;
    for (i = 0; i < 3; i++)
        if (count[i] > 0) least = num_min(least, rest * n[i] / count[i]);
    return least;
}

int64_t blocks_packed(const int64_t n[3], const int64_t bytes[3])
{
    int64_t c[3], most = 0, room, left, i, k;

    for (i = that_fit(n[0], bytes[0], SEGMENT); i >= 0; i--) {
        room = SEGMENT - i * num_round_up(bytes[0], SMALLEST_BLOCK);
        for (k = that_fit(n[1], bytes[1], room); k >= 0; k--) {
            left = room - k * num_round_up(bytes[1], SMALLEST_BLOCK);
            c[0] = i;
            c[1] = k;
            c[2] = that_fit(n[2], bytes[2], left);
            left -= c[2] * num_round_up(bytes[2], SMALLEST_BLOCK);
            most = num_max(most, packed_rest(n, c, left));
        }
    }
    return most;
}

void blocks_least(struct blocks *b, int64_t bytes)
{
    b->mean = num_max(b->mean, bytes);
}

void blocks_join_all(struct blocks *b, int64_t n, const struct blocks *other)
{
    int64_t i, k;

    if (n == 0) return;
    b->tensors += n * other->tensors;
    b->large += n * other->large;
    b->mean += n * other->mean;
    b->alike += n * other->alike;
    b->square += n * other->square;
    b->grain = join_grain(b->grain, other->grain);
    b->odd += n * other->odd;
    b->packed += n * other->packed;
    for (i = 0; i < WORKSPACES && other->least[i].bytes > 0; i++)
        for (k = 0; k < num_min(n, WORKSPACES); k++)
            add_least(b, other->least[i]);
}

void blocks_join(struct blocks *b, const struct blocks *other)
{
    blocks_join_all(b, 1, other);
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

void blocks_part(struct blocks *b, int64_t n, int64_t m)
{
    if (n >= m) return;
    b->mean = b->mean * n / m;
    b->alike = root(num_smul(b->alike, b->alike) / m * n);
}

void blocks_pack(struct blocks *b)
{
    b->mean = b->packed;
    b->alike = 0;
}

/* ---- the bytes ----------------------------------------------------------- */

int64_t blocks_base(const struct blocks *b)
{
    int64_t base = join_grain(b->grain, SEGMENT);

    return base < LEAST_GRAIN ? 0 : base;
}

/* Of a block whose share of the mean and of a rest is charged already, what
** may still differ is what a whole MiB is more; of numbers in a range the
** variance is at most a quarter of its square. */
static int64_t square_left(const struct least *x)
{
    int64_t range = LARGE_BLOCK - (WORKSPACE_REST - x->bytes);

    return num_min(x->square, range * range / 4);
}

/* Where a hole that several fill comes to its end: a multiple of the grain, one
** as often as another. */
static int64_t end_rest(int64_t grain)
{
    return (grain + LARGE_BLOCK / grain * grain) / 2;
}

int64_t blocks_slack(const struct blocks *b, int64_t bytes)
{
    int64_t kept = b->mean, square = b->square, alike, spread;
    int i;

    /* holes between blocks of one grain have it too: nothing is left of them */
    if (b->least[0].bytes == 0 && blocks_base(b) > LARGE_BLOCK)
        return b->tensors * SMALLEST_BLOCK;
    for (i = 0; i < WORKSPACES && b->least[i].bytes > 0; i++) {
        kept += rest_of(b->least[i].bytes, b->hole);
        square -= b->least[i].square - square_left(&b->least[i]);
    }
    if (b->hole > 0) kept = num_max(kept, end_rest(b->base));
    assert(square >= 0);        /* of blocks_repeat only what is alike */
    alike = ALIKE_DEVIATIONS * b->alike;
    spread = root(num_sadd(num_smul(alike, alike),
                           num_smul(DEVIATIONS * DEVIATIONS, square)));
    kept += num_max(spread, num_min(2 * spread, bytes / CHEAP - kept));
    kept = num_max(kept, bytes / SURE);
    return b->tensors * SMALLEST_BLOCK + num_min(kept, b->large * LARGE_BLOCK);
}

int64_t blocks_most(int64_t tensors, int64_t large)
{
    return tensors * SMALLEST_BLOCK + large * LARGE_BLOCK;
}
