/* nccl.cpp - see nccl.h */
#include "nccl.h"

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#define CALL EMU_CALL(ncclInternalError)

namespace {

/* A send that waits for its receiver, or is done. */
struct parcel { const void *from; size_t bytes; bool taken; };
typedef std::shared_ptr<struct parcel> parcel_p;

/* An all-gather that not all ranks are through with. */
struct round {
    std::vector<const void *> from;
    size_t bytes;
    int came, copied;
};

/* What the ranks of one id share. */
struct world {
    std::mutex lock;
    int size, here;
    bool someone_left;              /* by an abort: its buffers are gone */
    std::map<std::pair<int, int>, std::deque<parcel_p>> mail;
    std::map<long, struct round> rounds;
};

std::mutex worlds_lock;
std::map<std::string, std::shared_ptr<world>> worlds;
std::atomic<int> next_id{1}, open_comms{0};
std::atomic<bool> remote_errors{false};

/* One send or receive of a group that is being put together. */
struct part {
    ncclComm_t comm;
    cudaStream_t stream;
    int peer;
    const void *from;               /* null: a receive */
    void *to;
    size_t bytes;
};
thread_local int group_depth;
thread_local std::vector<part> group;

[[noreturn]] void misuse(const char *what, size_t a, size_t b)
{
    fprintf(stderr, "emu nccl: %s (%zu and %zu bytes)\n", what, a, b);
    abort();
}

}  // namespace

/* Outlives its handle: work on a stream may still hold it. */
struct comm_state {
    std::shared_ptr<world> w;
    int rank;
    bool aborted;                   /* under the world's lock */
    long rounds;
    cudaStream_t stream;            /* that it was used on */
};
struct ncclComm { std::shared_ptr<comm_state> s; };

namespace {

/* A part of a group once it is on the stream. */
struct step {
    part p;
    parcel_p parcel;                /* of a send */
    bool done;
};

/* Under the world's lock. */
bool try_receive(comm_state *s, step *t)
{
    auto &box = s->w->mail[{t->p.peer, s->rank}];

    if (box.empty() || s->w->someone_left) return false;
    parcel_p got = box.front();
    if (got->bytes != t->p.bytes)
        misuse("a receive does not fit its send", t->p.bytes, got->bytes);
    memmove(t->p.to, got->from, got->bytes);
    got->taken = true;
    box.pop_front();
    return true;
}

/* Everything of a group together; true when all of it is done. */
bool push_group(comm_state *s, std::vector<step> *steps)
{
    std::lock_guard<std::mutex> hold(s->w->lock);
    bool all = true;

    if (s->aborted) return true;
    for (step &t : *steps) {
        if (t.done) continue;
        if (t.p.from != nullptr) {
            if (t.parcel == nullptr) {
                t.parcel = std::make_shared<parcel>(
                    parcel{t.p.from, t.p.bytes, false});
                s->w->mail[{s->rank, t.p.peer}].push_back(t.parcel);
            }
            t.done = t.parcel->taken;
        } else {
            t.done = try_receive(s, &t);
        }
        all = all && t.done;
    }
    return all;
}

struct gather { const void *from; void *to; size_t bytes; long number;
                bool came, copied; };

bool push_gather(comm_state *s, gather *g)
{
    std::lock_guard<std::mutex> hold(s->w->lock);
    world *w = s->w.get();

    if (s->aborted) return true;
    round &r = w->rounds[g->number];
    if (!g->came) {
        if (r.came == 0) {
            r.from.assign(static_cast<size_t>(w->size), nullptr);
            r.bytes = g->bytes;
        }
        if (r.bytes != g->bytes)
            misuse("all-gathers do not fit", r.bytes, g->bytes);
        r.from[static_cast<size_t>(s->rank)] = g->from;
        r.came++;
        g->came = true;
    }
    if (r.came == w->size && !g->copied && !w->someone_left) {
        for (size_t i = 0; i < r.from.size(); i++)
            memmove(static_cast<char *>(g->to) + i * g->bytes, r.from[i],
                    g->bytes);
        g->copied = true;
        r.copied++;
    }
    return r.copied == w->size;
}

bool usable(ncclComm_t c)
{
    return c != nullptr && c->s->w->here == c->s->w->size;
}

ncclResult_t add_part(part p)
{
    CALL;
    if (!usable(p.comm) || p.peer < 0 || p.peer >= p.comm->s->w->size ||
        group_depth == 0)
        return ncclInvalidArgument;
    group.push_back(p);
    return ncclSuccess;
}

void close_handle(ncclComm_t c)
{
    open_comms--;
    delete c;
}

}  // namespace

