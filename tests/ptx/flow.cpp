/*
** flow.cpp - how a function's statements follow each other: where branches
** meet again, and which registers may share room; see flow.h.
*/
#include "flow.h"

#include <algorithm>
#include <cstring>
#include <map>

typedef std::string string;
typedef std::vector<int> ints;

/* ---- what a statement reads and writes ---------------------------------- */

static bool begins(const string &s, const char *with)
{
    return s.compare(0, strlen(with), with) == 0;
}

static bool writes(const string &form)
{
    static const char *const none[] = {"st.", "bra", "ret", "exit", "bar.",
                                       "barrier.", "cp.async", "membar",
                                       "fence", "prefetch"};

    for (const char *n : none)
        if (begins(form, n)) return false;
    return true;
}

static void registers_of(const ptx_operand &o, ints &out)
{
    if ((o.kind == ptx_operand::REG || o.kind == ptx_operand::MEM) &&
        o.reg >= SPECIALS)
        out.push_back(o.reg);
    for (const ptx_operand &x : o.list) registers_of(x, out);
}

static void touched(const ptx_statement &s, ints &reads, ints &written)
{
    bool w = writes(s.form);

    reads.clear();
    written.clear();
    for (size_t i = 0; i < s.o.size(); i++)
        registers_of(s.o[i], w && i == 0 ? written : reads);
    if (s.guard < 0) return;
    reads.push_back(s.guard);
    /* lanes that it does not guard keep theirs */
    reads.insert(reads.end(), written.begin(), written.end());
}

/* ---- blocks ------------------------------------------------------------- */

struct block {
    size_t first, end;          /* statements */
    ints next;                  /* blocks; the last number of all: the end */
};

static bool leaves(const ptx_statement &s)
{
    return begins(s.form, "bra") || s.form == "ret" || s.form == "exit";
}

static std::vector<block> blocks_of(const ptx_function &f, ints &block_at)
{
    size_t n = f.body.size();
    std::vector<char> starts(n + 1);
    std::vector<block> b;

    starts[0] = 1;
    for (size_t at : f.label) starts[at] = 1;
    for (size_t i = 0; i < n; i++)
        if (leaves(f.body[i])) starts[i + 1] = 1;
    block_at.assign(n + 1, 0);
    for (size_t i = 0; i < n; i++) {
        if (starts[i]) b.push_back({i, i, {}});
        b.back().end = i + 1;
        block_at[i] = static_cast<int>(b.size()) - 1;
    }
    int end = static_cast<int>(b.size());
    block_at[n] = end;
    for (block &x : b) {
        const ptx_statement &last = f.body[x.end - 1];

        if (begins(last.form, "bra"))
            x.next.push_back(block_at[f.label[static_cast<size_t>(
                last.o[0].imm)]]);
        else if (leaves(last))
            x.next.push_back(end);
        if (!leaves(last) || last.guard >= 0)
            x.next.push_back(block_at[x.end]);
    }
    return b;
}

/* Where all ways from a block meet: its immediate post-dominator (Cooper,
** Harvey, Kennedy: A simple, fast dominance algorithm), with the end as root.
** Blocks that reach no end meet at the end. */
static ints meets(const std::vector<block> &b)
{
    size_t end = b.size();
    std::vector<ints> back(end + 1);
    ints order, rank(end + 1, -1), meet(end + 1, -1);
    std::vector<char> seen(end + 1);
    std::vector<std::pair<int, size_t>> stack;

    for (size_t i = 0; i < end; i++)
        for (int n : b[i].next)
            back[static_cast<size_t>(n)].push_back(static_cast<int>(i));
    stack.push_back({static_cast<int>(end), 0});
    seen[end] = 1;
    while (!stack.empty()) {
        size_t at = static_cast<size_t>(stack.back().first);

        if (stack.back().second == back[at].size()) {
            rank[at] = static_cast<int>(order.size());
            order.push_back(static_cast<int>(at));
            stack.pop_back();
            continue;
        }
        int to = back[at][stack.back().second++];
        if (seen[static_cast<size_t>(to)]) continue;
        seen[static_cast<size_t>(to)] = 1;
        stack.push_back({to, 0});
    }
    meet[end] = static_cast<int>(end);
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t k = order.size() - 1; k-- > 0;) {
            size_t i = static_cast<size_t>(order[k]);
            int m = -1;

            for (int to : b[i].next) {
                if (meet[static_cast<size_t>(to)] < 0) continue;
                if (m < 0) m = to;
                while (m != to) {
                    auto lower = [&](int x, int y) {
                        return rank[static_cast<size_t>(x)] <
                               rank[static_cast<size_t>(y)];
                    };
                    while (lower(m, to)) m = meet[static_cast<size_t>(m)];
                    while (lower(to, m)) to = meet[static_cast<size_t>(to)];
                }
            }
            if (m == meet[i]) continue;
            meet[i] = m;
            changed = true;
        }
    }
    for (int &m : meet)
        if (m < 0) m = static_cast<int>(end);
    return meet;
}

