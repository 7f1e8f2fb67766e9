/* watch.cpp - allocations, and who touched which byte; see run.h */
#include <cstdio>
#include <map>
#include <mutex>

#include "run.h"

/* ---- what was given out ------------------------------------------------- */

/* These are asked for from inside malloc: nothing here may be made before it
** is needed, or unmade. */
struct given {
    std::mutex lock;
    std::map<u64, u64> bytes;   /* by address */
};

static given &all()
{
    static given *g = new given;
    return *g;
}

static u64 address(const void *p) { return reinterpret_cast<uintptr_t>(p); }

void ptx_memory_add(const void *p, size_t n)
{
    std::lock_guard<std::mutex> held(all().lock);

    all().bytes[address(p)] = n;
}

void ptx_memory_drop(const void *p)
{
    std::lock_guard<std::mutex> held(all().lock);

    all().bytes.erase(address(p));
}

/* Last ones found: [from, to) */
static struct { u64 from, to; } recent[8];
static unsigned next_recent;

void memory_forget()
{
    for (auto &r : recent) r.from = r.to = 0;
}

bool memory_holds(u64 addr, u64 n)
{
    for (const auto &r : recent)
        if (addr >= r.from && addr + n <= r.to) return true;
    std::lock_guard<std::mutex> held(all().lock);
    auto at = all().bytes.upper_bound(addr);
    if (at == all().bytes.begin()) return false;
    --at;
    if (addr + n > at->first + at->second) return false;
    recent[next_recent++ % 8] = {at->first, at->first + at->second};
    return true;
}

std::string memory_about(u64 addr)
{
    std::lock_guard<std::mutex> held(all().lock);
    char text[160];
    auto at = all().bytes.upper_bound(addr);

    if (at == all().bytes.begin()) return "below all that was given out";
    --at;
    if (addr < at->first + at->second)
        snprintf(text, sizeof text, "byte %llu of an allocation of %llu",
                 static_cast<unsigned long long>(addr - at->first),
                 static_cast<unsigned long long>(at->second));
    else
        snprintf(text, sizeof text, "%llu bytes past the end of an "
                 "allocation of %llu", static_cast<unsigned long long>(
                     addr - at->first - at->second),
                 static_cast<unsigned long long>(at->second));
    return text;
}

/* ---- cells -------------------------------------------------------------- */

static bool same_warp(u64 x, u64 y)
{
    return stamp_thread(x) / 32 == stamp_thread(y) / 32;
}

bool stamp_before(u64 s, u64 me)
{
    return stamp_epoch(s) != stamp_epoch(me) ||
           stamp_thread(s) == stamp_thread(me) ||
           (same_warp(s, me) && stamp_syncs(s) < stamp_syncs(me));
}

static void note_read(ptx_cell &c, u64 me, ptx_since since)
{
    u64 r = c.r;

    if (r < since.launch) c.r = me;
    else if (r < since.block) c.r = me | STAMP_BLOCKS;
    else if (stamp_epoch(r) != stamp_epoch(me)) c.r = me | (r & STAMP_BLOCKS);
    else if (r & STAMP_WARPS) return;
    else if (!same_warp(r, me)) c.r = r | STAMP_WARPS;
    else if (stamp_syncs(r) < stamp_syncs(me)) c.r = me | (r & STAMP_BLOCKS);
    else if (stamp_thread(r) != stamp_thread(me)) c.r = r | STAMP_LANES;
}

ptx_trouble cell_read(ptx_cell &c, u64 me, ptx_since since)
{
    if (c.w >= since.block) {
        if (c.w & STAMP_PENDING) return PENDING;
        if (!stamp_before(c.w, me)) return RACE;
    } else if (since.shared) {
        return UNSET;
    } else if (c.w >= since.launch) {
        return OTHER_BLOCK;
    }
    note_read(c, me, since);
    return FINE;
}

ptx_trouble cell_write(ptx_cell &c, u64 me, ptx_since since)
{
    u64 r = c.r;

    if (c.w >= since.block) {
        if (c.w & STAMP_PENDING) return PENDING;
        if (!stamp_before(c.w, me)) return RACE;
    } else if (c.w >= since.launch) {
        return OTHER_BLOCK;
    }
    if (r >= since.launch && (r < since.block || (r & STAMP_BLOCKS)))
        return OTHER_BLOCK;
    if (r >= since.block && stamp_epoch(r) == stamp_epoch(me)) {
        if (r & STAMP_WARPS) return RACE;
        if ((r & STAMP_LANES) && stamp_syncs(r) == stamp_syncs(me))
            return RACE;
        if (!stamp_before(r, me)) return RACE;
    }
    c.w = me;
    return FINE;
}

/* ---- cells of global memory --------------------------------------------- */

/* A page's cells are of words until a smaller access comes. */
static const unsigned page_shift = 10;

struct page {
    u64 number;
    unsigned shift;
    std::vector<ptx_cell> cell;
};

static std::unordered_map<u64, std::unique_ptr<page>> pages;
static page *quick[4096];

static page *page_of(u64 number)
{
    page *&q = quick[number % 4096];

    if (q != nullptr && q->number == number) return q;
    std::unique_ptr<page> &p = pages[number];
    if (p == nullptr) {
        p.reset(new page);
        p->number = number;
        p->shift = 2;
        p->cell.assign(size_t{1} << (page_shift - 2), {0, 0});
    }
    return q = p.get();
}

static void refine(page *p, unsigned shift)
{
    std::vector<ptx_cell> fine(size_t{1} << (page_shift - shift));

    for (size_t i = 0; i < fine.size(); i++)
        fine[i] = p->cell[i >> (p->shift - shift)];
    p->cell.swap(fine);
    p->shift = shift;
}

ptx_cell *cells_of(u64 addr, unsigned bytes, unsigned *n)
{
    page *p = page_of(addr >> page_shift);
    unsigned want = bytes >= 4 ? 2 : bytes == 2 ? 1 : 0;

    if (p->shift > want) refine(p, want);
    *n = bytes >> p->shift;
    return &p->cell[(addr & ((1u << page_shift) - 1)) >> p->shift];
}