ncclResult_t ncclGetVersion(int *v)
{
    CALL;
    *v = 22809;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    CALL;
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "emulated %d", next_id++);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int size,
                                    ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    CALL;
    if (config->blocking != 0 || rank < 0 || rank >= size)
        return ncclInvalidArgument;
    std::lock_guard<std::mutex> hold(worlds_lock);
    std::shared_ptr<world> &w = worlds[id.internal];
    if (w == nullptr) {
        w = std::make_shared<world>();
        w->size = size;
    }
    if (w->size != size) return ncclInvalidUsage;
    std::lock_guard<std::mutex> hold_world(w->lock);
    w->here++;
    *out = new ncclComm{std::make_shared<comm_state>(
        comm_state{w, rank, false, 0, nullptr})};
    open_comms++;
    return ncclInProgress;
}

ncclResult_t ncclCommFinalize(ncclComm_t)
{
    CALL;
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t c)
{
    close_handle(c);
    return emu_api_fails() ? ncclInternalError : ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t c)
{
    {
        std::lock_guard<std::mutex> hold(c->s->w->lock);
        c->s->aborted = true;
        c->s->w->someone_left = true;
    }
    /* buffers of what comes behind may be gone by now */
    if (c->s->stream != nullptr) emu_stream_drop(c->s->stream);
    close_handle(c);
    return emu_api_fails() ? ncclInternalError : ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state)
{
    CALL;
    std::lock_guard<std::mutex> hold(c->s->w->lock);
    *state = c->s->w->here < c->s->w->size ? ncclInProgress : ncclSuccess;
    if (remote_errors && c->s->w->someone_left) *state = ncclRemoteError;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t rc)
{
    switch (rc) {
    case ncclSuccess: return "no error";
    case ncclRemoteError: return "remote process exited or there was a "
                                 "network error";
    case ncclInvalidUsage: return "invalid usage";
    case ncclInvalidArgument: return "invalid argument";
    default: return "internal error";
    }
}

const char *ncclGetLastError(ncclComm_t)
{
    return "";
}

ncclResult_t ncclGroupStart()
{
    CALL;
    group_depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd()
{
    auto steps = std::make_shared<std::vector<step>>();
    bool fails = emu_api_fails();

    if (group_depth == 0) return ncclInvalidUsage;
    if (--group_depth > 0) return ncclSuccess;
    for (const part &p : group) steps->push_back({p, nullptr, false});
    group.clear();
    if (fails) return ncclInternalError;
    if (steps->empty()) return ncclSuccess;
    std::shared_ptr<comm_state> s = steps->front().p.comm->s;
    s->stream = steps->front().p.stream;
    emu_stream_push(steps->front().p.stream, [s, steps] {
        return push_group(s.get(), steps.get());
    });
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *p, size_t n, ncclDataType_t, int peer,
                      ncclComm_t c, cudaStream_t s)
{
    return add_part({c, s, peer, p, nullptr, n});
}

ncclResult_t ncclRecv(void *p, size_t n, ncclDataType_t, int peer,
                      ncclComm_t c, cudaStream_t s)
{
    return add_part({c, s, peer, nullptr, p, n});
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t n,
                           ncclDataType_t, ncclComm_t c, cudaStream_t stream)
{
    CALL;
    if (!usable(c)) return ncclInvalidArgument;
    std::shared_ptr<comm_state> s = c->s;
    s->stream = stream;
    auto g = std::make_shared<gather>(
        gather{send, recv, n, s->rounds++, false, false});
    emu_stream_push(stream, [s, g] { return push_gather(s.get(), g.get()); });
    return ncclSuccess;
}

void emu_nccl_remote_errors(bool on)
{
    remote_errors = on;
}

int emu_nccl_open()
{
    return open_comms;
}
