/* run.cpp - launches: blocks one after another, a block's warps by turns; see
** ptx.h */
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

#include "forms.h"
#include "run.h"
#include "time.h"
#include "tests/emu/control.h"

ptx_machine ptx_m;

/* ---- telling ------------------------------------------------------------ */

static std::string file_of(int n)
{
    auto at = ptx_m.c->f.file->find(n);

    if (at == ptx_m.c->f.file->end()) return "?";
    /* nvcc writes whole paths */
    char here[4096];
    if (getcwd(here, sizeof here) == nullptr) return at->second;
    size_t len = strlen(here);
    return at->second.compare(0, len, here) == 0 ? at->second.substr(len + 1)
                                                 : at->second;
}

void ptx_fault(const char *text, ...)
{
    const ptx_function &f = ptx_m.c->f;
    va_list more;

    fflush(stdout);
    fprintf(stderr, "ptx: %s: ", f.name.c_str());
    va_start(more, text);
    vfprintf(stderr, text, more);
    va_end(more);
    fprintf(stderr, "\n  block %u,%u,%u", ptx_m.at.x, ptx_m.at.y, ptx_m.at.z);
    if (ptx_m.ins != nullptr) {
        const ptx_statement &s = f.body[ptx_m.ins->statement];
        fprintf(stderr, ", %s at %s:%d", s.form.c_str(),
                file_of(s.place.file).c_str(), s.place.line);
        if (s.place.at_line > 0)
            fprintf(stderr, " (from %s:%d)", file_of(s.place.at_file).c_str(),
                    s.place.at_line);
    }
    fprintf(stderr, "\n");
    abort();
}

/* ---- branches ----------------------------------------------------------- */

/* Lanes that part meet again at i.a. */
static void branch(ptx_warp &w, const ptx_ins &i, u32 taken)
{
    ptx_level *top = &w.stack.back();
    u32 stays = top->mask & ~taken, next = top->pc + 1;
    u32 target = static_cast<u32>(i.imm), meet = i.a;

    if (stays == 0) {
        top->pc = target;
        return;
    }
    if (taken == 0) {
        top->pc = next;
        return;
    }
    if (top->meet == meet) w.stack.pop_back();
    else top->pc = meet;
    if (next != meet) w.stack.push_back({stays, next, meet});
    if (target != meet) w.stack.push_back({taken, target, meet});
}

static void leave(ptx_warp &w, u32 mask)
{
    std::vector<ptx_level> rest;

    if (!w.copy.empty() && (w.alive & ~mask) == 0)
        ptx_fault("the warp ends with a cp.async that it did not wait for");
    w.stack.back().pc++;
    w.alive &= ~mask;
    for (ptx_level x : w.stack) {
        x.mask &= ~mask;
        if (x.mask != 0) rest.push_back(x);
    }
    w.stack.swap(rest);
}

/* ---- between lanes ------------------------------------------------------ */

/* The lanes that an instruction names must be those that execute it. */
static void all_here(const ptx_warp &w, u32 named, u32 mask, const char *what)
{
    if ((named & w.lanes & w.alive) != mask)
        ptx_fault("warp %u: %s names lanes %#x, lanes %#x are here", w.number,
                  what, named & w.alive, mask);
}

static u32 first_of(const ptx_warp &w, u32 place, u32 mask)
{
    return ptx_at<u32>(w, place)[__builtin_ctz(mask)];
}

/* Which lane gives lane its value; *in: whether the segment holds it. */
static int source(int op, int lane, u32 b, u32 c, bool *in)
{
    int by = static_cast<int>(b & 31), clamp = static_cast<int>(c & 31);
    int segment = static_cast<int>(c >> 8 & 31);
    int top = (lane & segment) | (clamp & ~segment), low = lane & segment;
    int from = op == OP_SHFL_UP ? lane - by : op == OP_SHFL_DOWN ? lane + by
             : op == OP_SHFL_BFLY ? lane ^ by : low | (by & ~segment);

    *in = op == OP_SHFL_UP ? from >= top : from <= top;
    return *in ? from : lane;
}

