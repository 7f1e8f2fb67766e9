/* memory.cpp - loads and stores, with what is checked and counted; see ptx.h */
#include <algorithm>
#include <cstring>

#include "run.h"

#define EACH_LANE(l, mask)                                                   \
    for (u32 l##_ = (mask), l; l##_ != 0 &&                                  \
         (l = static_cast<u32>(__builtin_ctz(l##_)), true); l##_ &= l##_ - 1)

static u64 me(const ptx_warp &w, u32 lane)
{
    return stamp_of(ptx_m.epoch, w.syncs, w.number * 32 + lane);
}

[[noreturn]] static void trouble(const ptx_warp &w, u32 lane, const char *what,
                                 u64 addr, bool shared, ptx_trouble t,
                                 const ptx_cell &c, bool writing)
{
    static const char *const says[] = {
        "", "of what the block did not write",
        "of what a cp.async is still to write", "in a race", "in a race"
    };
    u64 stamp = me(w, lane);
    bool write_first = !writing || !stamp_before(c.w, stamp);
    char other[64] = "";

    if (t == RACE && !write_first && (c.r & STAMP_WARPS))
        snprintf(other, sizeof other, " with reads of several warps");
    else if (t == RACE && !write_first && (c.r & STAMP_LANES))
        snprintf(other, sizeof other, " with reads of several lanes");
    else if (t == RACE)
        snprintf(other, sizeof other, " with a %s of thread %u",
                 write_first ? "write" : "read",
                 stamp_thread(write_first ? c.w : c.r));
    if (t == OTHER_BLOCK)
        snprintf(other, sizeof other, " with another block");
    ptx_fault("thread %u: %s %s%s: %s %llu%s%s", w.number * 32 + lane, what,
              says[t], other, shared ? "shared byte" : "address",
              static_cast<unsigned long long>(addr), shared ? "" : ", ",
              shared ? "" : memory_about(addr).c_str());
}

/* ---- addresses ---------------------------------------------------------- */

struct places { u64 at[32]; };

static void find_places(const ptx_warp &w, const ptx_ins &i, u32 place,
                        u32 width, int64_t offset, bool shared, places &p)
{
    u64 add = static_cast<u64>(offset);

    if (place == ~u32{0})
        for (u64 &a : p.at) a = add;
    else if (width == 8)
        for (int l = 0; l < 32; l++) p.at[l] = ptx_at<u64>(w, place)[l] + add;
    else
        for (int l = 0; l < 32; l++) p.at[l] = ptx_at<u32>(w, place)[l] + add;
    if (shared)
        for (u64 &a : p.at) a = static_cast<u32>(a);
    (void)i;
}

static void check_shared(const ptx_warp &w, const places &p, u32 mask,
                         unsigned bytes, const char *what)
{
    u64 size = ptx_m.shared.size();

    EACH_LANE(l, mask) {
        u64 a = p.at[l];
        if (a % bytes != 0)
            ptx_fault("thread %u: %s of %u bytes at shared byte %llu is not "
                      "aligned", w.number * 32 + l, what, bytes,
                      static_cast<unsigned long long>(a));
        if (a + bytes > size)
            ptx_fault("thread %u: %s of %u bytes at shared byte %llu: the "
                      "block has %llu", w.number * 32 + l, what, bytes,
                      static_cast<unsigned long long>(a),
                      static_cast<unsigned long long>(size));
    }
}

static void check_global(const ptx_warp &w, const places &p, u32 mask,
                         unsigned bytes, const char *what)
{
    u64 low = ~u64{0}, high = 0, bits = 0;

    EACH_LANE(l, mask) {
        low = std::min(low, p.at[l]);
        high = std::max(high, p.at[l]);
        bits |= p.at[l];
    }
    if ((bits & (bytes - 1)) == 0 && memory_holds(low, high - low + bytes))
        return;
    EACH_LANE(l, mask) {
        u64 a = p.at[l];
        if (a % bytes != 0)
            ptx_fault("thread %u: %s of %u bytes at address %#llx is not "
                      "aligned", w.number * 32 + l, what, bytes,
                      static_cast<unsigned long long>(a));
        if (!memory_holds(a, bytes))
            ptx_fault("thread %u: %s of %u bytes out of bounds: address "
                      "%#llx, %s", w.number * 32 + l, what, bytes,
                      static_cast<unsigned long long>(a),
                      memory_about(a).c_str());
    }
}

/* ---- counting ----------------------------------------------------------- */

/* Sectors of 32 bytes that the lanes reach. */
static unsigned sectors(const places &p, u32 mask)
{
    u64 seen[32];
    unsigned n = 0;

    EACH_LANE(l, mask) {
        u64 s = p.at[l] / 32;
        unsigned k = n;
        while (k > 0 && seen[k - 1] != s) k--;
        if (k == 0) seen[n++] = s;
    }
    return n;
}

/* Turns of a shared access beyond those that it takes at best: in a turn a
** bank gives one word of 4 bytes. Accesses of 8 and 16 bytes go by halves and
** quarters of the warp. */
static unsigned extra_turns(const places &p, u32 mask, unsigned bytes)
{
    unsigned lanes = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8, extra = 0;

    for (unsigned first = 0; first < 32; first += lanes) {
        u32 part = mask & (lanes == 32 ? ~u32{0}
                                       : ((1u << lanes) - 1) << first);
        u64 word[32][32];
        unsigned char n[32] = {0};
        unsigned most = 1;

        EACH_LANE(l, part)
            for (unsigned b = 0; b < bytes; b += 4) {
                u64 at = p.at[l] / 4 + b / 4;
                unsigned bank = at % 32, k = 0;
                while (k < n[bank] && word[bank][k] != at) k++;
                if (k < n[bank]) continue;
                word[bank][n[bank]++] = at;
                most = std::max<unsigned>(most, n[bank]);
            }
        extra += most - 1;
    }
    return extra;
}

static void count_shared(const places &p, u32 mask, unsigned bytes)
{
    ptx_m.c->count.shared++;
    ptx_m.c->count.conflicts += extra_turns(p, mask, bytes);
}

/* ---- who touched what --------------------------------------------------- */

static void read_shared(const ptx_warp &w, const places &p, u32 mask,
                        unsigned bytes, const char *what)
{
    int shift = ptx_m.c->shared_shift;
    unsigned n = bytes >> shift;

    EACH_LANE(l, mask) {
        ptx_cell *c = &ptx_m.cell[p.at[l] >> shift];
        u64 stamp = me(w, l);
        for (unsigned k = 0; k < n; k++) {
            ptx_trouble t = cell_read(c[k], stamp, ptx_m.since_shared);
            if (t != FINE)
                trouble(w, l, what, p.at[l] + (u64{k} << shift), true, t, c[k],
                        false);
        }
    }
}

/* A lane of the warp may write once more what is there already. */
static bool harmless(ptx_trouble t, const ptx_cell &c, u64 stamp,
                     const unsigned char *old, const unsigned char *now,
                     size_t n)
{
    return t == RACE && stamp_thread(c.w) / 32 == stamp_thread(stamp) / 32 &&
           stamp_epoch(c.w) == stamp_epoch(stamp) && memcmp(old, now, n) == 0;
}

static void write_shared(const ptx_warp &w, u32 lane, u64 at,
                         const unsigned char *data, unsigned bytes, u64 flag)
{
    int shift = ptx_m.c->shared_shift;
    u64 stamp = me(w, lane) | flag;
    unsigned unit = 1u << shift;

    for (unsigned k = 0; k < bytes; k += unit) {
        ptx_cell &c = ptx_m.cell[(at + k) >> shift];
        ptx_trouble t = cell_write(c, stamp, ptx_m.since_shared);
        if (t != FINE && !harmless(t, c, stamp, &ptx_m.shared[at + k],
                                   data + k, unit))
            trouble(w, lane, "write", at + k, true, t, c, true);
    }
}

static void read_global(const ptx_warp &w, const places &p, u32 mask,
                        unsigned bytes)
{
    unsigned n;

    EACH_LANE(l, mask) {
        ptx_cell *c = cells_of(p.at[l], bytes, &n);
        u64 stamp = me(w, l);
        ptx_m.fresh |= c->r < ptx_m.since.launch;
        for (unsigned k = 0; k < n; k++) {
            ptx_trouble t = cell_read(c[k], stamp, ptx_m.since);
            if (t != FINE)
                trouble(w, l, "read", p.at[l], false, t, c[k], false);
        }
    }
}

static void write_global(const ptx_warp &w, u32 lane, u64 at,
                         const unsigned char *data, unsigned bytes)
{
    unsigned n;
    u64 stamp = me(w, lane);
    ptx_cell *c = cells_of(at, bytes, &n);

    for (unsigned k = 0; k < n; k++) {
        ptx_trouble t = cell_write(c[k], stamp, ptx_m.since);
        unsigned part = bytes / n;
        if (t != FINE &&
            !harmless(t, c[k], stamp, reinterpret_cast<unsigned char *>(at) +
                      k * part, data + k * part, part))
            trouble(w, lane, "write", at, false, t, c[k], true);
    }
}

/* ---- loads -------------------------------------------------------------- */

static unsigned char *local_of(const ptx_warp &w, u32 lane, u64 at,
                               unsigned bytes)
{
    size_t each = ptx_m.c->f.local_bytes;

    if (at + bytes > each || at % bytes != 0)
        ptx_fault("thread %u: local byte %llu of %llu", w.number * 32 + lane,
                  static_cast<unsigned long long>(at),
                  static_cast<unsigned long long>(each));
    return &ptx_m.local[(w.number * 32 + lane) * each + at];
}

/* Element k of a lane, as wide as its register. */
static void put(ptx_warp &w, const ptx_ins &i, unsigned k, u32 lane,
                const unsigned char *from)
{
    u64 v = 0;
    u32 place = ptx_m.c->list[i.more + k];

    memcpy(&v, from + k * i.bytes, i.bytes);
    if (i.op == OP_LD_SIGNED) {
        unsigned up = 64 - 8 * i.bytes;
        v = static_cast<u64>(static_cast<int64_t>(v << up) >> up);
    }
    if (i.b == 8) ptx_at<u64>(w, place)[lane] = v;
    else ptx_at<u32>(w, place)[lane] = static_cast<u32>(v);
}

static void load_params(ptx_warp &w, const ptx_ins &i, u32 mask,
                        const places &p)
{
    unsigned bytes = i.bytes * i.d;

    EACH_LANE(l, mask) {
        if (p.at[l] + bytes > ptx_m.c->f.param_bytes || p.at[l] % bytes != 0)
            ptx_fault("byte %llu of the parameters: there are %llu",
                      static_cast<unsigned long long>(p.at[l]),
                      static_cast<unsigned long long>(
                          ptx_m.c->f.param_bytes));
        for (unsigned k = 0; k < i.d; k++)
            put(w, i, k, l, ptx_m.params + p.at[l]);
    }
}

void ptx_load(ptx_warp &w, const ptx_ins &i, u32 mask)
{
    unsigned bytes = i.bytes * i.d;
    ptx_counts &n = ptx_m.c->count;
    places p;

    find_places(w, i, i.a, i.n, i.imm, i.space == SPACE_SHARED, p);
    if (i.space == SPACE_PARAM) return load_params(w, i, mask, p);
    if (i.space == SPACE_SHARED) {
        check_shared(w, p, mask, bytes, "read");
        count_shared(p, mask, bytes);
        read_shared(w, p, mask, bytes, "read");
    } else if (i.space != SPACE_LOCAL) {
        check_global(w, p, mask, bytes, "read");
        n.loads++;
        n.load_bytes += static_cast<unsigned>(__builtin_popcount(mask)) *
                        bytes;
        n.load_sectors += sectors(p, mask);
        read_global(w, p, mask, bytes);
    }
    EACH_LANE(l, mask) {
        const unsigned char *from = i.space == SPACE_SHARED
            ? &ptx_m.shared[p.at[l]]
            : i.space == SPACE_LOCAL ? local_of(w, l, p.at[l], bytes)
            : reinterpret_cast<const unsigned char *>(p.at[l]);
        for (unsigned k = 0; k < i.d; k++) put(w, i, k, l, from);
    }
}

/* ---- stores ------------------------------------------------------------- */

static void take(const ptx_warp &w, const ptx_ins &i, u32 lane,
                 unsigned char *to)
{
    for (unsigned k = 0; k < i.d; k++) {
        u32 place = ptx_m.c->list[i.more + k];
        u64 v = i.b == 8 ? ptx_at<u64>(w, place)[lane]
                         : ptx_at<u32>(w, place)[lane];
        memcpy(to + k * i.bytes, &v, i.bytes);
    }
}

void ptx_store(ptx_warp &w, const ptx_ins &i, u32 mask)
{
    unsigned bytes = i.bytes * i.d;
    bool shared = i.space == SPACE_SHARED;
    ptx_counts &n = ptx_m.c->count;
    unsigned char data[32];
    places p;

    find_places(w, i, i.a, i.n, i.imm, shared, p);
    if (shared) {
        check_shared(w, p, mask, bytes, "write");
        count_shared(p, mask, bytes);
    } else if (i.space != SPACE_LOCAL) {
        check_global(w, p, mask, bytes, "write");
        n.stores++;
        n.store_bytes += static_cast<unsigned>(__builtin_popcount(mask)) *
                         bytes;
        n.store_sectors += sectors(p, mask);
    }
    EACH_LANE(l, mask) {
        unsigned char *to;

        take(w, i, l, data);
        if (shared) {
            write_shared(w, l, p.at[l], data, bytes, 0);
            to = &ptx_m.shared[p.at[l]];
        } else if (i.space == SPACE_LOCAL) {
            to = local_of(w, l, p.at[l], bytes);
        } else {
            write_global(w, l, p.at[l], data, bytes);
            to = reinterpret_cast<unsigned char *>(p.at[l]);
        }
        memcpy(to, data, bytes);
    }
}

/* ---- ldmatrix ----------------------------------------------------------- */

/* Lanes 8n .. 8n + 7 name the rows of the n-th of i.d matrices of 8 x 8 pairs
** of bytes; each matrix is a turn. */
void ptx_matrix(ptx_warp &w, const ptx_ins &i, u32 mask)
{
    u32 rows = i.d == 4 ? ~u32{0} : (1u << (8 * i.d)) - 1;
    uint16_t row[32][8];
    u32 out[4][32];
    places p;

    if (mask != ~u32{0}) ptx_fault("ldmatrix without all 32 lanes");
    find_places(w, i, i.a, i.n, i.imm, true, p);
    check_shared(w, p, rows, 16, "ldmatrix");
    ptx_m.c->count.matrix_loads++;
    ptx_m.c->count.matrix_conflicts += extra_turns(p, rows, 16);
    read_shared(w, p, rows, 16, "ldmatrix");
    EACH_LANE(l, rows) memcpy(row[l], &ptx_m.shared[p.at[l]], 16);
    for (u32 n = 0; n < i.d; n++)
        for (u32 l = 0; l < 32; l++) {
            u32 g = l / 4, t = l % 4 * 2;
            out[n][l] = i.b ? u32{row[8 * n + t + 1][g]} << 16 |
                              row[8 * n + t][g]
                            : u32{row[8 * n + g][t + 1]} << 16 |
                              row[8 * n + g][t];
        }
    for (u32 n = 0; n < i.d; n++)
        memcpy(ptx_at<u32>(w, ptx_m.c->list[i.more + n]), out[n], 128);
}

/* ---- cp.async --------------------------------------------------------------
** What it writes is unset from its issue until its thread waits for it, and
** is written then; others see it behind the next barrier. */

void ptx_async(ptx_warp &w, const ptx_ins &i, u32 mask)
{
    ptx_counts &n = ptx_m.c->count;
    places from, to;

    find_places(w, i, i.a, i.n, i.imm, false, from);
    find_places(w, i, i.b, i.c, static_cast<int32_t>(i.more), true, to);
    check_shared(w, to, mask, i.bytes, "cp.async");
    count_shared(to, mask, i.bytes);
    u32 reads = 0;
    unsigned read[32];
    EACH_LANE(l, mask) {
        read[l] = i.d == ~u32{0} ? i.bytes : ptx_at<u32>(w, i.d)[l];
        if (read[l] > i.bytes)
            ptx_fault("cp.async reads %u of %u bytes", read[l], i.bytes);
        if (read[l] > 0) reads |= 1u << l;
    }
    check_global(w, from, reads, i.bytes, "cp.async");
    n.loads++;
    n.load_sectors += sectors(from, reads);
    read_global(w, from, reads, i.bytes);
    EACH_LANE(l, mask) {
        unsigned char zero[16] = {0};

        n.load_bytes += read[l];
        write_shared(w, l, to.at[l], zero, i.bytes, STAMP_PENDING);
        w.copy.push_back({l, w.groups[l], static_cast<u32>(to.at[l]),
                          from.at[l], i.bytes, read[l]});
    }
}

static void finish(ptx_warp &w, const ptx_copy &x)
{
    int shift = ptx_m.c->shared_shift;

    memset(&ptx_m.shared[x.to], 0, x.bytes);
    if (x.read > 0)
        memcpy(&ptx_m.shared[x.to],
               reinterpret_cast<const void *>(x.from), x.read);
    for (unsigned k = 0; k < x.bytes; k += 1u << shift)
        ptx_m.cell[(x.to + k) >> shift].w = me(w, x.lane);
}

/* i.imm: how many of the newest groups may go on; i.n: none, nor what is in
** no group yet */
void ptx_async_wait(ptx_warp &w, const ptx_ins &i, u32 mask)
{
    std::vector<ptx_copy> rest;

    for (const ptx_copy &x : w.copy) {
        bool mine = mask >> x.lane & 1;
        bool old = i.n || x.group + static_cast<u32>(i.imm) <
                          w.groups[x.lane];
        if (mine && old) finish(w, x);
        else rest.push_back(x);
    }
    w.copy.swap(rest);
}