/* ---- which registers live when ------------------------------------------ */

typedef std::vector<u64> bits;

static bool bit(const bits &b, int i)
{
    return b[static_cast<size_t>(i) / 64] >> (i % 64) & 1;
}
static void bit_set(bits &b, int i)
{
    b[static_cast<size_t>(i) / 64] |= u64{1} << (i % 64);
}

/* First and last half-step of a register's life: a statement i reads at 2i
** and writes at 2i + 1. */
struct life { size_t from = SIZE_MAX, to = 0; };

static void lives_at(life &l, size_t at)
{
    l.from = std::min(l.from, at);
    l.to = std::max(l.to, at);
}

static std::vector<life> lives_of(const ptx_function &f,
                                  const std::vector<block> &b)
{
    size_t words = (f.reg.size() + 63) / 64, n = b.size();
    std::vector<bits> in(n, bits(words)), out(n, bits(words));
    std::vector<bits> reads(n, bits(words)), kills(n, bits(words));
    std::vector<life> lives(f.reg.size());
    ints r, w;

    for (size_t i = 0; i < n; i++)
        for (size_t s = b[i].first; s < b[i].end; s++) {
            touched(f.body[s], r, w);
            for (int x : r) {
                if (!bit(kills[i], x)) bit_set(reads[i], x);
                lives_at(lives[static_cast<size_t>(x)], 2 * s);
            }
            for (int x : w) {
                bit_set(kills[i], x);
                lives_at(lives[static_cast<size_t>(x)], 2 * s + 1);
            }
        }
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = n; i-- > 0;)
            for (size_t k = 0; k < words; k++) {
                u64 o = 0;

                for (int to : b[i].next)
                    if (static_cast<size_t>(to) < n)
                        o |= in[static_cast<size_t>(to)][k];
                u64 now = reads[i][k] | (o & ~kills[i][k]);
                changed |= now != in[i][k];
                in[i][k] = now;
                out[i][k] = o;
            }
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < words; k++) {
            for (u64 m = in[i][k]; m != 0; m &= m - 1)
                lives_at(lives[64 * k + static_cast<size_t>(
                                   __builtin_ctzll(m))], 2 * b[i].first);
            for (u64 m = out[i][k]; m != 0; m &= m - 1)
                lives_at(lives[64 * k + static_cast<size_t>(
                                   __builtin_ctzll(m))], 2 * b[i].end);
        }
    return lives;
}

/* Rooms of one width: a register takes the first that is free. */
static size_t give_rooms(const ptx_function &f, const std::vector<life> &lives,
                         ptx_width width, std::vector<u32> &room)
{
    std::vector<size_t> order;
    std::multimap<size_t, u32> taken;   /* by the end of a life */
    std::vector<u32> idle;
    u32 n = 0;

    for (size_t i = SPECIALS; i < f.reg.size(); i++)
        if (f.reg[i] == width && lives[i].from != SIZE_MAX) order.push_back(i);
    std::sort(order.begin(), order.end(), [&](size_t x, size_t y) {
        return lives[x].from < lives[y].from;
    });
    for (size_t i : order) {
        while (!taken.empty() && taken.begin()->first < lives[i].from) {
            idle.push_back(taken.begin()->second);
            taken.erase(taken.begin());
        }
        if (idle.empty()) idle.push_back(n++);
        room[i] = idle.back();
        idle.pop_back();
        taken.insert({lives[i].to, room[i]});
    }
    return n;
}

ptx_flow ptx_flow_of(const ptx_function &f)
{
    ptx_flow flow;
    ints block_at;
    std::vector<block> b = blocks_of(f, block_at);
    ints meet = meets(b);
    std::vector<life> lives = lives_of(f, b);

    flow.room.assign(f.reg.size(), 0);
    flow.rooms4 = give_rooms(f, lives, WIDTH_4, flow.room);
    flow.rooms8 = give_rooms(f, lives, WIDTH_8, flow.room);
    flow.preds = give_rooms(f, lives, WIDTH_PRED, flow.room);
    for (size_t i = 0; i < f.body.size(); i++) {
        size_t m = static_cast<size_t>(
            meet[static_cast<size_t>(block_at[i])]);
        flow.meet.push_back(static_cast<u32>(
            m == b.size() ? f.body.size() : b[m].first));
    }
    return flow;
}