static void shuffle(ptx_warp &w, const ptx_ins &i, u32 mask)
{
    const u32 *b = ptx_at<u32>(w, i.b), *c = ptx_at<u32>(w, i.c);
    u32 in_mask = 0, value[32];

    all_here(w, first_of(w, i.more, mask), mask, "a shuffle");
    memcpy(value, ptx_at<u32>(w, i.a), sizeof value);
    for (int l = 0; l < 32; l++) {
        bool in;

        if (!(mask >> l & 1)) continue;
        int from = source(i.op, l, b[l], c[l], &in);
        if (!(mask >> from & 1))
            ptx_fault("lane %d: a shuffle from lane %d, which is not here", l,
                      from);
        ptx_at<u32>(w, i.d)[l] = value[from];
        in_mask |= static_cast<u32>(in) << l;
    }
    if (i.imm < 0) return;
    u32 &p = w.pred[static_cast<size_t>(i.imm)];
    p = (p & ~mask) | in_mask;
}

static void vote(ptx_warp &w, const ptx_ins &i, u32 mask)
{
    all_here(w, first_of(w, i.b, mask), mask, "a vote");
    u32 yes = w.pred[i.a] & mask;
    bool is = i.op == OP_VOTE_ANY ? yes != 0 : yes == mask;

    if (i.op == OP_BALLOT) {
        for (int l = 0; l < 32; l++)
            if (mask >> l & 1) ptx_at<u32>(w, i.d)[l] = yes;
        return;
    }
    u32 &p = w.pred[i.d];
    p = is ? p | mask : p & ~mask;
}

static float half_of(u32 pair, int upper)
{
    u32 u = (upper ? pair >> 16 : pair & 0xffffu) << 16;
    float f;

    memcpy(&f, &u, 4);
    return f;
}

/* mma.m16n8k16: fragments as in cuda/mma.cuh. Products of a sum are added from
** the first to the last in float, then to what was there. */
static void multiply(ptx_warp &w, const ptx_ins &i, u32 mask)
{
    const u32 *r = &ptx_m.c->list[i.more];
    float a[16][16], b[16][8], sum[16][8];

    if (mask != ~u32{0}) ptx_fault("mma.sync without all 32 lanes");
    ptx_m.c->count.products++;
    for (int l = 0; l < 32; l++) {
        int g = l / 4, t = l % 4 * 2;

        for (int n = 0; n < 4; n++) {
            u32 x = ptx_at<u32>(w, r[4 + n])[l];
            int row = g + n % 2 * 8, col = t + n / 2 * 8;
            a[row][col] = half_of(x, 0);
            a[row][col + 1] = half_of(x, 1);
        }
        for (int n = 0; n < 2; n++) {
            u32 x = ptx_at<u32>(w, r[8 + n])[l];
            b[t + 8 * n][g] = half_of(x, 0);
            b[t + 8 * n + 1][g] = half_of(x, 1);
        }
    }
    for (int row = 0; row < 16; row++) {
        float s[8] = {0};
        for (int k = 0; k < 16; k++)
            for (int col = 0; col < 8; col++) s[col] += a[row][k] * b[k][col];
        memcpy(sum[row], s, sizeof s);
    }
    for (int n = 0; n < 4; n++) {
        float out[32];
        const float *c = ptx_at<float>(w, r[10 + n]);

        for (int l = 0; l < 32; l++)
            out[l] = c[l] + sum[l / 4 + n / 2 * 8][l % 4 * 2 + n % 2];
        memcpy(ptx_at<float>(w, r[n]), out, sizeof out);
    }
}

static void pack(ptx_warp &w, const ptx_ins &i, u32 mask)
{
    for (int l = 0; l < 32; l++) {
        if (!(mask >> l & 1)) continue;
        if (i.op == OP_PACK) {
            u32 low = ptx_at<u32>(w, i.a)[l], high = ptx_at<u32>(w, i.b)[l];
            if (i.bytes == 4)
                ptx_at<u64>(w, i.d)[l] = u64{high} << 32 | low;
            else
                ptx_at<u32>(w, i.d)[l] = high << 16 | (low & 0xffffu);
        } else {
            u64 v = i.bytes == 4 ? ptx_at<u64>(w, i.a)[l]
                                 : ptx_at<u32>(w, i.a)[l];
            int by = 8 * i.bytes;
            u32 ones = i.bytes == 4 ? ~u32{0} : 0xffffu;
            ptx_at<u32>(w, i.d)[l] = static_cast<u32>(v) & ones;
            ptx_at<u32>(w, i.c)[l] = static_cast<u32>(v >> by) & ones;
        }
    }
}

/* ---- a warp ------------------------------------------------------------- */

static void warp_barrier(ptx_warp &w, const ptx_ins &i, u32 mask)
{
    u32 named = first_of(w, i.a, mask);

    all_here(w, named, mask, "bar.warp.sync");
    if (mask == w.alive) w.syncs++;     /* of a part: nothing is ordered */
}

