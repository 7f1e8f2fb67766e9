/* time.cpp - see time.h */
#include "time.h"

#include <algorithm>
#include <cstring>

/* What an instruction waits for, and what it makes. */
struct step {
    enum { PLAIN, LOAD, BRANCH, BARRIER, ASYNC, COMMIT, WAIT } kind = PLAIN;
    u32 latency = TIME_ALU, slots = 1;
    std::vector<int> reads, writes;
};

/* A warp's: when its registers are there, when it may go on. */
struct clock_of_warp {
    std::vector<u64> ready;     /* by register */
    std::vector<u64> group;     /* of cp.async: the last of each */
    u64 open = 0;               /* the last of no group yet */
    u64 entry = 0, last = 0, issued = 0;
};

struct ptx_clock {
    std::vector<step> steps;            /* by statement */
    std::vector<clock_of_warp> warp;
};

static bool has(const std::string &s, const char *what)
{
    return s.find(what) != std::string::npos;
}
static bool begins(const std::string &s, const char *what)
{
    return s.compare(0, strlen(what), what) == 0;
}

/* ---- instructions ------------------------------------------------------- */

static void registers(const ptx_operand &o, std::vector<int> &to)
{
    if (o.reg >= SPECIALS) to.push_back(o.reg);
    for (const ptx_operand &x : o.list) registers(x, to);
}

/* Instructions that a GPU makes of one: whole divisions are loops of others,
** of which nvcc's listings have about so many. */
static u32 slots_of(const std::string &f)
{
    if (begins(f, "div.") || begins(f, "rem."))
        return has(f, "64") ? 70 : has(f, "f32") ? 10 : 18;
    if (has(f, "mul.lo.s64") || has(f, "mad.lo.s64")) return 3;
    return 1;
}

static u32 latency_of(const std::string &f, u32 slots)
{
    if (begins(f, "mma.")) return TIME_MMA;
    if (begins(f, "shfl.")) return TIME_SHUFFLE;
    if (begins(f, "ldmatrix") || begins(f, "ld.shared")) return TIME_SHARED;
    if (begins(f, "ex2.") || begins(f, "lg2.") || begins(f, "rcp.") ||
        begins(f, "rsqrt.") || begins(f, "sqrt.")) return TIME_SPECIAL;
    return TIME_ALU * slots;
}

static step step_of(const ptx_statement &s)
{
    const std::string &f = s.form;
    step x;
    bool no_result = begins(f, "st.") || begins(f, "bra") ||
                     begins(f, "bar") || begins(f, "ret") ||
                     begins(f, "cp.async");

    x.slots = slots_of(f);
    x.latency = latency_of(f, x.slots);
    if (begins(f, "ld.") && !has(f, "shared") && !has(f, "param"))
        x.kind = step::LOAD;
    if (begins(f, "bra") || begins(f, "ret")) x.kind = step::BRANCH;
    if (begins(f, "bar.sync") || begins(f, "barrier")) x.kind = step::BARRIER;
    if (begins(f, "cp.async"))
        x.kind = has(f, "commit") ? step::COMMIT
               : has(f, "wait") ? step::WAIT : step::ASYNC;
    if (s.guard >= 0) x.reads.push_back(s.guard);
    for (size_t k = 0; k < s.o.size(); k++)
        registers(s.o[k], k == 0 && !no_result ? x.writes : x.reads);
    return x;
}

/* ---- a warp's time ------------------------------------------------------ */

static void wait_for(clock_of_warp &c, const ptx_ins &i)
{
    size_t keep = i.n ? 0 : static_cast<size_t>(i.imm);

    for (size_t k = 0; k + keep < c.group.size(); k++)
        c.last = std::max(c.last, c.group[k]);
    if (i.n) c.last = std::max(c.last, c.open);
}

void ptx_time(ptx_warp &w, const ptx_ins &i, bool issued)
{
    ptx_clock &all = *ptx_m.clock;
    clock_of_warp &c = all.warp[w.number];
    const step &s = all.steps[i.statement];
    u64 at = c.entry;

    for (int r : s.reads) at = std::max(at, c.ready[static_cast<size_t>(r)]);
    if (issued) {
        c.issued += s.slots;
        ptx_m.c->count.slots += s.slots;
    }
    c.last = std::max(c.last, at);
    u64 far = ptx_m.fresh ? TIME_GLOBAL : TIME_L2;
    u64 done = at + (s.kind == step::LOAD ? far : issued ? s.latency : 0);
    for (int r : s.writes) c.ready[static_cast<size_t>(r)] = done;
    switch (s.kind) {
    case step::ASYNC: c.open = std::max(c.open, at + far); break;
    case step::COMMIT:
        c.group.push_back(c.open);
        c.open = 0;
        break;
    case step::WAIT: wait_for(c, i); break;
    default: break;
    }
    ptx_m.fresh = false;
    if (s.kind != step::BRANCH && s.kind != step::WAIT) return;
    c.last = std::max(c.last, c.entry + c.issued);
    c.entry = c.last;
    c.issued = 0;
}

/* ---- a block's ---------------------------------------------------------- */

void ptx_time_start(ptx_machine &m)
{
    if (!m.timed) return;
    if (m.clock == nullptr || m.clock_of != m.c) {
        m.clock.reset(new ptx_clock);
        m.clock_of = m.c;
        for (const ptx_statement &s : m.c->f.body)
            m.clock->steps.push_back(step_of(s));
    }
    m.clock->warp.assign(m.warp.size(), clock_of_warp());
    for (clock_of_warp &c : m.clock->warp) c.ready.assign(m.c->f.reg.size(), 0);
}

static u64 last_of(ptx_machine &m)
{
    u64 last = 0;

    for (clock_of_warp &c : m.clock->warp) {
        c.last = std::max(c.last, c.entry + c.issued);
        last = std::max(last, c.last);
    }
    return last;
}

void ptx_time_barrier(ptx_machine &m)
{
    if (!m.timed) return;
    u64 at = last_of(m) + TIME_ALU;

    for (clock_of_warp &c : m.clock->warp) {
        c.entry = c.last = at;
        c.issued = 0;
    }
}

void ptx_time_end(ptx_machine &m)
{
    if (m.timed) m.c->count.cycles += last_of(m);
}