static void control(ptx_warp &w, const ptx_ins &i, u32 mask)
{
    switch (i.op) {
    case OP_WARP_BAR: warp_barrier(w, i, mask); break;
    case OP_SHFL_IDX:
    case OP_SHFL_UP:
    case OP_SHFL_DOWN:
    case OP_SHFL_BFLY: shuffle(w, i, mask); break;
    case OP_VOTE_ANY:
    case OP_VOTE_ALL:
    case OP_BALLOT: vote(w, i, mask); break;
    case OP_ACTIVE:
        for (int l = 0; l < 32; l++)
            if (mask >> l & 1) ptx_at<u32>(w, i.d)[l] = mask;
        break;
    case OP_LD:
    case OP_LD_SIGNED: ptx_load(w, i, mask); break;
    case OP_ST: ptx_store(w, i, mask); break;
    case OP_LDMATRIX: ptx_matrix(w, i, mask); break;
    case OP_MMA: multiply(w, i, mask); break;
    case OP_ASYNC: ptx_async(w, i, mask); break;
    case OP_ASYNC_COMMIT:
        for (int l = 0; l < 32; l++) w.groups[l] += mask >> l & 1;
        break;
    case OP_ASYNC_WAIT: ptx_async_wait(w, i, mask); break;
    case OP_PACK:
    case OP_UNPACK: pack(w, i, mask); break;
    default: break;
    }
}

/* Moves are names in PTX: a GPU executes few of them. */
static bool counts(const ptx_ins &i)
{
    return i.op != LANE_MOV_32 && i.op != LANE_MOV_64 &&
           i.op != LANE_MOV_PRED && i.op != OP_NOTHING &&
           i.op != OP_PACK && i.op != OP_UNPACK &&
           !((i.op == OP_LD || i.op == OP_LD_SIGNED) &&
             i.space == SPACE_PARAM);
}

/* Until the warp ends or comes to a barrier. */
static void run_warp(ptx_warp &w)
{
    const ptx_ins *code = ptx_m.c->ins.data();

    ptx_m.running = &w;
    while (!w.stack.empty()) {
        ptx_level *top = &w.stack.back();

        if (top->pc == top->meet) {
            w.stack.pop_back();
            continue;
        }
        const ptx_ins &i = code[top->pc];
        u32 mask = top->mask;
        ptx_m.ins = &i;
        if (i.guard >= 0) {
            u32 p = w.pred[static_cast<size_t>(i.guard)];
            mask &= i.negate ? ~p : p;
        }
        if (i.op == OP_BRA) {
            ptx_m.c->count.instructions++;
            if (ptx_m.timed) ptx_time(w, i, true);
            branch(w, i, mask);
            continue;
        }
        if (mask == 0) {
            top->pc++;
            continue;
        }
        ptx_m.c->count.instructions += counts(i);
        if (i.op == OP_RET) {
            leave(w, mask);
            continue;
        }
        top->pc++;
        if (i.op == OP_BAR) {
            if (mask != w.alive)
                ptx_fault("warp %u: bar.sync by lanes %#x of %#x", w.number,
                          mask, w.alive);
            w.at_barrier = true;
            ptx_m.c->count.barriers++;
            return;
        }
        if (i.op > LANE_FIRST) ptx_lanes(w, i, mask);
        else control(w, i, mask);
        if (ptx_m.timed) ptx_time(w, i, counts(i));
    }
}

/* ---- a block ------------------------------------------------------------ */

static void set_special(ptx_warp &w, ptx_special s, u32 value)
{
    u32 place = ptx_m.c->special[s];

    if (place == ~u32{0}) return;
    for (int l = 0; l < 32; l++) ptx_at<u32>(w, place)[l] = value;
}

static void set_threads(ptx_warp &w)
{
    const ptx_grid &b = ptx_m.block;

    for (u32 l = 0; l < 32; l++) {
        u32 t = w.number * 32 + l;
        const u32 v[] = {t % b.x, t / b.x % b.y, t / (b.x * b.y)};
        for (int k = 0; k < 3; k++)
            if (ptx_m.c->special[TID_X + k] != ~u32{0})
                ptx_at<u32>(w, ptx_m.c->special[TID_X + k])[l] = v[k];
        if (ptx_m.c->special[LANE_ID] != ~u32{0})
            ptx_at<u32>(w, ptx_m.c->special[LANE_ID])[l] = l;
    }
    set_special(w, WARP_ID, w.number);
    set_special(w, NTID_X, b.x);
    set_special(w, NTID_Y, b.y);
    set_special(w, NTID_Z, b.z);
    set_special(w, NCTAID_X, ptx_m.grid.x);
    set_special(w, NCTAID_Y, ptx_m.grid.y);
    set_special(w, NCTAID_Z, ptx_m.grid.z);
}

static void start_warp(ptx_warp &w)
{
    w.stack.clear();
    w.stack.push_back({w.lanes, 0,
                       static_cast<u32>(ptx_m.c->f.body.size())});
    w.alive = w.lanes;
    w.syncs = 0;
    w.at_barrier = false;
    memset(w.groups, 0, sizeof w.groups);
    w.copy.clear();
    set_special(w, CTAID_X, ptx_m.at.x);
    set_special(w, CTAID_Y, ptx_m.at.y);
    set_special(w, CTAID_Z, ptx_m.at.z);
}

static void run_block()
{
    size_t n = ptx_m.warp.size(), done;
    std::vector<size_t> order(n);

    ptx_m.epoch++;
    ptx_m.since.block = stamp_of(ptx_m.epoch, 0, 0);
    ptx_m.since_shared = {ptx_m.since.block, ptx_m.since.block, true};
    for (ptx_warp &w : ptx_m.warp) start_warp(w);
    ptx_time_start(ptx_m);
    do {
        emu_order_of(order.data(), n);
        done = 0;
        for (size_t k : order) {
            ptx_warp &w = ptx_m.warp[k];

            if (w.alive != 0) run_warp(w);
            done += w.alive == 0;
        }
        /* all that live are at the barrier */
        ptx_m.epoch++;
        if (done < n) ptx_time_barrier(ptx_m);
    } while (done < n);
    ptx_time_end(ptx_m);
    ptx_m.c->count.blocks++;
}

/* ---- a launch ----------------------------------------------------------- */

static void set_up(size_t dynamic_shared)
{
    ptx_code *c = ptx_m.c;
    size_t fixed = c->f.static_shared;
    size_t bytes = dynamic_shared > 0 ? (fixed + 127) / 128 * 128 +
                                        dynamic_shared : fixed;
    u32 warps = (ptx_m.threads + 31) / 32;

    ptx_m.timed = getenv("PTX_TIME") != nullptr;
    c->count.threads = std::max<u64>(c->count.threads, ptx_m.threads);
    c->count.shared_bytes = std::max<u64>(c->count.shared_bytes, bytes);
    ptx_m.shared.assign(bytes, 0xff);
    if (ptx_m.cell.size() < bytes + 16) ptx_m.cell.resize(bytes + 16);
    ptx_m.local.assign(c->f.local_bytes * warps * 32, 0xff);
    ptx_m.files.resize(c->file_bytes * warps + 64);
    ptx_m.warp.resize(warps);
    unsigned char *files = ptx_m.files.data();
    files += 64 - reinterpret_cast<uintptr_t>(files) % 64;
    for (u32 k = 0; k < warps; k++) {
        ptx_warp &w = ptx_m.warp[k];
        u32 lanes = ptx_m.threads - k * 32;

        w.file = files + k * c->file_bytes;
        memcpy(w.file, c->image.data(), c->file_bytes);
        w.pred.assign(c->preds + 1, 0);
        w.number = k;
        w.lanes = lanes >= 32 ? ~u32{0} : (1u << lanes) - 1;
        set_threads(w);
    }
}

void ptx_run(ptx_code *c, ptx_grid grid, ptx_grid block,
             size_t dynamic_shared, const unsigned char *params)
{
    u64 n = u64{grid.x} * grid.y * grid.z;
    emu_walk walk = emu_walk_of(n);

    ptx_m.c = c;
    ptx_m.ins = nullptr;
    ptx_m.grid = grid;
    ptx_m.block = block;
    ptx_m.at = {0, 0, 0};
    ptx_m.threads = block.x * block.y * block.z;
    ptx_m.params = params;
    if (ptx_m.threads > c->f.max_threads)
        ptx_fault("%u threads, made for %u", ptx_m.threads, c->f.max_threads);
    memory_forget();
    set_up(dynamic_shared);
    ptx_m.epoch++;
    ptx_m.since = {stamp_of(ptx_m.epoch, 0, 0), 0, false};
    for (u64 k = 0; k < n; k++) {
        u64 b = emu_walk_at(walk, k);
        ptx_m.at = {static_cast<u32>(b % grid.x),
                    static_cast<u32>(b / grid.x % grid.y),
                    static_cast<u32>(b / (u64{grid.x} * grid.y))};
        run_block();
    }
    c->count.launches++;
}
